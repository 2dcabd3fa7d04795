//! A store and its clients.

use std::{
    fmt,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{clock::Clock, commands, engine::Engine, pubsub::ClientId, vm::Vm};
use crate::host::{
    Call, Commands, Connected, HostError, Numbers, ScanCursor, Scanned, ScriptHost, Value,
    WakeSender,
};

/// A store. Clones are one store, and so are all clients that connect to it: what one writes the
/// others see, and what one publishes the others hear. It is Redis 7.0 in everything the scripts
/// can tell, times to live included.
#[derive(Clone)]
pub struct EmbeddedStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    /// The one mutex: a script runs to its end while it is held, which makes scripts atomic.
    /// Nothing waits meanwhile.
    vm: Mutex<Vm>,
    clients: AtomicU64,
}

/// One client of a store, with subscriptions of its own.
struct Client {
    store: EmbeddedStore,
    id: ClientId,
    wakes: WakeSender,
}

// === impl EmbeddedStore ===

impl EmbeddedStore {
    /// An empty store on a clock, which the caller may keep a clone of in order to step it.
    pub fn new(clock: Clock) -> Self {
        let vm =
            Vm::new(Engine::new(clock.clone())).expect("an empty Lua machine needs only memory");
        let shared = Shared {
            clock,
            vm: Mutex::new(vm),
            clients: AtomicU64::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Another client of the store. Dropping the handle ends its subscriptions; what it has written
    /// stays.
    pub fn connect(&self) -> Connected {
        let (wakes, receiver) = WakeSender::channel();
        let id = self.shared.clients.fetch_add(1, Ordering::Relaxed);
        (
            Arc::new(Client {
                store: self.clone(),
                id,
                wakes,
            }),
            receiver,
        )
    }

    /// The clock that scripts see and keys expire by.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Runs one command, such as `["GET", "key"]`, as an operator would on a Redis server. Success
    /// means that it was carried out; an error reply is [`HostError::Rejected`] and has changed
    /// nothing.
    pub fn command(&self, words: &[&[u8]]) -> Result<Value, HostError> {
        Ok(self
            .with_engine(|engine| commands::run(engine, words))?
            .into())
    }

    /// How many keys exist now, so that a test can check that nothing was left behind.
    pub fn key_count(&self) -> usize {
        self.with_engine(|engine| {
            engine.begin();
            engine.keys.count()
        })
    }

    /// How many clients are subscribed to a channel.
    pub fn subscription_count(&self, channel: &str) -> usize {
        self.with_engine(|engine| engine.pubsub.count(channel))
    }

    /// Removes all keys, as a server that restarts without persistence does. Subscriptions stay.
    pub fn flush_all(&self) {
        self.with_engine(|engine| engine.keys.clear());
    }

    /// Makes the store refuse what needs memory, or stop doing so. As on a Redis server that has
    /// reached its `maxmemory`, a script fails at its first write if that needs memory, and after
    /// any other write it may go on.
    pub fn set_out_of_memory(&self, out_of_memory: bool) {
        self.with_engine(|engine| engine.out_of_memory = out_of_memory);
    }

    fn with_engine<R>(&self, work: impl FnOnce(&mut Engine) -> R) -> R {
        self.shared.vm.lock().with_engine(work)
    }
}

impl Default for EmbeddedStore {
    /// An empty store on the machine's wall time.
    fn default() -> Self {
        Self::new(Clock::system())
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore")
            .field("clock", &self.shared.clock)
            .finish_non_exhaustive()
    }
}

// === impl Client ===

#[async_trait]
impl ScriptHost for Client {
    /// Runs inline: a script takes microseconds, and handing it to another task would take longer.
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        self.store.shared.vm.lock().eval(&call)
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn run<'a>(
        &'a self,
        commands: &'a Commands<'a>,
        _begun: Instant,
    ) -> BoxFuture<'a, Result<Numbers, HostError>> {
        let ended = self
            .store
            .with_engine(|engine| commands::run_together(engine, commands));
        Box::pin(ready(ended))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.store
            .with_engine(|engine| engine.pubsub.subscribe(channel, self.id, &self.wakes));
        Ok(())
    }

    fn unsubscribe(&self, channel: &str) {
        self.store
            .with_engine(|engine| engine.pubsub.unsubscribe(channel, self.id));
    }

    /// Looks at every key each time, because they are in no order that would last.
    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        let count = usize::try_from(work).unwrap_or(usize::MAX);
        let (keys, next) = self.store.with_engine(|engine| {
            engine.begin();
            engine.keys.walk(from.position, count)
        });
        let wanted = |key: &Bytes| {
            containing.is_empty() || key.windows(containing.len()).any(|it| it == containing)
        };
        Ok(Scanned {
            keys: keys.into_iter().filter(wanted).collect(),
            next: next.map(|position| ScanCursor { part: 0, position }),
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.store
            .with_engine(|engine| engine.pubsub.remove(self.id));
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
