//! What a session's machine costs: pairs of acquire and release by the client and by a bare stream.

use std::time::Duration;

use lockkeeper_api::pb::{
    OnDisconnect, OpenSession, ReleaseRequest, SessionRequest, TryAcquireRequest,
    session_request::Request, session_response::Response,
};
use lockkeeper_client::Client;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use uuid::Uuid;

use crate::{
    commands::busy,
    wire::{Command, Failure},
};

const WARM_UP: Duration = Duration::from_secs(1);

/// When pairs count.
#[derive(Clone, Copy)]
struct Window {
    begin: Instant,
    end: Instant,
}

/// Measures both twice in turn, so that a busy machine hits both alike.
pub(crate) async fn speed(command: &Command) -> Result<Value, Failure> {
    let client = Client::connect(&command.endpoints[0]).await?;
    let time = Duration::from_secs_f64(command.seconds / 2.0);
    let (mut pairs, mut bare_pairs) = (0, 0);
    for _ in 0..2 {
        pairs += of_session(&client, command.tasks, time).await?;
        bare_pairs += of_stream(&client, command.tasks, time).await?;
    }
    Ok(json!({
        "pairs_per_second": f64::from(pairs) / command.seconds,
        "bare_pairs_per_second": f64::from(bare_pairs) / command.seconds,
    }))
}

async fn of_session(client: &Client, tasks: u64, time: Duration) -> Result<u32, Failure> {
    let session = client.session().open().await?;
    let window = Window::after_warm_up(time);
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let lock = session.lock(format!("speed-{task}"));
        running.spawn(async move {
            let mut pairs = 0;
            while Instant::now() < window.end {
                let guard = lock.clone().try_acquire().await?.ok_or_else(busy)?;
                guard.release().await?;
                pairs += u32::from(window.is_open());
            }
            Ok(pairs)
        });
    }
    let pairs: Result<Vec<u32>, Failure> = running.join_all().await.into_iter().collect();
    session.close().await?;
    Ok(pairs?.into_iter().sum())
}

/// The same frames without a machine behind them: owners and request ids are as long and as
/// different as the client's.
async fn of_stream(client: &Client, tasks: u64, time: Duration) -> Result<u32, Failure> {
    let (frames, to_send) = mpsc::unbounded_channel();
    let send = |op_id: u64, request| {
        let request = Some(request);
        let _ = frames.send(SessionRequest {
            op_id,
            request,
            ..SessionRequest::default()
        });
    };
    let acquire = |op_id: u64| {
        let name = format!("bare-{}", op_id % tasks);
        let request = TryAcquireRequest {
            name,
            owner: format!("guard-{op_id}"),
            request_id: Uuid::new_v4().to_string(),
            ..TryAcquireRequest::default()
        };
        send(op_id, Request::TryAcquire(request));
    };
    // What is held when the stream ends must be free when the next one begins.
    let open = OpenSession {
        on_disconnect: OnDisconnect::Release.into(),
        ..OpenSession::default()
    };
    send(0, Request::Open(open));
    let stream = UnboundedReceiverStream::new(to_send);
    let mut answers = client.locks().await?.session(stream).await?.into_inner();
    answers.message().await?;
    let window = Window::after_warm_up(time);
    (tasks..2 * tasks).for_each(acquire);
    let mut pairs = 0;
    while let Some(answer) = tokio::select! {
        answer = answers.message() => answer?,
        () = sleep_until(window.end) => None,
    } {
        let next = answer.op_id + tasks;
        match answer.response {
            Some(Response::Tried(tried)) => {
                let grant = tried.grant.ok_or_else(busy)?;
                let request = ReleaseRequest {
                    name: grant.name,
                    owner: grant.owner,
                    request_id: Uuid::new_v4().to_string(),
                    ..ReleaseRequest::default()
                };
                send(next, Request::Release(request));
            }
            Some(Response::Released(_)) => {
                pairs += u32::from(window.is_open());
                acquire(next);
            }
            _ => {}
        }
    }
    Ok(pairs)
}

// === impl Window ===

impl Window {
    fn after_warm_up(time: Duration) -> Self {
        let begin = Instant::now() + WARM_UP;
        Self {
            begin,
            end: begin + time,
        }
    }

    fn is_open(self) -> bool {
        (self.begin..self.end).contains(&Instant::now())
    }
}
