//! Callers that take a lock and give it back, each its own, as often as they can.

use std::time::Duration;

use futures::future::join_all;
use lockkeeper_api::pb::{
    self, lock_service_client::LockServiceClient, session_request::Request,
    session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

/// Pairs made by `each` callers on each connection; a caller has one call under way.
pub(crate) async fn by_unary_calls(channels: &[Channel], each: usize, measured: Duration) -> u32 {
    let end = Instant::now() + measured;
    let callers = channels.iter().flat_map(|channel| vec![channel; each]);
    let callers = callers.enumerate().map(|(number, channel)| {
        let client = LockServiceClient::new(channel.clone());
        spawn_detached(
            "caller",
            one_after_another(client, format!("lock-{number}"), end),
        )
    });
    let callers: Vec<_> = callers.collect();
    join_all(callers)
        .await
        .into_iter()
        .map(Result::unwrap)
        .sum()
}

async fn one_after_another(
    mut client: LockServiceClient<Channel>,
    name: String,
    end: Instant,
) -> u32 {
    let mut pairs = 0;
    while Instant::now() < end {
        let request = pb::TryAcquireRequest {
            name: name.clone(),
            ..Default::default()
        };
        let tried = client.try_acquire(request).await.unwrap().into_inner();
        let request = pb::ReleaseRequest {
            name: name.clone(),
            owner: tried.grant.expect("nobody else wants it").owner,
            ..Default::default()
        };
        let released = client.release(request).await.unwrap().into_inner();
        assert!(released.released, "it was taken once");
        pairs += 1;
    }
    pairs
}

/// Pairs made by one session on each connection, which has `each` operations under way.
pub(crate) async fn by_frames(channels: &[Channel], each: usize, measured: Duration) -> u32 {
    let end = Instant::now() + measured;
    let sessions = channels.iter().enumerate().map(|(number, channel)| {
        let client = LockServiceClient::new(channel.clone());
        spawn_detached("session", session(client, number, each, end))
    });
    let sessions: Vec<_> = sessions.collect();
    join_all(sessions)
        .await
        .into_iter()
        .map(Result::unwrap)
        .sum()
}

/// The id of an operation is the number of its lock, counted from 1.
async fn session(
    mut client: LockServiceClient<Channel>,
    session: usize,
    each: usize,
    end: Instant,
) -> u32 {
    let (requests, outgoing) = mpsc::unbounded_channel();
    let send = |op_id: u64, request: Request| {
        let request = Some(request);
        requests
            .send(pb::SessionRequest {
                op_id,
                request,
                ..pb::SessionRequest::default()
            })
            .unwrap();
    };
    let name = |op_id: u64| format!("session-{session}-lock-{op_id}");
    let try_acquire = |op_id: u64| {
        let name = name(op_id);
        let request = pb::TryAcquireRequest {
            name,
            ..Default::default()
        };
        send(op_id, Request::TryAcquire(request));
    };
    send(0, Request::Open(pb::OpenSession::default()));
    let outgoing = UnboundedReceiverStream::new(outgoing);
    let mut responses = client.session(outgoing).await.unwrap().into_inner();
    for op_id in 1..=each as u64 {
        try_acquire(op_id);
    }
    let (mut pairs, mut running) = (0, each);
    while running > 0 {
        let frame = responses.message().await.unwrap().expect("not closed yet");
        match frame.response.expect("something") {
            Response::Opened(_) => {}
            Response::Tried(tried) => {
                assert!(tried.acquired, "nobody else wants it");
                let name = name(frame.op_id);
                let request = pb::ReleaseRequest {
                    name,
                    ..Default::default()
                };
                send(frame.op_id, Request::Release(request));
            }
            Response::Released(_) => {
                pairs += 1;
                if Instant::now() < end {
                    try_acquire(frame.op_id);
                } else {
                    running -= 1;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    send(0, Request::Close(pb::CloseSession {}));
    while responses.message().await.unwrap().is_some() {}
    pairs
}
