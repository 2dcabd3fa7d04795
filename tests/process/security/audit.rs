//! The audit file: what it covers, and that nothing can be taken out of it unnoticed.

use std::fs;

use lockkeeper_api::pb::semaphore_service_client::SemaphoreServiceClient;
use tonic::transport::Endpoint;

use super::eventually;
use crate::prelude::*;
use crate::telemetry::http::send;

fn lines(path: &std::path::Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[tokio::test]
async fn sessions_changes_and_reloads_are_audited_in_their_own_file() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let folder = TempDir::new().unwrap();
    let audit = folder.path().join("audit");
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, format!("known {TOKEN}\n")).unwrap();
    let settings = Settings::on("embedded:")
        .with("auth.token_file", &tokens.display().to_string())
        .with("server.allow_unauthenticated", "true")
        .with("audit.file", &audit.display().to_string())
        .with("log.level", "warn");
    for blocking in ["false", "true"] {
        let _ = fs::remove_file(&audit);
        let settings = settings.clone().with("audit.blocking", blocking);
        // What it logs at this level does not show where it listens.
        let settings = settings.with("log.level", "info");
        let coordinator = Coordinator::start(&settings).await;
        let mut client = coordinator.client().await;
        let session = client.open().await;
        let endpoint = Endpoint::from_shared(coordinator.url()).unwrap();
        let mut semaphores = SemaphoreServiceClient::new(endpoint.connect().await.unwrap());
        let set = pb::SetPermitsRequest::named("s").permits(3);
        semaphores.set_permits(set).await.unwrap();
        session.close().await.unwrap();
        fs::write(&tokens, format!("known {TOKEN}\nnew {TOKEN}x\n")).unwrap();
        eventually("all of it is audited", || async {
            let operations = lines(&audit);
            ["OpenSession", "SetPermits", "Reload"].iter().all(|it| {
                let is = |line: &serde_json::Value| line["operation"] == **it;
                operations.iter().any(is)
            })
        })
        .await;
        fs::write(&tokens, format!("known {TOKEN}\n")).unwrap();
        let lines = lines(&audit);
        let numbers: Vec<_> = lines.iter().map(|it| it["seq"].as_u64().unwrap()).collect();
        let expected: Vec<_> = (1..=numbers.len() as u64).collect();
        assert_eq!(numbers, expected, "no gap");
        let of = |operation: &str| {
            let is = |line: &&serde_json::Value| line["operation"] == operation;
            lines.iter().find(is).unwrap()
        };
        assert_eq!(of("SetPermits")["name"], "s");
        assert_eq!(of("SetPermits")["who"], "anonymous");
        let digest = &of("OpenSession")["name"];
        assert_eq!(digest.as_str().map(str::len), Some(16), "{digest}");
        assert_eq!(of("Reload")["name"], "auth.token_file");
        assert_eq!(of("Reload")["reason"], "added: new; removed: ");
        assert!(!coordinator.log().contains("OpenSession"), "not in the log");
    }
}

#[tokio::test]
async fn terraforms_force_unlock_is_audited_as_a_release_by_force() {
    let folder = TempDir::new().unwrap();
    let audit = folder.path().join("audit");
    let settings = Settings::on("embedded:").with("facades.terraform", "true");
    let settings = settings.with("audit.file", &audit.display().to_string());
    let coordinator = Coordinator::start(&settings).await;
    let ask = async |method: &str, body: &str| {
        let target = format!("{method} /terraform/team%2Fnet");
        send(coordinator.address(), &target, body).await.0
    };
    let nobody = ask("UNLOCK", "").await;
    assert!(nobody.starts_with("http/1.1 400"), "{nobody}");
    for (method, body) in [("LOCK", r#"{"ID":"4f1c"}"#), ("UNLOCK", "")] {
        let head = ask(method, body).await;
        assert!(head.starts_with("http/1.1 200"), "{method}: {head}");
    }
    let forced = || {
        let lines = lines(&audit).into_iter();
        let forced = lines.filter(|it| it["operation"] == "ForceRelease");
        forced.collect::<Vec<_>>()
    };
    eventually("it is audited", || async { forced().len() == 2 }).await;
    let forced = forced();
    assert_eq!(forced[0]["result"], "failed");
    assert_eq!(forced[1]["result"], "done");
    assert_eq!(forced[1]["name"], "team/net");
    assert_eq!(forced[1]["reason"], "terraform force-unlock");
}

/// A file that was moved away, as logrotate does, is not written any more.
#[tokio::test]
async fn the_file_can_be_rotated() {
    let folder = TempDir::new().unwrap();
    let audit = folder.path().join("audit");
    let settings = Settings::on("embedded:").with("audit.file", &audit.display().to_string());
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    client.open().await.close().await.unwrap();
    let opened = || {
        lines(&audit)
            .iter()
            .any(|it| it["operation"] == "OpenSession")
    };
    eventually("it is audited", || async { opened() }).await;
    fs::rename(&audit, folder.path().join("audit.1")).unwrap();
    let given_up = tokio::time::Instant::now() + secs(15);
    while !opened() {
        assert!(tokio::time::Instant::now() < given_up, "no new file");
        client.open().await.close().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}
