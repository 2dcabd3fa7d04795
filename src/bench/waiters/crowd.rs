//! The waiters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::{
    AcquireRequest, CancelOperation, LockMode, acquire_response::Event, session_request::Request,
    session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::{client::Client, failure::status_of};
use tokio::{
    sync::{Notify, Semaphore},
    task::JoinHandle,
    time::timeout,
};
use tonic::Status;

use crate::{session::Session, stage::Stage};

/// A coordinator that answers no waiter for this long will not answer.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// All waiters.
pub(super) struct Crowd {
    stage: Arc<Stage>,
    /// Waiters that wait, or never will.
    settled: AtomicUsize,
    waiting: AtomicUsize,
    all_settled: Notify,
    /// Bounds the unanswered requests.
    asking: Semaphore,
}

/// One task for each call.
pub(super) fn wait_by_calls(crowd: &Arc<Crowd>, clients: &[Client]) -> Vec<JoinHandle<()>> {
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

/// One task for each session.
pub(super) fn wait_by_frames(crowd: &Arc<Crowd>, sessions: Vec<Session>) -> Vec<JoinHandle<()>> {
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
    pub(super) fn new(stage: &Arc<Stage>) -> Arc<Self> {
        Arc::new(Self {
            settled: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            all_settled: Notify::new(),
            asking: Semaphore::new(stage.plan.in_flight),
            stage: Arc::clone(stage),
        })
    }

    /// The number of waiters that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits until each waiter waits or never will. False if answers have stalled.
    pub(super) async fn all_settled(&self) -> bool {
        loop {
            let before = self.settled.load(Ordering::Acquire);
            if timeout(STALLED_AFTER, self.all_settled.notified())
                .await
                .is_ok()
            {
                return true;
            }
            if self.settled.load(Ordering::Acquire) == before {
                return false;
            }
        }
    }

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

    /// A waiter got a lock that another session holds.
    fn granted(&self, token: u64) -> Status {
        let stage = &self.stage;
        stage.locks[0]
            .witness
            .enter(LockMode::Exclusive, token, &stage.seen);
        Status::internal("a waiter got a lock that is held")
    }

    /// Waits until cancelled.
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

    /// All waiters of one connection, until the run ends; then cancels each wait.
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
