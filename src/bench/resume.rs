//! Sessions with one watched grant each that lose their coordinator: all are resumed, at another
//! coordinator or at the same one, and no grant may be lost.

use std::{sync::Arc, time::Duration};

use lockkeeper_api::pb::{
    Grant, LockMode, ResumeSession, TryAcquireRequest, session_request::Request,
    session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::{
    client::{Client, connect},
    failure::Failure,
    output::say,
};
use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::json;
use tokio::{
    sync::{Notify, OnceCell, Semaphore},
    time::sleep,
};
use tonic::Status;
use tonic_types::StatusExt as _;

use super::{
    conduct::{Interrupts, Played, conduct},
    plan::Plan,
    session::Session,
    stage::Stage,
    tally::What,
};

/// The operation that acquires the lock.
const OP_ID: u64 = 1;

/// The pause between two attempts to resume, if the coordinator names no other.
const PAUSE: Duration = Duration::from_millis(200);

/// What the tasks share.
struct Failover {
    stage: Arc<Stage>,
    /// How many sessions are opened at once.
    opening: Semaphore,
    /// Connections to the coordinator that resumes, each made by the first session that needs it.
    connections: Vec<OnceCell<Client>>,
    progress: Mutex<Progress>,
    /// The first stream broke.
    begun: Notify,
}

/// How far the run is; moments are in nanoseconds since its start.
#[derive(Default)]
struct Progress {
    opened: usize,
    opened_at: u64,
    broken_at: Option<u64>,
    resumed: usize,
    resumed_at: u64,
}

/// A session and its grant.
struct Holder {
    number: usize,
    session: Session,
    grant: Grant,
}

pub(super) async fn play(
    plan: Plan,
    clients: Vec<Client>,
    interrupts: &mut Interrupts,
) -> Result<Played, Failure> {
    let stage = Arc::new(Stage::open_ended(plan));
    let plan = &stage.plan;
    let failover = Arc::new(Failover {
        stage: Arc::clone(&stage),
        opening: Semaphore::new(plan.in_flight),
        connections: (0..plan.connections).map(|_| OnceCell::new()).collect(),
        progress: Mutex::default(),
        begun: Notify::new(),
    });
    let mut tasks = vec![spawn_detached("end", end(Arc::clone(&failover)))];
    let sessions = (0..plan.sessions).map(|number| {
        let client = clients[number % clients.len()].clone();
        spawn_detached("session", run(Arc::clone(&failover), client, number))
    });
    tasks.extend(sessions);
    let mut played = conduct(&stage, tasks, interrupts).await?;
    let progress = failover.progress.lock();
    let seconds = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64();
    let took = progress.broken_at;
    let took = took.map(|from| seconds(progress.resumed_at.saturating_sub(from)));
    played.extra = vec![
        ("sessions", json!(progress.opened)),
        ("established_s", json!(seconds(progress.opened_at))),
        ("resumed", json!(progress.resumed)),
        ("resumed_s", json!(took)),
    ];
    if played.signal.is_none() && progress.resumed < plan.sessions {
        let left = plan.sessions - progress.resumed;
        let why = format!("{left} of {} sessions were not resumed", plan.sessions);
        stage.tally(0).fault(why);
    }
    Ok(played)
}

/// Ends the run when its time since the first broken stream has passed.
async fn end(failover: Arc<Failover>) {
    let stage = &failover.stage;
    let measured = async {
        failover.begun.notified().await;
        stage.timeline.sleep_until_end().await;
        stage.stop.cancel();
    };
    stage.stop.run_until_cancelled(measured).await;
}

/// One session until the end of the run.
async fn run(failover: Arc<Failover>, client: Client, number: usize) {
    let stage = &failover.stage;
    let opened = stage
        .stop
        .run_until_cancelled(failover.open(client, number));
    let mut holder = match opened.await {
        Some(Ok(holder)) => holder,
        Some(Err(status)) => {
            stage.tally(number % stage.plan.connections).failed(&status);
            // Without it there is nothing to measure.
            stage.stop.cancel();
            return;
        }
        None => return,
    };
    let staying = async {
        holder.stay(&failover).await;
        // Boxed, since most of the time all of them only stay.
        Box::pin(holder.resume(&failover)).await;
        // Its grant is renewed, or is lost, until the measurement ends.
        holder.stay(&failover).await;
        let connection = holder.number % stage.plan.connections;
        stage
            .tally(connection)
            .fault("a resumed session's stream ended");
    };
    stage.stop.run_until_cancelled(staying).await;
    let witness = &stage.locks[number].witness;
    witness.leave(LockMode::Exclusive, stage.timeline.now());
    // If the run was stopped early, the stream may have broken with its coordinator.
    let _ = holder.session.close().await;
}

// === impl Holder ===

impl Holder {
    /// Holds the grant until the stream ends.
    async fn stay(&mut self, failover: &Failover) {
        while let Some(Ok(frame)) = self.session.next().await {
            self.notice(failover, frame.response);
        }
    }

    /// Resumes the session, as often as it takes.
    async fn resume(&mut self, failover: &Failover) {
        let stage = &failover.stage;
        let broken_at = failover.broken();
        let connection = self.number % stage.plan.connections;
        while let Err(status) = self.attempt(failover, connection).await {
            stage.tally(connection).postponed(&status);
            let details = status.get_details_retry_info();
            let pause = details.and_then(|it| it.retry_delay).unwrap_or(PAUSE);
            let share = rand::rng().random_range(0.5..1.0);
            sleep(pause.mul_f64(share)).await;
        }
        let at = failover.resumed();
        let mut tally = stage.tally(connection);
        tally.operations += 1;
        tally.time(What::Resume, at.saturating_sub(broken_at));
    }

    async fn attempt(&mut self, failover: &Failover, connection: usize) -> Result<(), Status> {
        let mut client = failover.client(connection).await?;
        let opened = &self.session.opened;
        let resume = ResumeSession {
            session_id: opened.session_id.clone(),
            resume_token: opened.resume_token.clone(),
            grants: vec![self.grant.clone()],
            ..ResumeSession::default()
        };
        self.session = Session::resume(&mut client, resume).await?;
        Ok(())
    }

    fn notice(&self, failover: &Failover, response: Option<Response>) {
        let mut tally = failover
            .stage
            .tally(self.number % failover.stage.plan.connections);
        match response {
            Some(Response::Lost(_)) => failover.stage.seen.lost(),
            Some(Response::AtRisk(_)) => tally.refused("AT_RISK"),
            Some(Response::Recovered(_) | Response::GoingAway(_)) => {}
            other => tally.fault(format!("{other:?} in place of a notice")),
        }
    }
}

// === impl Failover ===

impl Failover {
    /// Opens a session, which acquires its lock.
    async fn open(&self, mut client: Client, number: usize) -> Result<Holder, Status> {
        let stage = &self.stage;
        let _turn = self.opening.acquire().await;
        let lock = &stage.locks[number];
        let request = Request::TryAcquire(TryAcquireRequest {
            name: lock.name.clone(),
            ..TryAcquireRequest::default()
        });
        let (lease, request) = (stage.plan.lease, Some((OP_ID, request)));
        let mut session = Session::open_and_ask(&mut client, lease, request).await?;
        let grant = session.tried().await?;
        let token = grant.fencing_token;
        lock.witness.enter(LockMode::Exclusive, token, &stage.seen);
        let mut progress = self.progress.lock();
        progress.opened += 1;
        progress.opened_at = stage.timeline.now();
        if progress.opened == stage.plan.sessions {
            say("all sessions hold their locks: stop or kill their coordinator now");
        }
        Ok(Holder {
            number,
            session,
            grant,
        })
    }

    /// A stream broke; the first one begins the measurement.
    fn broken(&self) -> u64 {
        let timeline = &self.stage.timeline;
        let now = timeline.now();
        let mut progress = self.progress.lock();
        if progress.broken_at.is_none() {
            progress.broken_at = Some(now);
            timeline.begin_now(self.stage.plan.duration);
            self.begun.notify_one();
        }
        now
    }

    fn resumed(&self) -> u64 {
        let now = self.stage.timeline.now();
        let mut progress = self.progress.lock();
        progress.resumed += 1;
        progress.resumed_at = now;
        now
    }

    async fn client(&self, connection: usize) -> Result<Client, Status> {
        let connecting = || async {
            let connected = connect(&self.stage.plan.resume_on).await;
            connected.map_err(|failure| Status::unavailable(failure.message))
        };
        let client = self.connections[connection].get_or_try_init(connecting);
        client.await.cloned()
    }
}
