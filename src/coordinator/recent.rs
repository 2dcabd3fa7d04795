//! What happened lately, for readers of a coordinator's history.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    coordinator::Coordinator,
    core::Core,
    events::Event,
    history::{History, Kept},
};

/// An event of the past.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Numbers the events of a process, from 1.
    pub number: u64,
    /// When it happened by this machine's clock, in milliseconds since 1970.
    pub unix_millis: u64,
    /// The event.
    pub event: Event,
    /// The client name of the owner's session; empty if none is known.
    pub client_name: String,
}

/// The kept events, newest first.
#[derive(Debug)]
pub struct Recent {
    core: Arc<Core>,
    copied: VecDeque<Kept<Event>>,
    before: u64,
}

// === impl Coordinator ===

impl Coordinator {
    /// Keeps the last events from now on.
    pub fn keep_history(&self) {
        let core = Arc::clone(&self.core);
        if core.events.keep_history() {
            core.tasks.clone().spawn("history", async move {
                let apart = core.events.set_history_apart();
                core.tasks.stop().run_until_cancelled(apart).await;
            });
        }
    }

    /// The number of the last event; 0 without one.
    pub fn last_event(&self) -> u64 {
        self.core.events.history().map_or(0, History::last)
    }

    /// The kept events, newest first: the last 10,000 since [`Coordinator::keep_history`], fewer if
    /// their names, owners and notes exceed 4 MiB.
    pub fn recent(&self) -> Recent {
        Recent {
            core: Arc::clone(&self.core),
            copied: VecDeque::new(),
            before: u64::MAX,
        }
    }
}

// === impl Recent ===

impl Iterator for Recent {
    type Item = Recorded;

    fn next(&mut self) -> Option<Recorded> {
        let history = self.core.events.history()?;
        if self.copied.is_empty() {
            self.copied = history.copy(self.before);
        }
        let Kept {
            number,
            unix_millis,
            event,
            ..
        } = self.copied.pop_front()?;
        self.before = number;
        let session = event.owner.session.as_ref();
        let ended = || session.and_then(|id| history.client_name(id));
        let client_name = match self.core.client_name(&event.owner) {
            unknown if unknown.is_empty() => ended().unwrap_or_default(),
            known => known,
        };
        Some(Recorded {
            number,
            unix_millis,
            event,
            client_name,
        })
    }
}
