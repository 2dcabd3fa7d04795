//! Watching names: a snapshot of holdings and waits, then events.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::broadcast::{self, error::RecvError};

use crate::{
    coordinator::Coordinator,
    core::Core,
    error::Error,
    events::Event,
    types::{LockName, Owner},
};

/// Entries per part of a snapshot.
const PART_ENTRIES: usize = 500;

/// An item of a watch.
#[derive(Clone, Debug)]
pub enum Watched {
    /// A part of a snapshot.
    Snapshot {
        /// The first part.
        first: bool,
        /// The last part.
        last: bool,
        /// Holdings and waits.
        entries: Vec<Event>,
    },
    /// An event.
    Delta(Event),
}

/// A watch in progress.
#[derive(Debug)]
pub struct Watcher {
    core: Arc<Core>,
    prefix: String,
    events: broadcast::Receiver<Event>,
    parts: VecDeque<Watched>,
}

// === impl Coordinator ===

impl Coordinator {
    /// Watches the names that begin with `prefix`.
    pub fn watch(&self, prefix: String) -> Result<Watcher, Error> {
        let core = Arc::clone(&self.core);
        core.check_serving()?;
        let mut watcher = Watcher {
            events: core.events.subscribe()?,
            core,
            prefix,
            parts: VecDeque::new(),
        };
        watcher.take_snapshot();
        Ok(watcher)
    }

    /// The client name of an owner's session, if it is connected here.
    pub fn client_name(&self, owner: &Owner) -> String {
        self.core.client_name(owner)
    }
}

// === impl Watcher ===

impl Watcher {
    /// The next item. May be dropped at any instant.
    pub async fn next(&mut self) -> Result<Watched, Error> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Ok(part);
            }
            let event = tokio::select! {
                biased;
                () = self.core.draining.cancelled() => return Err(Error::Draining),
                event = self.events.recv() => event,
            };
            match event {
                Ok(event) if event.name.public().starts_with(&self.prefix) => {
                    return Ok(Watched::Delta(event));
                }
                Ok(_) => {}
                Err(RecvError::Lagged(missed)) => {
                    tracing::debug!(missed, "a watcher is too slow and starts anew");
                    self.events = self.events.resubscribe();
                    self.take_snapshot();
                }
                Err(RecvError::Closed) => return Err(Error::Draining),
            }
        }
    }

    fn take_snapshot(&mut self) {
        let mut entries = Vec::new();
        let wanted = |name: &LockName| name.public().starts_with(&self.prefix);
        for session in self.core.sessions.all() {
            session.retell(&mut entries, wanted);
        }
        self.core.waiters.retell(&mut entries, wanted);
        let parts = entries.len().div_ceil(PART_ENTRIES).max(1);
        let mut entries = entries.into_iter();
        for part in 0..parts {
            self.parts.push_back(Watched::Snapshot {
                first: part == 0,
                last: part + 1 == parts,
                entries: entries.by_ref().take(PART_ENTRIES).collect(),
            });
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.core.events.unsubscribe();
    }
}
