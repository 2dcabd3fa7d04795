//! Requests that are refused, and what they are told.

use serde_json::json;

use super::{ask, call, call_with, start};
use crate::prelude::*;

const TRY: &str = "/lockkeeper.v1.LockService/TryAcquire";
const JSON: &str = "content-type: application/json";

#[tokio::test]
async fn bad_json_is_refused_and_the_field_is_named() {
    let coordinator = start().await;
    let fields = "the fields of TryAcquireRequest are: name, ";
    for (body, texts) in [
        ("", ["the body is empty", "{}"]),
        (
            "{\"name\": \"a\"",
            ["EOF while parsing an object at line 1", fields],
        ),
        ("{} {}", ["trailing characters at line 1 column 4", fields]),
        (r#"{"nam": "a"}"#, ["unrecognized field name 'nam'", fields]),
        (
            r#"{"name": 5}"#,
            ["name: ", "invalid type: integer `5`, expected a string"],
        ),
        (
            r#"{"name": "a", "lease": 30}"#,
            [
                "lease: ",
                "a duration is a text of seconds, such as \"30s\"",
            ],
        ),
        (
            r#"{"name": "a", "mode": "FAIR"}"#,
            ["mode: ", "LOCK_MODE_EXCLUSIVE, "],
        ),
    ] {
        let answer = call(&coordinator, "TryAcquire", body).await;
        let message = answer.expect_error(400, "invalid_argument", "INVALID_JSON");
        let is_told = texts.iter().all(|text| message.contains(text));
        assert!(is_told, "{body}: {message}");
    }
    // A field within another, and within a list.
    let body = r#"{"locks": [{"name": "a"}, {"name": "b", "mode": "X"}]}"#;
    let answer = call(&coordinator, "TryAcquireAll", body).await;
    let message = answer.expect_error(400, "invalid_argument", "INVALID_JSON");
    assert!(message.starts_with("locks[1].mode: "), "{message}");
    // What is JSON, and not what may be asked for.
    let answer = call(
        &coordinator,
        "TryAcquire",
        r#"{"name": "a", "lease": "0.001s"}"#,
    )
    .await;
    let message = answer.expect_error(400, "invalid_argument", "INVALID_LEASE");
    assert!(message.contains("must be from"), "{message}");
    let details = &answer.json()["details"];
    let violation = details.as_array().unwrap().iter();
    let violation = violation.map(|it| &it["debug"]["fieldViolations"][0]["field"]);
    assert!(violation.into_iter().any(|it| it == "lease"), "{details}");
}

#[tokio::test]
async fn what_is_no_call_is_told_how_to_call() {
    let coordinator = start().await;
    let asked = async |path, arguments: &[&str]| ask(&coordinator, path, arguments).await;
    let form = asked(TRY, &["-d", "{}"]).await;
    let message = form.expect_error(415, "invalid_argument", "INVALID_HEADER");
    let expected = "content-type: \"application/x-www-form-urlencoded\" is not accepted: send \
                    application/json";
    assert_eq!(message, expected);
    let acquire = "/lockkeeper.v1.LockService/Acquire";
    let message = asked(acquire, &["-H", "content-type: text/plain", "-d", "{}"]).await;
    let message = message.expect_error(415, "invalid_argument", "INVALID_HEADER");
    assert!(
        message.ends_with("application/json or application/connect+json"),
        "{message}"
    );
    let session = asked(
        "/lockkeeper.v1.LockService/Session",
        &["-H", JSON, "-d", "{}"],
    )
    .await;
    session.expect_error(415, "invalid_argument", "INVALID_HEADER");

    let page = asked("/", &[]).await;
    let message = page.expect_error(404, "unimplemented", "NO_SUCH_METHOD");
    assert!(
        message.contains("/lockkeeper.v1.LockService/TryAcquire"),
        "{message}"
    );
    asked(TRY, &["-H", JSON])
        .await
        .expect_error(405, "unimplemented", "NOT_POST");
    let zipped = ["-H", JSON, "-H", "content-encoding: gzip", "-d", "{}"];
    let message = asked(TRY, &zipped).await;
    let message = message.expect_error(400, "invalid_argument", "INVALID_HEADER");
    assert!(message.starts_with("content-encoding: "), "{message}");
    for header in [
        "connect-timeout-ms: soon",
        "connect-timeout-ms: 12345678901",
        "connect-protocol-version: 2",
    ] {
        let answer = asked(TRY, &["-H", JSON, "-H", header, "-d", "{}"]).await;
        let message = answer.expect_error(400, "invalid_argument", "INVALID_HEADER");
        assert!(
            message.starts_with(header.split(':').next().unwrap()),
            "{message}"
        );
    }
    let grpc = asked(TRY, &["-H", "content-type: application/grpc", "-d", "x"]).await;
    grpc.expect_error(415, "unimplemented", "NOT_OVER_HTTP1");
}

#[tokio::test]
async fn callers_without_credentials_or_rights_are_refused() {
    let directory = TempDir::new().unwrap();
    let tokens = directory.path().join("tokens");
    let (ci, nobody) = (
        "0123456789abcdef0123456789abcdef",
        "fedcba9876543210fedcba9876543210",
    );
    std::fs::write(&tokens, format!("ci {ci}\nnobody {nobody}\n")).unwrap();
    let rules = directory.path().join("settings.toml");
    let rule = "[[access.rules]]\nidentity = \"ci\"\nprefix = \"ci/\"\nallow = [\"acquire\"]\n";
    std::fs::write(&rules, rule).unwrap();
    let settings = Settings::on("embedded:")
        .with_file(&rules)
        .with("auth.token_file", &tokens.display().to_string());
    let coordinator = Coordinator::start(&settings).await;
    let asked = async |token: &str, name: &str| {
        let token = format!("authorization: Bearer {token}");
        let json = json!({ "name": name }).to_string();
        call_with(&coordinator, "TryAcquire", &json, &["-H", &token]).await
    };
    asked("wrong", "ci/a")
        .await
        .expect_error(401, "unauthenticated", "UNAUTHENTICATED");
    let none = call(&coordinator, "TryAcquire", "not even JSON").await;
    none.expect_error(401, "unauthenticated", "UNAUTHENTICATED");
    asked(ci, "b")
        .await
        .expect_error(403, "permission_denied", "PERMISSION_DENIED");
    assert_eq!(asked(ci, "ci/a").await.json()["acquired"], json!(true));
    // What is not read needs no credentials in gRPC either.
    let json = ["-H", JSON, "-d", "{}"];
    let health = ask(&coordinator, "/grpc.health.v1.Health/Check", &json).await;
    assert_eq!(health.status, 200, "{health:?}");
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let settings = Settings::on("embedded:").with("limits.message_bytes_max", "4096");
    let coordinator = Coordinator::start(&settings).await;
    let large = json!({ "name": "a".repeat(5000) }).to_string();
    let answer = call(&coordinator, "TryAcquire", &large).await;
    let message = answer.expect_error(400, "out_of_range", "MESSAGE_TOO_LARGE");
    assert!(message.contains("the limit is 4096"), "{message}");
    let header = format!("x: {}", "x".repeat(40 << 10));
    let answer = ask(&coordinator, TRY, &["-H", JSON, "-H", &header, "-d", "{}"]).await;
    assert_eq!(answer.status, 431, "{answer:?}");
    assert_eq!(
        call(&coordinator, "TryAcquire", r#"{"name": "a"}"#)
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let coordinator = start().await;
    let foreign = ["-H", "origin: http://evil.example"];
    let answer = call_with(&coordinator, "TryAcquire", r#"{"name": "a"}"#, &foreign).await;
    answer.expect_error(403, "permission_denied", "ANOTHER_SITE");
    let another_port = ["-H", "origin: http://127.0.0.1:1"];
    let answer = call_with(
        &coordinator,
        "TryAcquire",
        r#"{"name": "a"}"#,
        &another_port,
    )
    .await;
    answer.expect_error(403, "permission_denied", "ANOTHER_SITE");
    let own = format!("origin: http://{}", coordinator.address());
    let own = ["-H", &own];
    let answer = call_with(&coordinator, "TryAcquire", r#"{"name": "a"}"#, &own).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    // A browser asks first whether it may send JSON elsewhere.
    let asked = [
        "-X",
        "OPTIONS",
        "-i",
        "-H",
        "access-control-request-method: POST",
    ];
    let answer = ask(&coordinator, TRY, &[&foreign[..], &asked].concat()).await;
    assert!(answer.status >= 400, "{answer:?}");
    assert!(
        !answer.body.to_lowercase().contains("access-control"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn it_can_be_turned_off() {
    let settings = Settings::on("embedded:").with("server.http_json", "false");
    let coordinator = Coordinator::start(&settings).await;
    let arguments = ["-H", JSON, "-d", "{}"];
    let output = super::curl(&coordinator, TRY, &arguments).output().await;
    let output = output.expect("curl is needed here");
    assert!(!output.status.success(), "{output:?}");
    coordinator.assert_alive();
}
