//! Calls with one answer.

use std::{fs, path::Path};

use serde_json::json;
use tokio::process::Command;

use super::{Answer, ask, call, call_with, start};
use crate::{
    coordinator::{Coordinator, Settings},
    telemetry::http::get,
};

fn taken(answer: &Answer) -> bool {
    assert_eq!(
        (answer.status, answer.kind.as_str()),
        (200, "application/json")
    );
    answer.json()["acquired"].as_bool().unwrap()
}

#[tokio::test]
async fn a_lock_is_taken_refused_and_released() {
    let coordinator = start().await;
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let asked = r#"{"name": "build", "owner": "a", "lease": "20s"}"#;
        let first = call_with(&coordinator, "TryAcquire", asked, &[version]).await;
        assert!(taken(&first), "{version}");
        let grant = &first.json()["grant"];
        assert_eq!(
            (&grant["mode"], &grant["lease"]),
            (&json!("LOCK_MODE_EXCLUSIVE"), &json!("20s"))
        );
        assert!(
            grant["fencingToken"]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
                > 0
        );

        // Names as in the proto files are understood too.
        let asked = r#"{"name": "build", "owner": "b", "request_id": "1"}"#;
        let refused = call_with(&coordinator, "TryAcquire", asked, &[version]).await;
        assert!(!taken(&refused));
        assert!(
            refused.json()["holderRemainingLease"]
                .as_str()
                .unwrap()
                .ends_with('s')
        );

        let asked = r#"{"name": "build", "owner": "a"}"#;
        let released = call_with(&coordinator, "Release", asked, &[version]).await;
        assert_eq!(released.json()["released"], json!(true), "{version}");
        let again = call_with(&coordinator, "Release", asked, &[version]).await;
        again.expect_error(400, "failed_precondition", "NOT_OWNER");
    }
}

#[tokio::test]
async fn a_call_counts_as_one_of_grpc() {
    let settings = Settings::on("embedded:").with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    call(&coordinator, "Describe", r#"{"name": "a"}"#).await;
    call(&coordinator, "Describe", r#"{"name": ""}"#).await;
    call(&coordinator, "Describe", "[").await;
    let (_, metrics) = get(coordinator.admin_address().await, "/metrics", "*/*").await;
    for (code, count) in [("OK", 1), ("InvalidArgument", 2)] {
        let labels = "grpc_type=\"unary\",grpc_service=\"lockkeeper.v1.LockService\"";
        let sample = format!(
            "grpc_server_handled_total{{{labels},grpc_method=\"Describe\",grpc_code=\"{code}\"}} \
             {count}\n"
        );
        assert!(metrics.contains(&sample), "{sample}");
    }
}

#[tokio::test]
async fn other_services_and_binary_messages_are_served_too() {
    let coordinator = start().await;
    let json = [
        "-H",
        "content-type: application/json; charset=utf-8",
        "-d",
        "{}",
    ];
    let health = ask(&coordinator, "/grpc.health.v1.Health/Check", &json).await;
    assert_eq!(health.json(), json!({ "status": "SERVING" }));
    let locks = ask(
        &coordinator,
        "/lockkeeper.v1.LockAdminService/ListLocks",
        &json,
    )
    .await;
    assert_eq!(locks.status, 200, "{locks:?}");

    // An empty message of one field: it has no name.
    let proto = ["-H", "content-type: application/proto", "--data-raw", ""];
    let refused = ask(
        &coordinator,
        "/lockkeeper.v1.LockService/TryAcquire",
        &proto,
    )
    .await;
    refused.expect_error(400, "invalid_argument", "INVALID_NAME");
    let name = [
        "-H",
        "content-type: application/proto",
        "--data-raw",
        "\n\u{1}a",
    ];
    let seen = ask(&coordinator, "/lockkeeper.v1.LockService/Describe", &name).await;
    assert_eq!(
        (seen.status, seen.kind.as_str()),
        (200, "application/proto")
    );
}

/// The blocks of the quick start that use curl.
fn documented() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("docs/quick-start.md")).unwrap();
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("curl ")).collect()
}

#[tokio::test]
async fn the_quick_start_does_what_it_says() {
    let coordinator = start().await;
    let commands = documented();
    assert!(commands.contains("http://127.0.0.1:7625"), "{commands}");
    let commands = commands.replace("http://127.0.0.1:7625", &coordinator.url());
    let output = Command::new("sh")
        .args(["-euc", &commands])
        .output()
        .await
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let json: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&text)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let [taken, released, granted] = json.as_slice() else {
        panic!("{text}");
    };
    assert_eq!(taken["acquired"], json!(true));
    assert_eq!(released["released"], json!(true));
    assert!(granted["granted"]["fencingToken"].is_string(), "{text}");
}
