//! Sessions that hold many watched grants: none may be lost, and no lease may come near its end.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::future::try_join_all;
use lockkeeper_api::pb::{
    DescribeRequest, DescribeResponse, LockMode, TryAcquireRequest, session_request::Request,
    session_response::Response as Said,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::{
    client::Client,
    failure::{Failure, status_of},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{
    sync::Barrier,
    time::{Instant, sleep},
};
use tonic::{Response, Status};

use super::{
    conduct::{Interrupts, Played, conduct},
    plan::Plan,
    session::{Session, not_opened},
    stage::{Lock, Stage},
    tally::What,
};

/// Between two queries: rare enough to cost nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// How many locks are queried, in turn.
const SAMPLE: usize = 100;

/// A session with its share of the locks.
struct Watched {
    stage: Arc<Stage>,
    connection: usize,
    session: Session,
    /// The numbers of its locks.
    locks: Vec<usize>,
    findings: Arc<Findings>,
}

/// What the tasks share.
struct Findings {
    /// Passed once all sessions hold their locks.
    established: Barrier,
    took: Mutex<Option<Duration>>,
    /// The lease of the grants.
    lease: Mutex<Duration>,
    /// The smallest rest of a lease, as a part of the whole.
    least: Mutex<Option<f64>>,
    /// The locks that were lost. Both a notice and each later query say so.
    lost: Mutex<HashSet<String>>,
}

pub(super) async fn play(
    plan: Plan,
    clients: Vec<Client>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let stage = Arc::new(Stage::open_ended(plan));
    let asked_at = Instant::now();
    let count = stage.plan.sessions;
    let sessions = (0..count).map(|number| {
        let mut client = clients[number % clients.len()].clone();
        let lease = stage.plan.lease;
        async move { Session::open(&mut client, lease).await }
    });
    let sessions = try_join_all(sessions).await.map_err(not_opened)?;
    let findings = Arc::new(Findings {
        established: Barrier::new(count + 1),
        took: Mutex::new(None),
        lease: Mutex::new(Duration::ZERO),
        least: Mutex::new(None),
        lost: Mutex::default(),
    });
    let tasks = sessions.into_iter().enumerate().map(|(number, session)| {
        let watched = Watched {
            stage: Arc::clone(&stage),
            connection: number % clients.len(),
            session,
            locks: (number..stage.locks.len()).step_by(count).collect(),
            findings: Arc::clone(&findings),
        };
        spawn_detached("watched", watched.run())
    });
    let mut tasks: Vec<_> = tasks.collect();
    let client = clients[clients.len() - 1].clone();
    let looks = look_until_end(Arc::clone(&stage), client, Arc::clone(&findings), asked_at);
    tasks.push(spawn_detached("looks", looks));
    let mut played = conduct(&stage, tasks, interrupts).await?;
    let took = *findings.took.lock();
    let least = *findings.least.lock();
    played.extra = vec![
        ("sessions", json!(count)),
        ("established_s", json!(took.map(|it| it.as_secs_f64()))),
        ("least_remaining_lease", json!(least)),
    ];
    Ok(played)
}

/// The measurement begins once all locks are held.
async fn look_until_end(
    stage: Arc<Stage>,
    client: Client,
    findings: Arc<Findings>,
    asked_at: Instant,
) {
    let looks = async {
        findings.established.wait().await;
        *findings.took.lock() = Some(asked_at.elapsed());
        stage.timeline.begin_now(stage.plan.duration);
        look(&stage, client, &findings).await;
        stage.stop.cancel();
    };
    stage.stop.run_until_cancelled(looks).await;
}

/// Queries some of the locks repeatedly until the end.
async fn look(stage: &Stage, mut client: Client, findings: &Findings) {
    let step = stage.locks.len().div_ceil(SAMPLE);
    for lock in stage.locks.iter().step_by(step).cycle() {
        let asked_at = stage.timeline.now();
        if asked_at >= stage.timeline.end() {
            return;
        }
        let name = lock.name.clone();
        let answer = client.describe(DescribeRequest { name }).await;
        let at = stage.timeline.now();
        if !stage.timeline.measures(at) {
            // The sessions may have ended by now.
            return;
        }
        findings.looked(stage, answer, at - asked_at);
        sleep(LOOK_INTERVAL).await;
    }
}

// === impl Findings ===

impl Findings {
    fn looked(
        &self,
        stage: &Stage,
        answer: Result<Response<DescribeResponse>, Status>,
        latency: u64,
    ) {
        let mut tally = stage.tally(0);
        match answer.map(Response::into_inner) {
            Ok(answer) if answer.holders.is_empty() => self.lost(stage, answer.name),
            Ok(answer) => {
                tally.operations += 1;
                tally.time(What::Describe, latency);
                let left = answer
                    .remaining_lease
                    .and_then(|it| Duration::try_from(it).ok());
                let left = left.map(|it| it.as_secs_f64() / self.lease.lock().as_secs_f64());
                let mut least = self.least.lock();
                *least = least.into_iter().chain(left).reduce(f64::min);
            }
            Err(status) => tally.failed(&status),
        }
    }

    /// Counts the loss of a lock, once.
    fn lost(&self, stage: &Stage, name: String) {
        if self.lost.lock().insert(name) {
            stage.seen.lost();
        }
    }
}

// === impl Watched ===

impl Watched {
    async fn run(mut self) {
        let stage = Arc::clone(&self.stage);
        let held = stage.stop.run_until_cancelled(self.hold_all()).await;
        match held {
            Some(Ok(())) => {
                let stop = stage.stop.clone();
                let stayed = stop
                    .run_until_cancelled(async {
                        self.findings.established.wait().await;
                        self.stay().await
                    })
                    .await;
                if let Some(Err(status)) = stayed {
                    stage.tally(self.connection).failed(&status);
                }
                for lock in &self.locks {
                    let witness = &stage.locks[*lock].witness;
                    witness.leave(LockMode::Exclusive, stage.timeline.now());
                }
            }
            Some(Err(status)) => {
                stage.tally(self.connection).failed(&status);
                // Without it there is nothing to measure.
                stage.stop.cancel();
            }
            None => {}
        }
        if let Err(status) = self.session.close().await {
            stage.tally(self.connection).failed(&status);
        }
    }

    /// Acquires all of its locks, some at once.
    async fn hold_all(&mut self) -> Result<(), Status> {
        let plan = &self.stage.plan;
        let at_once = (plan.in_flight / plan.sessions).max(1);
        let (mut asked, mut held) = (0, 0);
        while held < self.locks.len() {
            while asked < self.locks.len() && asked - held < at_once {
                let request = TryAcquireRequest {
                    name: self.lock(asked).name.clone(),
                    ..TryAcquireRequest::default()
                };
                asked += 1;
                self.session
                    .collect(asked as u64, Request::TryAcquire(request));
            }
            self.session.send();
            let frame = self.session.next().await.transpose()?;
            let Some(frame) = frame else {
                return Err(Status::internal("the coordinator ended a session's stream"));
            };
            match frame.response {
                Some(Said::Tried(answer)) if answer.acquired => {
                    held += 1;
                    let grant = answer.grant.unwrap_or_default();
                    let number = usize::try_from(frame.op_id).unwrap_or(0);
                    let Some(number) = number.checked_sub(1).filter(|it| *it < asked) else {
                        return Err(Status::internal("an answer to no operation"));
                    };
                    let token = grant.fencing_token;
                    let witness = &self.lock(number).witness;
                    witness.enter(LockMode::Exclusive, token, &self.stage.seen);
                    if !grant.watched {
                        return Err(Status::internal("a grant of a session is not watched"));
                    }
                    let lease = grant.lease.and_then(|it| Duration::try_from(it).ok());
                    *self.findings.lease.lock() = lease.unwrap_or_default();
                }
                Some(Said::Failed(status)) => return Err(status_of(&status)),
                other => self.notice(other)?,
            }
        }
        Ok(())
    }

    /// Holds them until cancelled.
    async fn stay(&mut self) -> Result<(), Status> {
        while let Some(frame) = self.session.next().await.transpose()? {
            self.notice(frame.response)?;
        }
        Err(Status::internal("the coordinator ended a session's stream"))
    }

    fn notice(&self, response: Option<Said>) -> Result<(), Status> {
        match response {
            Some(Said::Lost(lost)) => {
                let grant = lost.grant.unwrap_or_default();
                self.findings.lost(&self.stage, grant.name);
            }
            Some(Said::AtRisk(_)) => self.stage.tally(self.connection).refused("AT_RISK"),
            Some(Said::Recovered(_)) => {}
            other => return Err(Status::internal(format!("{other:?} in place of an answer"))),
        }
        Ok(())
    }

    fn lock(&self, nth: usize) -> &Lock {
        &self.stage.locks[self.locks[nth]]
    }
}
