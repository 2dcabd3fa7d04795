//! Session churn: each session is opened, acquires one lock, and is closed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::{LockMode, TryAcquireRequest, session_request::Request};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::{client::Client, failure::Failure};
use tonic::Status;

use super::{
    conduct::{Interrupts, Played, conduct},
    plan::Plan,
    session::Session,
    stage::Stage,
    tally::What,
    timeline::FAR,
};

/// The operation that acquires the lock.
const OP_ID: u64 = 1;

/// Runs the warm-up for its time, then one session for each name.
pub(super) async fn play(
    plan: &Plan,
    clients: &[Client],
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let warm_up = Plan {
        warm_up: Duration::ZERO,
        duration: plan.warm_up,
        ..plan.clone()
    };
    let played = churn(Stage::new(warm_up), clients, usize::MAX, interrupts).await?;
    if played.signal.is_some() || !played.stage.is_clean() {
        return Ok(played);
    }
    let measured = Plan {
        warm_up: Duration::ZERO,
        duration: FAR,
        ..plan.clone()
    };
    churn(Stage::new(measured), clients, plan.names, interrupts).await
}

async fn churn(
    stage: Stage,
    clients: &[Client],
    sessions: usize,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let stage = Arc::new(stage);
    let begun = Arc::new(AtomicUsize::new(0));
    let tasks = (0..stage.plan.in_flight).map(|number| {
        let connection = number % clients.len();
        let (stage, begun) = (Arc::clone(&stage), Arc::clone(&begun));
        let client = clients[connection].clone();
        spawn_detached("client", repeat(stage, client, connection, begun, sessions))
    });
    conduct(&stage, tasks.collect(), interrupts).await
}

/// Ends when enough sessions have begun, or with the first fault.
async fn repeat(
    stage: Arc<Stage>,
    mut client: Client,
    connection: usize,
    begun: Arc<AtomicUsize>,
    sessions: usize,
) {
    while let Some(due) = stage.pace.next(&stage.timeline).await {
        let number = begun.fetch_add(1, Ordering::Relaxed);
        if number >= sessions {
            return;
        }
        if number == sessions - 1 {
            stage.pace.complete();
        }
        let ended = once(&stage, &mut client, number % stage.locks.len()).await;
        let at = stage.timeline.now();
        let mut tally = stage.tally(connection);
        match ended {
            Ok(()) => {
                if stage.pace.counts(&stage.timeline, due, at) {
                    tally.time(What::Session, at.saturating_sub(due));
                }
                if stage.timeline.measures(at) {
                    tally.operations += 1;
                    tally.rounds += 1;
                }
            }
            Err(status) => tally.failed(&status),
        }
        if tally.faults > 0 {
            return;
        }
    }
}

async fn once(stage: &Stage, client: &mut Client, lock: usize) -> Result<(), Status> {
    let lock = &stage.locks[lock];
    let request = Request::TryAcquire(TryAcquireRequest {
        name: lock.name.clone(),
        ..TryAcquireRequest::default()
    });
    let request = Some((OP_ID, request));
    let mut session = Session::open_and_ask(client, stage.plan.lease, request).await?;
    let grant = session.tried().await?;
    lock.witness
        .enter(LockMode::Exclusive, grant.fencing_token, &stage.seen);
    lock.witness
        .leave(LockMode::Exclusive, stage.timeline.now());
    session.close().await
}
