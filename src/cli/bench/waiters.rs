//! Calls that wait, and go on waiting: what they cost, and that they leave nothing behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::try_join_all;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinHandle,
    time::{Instant, sleep},
};
use tonic::{Code, Status};

use super::{
    Played,
    conduct::{Interrupts, conduct},
    plan::Plan,
    progress::Progress,
    session::{Session, not_opened},
    stage::Stage,
};
use crate::{
    cli::{
        client::Client,
        failure::{Failure, status_of},
    },
    grpc::pb::{
        AcquireRequest, CancelOperation, DescribeRequest, LockMode, ReleaseRequest,
        TryAcquireRequest, acquire_response::Event, session_request::Request,
        session_response::Response,
    },
    shutdown::spawn_detached,
};

/// How long it may take until nobody waits any more and another one has the lock.
const FREE_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks at it.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What the tasks tell each other.
struct Crowd {
    stage: Arc<Stage>,
    /// Those that wait, or never will.
    settled: AtomicUsize,
    waiting: AtomicUsize,
    all_settled: Notify,
    /// Bounds those that have asked and not been answered yet.
    asking: Semaphore,
}

pub(super) async fn play(
    plan: Plan,
    mut clients: Vec<Client>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let stage = Arc::new(Stage::open_ended(plan));
    let progress = Progress::show(&stage);
    let holder = Session::open(&mut clients[0], stage.plan.lease).await;
    let mut holder = holder.map_err(not_opened)?;
    if let Err(status) = hold(&stage, &mut holder).await {
        stage.tally(0).failed(&status);
        return Ok(Played::new(stage, None));
    }
    let asked_at = Instant::now();
    let crowd = Arc::new(Crowd {
        settled: AtomicUsize::new(0),
        waiting: AtomicUsize::new(0),
        all_settled: Notify::new(),
        asking: Semaphore::new(stage.plan.in_flight),
        stage: Arc::clone(&stage),
    });
    let tasks = if stage.plan.frames {
        let sessions = clients
            .iter_mut()
            .map(|it| Session::open(it, stage.plan.lease));
        let sessions = try_join_all(sessions).await.map_err(not_opened)?;
        wait_by_frames(&crowd, sessions)
    } else {
        wait_by_calls(&crowd, &clients)
    };
    let established = Arc::new(Mutex::new(None));
    let begins = {
        let (crowd, established) = (Arc::clone(&crowd), Arc::clone(&established));
        spawn_detached("begin", async move {
            crowd.all_settled.notified().await;
            *established.lock() = Some(asked_at.elapsed());
            let stage = &crowd.stage;
            stage.timeline.begin_now(stage.plan.duration);
            stage.timeline.sleep_until_end().await;
            stage.stop.cancel();
        })
    };
    let signal = conduct(&stage, tasks, interrupts).await?;
    begins.abort();
    let stopped_at = Instant::now();
    let last = clients.len() - 1;
    let freed = free(&stage, holder, &mut clients[last]).await;
    if let Err(status) = freed {
        stage.tally(0).failed(&status);
    }
    drop(progress);
    let established = *established.lock();
    let mut played = Played::new(stage, signal);
    played.extra = vec![
        ("waiters", json!(crowd.waiting.load(Ordering::Relaxed))),
        (
            "established_s",
            json!(established.map(|it| it.as_secs_f64())),
        ),
        ("freed_s", json!(stopped_at.elapsed().as_secs_f64())),
    ];
    Ok(played)
}

/// Takes the lock, as the one for whom all the others wait.
async fn hold(stage: &Stage, holder: &mut Session) -> Result<(), Status> {
    let lock = &stage.locks[0];
    let request = TryAcquireRequest {
        name: lock.name.clone(),
        owner: "holder".to_owned(),
        ..TryAcquireRequest::default()
    };
    holder.collect(1, Request::TryAcquire(request));
    holder.send();
    let answer = holder.next().await.transpose()?;
    match answer.and_then(|frame| frame.response) {
        Some(Response::Tried(answer)) if answer.acquired => {
            let token = answer.grant.unwrap_or_default().fencing_token;
            lock.witness.enter(LockMode::Exclusive, token, &stage.seen);
            Ok(())
        }
        other => Err(Status::internal(format!("{other:?} in place of a grant"))),
    }
}

/// Checks that nobody waits any more, gives the lock back, and that another one can have it.
async fn free(stage: &Stage, holder: Session, client: &mut Client) -> Result<(), Status> {
    let lock = &stage.locks[0];
    let deadline = Instant::now() + FREE_TIMEOUT;
    loop {
        let name = lock.name.clone();
        match client.describe(DescribeRequest { name }).await {
            Ok(answer) if answer.get_ref().waiter_count == 0 => break,
            // What does not know of waiters has none.
            Err(status) if status.code() == Code::Unimplemented => break,
            Err(status) => return Err(status),
            Ok(answer) if Instant::now() > deadline => {
                let count = answer.get_ref().waiter_count;
                return Err(Status::internal(format!(
                    "{count} waiters are left, though all have gone"
                )));
            }
            Ok(_) => sleep(LOOK_INTERVAL).await,
        }
    }
    lock.witness
        .leave(LockMode::Exclusive, stage.timeline.now());
    holder.close().await?;
    loop {
        let request = TryAcquireRequest {
            name: lock.name.clone(),
            lease: stage.plan.lease,
            ..TryAcquireRequest::default()
        };
        let answer = client.try_acquire(request).await?.into_inner();
        if let Some(grant) = answer.grant.filter(|_| answer.acquired) {
            lock.witness
                .enter(LockMode::Exclusive, grant.fencing_token, &stage.seen);
            lock.witness
                .leave(LockMode::Exclusive, stage.timeline.now());
            let request = ReleaseRequest {
                name: grant.name,
                owner: grant.owner,
                ..ReleaseRequest::default()
            };
            return client.release(request).await.map(drop);
        }
        if Instant::now() > deadline {
            return Err(Status::internal(
                "nobody can have the lock, though all have gone",
            ));
        }
        sleep(LOOK_INTERVAL).await;
    }
}

fn wait_by_calls(crowd: &Arc<Crowd>, clients: &[Client]) -> Vec<JoinHandle<()>> {
    let waiters = (0..crowd.stage.plan.waiters).map(|number| {
        let connection = number % clients.len();
        let (crowd, client) = (Arc::clone(crowd), clients[connection].clone());
        spawn_detached("waiter", async move {
            let stop = crowd.stage.stop.clone();
            let waited = stop.run_until_cancelled(crowd.wait_by_call(client)).await;
            if let Some(Err(status)) = waited {
                crowd.failed(connection, &status);
            }
        })
    });
    waiters.collect()
}

fn wait_by_frames(crowd: &Arc<Crowd>, sessions: Vec<Session>) -> Vec<JoinHandle<()>> {
    let waiters = sessions
        .into_iter()
        .enumerate()
        .map(|(connection, session)| {
            let crowd = Arc::clone(crowd);
            spawn_detached("waiters", async move {
                if let Err(status) = crowd.wait_by_frames(session, connection).await {
                    crowd.failed(connection, &status);
                }
            })
        });
    waiters.collect()
}

// === impl Crowd ===

impl Crowd {
    fn settled(&self, more: usize) {
        let settled = self.settled.fetch_add(more, Ordering::AcqRel) + more;
        if settled >= self.stage.plan.waiters {
            self.all_settled.notify_one();
        }
    }

    fn failed(&self, connection: usize, status: &Status) {
        let mut tally = self.stage.tally(connection);
        tally.failed(status);
        if tally.faults > 0 {
            self.stage.stop.cancel();
        }
        self.settled(1);
    }

    /// One of them got the lock, which somebody else holds.
    fn granted(&self, token: u64) -> Status {
        let stage = &self.stage;
        stage.locks[0]
            .witness
            .enter(LockMode::Exclusive, token, &stage.seen);
        Status::internal("a waiter got a lock that is held")
    }

    /// Waits until it is dropped.
    async fn wait_by_call(&self, mut client: Client) -> Result<(), Status> {
        let mut asking = self.asking.acquire().await.ok();
        let request = AcquireRequest {
            name: self.stage.locks[0].name.clone(),
            ..AcquireRequest::default()
        };
        let mut events = client.acquire(request).await?.into_inner();
        loop {
            match events.message().await?.and_then(|answer| answer.event) {
                Some(Event::Waiting(_)) => {
                    if asking.take().is_some() {
                        self.waiting.fetch_add(1, Ordering::Relaxed);
                        self.settled(1);
                    }
                }
                Some(Event::Granted(grant)) => return Err(self.granted(grant.fencing_token)),
                other => return Err(Status::internal(format!("a wait has ended: {other:?}"))),
            }
        }
    }

    /// All that wait on one connection: until the run ends, then each wait is cancelled.
    async fn wait_by_frames(&self, mut session: Session, connection: usize) -> Result<(), Status> {
        let plan = &self.stage.plan;
        let share = plan.share(plan.waiters, connection);
        let at_once = plan.share(plan.in_flight, connection).max(1);
        let mut is_waiting = vec![false; share];
        let (mut asked, mut answered, mut ended) = (0, 0, 0);
        let mut is_cancelled = false;
        while ended < share {
            while !is_cancelled && asked < share && asked - answered < at_once {
                asked += 1;
                let request = AcquireRequest {
                    name: self.stage.locks[0].name.clone(),
                    owner: asked.to_string(),
                    ..AcquireRequest::default()
                };
                session.collect(asked as u64, Request::Acquire(request));
            }
            session.send();
            let frame = tokio::select! {
                biased;
                () = self.stage.stop.cancelled(), if !is_cancelled => {
                    is_cancelled = true;
                    ended += share - asked;
                    for op_id in 1..=asked as u64 {
                        session.collect(op_id, Request::Cancel(CancelOperation {}));
                    }
                    continue;
                }
                frame = session.next() => frame.transpose()?,
            };
            let Some(frame) = frame else {
                return Err(Status::internal("the coordinator ended a session's stream"));
            };
            match frame.response {
                Some(Response::Waiting(_)) => {
                    let number = usize::try_from(frame.op_id)
                        .ok()
                        .and_then(|it| it.checked_sub(1));
                    let first = number.and_then(|number| is_waiting.get_mut(number));
                    if first.is_some_and(|it| !std::mem::replace(it, true)) {
                        answered += 1;
                        self.waiting.fetch_add(1, Ordering::Relaxed);
                        self.settled(1);
                    }
                }
                Some(Response::NotGranted(_)) if is_cancelled => ended += 1,
                Some(Response::Granted(grant)) => return Err(self.granted(grant.fencing_token)),
                Some(Response::Failed(status)) => {
                    answered += 1;
                    ended += 1;
                    self.failed(connection, &status_of(&status));
                }
                Some(Response::AtRisk(_) | Response::Recovered(_)) => {}
                other => return Err(Status::internal(format!("{other:?} in place of an answer"))),
            }
        }
        session.close().await
    }
}
