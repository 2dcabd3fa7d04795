//! What the binary says of mistakes that newcomers make, on a real coordinator.

use std::process::Output;

use super::tool::{assert_code, stderr};
use crate::prelude::*;

struct Scene {
    coordinator: Coordinator,
    place: tempfile::TempDir,
}

// === impl Scene ===

impl Scene {
    async fn begin() -> Self {
        let settings = Settings::on("embedded:").with("admin.listen", "127.0.0.1:0");
        Self {
            coordinator: Coordinator::start(&settings).await,
            place: tempfile::TempDir::new().unwrap(),
        }
    }

    async fn ask(&self, arguments: &[&str]) -> Output {
        let mut command = lockkeeper(&self.coordinator, arguments);
        command.current_dir(self.place.path());
        command.output().await.unwrap()
    }

    async fn expect(&self, arguments: &[&str], code: i32, message: &str) {
        let output = self.ask(arguments).await;
        assert_code(&output, code);
        let told = stderr(&output);
        assert_eq!(told, format!("lockkeeper: {message}\n"), "{arguments:?}");
    }
}

#[tokio::test]
async fn a_wrong_address_or_file_is_explained() {
    let scene = Scene::begin().await;
    let address = scene.coordinator.address();
    let admin = format!("http://{}", scene.coordinator.admin_address().await);
    let output = scene.ask(&["describe", "a", "--server", &admin]).await;
    let told = stderr(&output);
    let hint = "the server closed the connection at once: is it the gRPC port? The default port is \
                7625";
    assert!(told.contains(hint), "{told}");
    let tls = format!("https://{address}");
    let message = format!("no coordinator at {tls}: the server does not use TLS: use http://");
    scene
        .expect(&["describe", "a", "--server", &tls], 69, &message)
        .await;

    std::fs::write(scene.place.path().join("pem"), "no PEM").unwrap();
    let wrong = ["describe", "a", "--server", &tls, "--ca-file", "pem"];
    scene
        .expect(&wrong, 64, "pem: has no certificate (PEM)")
        .await;
    let plain = format!("http://{address}");
    let unused = ["describe", "a", "--server", &plain, "--ca-file", "pem"];
    let message = format!("pem is not used: {plain} has no TLS");
    scene.expect(&unused, 0, &message).await;
}

#[tokio::test]
async fn a_refusal_says_what_to_do() {
    let scene = Scene::begin().await;
    scene.ask(&["semaphore", "set", "downloads", "3"]).await;
    let wrong = "WRONG_KIND: the key is used for another kind of lock, or for something else; \
                 `lockkeeper list --prefix NAME` shows its kind; `run --permits NUMBER` is for \
                 semaphores";
    scene
        .expect(&["run", "downloads", "--", "true"], 64, wrong)
        .await;
    scene
        .expect(&["latch", "wait", "downloads"], 64, wrong)
        .await;
    let unset = "SEMAPHORE_NOT_FOUND: the semaphore does not exist: its number of permits was \
                 never set; `lockkeeper semaphore set NAME PERMITS` creates it";
    scene
        .expect(&["run", "x", "--permits", "1", "--", "true"], 64, unset)
        .await;

    scene.ask(&["try-acquire", "b", "--owner", "o"]).await;
    scene.ask(&["release", "b", "--owner", "o"]).await;
    let over = "NOT_OWNER: not the owner: the grant has expired or was released, or never \
                existed (state=expired)";
    scene
        .expect(&["release", "b", "--owner", "nobody"], 1, over)
        .await;
    let long = "INVALID_LEASE: lease: must be from 100ms to 24h (field=lease)";
    scene
        .expect(&["try-acquire", "b", "--lease", "48h"], 64, long)
        .await;
}

#[tokio::test]
async fn errors_are_json_where_answers_are() {
    let scene = Scene::begin().await;
    let output = scene
        .ask(&["release", "b", "--owner", "o", "--output", "json"])
        .await;
    assert_code(&output, 1);
    let error: serde_json::Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(error["error"]["reason"], "NOT_OWNER");
    assert_eq!(error["error"]["exit"], 1);
    assert!(
        error["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("NOT_OWNER: ")
    );
}
