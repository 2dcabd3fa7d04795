//! Calls that wait.

use serde_json::{Value, json};
use tokio::{io::Lines, process::ChildStdout};

use super::{begin, call, call_with, reason_of, start};
use crate::prelude::*;

/// The flag of the last message of a stream.
const END: u8 = 2;

/// Answers that come line by line.
struct Answers {
    lines: Lines<BufReader<ChildStdout>>,
    _curl: Child,
}

// === impl Answers ===

impl Answers {
    fn of(mut curl: Child) -> Self {
        let output = BufReader::new(curl.stdout.take().unwrap());
        Self {
            lines: output.lines(),
            _curl: curl,
        }
    }

    async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }
}

fn acquire(coordinator: &Coordinator, json: &str) -> Answers {
    Answers::of(begin(coordinator, "Acquire", "application/json", json))
}

#[tokio::test]
async fn a_wait_is_told_line_by_line() {
    let coordinator = start().await;
    let mut client = coordinator.client().await;
    client.try_acquire("build", "a", secs(30)).await.unwrap();
    let mut answers = acquire(&coordinator, r#"{"name": "build", "owner": "b"}"#);
    let waiting = answers.next().await.unwrap();
    assert_eq!(waiting["waiting"]["position"], json!(1), "{waiting}");
    assert!(client.release("build", "a").await.unwrap().released);
    let granted = loop {
        let answer = answers.next().await.unwrap();
        if answer["waiting"].is_null() {
            break answer;
        }
    };
    assert_eq!(granted["granted"]["owner"], json!("b"), "{granted}");
    assert_eq!(answers.next().await, None);

    // curl that goes leaves no waiter.
    let leaving = acquire(&coordinator, r#"{"name": "build", "owner": "c"}"#);
    until_waiting(&client, "build", 1).await;
    drop(leaving);
    until_waiting(&client, "build", 0).await;
}

#[tokio::test]
async fn a_wait_ends_with_its_time() {
    let coordinator = start().await;
    let mut client = coordinator.client().await;
    client.try_acquire("build", "a", secs(30)).await.unwrap();
    let asked = r#"{"name": "build", "owner": "b", "waitTimeout": "0.2s"}"#;
    let by_field = call(&coordinator, "Acquire", asked).await;
    let asked = r#"{"name": "build", "owner": "b"}"#;
    let timeout = ["-H", "connect-timeout-ms: 400"];
    let by_header = call_with(&coordinator, "Acquire", asked, &timeout).await;
    for answer in [by_field, by_header] {
        assert_eq!(answer.kind, "application/x-ndjson");
        let last: Value = serde_json::from_str(answer.body.lines().last().unwrap()).unwrap();
        let reason = &last["notGranted"]["reason"];
        assert_eq!(reason, "NOT_GRANTED_REASON_WAIT_TIMEOUT", "{answer:?}");
    }
}

#[tokio::test]
async fn an_error_is_the_status_before_the_first_line_and_a_line_behind_it() {
    let settings = Settings::on("embedded:").with("server.drain_grace", "5s");
    let coordinator = Coordinator::start(&settings).await;
    let bad = call(&coordinator, "Acquire", r#"{"name": ""}"#).await;
    bad.expect_error(400, "invalid_argument", "INVALID_NAME");

    let mut client = coordinator.client().await;
    client.try_acquire("build", "a", secs(30)).await.unwrap();
    let mut answers = acquire(&coordinator, r#"{"name": "build", "owner": "b"}"#);
    assert!(answers.next().await.unwrap()["waiting"].is_object());
    coordinator.signal(nix::sys::signal::Signal::SIGTERM);
    let ended = loop {
        let answer = answers.next().await.unwrap();
        if answer["waiting"].is_null() {
            break answer;
        }
    };
    assert_eq!(ended["error"]["code"], json!("unavailable"), "{ended}");
    assert_eq!(reason_of(&ended["error"]), "DRAINING");
    assert!(coordinator.exit().await.success());
}

/// The messages of a stream of Connect with their flags.
fn messages(mut rest: &[u8]) -> Vec<(u8, Value)> {
    let mut messages = Vec::new();
    while let [flags, a, b, c, d, tail @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let message = serde_json::from_slice(&tail[..length]).unwrap();
        messages.push((*flags, message));
        rest = &tail[length..];
    }
    messages
}

fn enveloped(json: &str) -> Vec<u8> {
    let length = u32::try_from(json.len()).unwrap().to_be_bytes();
    [&[0], &length[..], json.as_bytes()].concat()
}

#[tokio::test]
async fn clients_of_connect_get_envelopes() {
    let coordinator = start().await;
    let directory = tempfile::TempDir::new().unwrap();
    let asked = async |body: &[u8], method: &str| {
        let file = directory.path().join("body");
        std::fs::write(&file, body).unwrap();
        let body = format!("@{}", file.display());
        let curl = begin(&coordinator, method, "application/connect+json", &body);
        messages(&curl.wait_with_output().await.unwrap().stdout)
    };
    let granted = asked(&enveloped(r#"{"name": "a", "owner": "o"}"#), "Acquire").await;
    let [(0, granted), (END, end)] = granted.as_slice() else {
        panic!("{granted:?}");
    };
    assert_eq!(granted["granted"]["owner"], json!("o"));
    assert_eq!(*end, json!({}));

    let too_short = &enveloped(r#"{"name": "a"}"#)[..9];
    let compressed = [&[1], &enveloped("{}")[1..]].concat();
    for (body, code, reason) in [
        (
            enveloped(r#"{"name": ""}"#),
            "invalid_argument",
            "INVALID_NAME",
        ),
        (enveloped("{"), "invalid_argument", "INVALID_JSON"),
        (too_short.to_vec(), "invalid_argument", "INVALID_ENVELOPE"),
        (compressed, "invalid_argument", "INVALID_ENVELOPE"),
        (
            vec![0, 255, 255, 255, 255, 0],
            "out_of_range",
            "MESSAGE_TOO_LARGE",
        ),
    ] {
        let answers = asked(&body, "Acquire").await;
        let [(END, end)] = answers.as_slice() else {
            panic!("{answers:?}");
        };
        assert_eq!(
            (&end["error"]["code"], reason_of(&end["error"])),
            (&json!(code), reason)
        );
    }

    // A session whose client says that it comes to an end, and does.
    let frames = [r#"{"open": {"clientName": "curl"}}"#, r#"{"close": {}}"#];
    let frames: Vec<_> = frames.into_iter().map(enveloped).collect();
    let answers = asked(&frames.concat(), "Session").await;
    assert!(
        answers[0].1["opened"]["sessionId"].is_string(),
        "{answers:?}"
    );
    assert_eq!(answers.last(), Some(&(END, json!({}))), "{answers:?}");
}
