//! The domain: sessions, grants, waits and the watchdog, over scripts and free of any protocol.
//!
//! - **Session**: a client's live stream. As long as it lives, the watchdog renews its watched
//!   grants.
//! - **Owner**: who holds. In the store it is the hash field `<session id>:<owner>`, or the owner
//!   itself without a session.
//! - **Grant**: one owner's hold on one lock: mode, hold count, fencing token, lease.
//! - **Waiter**: a call that waits for a lock.
//! - **Watchdog**: the one task that renews **watched** grants; others run out.
//! - **Lease**: time to live of a grant in the store.
//! - **Fencing token**: a number that grows with every new grant of a name.
//! - **Store**: where the locks are.

mod acquire;
mod admin;
mod attempt;
mod deadlines;
mod describe;
mod error;
mod events;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod holding;
mod latch;
mod mailbox;
mod metrics;
mod multi;
mod operation;
mod permits;
mod resume_token;
mod session;
mod sessions;
mod spans;
mod turns;
mod types;
mod waiters;
mod watchdog;

pub use admin::{ForceReleased, ListedLocks, ListedSessions, LockSeen, Reason};
pub use attempt::Delivery;
pub use error::{Error, Invalid, Limit};
pub use events::{Event, Watched, Watcher, What};
pub use holding::PermitGrant;
pub use latch::{AwaitLatch, CountDown, LatchAnswer, LatchDescription, LatchOperation, SetCount};
pub use lockkeeper_store::script::{CountSet, Mode, NameKind, PermitId, PermitsSet};
pub use mailbox::{MailboxReader, MailboxWriter, mailbox};
pub use multi::{AcquireAll, DeliveryAll, Locks, ReleaseAll, ReleasedLock, TriedAll};
pub use operation::{
    Acquire, Answer, AnswersTo, Description, HolderSeen, NotGranted, Operation, Release, Renew,
    Reply, TokenChecked, Tried, WaiterSeen, Waiting,
};
pub use permits::{
    AcquirePermits, PermitAnswer, PermitCount, PermitDelivery, PermitHolderSeen, PermitOperation,
    PermitWaiterSeen, PermitsNotGranted, ReleasePermits, RenewPermits, SemaphoreDescription,
    SetPermits, WaitingForPermits,
};
pub use session::{LostReason, Notice, OnDisconnect, PeerAddress, Session, SessionSeen};
pub use sessions::{Opened, Resumed, ResumedGrant, ResumedPermits, Stream};
pub use types::{Grant, Lease, Limits, LockName, Owner, RequestId, SessionId};

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use deadlines::Deadlines;
use events::Events;
use lockkeeper_base::tasks::{DetachOnDrop, Tasks};
use lockkeeper_store::{
    host::{Connected, Replicas, Subscriptions, Wake},
    script::{self, CallError, QuorumMember, Scripts, Tally},
};
use sessions::Sessions;
use turns::{Turn, Turns};
use waiters::Waiters;

/// What a coordinator is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bounds of everything that grows.
    pub limits: Limits,
    /// The lease of requests and sessions that name none.
    pub lease: Duration,
    /// How long the head of a queue relies on messages before it looks for itself.
    pub poll_interval: Duration,
    /// Polls come up to this part of the interval earlier or later, so that coordinators do not
    /// poll in step.
    pub poll_jitter: f64,
    /// The longest that one call of the store can take.
    pub call_timeout: Duration,
    /// How many replicas must know of a change before it counts; none: it is not asked.
    pub replica_acks: Option<Replicas>,
    /// What the scripts keep, and for how long.
    pub scripts: script::Config,
    /// Signs resume tokens; coordinators that share it can resume each other's sessions.
    pub session_secret: Vec<u8>,
}

/// A lock coordinator on one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Coordinator {
    core: Arc<Core>,
}

/// What the parts of a coordinator share.
#[derive(Debug)]
pub(crate) struct Core {
    config: Config,
    scripts: Scripts,
    tasks: Tasks,
    waiters: Arc<Waiters>,
    sessions: Sessions,
    deadlines: Deadlines,
    turns: Arc<Turns>,
    /// Cancelled when no new waits are admitted and those there are must end.
    draining: CancellationToken,
    attempts: attempt::Attempts,
    events: Arc<Events>,
    metrics: metrics::Shared,
}

// === impl Coordinator ===

impl Coordinator {
    /// A coordinator on a connected store. Its tasks run until [`Coordinator::stop`].
    pub fn start(config: Config, connected: Connected) -> Self {
        let scripts = Scripts::new(Arc::clone(&connected.0), config.scripts.clone());
        Self::start_on(config, scripts, vec![connected], Tasks::new())
    }

    /// A coordinator on a quorum of stores that are independent of each other, an odd number of
    /// them; each has a name for errors and logs.
    pub fn start_on_quorum(config: Config, members: Vec<(String, Connected)>) -> Self {
        let tasks = Tasks::new();
        let (mut named, mut connected) = (Vec::new(), Vec::new());
        for (name, member) in members {
            let host = Arc::clone(&member.0);
            named.push(QuorumMember { name, host });
            connected.push(member);
        }
        let scripts = Scripts::on_quorum(named, config.scripts.clone(), tasks.clone());
        Self::start_on(config, scripts, connected, tasks)
    }

    fn start_on(config: Config, scripts: Scripts, connected: Vec<Connected>, tasks: Tasks) -> Self {
        let (subscriptions, wakes) = Subscriptions::of(connected);
        let limits = &config.limits;
        let events = Events::new();
        let metrics = metrics::Shared::default();
        let waiters = Waiters::new(
            subscriptions,
            Arc::clone(&events),
            tasks.clone(),
            limits.waiters_per_lock_max,
            limits.waiters_max,
            Arc::clone(&metrics),
        );
        let core = Arc::new(Core {
            scripts,
            sessions: Sessions::new(&config, Arc::clone(&events), &metrics),
            config,
            tasks,
            waiters,
            deadlines: Deadlines::default(),
            turns: Turns::new(),
            draining: CancellationToken::new(),
            attempts: attempt::Attempts::new(),
            events,
            metrics,
        });
        core.spawn_tasks(wakes);
        Self { core }
    }

    /// Begins an operation and returns at once; the answers go to `reply`. Whatever happens to the
    /// caller, the operation comes to its end, and undoes itself if nobody takes what it got.
    pub fn submit(&self, operation: Operation, reply: Reply) {
        let (core, name) = (Arc::clone(&self.core), operation.name());
        let span = spans::of(&operation);
        let mut run = Box::pin(operation::run(core, operation, reply).instrument(span));
        // Begun here and not in the task, so that operations begin in the order in which they came.
        if run.as_mut().now_or_never().is_none() {
            self.core.tasks.spawn(name, run);
        }
    }

    /// An operation that does not wait, and its answer. It begins when it is first polled, and from
    /// then on it comes to its end as one that was submitted does, but without a task for it as
    /// long as the caller waits. (One that waits ends like one that nobody wants.)
    pub fn ask(&self, operation: Operation) -> DetachOnDrop<Answer> {
        let (core, name, span) = (
            Arc::clone(&self.core),
            operation.name(),
            spans::of(&operation),
        );
        let asking = operation::ask(core, operation).instrument(span);
        self.core.tasks.detach_on_drop(name, asking)
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.core.config.limits
    }

    /// The lease of requests that name none.
    pub fn default_lease(&self) -> Duration {
        self.core.config.lease
    }

    /// Asks the store whether it answers.
    pub async fn probe(&self) -> Result<(), CallError> {
        let asked = self.core.scripts.renew(&[]).await;
        let clocks = asked.clocks.iter();
        clocks.for_each(|clock| self.core.metrics.clock_seen(clock));
        asked.complete().map(drop)
    }

    /// Begins to stop: no wait goes on or begins (`DRAINING`), every grant of a live session gets
    /// one more full lease and is not released, and each session is told to go away. Returns when
    /// that is done, or when the grace time is over.
    pub async fn drain(&self, grace: Duration) {
        let core = &self.core;
        core.draining.cancel();
        if tokio::time::timeout(grace, watchdog::renew_all(core))
            .await
            .is_err()
        {
            tracing::warn!("the store did not answer: some grants keep their old leases");
        }
        core.sessions
            .all()
            .iter()
            .for_each(|session| session.go_away());
    }

    /// Whether [`Coordinator::drain`] has begun.
    pub fn is_draining(&self) -> bool {
        self.core.draining.is_cancelled()
    }

    /// Stops all tasks. False if some had not ended within the grace time.
    pub async fn stop(&self, grace: Duration) -> bool {
        self.core.draining.cancel();
        self.core.tasks.request_stop();
        self.core.tasks.finished(grace).await
    }

    /// What must be back at nothing when nobody is served: sessions, waits, and things the watchdog
    /// has to look at.
    pub fn load(&self) -> Load {
        Load {
            sessions: self.core.sessions.count(),
            waiters: self.core.waiters.waiting(),
            deadlines: self.core.deadlines.len(),
        }
    }
}

/// How much a coordinator has to look after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sessions, those without a stream included.
    pub sessions: usize,
    /// Calls that wait for a lock.
    pub waiters: usize,
    /// Grants and sessions that the watchdog will look at.
    pub deadlines: usize,
}

// === impl Core ===

impl Core {
    fn spawn_tasks(self: &Arc<Self>, wakes: mpsc::Receiver<Wake>) {
        let (stop, core) = (self.tasks.stop().clone(), Arc::clone(self));
        self.tasks.spawn("wakes", async move {
            stop.run_until_cancelled(core.follow(wakes)).await;
        });
        self.tasks
            .spawn("positions", Arc::clone(&self.waiters).tell_positions());
        self.tasks
            .spawn("places", waiters::fair::keep_places(Arc::clone(self)));
        self.tasks
            .spawn("watchdog", watchdog::run(Arc::clone(self)));
    }

    /// The scripts, for changes that as many replicas must know of as the configuration says, and
    /// at least so many.
    fn replicated(&self, at_least: u32) -> (Scripts, Tally) {
        self.scripts.replicated(self.replicas(at_least))
    }

    fn waits_for_replicas(&self, at_least: u32) -> bool {
        self.replicas(at_least).is_some()
    }

    fn replicas(&self, at_least: u32) -> Option<Replicas> {
        let asked = (at_least > 0).then_some(Replicas {
            at_least,
            all: false,
        });
        match (self.config.replica_acks, asked) {
            (Some(policy), Some(asked)) => Some(policy.and(asked)),
            (policy, asked) => policy.or(asked),
        }
    }

    /// The session that an owner belongs to.
    pub(crate) fn session_of(&self, owner: &Owner) -> Result<Option<Arc<Session>>, Error> {
        let session = owner.session.as_ref();
        session.map(|id| self.sessions.get(id)).transpose()
    }

    /// Follows the host's wakes until it is gone.
    async fn follow(self: Arc<Self>, mut wakes: mpsc::Receiver<Wake>) {
        while let Some(wake) = wakes.recv().await {
            self.waiters.follow(&wake);
            // What another server does not know of is lost, and is to be told at once.
            if wake == Wake::TakenOver {
                let core = Arc::clone(&self);
                self.tasks
                    .spawn("look", async move { watchdog::renew_all(&core).await });
            }
        }
    }

    /// Waits for the owner's turn on a lock; an attempt of the same owner whose outcome is not
    /// known yet holds it.
    async fn turn(&self, name: &LockName, owner: &Owner) -> Result<Turn, CallError> {
        let turn = self.turns.take(name, owner);
        tokio::time::timeout(self.config.call_timeout, turn)
            .await
            .map_err(|_elapsed| {
                CallError::Unavailable(
                    "an earlier operation of this owner is still in doubt".to_owned(),
                )
            })
    }
}
