//! The bodies of whole calls, on a coordinator with the embedded store. Time is paused and runs on
//! by itself, so that what waits in vain ends at once.

use std::{cell::OnceCell, time::Duration};

use futures::future::BoxFuture;
use http::{Request, header::CONTENT_TYPE};
use lockkeeper_coordinator::Coordinator;
use lockkeeper_server::fuzzing;
use lockkeeper_store::host::embedded::{Clock, EmbeddedStore};
use tokio::{
    runtime::{Builder, Runtime},
    time::timeout,
};

/// Longer than what the end of a stream or a request waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs this with a coordinator that earlier inputs have used too.
fn with(run: impl for<'a> FnOnce(&'a Coordinator) -> BoxFuture<'a, ()>) {
    thread_local! {
        static SERVED: OnceCell<(Runtime, Coordinator)> = const { OnceCell::new() };
    }
    SERVED.with(|served| {
        let (runtime, coordinator) = served.get_or_init(|| {
            let mut runtime = Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build();
            let runtime = runtime.expect("a runtime");
            let coordinator = runtime.block_on(async {
                let store = EmbeddedStore::new(Clock::system()).connect();
                Coordinator::start(super::settings().clone(), store)
            });
            (runtime, coordinator)
        });
        let ended = runtime.block_on(async { timeout(PATIENCE, run(coordinator)).await });
        assert!(ended.is_ok(), "it does not end");
    });
}

/// The body of a call of `Session`: frames, each with the five bytes of gRPC before it. The stream
/// of answers ends soon after it.
pub fn session_frames(bytes: &[u8]) {
    let body = bytes.to_vec().into();
    with(|coordinator| Box::pin(async { drop(fuzzing::session(coordinator, body).await) }));
}

/// A call over HTTP/JSON: path and content type on the first line, and the body.
pub fn http_json(bytes: &[u8]) {
    let end = bytes.iter().position(|it| *it == b'\n');
    let (first, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let Ok(Some((path, kind))) = std::str::from_utf8(first).map(|it| it.split_once(' ')) else {
        return;
    };
    let request = Request::post(path)
        .header(CONTENT_TYPE, kind)
        .header("connect-timeout-ms", "1000")
        .body(body.get(1..).unwrap_or_default().to_vec().into());
    let Ok(request) = request else { return };
    if kind.starts_with("application/grpc") {
        return;
    }
    // tonic takes bytes that are no message for a fault of its own.
    let is_binary = kind.contains("proto");
    with(|coordinator| {
        Box::pin(async move {
            let answer = fuzzing::call(coordinator, request).await;
            let (status, kind) = (answer.status(), answer.headers().get(CONTENT_TYPE).cloned());
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            let body = body.expect("a body");
            assert!(status != 500 || is_binary, "{body:?}");
            match kind.expect("a content type").as_bytes() {
                b"application/json" | b"application/x-ndjson" => {
                    let values = serde_json::Deserializer::from_slice(&body);
                    for value in values.into_iter::<serde_json::Value>() {
                        assert!(value.expect("JSON").is_object());
                    }
                }
                kind => assert!(
                    kind.ends_with(b"json") || kind.ends_with(b"proto"),
                    "{kind:?}"
                ),
            }
        })
    });
}

/// A request to the admin port: method and path on the first line, and the body.
pub fn admin_body(bytes: &[u8]) {
    let end = bytes.iter().position(|it| *it == b'\n');
    let (first, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let Ok(Some((method, path))) = std::str::from_utf8(first).map(|it| it.split_once(' ')) else {
        return;
    };
    let body = body.get(1..).unwrap_or_default().to_vec();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost:7626")
        .header(CONTENT_TYPE, "application/json")
        .body(body.into());
    let Ok(request) = request else { return };
    let is_of_api = request.uri().path().starts_with("/api/");
    with(|coordinator| {
        Box::pin(async move {
            let answer = fuzzing::admin(coordinator, request).await;
            let status = answer.status();
            assert!(!status.is_server_error(), "{status}");
            let is_json = answer.headers().get(CONTENT_TYPE);
            let is_json = is_json.is_some_and(|it| it == "application/json");
            if is_of_api && is_json {
                let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
                let body = body.expect("a body");
                serde_json::from_slice::<serde_json::Value>(&body).expect("JSON");
            }
        })
    });
}
