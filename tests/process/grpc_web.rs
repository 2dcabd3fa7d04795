//! gRPC-Web: calls over plain HTTP/1.1, as a browser or curl sends them.

use lockkeeper_api::pb::{
    AcquireRequest, AcquireResponse, TryAcquireRequest, TryAcquireResponse, acquire_response::Event,
};
use prost::Message;

use crate::prelude::*;
use crate::steps::wait_for;

/// The bit of a frame's first byte that says that it has trailers.
const TRAILERS: u8 = 0x80;

/// A call under way.
struct Call(TcpStream);

// === impl Call ===

impl Call {
    async fn begin(coordinator: &Coordinator, method: &str, message: &impl Message) -> Self {
        let own = ("localhost", "http://localhost");
        Self::begin_from(coordinator, own, method, message).await
    }

    /// The same from a page of this host and origin.
    async fn begin_from(
        coordinator: &Coordinator,
        (host, origin): (&str, &str),
        method: &str,
        message: &impl Message,
    ) -> Self {
        let mut body = vec![0];
        let bytes = message.encode_to_vec();
        body.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        body.extend(bytes);
        let head = format!(
            "POST /lockkeeper.v1.LockService/{method} HTTP/1.1\r\nHost: {host}\r\nOrigin: \
             {origin}\r\n\
             Content-Type: application/grpc-web+proto\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        let mut stream = TcpStream::connect(coordinator.address()).await.unwrap();
        // At once: a server that does not speak HTTP/1.1 may close between two writes.
        let request = [head.as_bytes(), &body].concat();
        stream.write_all(&request).await.unwrap();
        Self(stream)
    }

    /// All that is answered, as headers and frames.
    async fn end(mut self) -> (String, Vec<(u8, Vec<u8>)>) {
        let mut answer = Vec::new();
        self.0.read_to_end(&mut answer).await.unwrap();
        let at = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..at].to_vec()).unwrap();
        let body = answer.split_off(at + 4);
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
            unchunked(&body)
        } else {
            body
        };
        (head, frames(&body))
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let at = rest.windows(2).position(|it| it == b"\r\n").unwrap();
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return whole;
        }
        whole.extend(&rest[at + 2..at + 2 + size]);
        rest = &rest[at + 4 + size..];
    }
}

fn frames(mut rest: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [kind, a, b, c, d, tail @ ..] = rest {
        let size = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        frames.push((*kind, tail[..size].to_vec()));
        rest = &tail[size..];
    }
    frames
}

fn expect_ok(frames: &[(u8, Vec<u8>)]) {
    let (kind, trailers) = frames.last().unwrap();
    assert_eq!(*kind, TRAILERS);
    let trailers = String::from_utf8_lossy(trailers);
    assert!(trailers.contains("grpc-status:0"), "{trailers}");
}

#[tokio::test]
async fn calls_work_over_http_1_and_other_origins_are_not_let_in() {
    let settings = Settings::on("embedded:").with("server.grpc_web", "true");
    let coordinator = Coordinator::start(&settings).await;
    let asked = TryAcquireRequest::named("a").by("o");
    let (head, frames) = Call::begin(&coordinator, "TryAcquire", &asked)
        .await
        .end()
        .await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        !head.to_lowercase().contains("access-control-allow"),
        "{head}"
    );
    expect_ok(&frames);
    let answer = TryAcquireResponse::decode(frames[0].1.as_slice()).unwrap();
    assert!(answer.acquired);

    // A stream of answers: it waits, and is granted.
    let asked = AcquireRequest::named("a");
    let waiting = Call::begin(&coordinator, "Acquire", &asked).await;
    let mut client = coordinator.client().await;
    until_waiting(&client, "a", 1).await;
    assert!(client.release("a", "o").await.unwrap().released);
    let (_, frames) = waiting.end().await;
    expect_ok(&frames);
    let events: Vec<_> = frames[..frames.len() - 1]
        .iter()
        .map(|(_, frame)| AcquireResponse::decode(frame.as_slice()).unwrap().event)
        .collect();
    assert!(matches!(events[0], Some(Event::Waiting(_))), "{events:?}");
    assert!(
        matches!(events.last(), Some(Some(Event::Granted(_)))),
        "{events:?}"
    );

    // Stock gRPC goes on beside it.
    let (session, _) = wait_for(&mut client, "a").await;
    session.close().await.unwrap();
}

/// A name that resolves to this machine makes a page of anywhere one of the same origin.
#[tokio::test]
async fn pages_of_other_sites_are_refused_whatever_their_name_resolves_to() {
    let settings = Settings::on("embedded:")
        .with("server.grpc_web", "true")
        .with("server.allowed_hosts", "locks.example other.example");
    let coordinator = Coordinator::start(&settings).await;
    let asked = TryAcquireRequest::named("a").by("o");
    for (host, origin, is_served) in [
        ("evil.example", "http://evil.example", false),
        ("localhost", "http://evil.example", false),
        ("evil.example", "http://localhost", false),
        ("localhost", "null", false),
        ("localhost:1", "http://localhost:2", false),
        ("localhost:1", "http://locks.example", true),
        ("locks.example", "https://locks.example", true),
        ("127.0.0.1:1", "http://127.0.0.1:1", true),
    ] {
        let call = Call::begin_from(&coordinator, (host, origin), "TryAcquire", &asked);
        let (head, frames) = call.await.end().await;
        assert_eq!(
            head.contains("grpc-status: 7"),
            !is_served,
            "{host}: {head}"
        );
        if is_served {
            expect_ok(&frames);
        }
    }
}

#[tokio::test]
async fn it_is_off_unless_it_is_asked_for() {
    let asked = TryAcquireRequest::default();
    let coordinator = Coordinator::start(&Settings::on("embedded:")).await;
    let mut call = Call::begin(&coordinator, "TryAcquire", &asked).await;
    let mut answer = String::new();
    call.0.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 415"), "{answer}");
    assert!(answer.contains("NOT_OVER_HTTP1"), "{answer}");

    let settings = Settings::on("embedded:").with("server.http_json", "false");
    let coordinator = Coordinator::start(&settings).await;
    let mut call = Call::begin(&coordinator, "TryAcquire", &asked).await;
    let mut answer = Vec::new();
    // Reset or closed, with nothing of HTTP/1.1 said.
    let _ = call.0.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1"), "{answer:?}");
    coordinator.assert_alive();
}
