//! Messages that are larger than they look, or say that they are.

use bytes::Bytes;
use http::{HeaderMap, Request};
use lockkeeper_testkit::calls::framed;

use super::{
    MIB, Scene,
    frames::{END_HEADERS, END_STREAM, HEADERS, Raw, call_to, frame},
};
use crate::prelude::*;

const GROWN_MAX: u64 = 16 * MIB;

/// What a coordinator says to a call with this body: the status.
async fn status_of(coordinator: &Coordinator, encoding: Option<&str>, body: &[Bytes]) -> Code {
    let stream = TcpStream::connect(coordinator.address()).await.unwrap();
    let (mut client, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = spawn_detached("connection", connection);
    let mut request = Request::post("http://localhost/lockkeeper.v1.LockService/TryAcquire")
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if let Some(encoding) = encoding {
        request = request.header("grpc-encoding", encoding);
    }
    let request = request.body(()).unwrap();
    let (response, mut sending) = client.send_request(request, false).unwrap();
    for part in body {
        sending.reserve_capacity(part.len());
        // The server may have answered and lost interest.
        if sending.send_data(part.clone(), false).is_err() {
            break;
        }
    }
    let _ = sending.send_data(Bytes::new(), true);
    let response = response.await.unwrap();
    let mut headers: HeaderMap = response.headers().clone();
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        let _ = body.flow_control().release_capacity(data.unwrap().len());
    }
    headers.extend(body.trailers().await.unwrap().unwrap_or_default());
    connection.abort();
    let code = headers["grpc-status"].to_str().unwrap().parse().unwrap();
    Code::from_i32(code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_says_it_has_4_gib_is_refused_before_it_is_read() {
    let scene = Scene::begin().await;
    let body = [framed(false, u32::MAX, b"\n\x05build")];
    for _ in 0..20 {
        let code = status_of(&scene.coordinator, None, &body).await;
        assert_eq!(code, Code::OutOfRange);
    }
    scene.end(GROWN_MAX).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_has_64_mib_is_refused_and_not_kept() {
    const PART: usize = 1 << 20;
    let scene = Scene::begin().await;
    let length = 64 * u32::try_from(PART).unwrap();
    let mut body = vec![framed(false, length, &[])];
    body.extend(vec![Bytes::from(vec![b'x'; PART]); 64]);
    for _ in 0..5 {
        let code = status_of(&scene.coordinator, None, &body).await;
        assert_eq!(code, Code::OutOfRange);
    }
    scene.end(GROWN_MAX).await;
}

/// There is nothing to blow up: what is compressed is not taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_messages_are_refused() {
    let scene = Scene::begin().await;
    let body = [framed(true, 1000, &[0; 1000])];
    for encoding in ["gzip", "deflate", "zstd", "snappy"] {
        let code = status_of(&scene.coordinator, Some(encoding), &body).await;
        assert_eq!(code, Code::Unimplemented, "{encoding}");
    }
    let code = status_of(&scene.coordinator, None, &body).await;
    assert_eq!(code, Code::Internal);
    scene.end(GROWN_MAX).await;
}

/// gRPC of Python and of Java sends such an authority over a Unix-domain socket.
/// docs/security/credentials.md says what they need; if this fails because it is accepted now, they
/// need nothing.
#[tokio::test]
async fn a_call_to_a_path_is_reset_and_the_connection_goes_on() {
    const PROTOCOL_ERROR: u32 = 1;
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut raw = Raw::open(coordinator.address()).await;
    let authorities = [(1, "%2Frun%2Fx.sock"), (3, "/run/x.sock")];
    let calls = authorities.map(|(stream, authority)| {
        let headers = call_to(authority, "/lockkeeper.v1.LockService/TryAcquire");
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &headers)
    });
    raw.flood(calls.into_iter()).await;
    eventually("both are reset", || async {
        let resets = raw.seen().resets;
        [1, 3]
            .iter()
            .all(|stream| resets.get(stream) == Some(&PROTOCOL_ERROR))
    })
    .await;
    assert!(!raw.seen().is_closed);
}
