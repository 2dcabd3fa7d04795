//! The handle of a coordinator: start, request, stop.

use std::{sync::Arc, time::Duration};

use lockkeeper_base::{metrics::Registrar, tasks::Tasks};
use lockkeeper_store::{
    host::{Connected, Subscriptions, Wake},
    script::{CallError, QuorumMember, Scripts, keys},
};
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    attempt_ids::Attempts,
    config::Config,
    core::{Core, RELEASES_MAX, RESUMES_MAX},
    events::Events,
    follow::followed::Follows,
    looks::Looks,
    metrics::families::{Metrics, Shared},
    owner_lock::OwnerLocks,
    refusing::Refusing,
    repeat::LATE_UNDOS_MAX,
    session::{registry::Sessions, session::Deadlines},
    session_secrets::SessionSecrets,
    sessionless::Sessionless,
    types::Limits,
    waiters::{self, queue::Waiters},
    watchdog, why,
    yield_room::YieldRoom,
};

/// A lock coordinator on one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Coordinator {
    pub(crate) core: Arc<Core>,
}

/// The present load of a coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Sessions, including those without a stream.
    pub sessions: usize,
    /// Waits for a lock.
    pub waiters: usize,
    /// Grants and sessions in the watchdog's queue.
    pub deadlines: usize,
}

// === impl Coordinator ===

impl Coordinator {
    /// Starts a coordinator on a connected store. Its tasks run until [`Coordinator::stop`].
    pub fn start(config: Config, connected: Connected) -> Self {
        let scripts = Scripts::new(Arc::clone(&connected.0), config.scripts.clone());
        Self::start_on(config, scripts, vec![connected], Tasks::new())
    }

    /// Starts a coordinator on a quorum: an odd number of independent stores, each with a name for
    /// errors and logs.
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
        let events = Events::new(Follows::new(subscriptions.clone(), limits.waiters_max));
        let metrics = Shared::new(Metrics::new(&config.metric_prefixes));
        let waiters = Waiters::new(
            subscriptions.clone(),
            Arc::clone(&events),
            tasks.clone(),
            limits.waiters_per_lock_max,
            limits.waiters_max,
            Arc::clone(&metrics),
        );
        let elections = Follows::new(subscriptions, limits.waiters_max);
        let core = Arc::new(Core {
            scripts,
            sessions: Sessions::new(&config, Arc::clone(&events), &metrics),
            holders_channel: keys::holders_channel(&config.limits.key_prefix),
            yields: YieldRoom::default(),
            resumes: Semaphore::new(RESUMES_MAX),
            releases: Arc::new(Semaphore::new(RELEASES_MAX)),
            ends: Semaphore::new(RELEASES_MAX),
            refusing: Refusing::default(),
            late_undos: Semaphore::new(LATE_UNDOS_MAX),
            config,
            started: Instant::now(),
            tasks,
            waiters,
            elections,
            sessionless: Sessionless::default(),
            deadlines: Deadlines::default(),
            owner_locks: OwnerLocks::new(),
            draining: CancellationToken::new(),
            attempts: Attempts::new(),
            events,
            metrics,
            lock_looks: Looks::default(),
            semaphore_looks: Looks::default(),
            why: why::Board::new(),
        });
        spawn_tasks(&core, wakes);
        Self { core }
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.core.config.limits
    }

    /// The secrets of resume tokens in force, which may be replaced.
    pub fn session_secrets(&self) -> SessionSecrets {
        self.core.config.session_secrets.clone()
    }

    /// The default lease.
    pub fn default_lease(&self) -> Duration {
        self.core.config.lease
    }

    /// Checks that the store answers.
    pub async fn probe(&self) -> Result<(), CallError> {
        let asked = self.core.scripts.renew(&[]).await;
        let clocks = asked.clocks.iter();
        clocks.for_each(|clock| self.core.metrics.clock_seen(clock));
        asked.complete().map(drop)
    }

    /// Drains: waits end and none begin (`DRAINING`). Every grant of a live session gets one more
    /// full lease and is not released; each session gets a going-away notice. Returns when that is
    /// done, or after the grace time.
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

    /// How long it has been running.
    pub fn up_for(&self) -> Duration {
        self.core.started.elapsed()
    }

    /// Whether [`Coordinator::drain`] has begun.
    pub fn is_draining(&self) -> bool {
        self.core.draining.is_cancelled()
    }

    /// Returns when [`Coordinator::drain`] begins.
    pub async fn draining(&self) {
        self.core.draining.cancelled().await;
    }

    /// Stops all tasks. False if some had not ended within the grace time.
    pub async fn stop(&self, grace: Duration) -> bool {
        self.core.draining.cancel();
        self.core.tasks.request_stop();
        self.core.tasks.finished(grace).await
    }

    /// The counts that must return to zero when nobody is served: sessions, waits, and the
    /// watchdog's deadlines.
    pub fn load(&self) -> Load {
        Load {
            sessions: self.core.sessions.count(),
            waiters: self.core.waiters.waiting(),
            deadlines: self.core.deadlines.len(),
        }
    }

    /// Registers the metrics of this layer and of those below.
    pub fn register(&self, registrar: &mut Registrar<'_>) {
        self.core.metrics.register(registrar);
        self.core.scripts.register(registrar);
    }

    /// Updates the metrics that are not counted as events happen.
    pub fn refresh_metrics(&self) {
        let core = &self.core;
        let (sessions, waiting) = (core.sessions.tally(), core.waiters.waiting());
        core.metrics.refresh(sessions, waiting, self.is_draining());
    }
}

fn spawn_tasks(core: &Arc<Core>, wakes: mpsc::Receiver<Wake>) {
    let (stop, shared) = (core.tasks.stop().clone(), Arc::clone(core));
    core.tasks.spawn("wakes", async move {
        stop.run_until_cancelled(follow(shared, wakes)).await;
    });
    core.tasks
        .spawn("positions", Arc::clone(&core.waiters).tell_positions());
    core.tasks
        .spawn("places", waiters::fair::keep_in_queues(Arc::clone(core)));
    core.tasks
        .spawn("watchdog", watchdog::run(Arc::clone(core)));
    core.tasks.spawn("deadlocks", why::run(Arc::clone(core)));
    let listener = Arc::clone(core);
    core.tasks.spawn("listen", async move {
        // The host goes on trying, and messages are repeated.
        if let Err(error) = listener
            .waiters
            .host
            .subscribe(&listener.holders_channel)
            .await
        {
            tracing::debug!(%error, "messages to holders are not heard yet");
        }
    });
}

/// Follows the host's wakes until it is gone.
async fn follow(core: Arc<Core>, mut wakes: mpsc::Receiver<Wake>) {
    while let Some(wake) = wakes.recv().await {
        match &wake {
            Wake::Message { channel, payload } if *channel == core.holders_channel => {
                core.on_message(payload);
                continue;
            }
            _ => {
                core.waiters.follow(&wake);
                core.elections.follow(&wake);
                core.events.locks.follow(&wake);
            }
        }
        // What another server does not know is lost, and notices must follow at once.
        if wake == Wake::TakenOver {
            let shared = Arc::clone(&core);
            let look = async move { watchdog::renew_all(&shared).await };
            core.tasks.spawn("look", look);
        }
    }
}
