//! Traces: the caller's context goes through to the script.

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use super::{
    collector::{Collector, attribute},
    http::get,
};
use crate::prelude::*;
use crate::{modes::release, redis_server::Monitor, refusing_port::RefusingPort};

const CALLER: &str = "00f067aa0ba902b7";

fn trace(number: u32) -> String {
    format!("4bf92f3577b34da6a3ce929d{number:08x}")
}

fn traceparent(number: u32, flags: &str) -> String {
    format!("00-{}-{CALLER}-{flags}", trace(number))
}

/// The span with this name; there is one.
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let mut found = spans.iter().filter(|span| span.name == name);
    match (found.next(), found.next()) {
        (Some(span), None) => span,
        _ => panic!("not exactly one {name} among {spans:#?}"),
    }
}

fn is_child(span: &Span, parent: &Span) -> bool {
    span.parent_span_id == parent.span_id
}

/// A session whose frames say which trace they belong to.
struct Session {
    requests: mpsc::UnboundedSender<pb::SessionRequest>,
    responses: Streaming<pb::SessionResponse>,
}

impl Session {
    async fn open(coordinator: &Coordinator) -> Self {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let open = Request::Open(pb::OpenSession::default());
        let first = pb::SessionRequest {
            request: Some(open),
            ..Default::default()
        };
        requests.send(first).unwrap();
        let mut api = coordinator.client().await.api;
        let outgoing = UnboundedReceiverStream::new(outgoing);
        let responses = api.session(outgoing).await.unwrap().into_inner();
        let mut session = Self {
            requests,
            responses,
        };
        assert!(matches!(session.next().await, Response::Opened(_)));
        session
    }

    fn send(&self, op_id: u64, request: Request, traceparent: String) {
        let frame = pb::SessionRequest {
            op_id,
            request: Some(request),
            traceparent,
        };
        self.requests.send(frame).unwrap();
    }

    async fn next(&mut self) -> Response {
        let frame = self.responses.message().await.unwrap().unwrap();
        frame.response.unwrap()
    }
}

/// Only what a waiter hears of is linked, not what it finds when it looks again because it hears
/// from then on.
async fn until_it_listens(redis: &RedisServer, monitor: &Monitor, owner: &str) {
    let owner = format!(":{owner}\"");
    eventually("it has looked again", || async {
        let lines = monitor.lines(redis).await;
        let looks = |line: &&String| line.contains(&owner) && line.contains("EVALSHA");
        lines.iter().filter(looks).count() >= 2
    })
    .await;
}

#[tokio::test]
async fn the_trace_of_a_caller_goes_through_to_the_script() {
    let (redis, collector) = (RedisServer::start().await, Collector::start().await);
    let settings = Settings::on(&redis.url())
        .with("telemetry.otlp_endpoint", &collector.url())
        .with("admin.listen", "127.0.0.1:0");
    let coordinator = Coordinator::start(&settings).await;
    let client = coordinator.client().await;
    let mut api = client.api.clone();
    let mut call = async |number: u32, flags: &str| {
        let mut request = tonic::Request::new(try_request(&number.to_string(), "somebody"));
        let context = traceparent(number, flags).parse().unwrap();
        request.metadata_mut().insert("traceparent", context);
        let tried = api.try_acquire(request).await.unwrap().into_inner();
        assert!(tried.acquired);
        tried.grant.unwrap()
    };
    let grant = call(1, "01").await;
    // This caller does not record its trace, so nobody does.
    call(2, "00").await;

    let mut session = Session::open(&coordinator).await;
    let take = Request::TryAcquire(try_request("build", "a"));
    session.send(1, take, traceparent(3, "01"));
    assert!(matches!(session.next().await, Response::Tried(_)));
    let wait = Request::Acquire(acquire_request("build", "b"));
    let monitor = redis.monitor().await;
    session.send(2, wait, traceparent(4, "01"));
    until_waiting(&client, "build", 1).await;
    assert!(matches!(session.next().await, Response::Waiting(_)));
    until_it_listens(&redis, &monitor, "b").await;
    let release = Request::Release(release("build", "a", LockMode::Unspecified));
    session.send(3, release, traceparent(5, "01"));
    for _ in 0..2 {
        let answer = session.next().await;
        assert!(
            matches!(answer, Response::Released(_) | Response::Granted(_)),
            "{answer:?}"
        );
    }
    drop(session);
    expect_exemplars(&coordinator).await;
    coordinator.signal(Signal::SIGTERM);
    assert!(coordinator.exit().await.success());

    expect_one_call(&collector.of_trace(&trace(1)), &grant);
    assert!(collector.of_trace(&trace(2)).is_empty());

    let of_wait = collector.of_trace(&trace(4));
    let frame = named(&of_wait, "Session frame");
    assert_eq!(hex::encode(&frame.parent_span_id), CALLER);
    let acquire = named(&of_wait, "acquire");
    let wait = named(&of_wait, "wait");
    assert!(is_child(acquire, frame) && is_child(wait, acquire));
    assert_eq!(
        attribute(wait, "lockkeeper.wait.position").as_deref(),
        Some("1")
    );
    let of_release = collector.of_trace(&trace(5));
    let release = named(&of_release, "release");
    let links: Vec<_> = acquire.links.iter().map(|link| &link.span_id).collect();
    assert_eq!(
        links,
        [&release.span_id],
        "who was granted what was given back"
    );
}

/// The histograms name the recorded traces, and no others, to scrapers that understand it.
async fn expect_exemplars(coordinator: &Coordinator) {
    let address = coordinator.admin_address().await;
    let (_, shown) = get(address, "/metrics", "application/openmetrics-text").await;
    let of_any = trace(0)[..24].to_owned();
    for (metric, trace_id) in [
        ("grpc_server_handling_seconds_bucket{", trace(1)),
        ("lockkeeper_store_call_seconds_bucket{", of_any),
        ("lockkeeper_wait_seconds_bucket{", trace(4)),
        ("lockkeeper_handover_seconds_bucket{", trace(4)),
    ] {
        let expected = format!(" # {{trace_id=\"{trace_id}");
        let is_one = |line: &str| line.starts_with(metric) && line.contains(&expected);
        assert!(shown.lines().any(is_one), "{metric} {shown}");
    }
    assert!(!shown.contains(&trace(2)), "it is not recorded");
    let (_, shown) = get(address, "/metrics", "text/plain").await;
    assert!(!shown.contains("trace_id"), "the older format has none");
}

/// The caller's span, the operation, its script: one below the other.
fn expect_one_call(of_call: &[Span], grant: &pb::Grant) {
    let served = named(of_call, "lockkeeper.v1.LockService/TryAcquire");
    assert_eq!(hex::encode(&served.parent_span_id), CALLER);
    assert_eq!(served.kind(), SpanKind::Server);
    assert_eq!(
        attribute(served, "rpc.response.status_code").as_deref(),
        Some("OK")
    );
    let operation = named(of_call, "try_acquire");
    assert!(is_child(operation, served));
    let token = grant.fencing_token.to_string();
    for (key, value) in [
        ("lockkeeper.lock.name", "1"),
        ("lockkeeper.lock.mode", "exclusive"),
        ("lockkeeper.result", "granted"),
        ("lockkeeper.token", token.as_str()),
    ] {
        assert_eq!(
            attribute(operation, key).as_deref(),
            Some(value),
            "{operation:#?}"
        );
    }
    let owner = attribute(operation, "lockkeeper.owner.digest").unwrap();
    assert!(owner.len() == 16 && owner != "somebody", "{owner}");
    let script = named(of_call, "lock_acquire");
    assert!(is_child(script, operation));
    assert_eq!(script.kind(), SpanKind::Client);
    assert_eq!(
        attribute(script, "db.system.name").as_deref(),
        Some("redis")
    );
    assert_eq!(
        attribute(script, "db.operation.name").as_deref(),
        Some("EVALSHA")
    );
}

#[tokio::test]
async fn of_traces_that_begin_here_only_the_part_is_sent_that_is_asked_for() {
    let collector = Collector::start().await;
    let settings = Settings::on("embedded:")
        .with("telemetry.otlp_endpoint", &collector.url())
        .with("telemetry.sample_ratio", "0.0");
    let coordinator = Coordinator::start(&settings).await;
    let mut api = coordinator.client().await.api;
    api.try_acquire(try_request("build", "a")).await.unwrap();
    let mut request = tonic::Request::new(try_request("other", "a"));
    let context = traceparent(1, "01").parse().unwrap();
    request.metadata_mut().insert("traceparent", context);
    api.try_acquire(request).await.unwrap();
    coordinator.signal(Signal::SIGTERM);
    assert!(coordinator.exit().await.success());
    let sent = collector.of_trace(&trace(1)).len();
    assert!(sent >= 3, "the caller wants it");
    assert_eq!(collector.count(), sent, "and nobody wants the other one");
}

#[tokio::test]
async fn a_collector_that_cannot_be_reached_is_logged_once() {
    let port = RefusingPort::take();
    let url = format!("http://127.0.0.1:{}", port.number);
    let settings = Settings::on("embedded:").with("telemetry.otlp_endpoint", &url);
    let coordinator = Coordinator::start(&settings).await;
    let mut client = coordinator.client().await;
    client.try_acquire("a", "x", secs(9)).await.unwrap();
    coordinator.until_logged("traces are not sent").await;
    client.try_acquire("b", "x", secs(9)).await.unwrap();
    // It sends the rest before it ends.
    coordinator.signal(Signal::SIGTERM);
    assert!(coordinator.exit().await.success());
    let times = coordinator.log().matches("traces are not sent").count();
    assert_eq!(times, 1, "{}", coordinator.log());
}
