//! HTTP/JSON, as curl sends it.

mod calls;
mod refusals;
mod streams;

use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::prelude::*;

const SERVICE: &str = "lockkeeper.v1.LockService";

/// An answer as a whole.
#[derive(Debug)]
struct Answer {
    status: u16,
    kind: String,
    body: String,
}

// === impl Answer ===

impl Answer {
    fn json(&self) -> Value {
        let json = serde_json::from_str(&self.body);
        json.unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// The code, the message and the reason of an error with this status.
    #[track_caller]
    fn expect_error(&self, status: u16, code: &str, reason: &str) -> String {
        let json = self.json();
        assert_eq!(self.kind, "application/json");
        assert_eq!(
            (self.status, json["code"].as_str()),
            (status, Some(code)),
            "{json}"
        );
        assert_eq!(reason_of(&json), reason, "{json}");
        json["message"].as_str().unwrap().to_owned()
    }
}

/// The reason of an error.
fn reason_of(error: &Value) -> &str {
    let details = error["details"].as_array().map(Vec::as_slice);
    let mut details = details.unwrap_or_default().iter();
    let info = details.find(|it| it["type"] == "google.rpc.ErrorInfo");
    let reason = info.and_then(|info| info["debug"]["reason"].as_str());
    reason.unwrap_or_default()
}

async fn start() -> Coordinator {
    Coordinator::start(&Settings::on("embedded:")).await
}

/// curl, about to call a method with these arguments.
fn curl(coordinator: &Coordinator, path: &str, arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--no-buffer",
        "--max-time",
        "60",
    ])
    .args(arguments)
    .arg(format!("{}{path}", coordinator.url()))
    .stdin(Stdio::null())
    .stdout(Stdio::piped())
    .kill_on_drop(true);
    curl
}

/// Sends a request as it is.
async fn ask(coordinator: &Coordinator, path: &str, arguments: &[&str]) -> Answer {
    let asked = [
        arguments,
        &["--write-out", "\n%{http_code} %{content_type}"],
    ]
    .concat();
    let output = curl(coordinator, path, &asked).output().await;
    let output = output.expect("curl is needed here");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, end) = text.rsplit_once('\n').unwrap();
    let (status, kind) = end.split_once(' ').unwrap();
    Answer {
        status: status.parse().unwrap(),
        kind: kind.to_owned(),
        body: body.to_owned(),
    }
}

/// Calls a method of `LockService`.
async fn call(coordinator: &Coordinator, method: &str, json: &str) -> Answer {
    call_with(coordinator, method, json, &[]).await
}

/// The same with more arguments.
async fn call_with(coordinator: &Coordinator, method: &str, json: &str, more: &[&str]) -> Answer {
    let usual = ["-H", "content-type: application/json", "--data-raw", json];
    let path = format!("/{SERVICE}/{method}");
    ask(coordinator, &path, &[&usual, more].concat()).await
}

/// Begins a call whose answers come one by one.
fn begin(coordinator: &Coordinator, method: &str, kind: &str, body: &str) -> Child {
    let kind = format!("content-type: {kind}");
    let arguments = ["-H", &kind, "--data-binary", body];
    let path = format!("/{SERVICE}/{method}");
    let spawned = curl(coordinator, &path, &arguments).spawn();
    spawned.expect("curl is needed here")
}
