//! What comes with an installed binary: a health check for probes, completions, manual pages.

use std::{fs, process::Output};

use crate::prelude::*;

async fn output(coordinator: &Coordinator, arguments: &[&str]) -> Output {
    lockkeeper(coordinator, arguments).output().await.unwrap()
}

#[tokio::test]
async fn health_needs_no_token() {
    let folder = TempDir::new().unwrap();
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "known 0123456789abcdef0123456789abcdef\n").unwrap();
    let redis = RedisServer::start().await;
    let settings = settings_on(&redis.url())
        .with("auth.token_file", &tokens.display().to_string())
        .with("store.key_prefix", "locks:");
    let coordinator = Coordinator::start(&settings).await;
    coordinator.until_connected(1).await;
    let healthy = output(&coordinator, &["health"]).await;
    assert_eq!(healthy.status.code(), Some(0), "{healthy:?}");
    assert_eq!(healthy.stdout, b"serving\n");
    let denied = output(&coordinator, &["describe", "a"]).await;
    assert_eq!(denied.status.code(), Some(77), "{denied:?}");
}

#[tokio::test]
async fn health_fails_without_a_coordinator_or_its_store() {
    let mut redis = RedisServer::start().await;
    let coordinator = Coordinator::start(&settings_on(&redis.url())).await;
    coordinator.until_connected(1).await;
    redis.kill();
    let failed = output(&coordinator, &["health"]).await;
    assert_eq!(failed.status.code(), Some(69), "{failed:?}");
    coordinator.kill();
    coordinator.exit().await;
    let failed = output(&coordinator, &["health"]).await;
    assert_eq!(failed.status.code(), Some(69), "{failed:?}");
}

#[tokio::test]
async fn a_bare_number_is_a_duration_in_seconds() {
    let coordinator = Coordinator::start(&Settings::on_none()).await;
    let arguments = ["try-acquire", "a", "--lease", "7", "--output", "json"];
    let granted = output(&coordinator, &arguments).await;
    let granted: serde_json::Value = serde_json::from_slice(&granted.stdout).unwrap();
    assert_eq!(granted["grant"]["lease"], "7s");
}

#[tokio::test]
async fn completions_and_manual_pages_know_all_commands() {
    let coordinator = Coordinator::start(&Settings::on_none()).await;
    for shell in ["bash", "zsh", "fish"] {
        let script = output(&coordinator, &["completions", shell]).await;
        assert!(script.status.success());
        let script = String::from_utf8(script.stdout).unwrap();
        for word in ["try-acquire", "semaphore", "kill-after"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("man1");
    let made = output(&coordinator, &["man", &pages.display().to_string()]).await;
    assert!(made.status.success(), "{made:?}");
    for page in [
        "lockkeeper.1",
        "lockkeeper-run.1",
        "lockkeeper-semaphore-set.1",
    ] {
        let text = fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
    let version = output(&coordinator, &["version"]).await;
    let flag = output(&coordinator, &["--version"]).await;
    assert_eq!(version.stdout, flag.stdout);
}
