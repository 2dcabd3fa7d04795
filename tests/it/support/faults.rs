//! A host that can be made to fail, between a coordinator and its store.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::host::{
    Acks, Call, Connected, HostError, Replication, ScanCursor, Scanned, ScriptHost, Value,
    embedded::EmbeddedStore,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// What a [`FaultyHost`] does wrong, and what went through it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<State>);

#[derive(Debug, Default)]
struct State {
    unavailable: AtomicBool,
    answer_delay: Mutex<Duration>,
    lost_answers: Mutex<HashMap<&'static str, usize>>,
    lost_requests: Mutex<HashMap<&'static str, usize>>,
    refused: Mutex<HashMap<&'static str, HostError>>,
    calls: Mutex<HashMap<&'static str, usize>>,
    /// Calls wait here, in order, while nothing is answered.
    frozen: Mutex<Option<Arc<Semaphore>>>,
    /// Requests take this long, one after the other.
    request_delay: Mutex<Duration>,
    way: tokio::sync::Mutex<()>,
    identity: Mutex<Option<Arc<str>>>,
    replicas: AtomicU32,
    replicas_waited_for: AtomicUsize,
}

/// How long a caller waits for a frozen host.
const FROZEN_FOR: Duration = Duration::from_millis(250);

/// See [`Faults`].
#[derive(Debug)]
pub(crate) struct FaultyHost {
    inner: Arc<dyn ScriptHost>,
    faults: Faults,
}

// === impl Faults ===

impl Faults {
    /// Every call fails without having run.
    pub(crate) fn set_unavailable(&self, unavailable: bool) {
        self.0.unavailable.store(unavailable, Ordering::Relaxed);
    }

    /// Answers take this long, although the script runs at once.
    pub(crate) fn set_answer_delay(&self, delay: Duration) {
        *self.0.answer_delay.lock() = delay;
    }

    /// Requests take this long before the script runs, and keep their order.
    pub(crate) fn set_request_delay(&self, delay: Duration) {
        *self.0.request_delay.lock() = delay;
    }

    /// The next calls of this script run, but nobody hears of it.
    pub(crate) fn lose_answers(&self, script: &'static str, calls: usize) {
        self.0.lost_answers.lock().insert(script, calls);
    }

    /// The next calls of this script do not run, and nobody hears of that.
    pub(crate) fn lose_requests(&self, script: &'static str, calls: usize) {
        self.0.lost_requests.lock().insert(script, calls);
    }

    /// Calls of this script do not run and have this answer, until it is none.
    pub(crate) fn refuse(&self, script: &'static str, answer: Option<HostError>) {
        let mut refused = self.0.refused.lock();
        match answer {
            Some(error) => refused.insert(script, error),
            None => refused.remove(script),
        };
    }

    /// Calls are not answered in time, and run when this ends.
    pub(crate) fn freeze(&self) {
        *self.0.frozen.lock() = Some(Arc::new(Semaphore::new(0)));
    }

    pub(crate) fn thaw(&self) {
        if let Some(gate) = self.0.frozen.lock().take() {
            gate.add_permits(1);
        }
    }

    /// It is this server, and says so.
    pub(crate) fn identify(&self, server: &str) {
        *self.0.identity.lock() = Some(server.into());
    }

    /// So many replicas acknowledge what is done from now on. Fewer than are wanted take
    /// [`Self::REPLICA_ACK_TIMEOUT`] to be noticed.
    pub(crate) fn set_replicas(&self, replicas: u32) {
        self.0.replicas.store(replicas, Ordering::Relaxed);
    }

    /// How often replicas were waited for.
    pub(crate) fn replicas_waited_for(&self) -> usize {
        self.0.replicas_waited_for.load(Ordering::Relaxed)
    }

    pub(crate) const REPLICA_ACK_TIMEOUT: Duration = Duration::from_secs(1);

    /// How often a script was called.
    pub(crate) fn calls(&self, script: &str) -> usize {
        self.0.calls.lock().get(script).copied().unwrap_or(0)
    }
}

fn take(counts: &Mutex<HashMap<&'static str, usize>>, script: &str) -> bool {
    let mut counts = counts.lock();
    match counts.get_mut(script) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    }
}

// === impl FaultyHost ===

impl FaultyHost {
    /// Faults, and how a coordinator that has them is connected to its store.
    pub(crate) fn connector() -> (Faults, impl Fn(&EmbeddedStore) -> Connected) {
        let faults = Faults::default();
        let shared = faults.clone();
        let connect = move |store: &EmbeddedStore| -> Connected {
            let (inner, wakes) = store.connect();
            (
                Arc::new(Self {
                    inner,
                    faults: shared.clone(),
                }),
                wakes,
            )
        };
        (faults, connect)
    }
}

impl FaultyHost {
    /// Each connection with faults of its own, in the order in which they are made.
    pub(crate) fn connectors() -> (
        Arc<Mutex<Vec<Faults>>>,
        impl Fn(&EmbeddedStore) -> Connected,
    ) {
        let all = Arc::new(Mutex::new(Vec::new()));
        let made = Arc::clone(&all);
        let connect = move |store: &EmbeddedStore| {
            let (faults, connect) = Self::connector();
            made.lock().push(faults);
            connect(store)
        };
        (all, connect)
    }
}

#[async_trait]
impl ScriptHost for FaultyHost {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let state = &self.faults.0;
        let script = call.script.name;
        *state.calls.lock().entry(script).or_default() += 1;
        if state.unavailable.load(Ordering::Relaxed) {
            return Err(HostError::Unavailable("by the test".to_owned()));
        }
        if let Some(error) = state.refused.lock().get(script).cloned() {
            return Err(error);
        }
        let frozen = state.frozen.lock().clone();
        if let Some(gate) = frozen {
            let inner = Arc::clone(&self.inner);
            spawn_detached("late", async move {
                let _turn = gate.acquire().await;
                inner.eval(call).await
            });
            tokio::time::sleep(FROZEN_FOR).await;
            return Err(HostError::OutcomeUnknown("frozen by the test".to_owned()));
        }
        let unknown = || Err(HostError::OutcomeUnknown("by the test".to_owned()));
        if take(&state.lost_requests, script) {
            return unknown();
        }
        {
            let _way = state.way.lock().await;
            let delay = *state.request_delay.lock();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
        }
        let answer = self.inner.eval(call).await;
        if take(&state.lost_answers, script) {
            return unknown();
        }
        let delay = *state.answer_delay.lock();
        tokio::time::sleep(delay).await;
        answer
    }

    async fn eval_replicated(
        &self,
        call: Call,
        replication: Replication,
    ) -> Result<(Value, Option<Acks>), HostError> {
        let value = self.eval(call).await?;
        if !(replication.wanted_if)(&value) {
            return Ok((value, None));
        }
        let state = &self.faults.0;
        state.replicas_waited_for.fetch_add(1, Ordering::Relaxed);
        let acknowledged = state.replicas.load(Ordering::Relaxed);
        let acks = Acks {
            acknowledged,
            required: replication.replicas.required(acknowledged),
            problem: None,
        };
        if !acks.are_enough() {
            tokio::time::sleep(Faults::REPLICA_ACK_TIMEOUT).await;
        }
        Ok((value, Some(acks)))
    }

    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        if self.faults.0.unavailable.load(Ordering::Relaxed) {
            return Err(HostError::Unavailable("by the test".to_owned()));
        }
        self.inner.scan(from, containing, work).await
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.inner.subscribe(channel).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.inner.unsubscribe(channel);
    }

    fn identity(&self) -> Option<Arc<str>> {
        self.faults.0.identity.lock().clone()
    }
}
