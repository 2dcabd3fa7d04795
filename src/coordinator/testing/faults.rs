//! A store whose calls can be delayed, lost or refused, and are counted.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_store::host::{
    Call, HostError, ScanCursor, Scanned, ScriptHost, Value, Wake,
    embedded::{Clock, EmbeddedStore},
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{config::Config, coordinator::Coordinator};

/// The end of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The script does not run, and its caller knows.
    Unavailable,
    /// The script does not run, and its caller does not know.
    RequestLost,
    /// The script does not run, for a reason that does not pass.
    OutOfMemory,
    /// The script runs at once, and its answer takes this long.
    AnswerTakes(Duration),
    /// The script runs only after this time, and its caller has given up before.
    RunsAfter(Duration),
}

/// The faults of one connection to a store, and the calls that went through it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    next: HashMap<&'static str, VecDeque<Fault>>,
    calls: HashMap<&'static str, usize>,
    is_deaf: bool,
    /// The least and the most keys that a scan looks at, whatever was asked.
    scanned: Option<(u32, u32)>,
    /// What each scan was asked to look at.
    scans: Vec<u32>,
}

#[derive(Debug)]
struct FaultyHost {
    inner: Arc<dyn ScriptHost>,
    faults: Faults,
}

/// A coordinator whose calls go through these faults, and its store.
pub(crate) fn start_faulty(config: Config) -> (Faults, Coordinator, EmbeddedStore) {
    let store = EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000));
    let faults = Faults::default();
    let coordinator = faults.start(config, &store);
    (faults, coordinator, store)
}

/// Two coordinators on one store, the first with these faults. If it does not hear, no message
/// reaches it.
pub(crate) fn two_on_one_store(hears: bool) -> (Faults, [Coordinator; 2]) {
    let (faults, store) = (Faults::default(), EmbeddedStore::default());
    if !hears {
        faults.deafen();
    }
    let first = faults.start(super::config(), &store);
    let second = Faults::default().start(super::config(), &store);
    (faults, [first, second])
}

// === impl Faults ===

impl Faults {
    /// Another coordinator on a store, whose calls go through these faults.
    pub(crate) fn start(&self, config: Config, store: &EmbeddedStore) -> Coordinator {
        let (inner, wakes) = store.connect();
        let faults = self.clone();
        let host = Arc::new(FaultyHost { inner, faults });
        Coordinator::start(config, (host, wakes))
    }

    /// The same, and the way by which it hears of what happens in the store.
    pub(crate) fn start_heard(
        &self,
        config: Config,
        store: &EmbeddedStore,
    ) -> (Coordinator, mpsc::Sender<Wake>) {
        let (inner, _unheard) = store.connect();
        let faults = self.clone();
        let host = Arc::new(FaultyHost { inner, faults });
        let (wakes, heard) = mpsc::channel(8);
        (Coordinator::start(config, (host, heard)), wakes)
    }

    /// The end of the next call of this script that has none yet.
    pub(crate) fn next(&self, script: &'static str, fault: Fault) {
        let mut state = self.0.lock();
        state.next.entry(script).or_default().push_back(fault);
    }

    /// The number of calls of this script.
    pub(crate) fn calls(&self, script: &str) -> usize {
        self.0.lock().calls.get(script).copied().unwrap_or(0)
    }

    /// No message of what is subscribed to from now on arrives.
    pub(crate) fn deafen(&self) {
        self.0.lock().is_deaf = true;
    }

    /// Scans look at this many keys at least and at most.
    pub(crate) fn scan_within(&self, least: u32, most: u32) {
        self.0.lock().scanned = Some((least, most));
    }

    /// The number of keys that each scan was asked to look at.
    pub(crate) fn scans(&self) -> Vec<u32> {
        self.0.lock().scans.clone()
    }

    fn take(&self, script: &'static str) -> Option<Fault> {
        let mut state = self.0.lock();
        *state.calls.entry(script).or_default() += 1;
        state.next.get_mut(script)?.pop_front()
    }
}

// === impl FaultyHost ===

#[async_trait]
impl ScriptHost for FaultyHost {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let why = || "by the test".to_owned();
        match self.faults.take(call.script.name) {
            None => self.inner.eval(call).await,
            Some(Fault::Unavailable) => Err(HostError::Unavailable(why())),
            Some(Fault::OutOfMemory) => Err(HostError::OutOfMemory),
            Some(Fault::RequestLost) => Err(HostError::OutcomeUnknown(why())),
            Some(Fault::AnswerTakes(time)) => {
                let answer = self.inner.eval(call).await;
                tokio::time::sleep(time).await;
                answer
            }
            Some(Fault::RunsAfter(time)) => {
                let inner = Arc::clone(&self.inner);
                spawn_detached("late", async move {
                    tokio::time::sleep(time).await;
                    inner.eval(call).await
                });
                Err(HostError::OutcomeUnknown(why()))
            }
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        if self.faults.0.lock().is_deaf {
            return Ok(());
        }
        self.inner.subscribe(channel).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.inner.unsubscribe(channel);
    }

    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        let work = {
            let mut state = self.faults.0.lock();
            state.scans.push(work);
            let clamped = state.scanned.map(|(least, most)| work.clamp(least, most));
            clamped.unwrap_or(work)
        };
        self.inner.scan(from, containing, work).await
    }
}
