//! The scripts on one store, or on a quorum of several.

use std::{sync::Arc, time::Duration};

use either::Either;
use lockkeeper_base::{metrics::Registrar, tasks::Tasks};

use super::turns::Turns;
use crate::{
    host::{Acks, Partition, Replicas, ScriptHost},
    script::{
        CallError, Config, Mode, QuorumMember, ReplicationStatus, Unsupported,
        calls::{
            HostScripts,
            encoding::{flag, millis},
        },
        metrics::Metrics,
        quorum::Quorum,
    },
};

/// The scripts, wherever they run.
#[derive(Clone, Debug)]
pub struct Scripts {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) turns: Turns,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug)]
pub(super) enum Store {
    One(HostScripts),
    Quorum(Quorum),
}

/// Makes a call on the one store or on the quorum, where it is boxed: its state is large.
macro_rules! on_store {
    ($scripts:ident, $call:ident($($argument:expr),*)) => {
        match &$scripts.store {
            Store::One(store) => store.$call($($argument),*).await,
            Store::Quorum(quorum) => Box::pin(quorum.$call($($argument),*)).await,
        }
    };
}
pub(super) use on_store;

// === impl Scripts ===

impl Scripts {
    /// The scripts on one store.
    pub fn new(host: Arc<dyn ScriptHost>, config: Config) -> Self {
        let metrics = Metrics::new(1);
        let scripts = HostScripts::new(host, config.clone(), metrics.of_store(0));
        Self {
            store: Store::One(scripts),
            turns: Turns::new(),
            config,
            metrics,
        }
    }

    /// The scripts on a quorum of stores that are independent of each other, an odd number of them.
    /// What is left to do when a majority has answered is done by `tasks`.
    pub fn on_quorum(members: Vec<QuorumMember>, config: Config, tasks: Tasks) -> Self {
        let metrics = Metrics::new(members.len());
        Self {
            store: Store::Quorum(Quorum::new(members, &config, tasks, &metrics)),
            turns: Turns::new(),
            config,
            metrics,
        }
    }

    /// Shows what is counted of calls.
    pub fn register(&self, registrar: &mut Registrar<'_>) {
        self.metrics.register(registrar);
    }

    /// How long the scripts keep things.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Refuses a mode that the store does not have.
    pub fn check_mode(&self, mode: Mode) -> Result<(), CallError> {
        match self.store {
            Store::Quorum(_) if mode == Mode::Fair => {
                Err(CallError::Unsupported(Unsupported::FairLocks))
            }
            Store::Quorum(_) | Store::One(_) => Ok(()),
        }
    }

    /// Refuses a note where the store does not have them.
    pub(super) fn check_note(&self, noted: bool) -> Result<(), CallError> {
        match self.store {
            Store::Quorum(_) if noted => Err(CallError::Unsupported(Unsupported::Notes)),
            Store::Quorum(_) | Store::One(_) => Ok(()),
        }
    }

    /// Whether an acquire that ended with this error may have left something for waiters. Of a
    /// quorum some stores may have answered.
    pub fn may_have_run(&self, error: &CallError) -> bool {
        match (error, &self.store) {
            (CallError::OutcomeUnknown(_), _) => true,
            (error, Store::Quorum(_)) => error.is_transient(),
            _ => false,
        }
    }

    /// Whether calls about one name run in the order in which they are made, and a release sends
    /// one message.
    pub fn keeps_order(&self) -> bool {
        matches!(self.store, Store::One(_))
    }

    /// Whether one call takes the locks of these names, all or none; otherwise they are taken one
    /// after the other.
    pub fn takes_together<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        match &self.store {
            Store::One(scripts) => !scripts.are_apart(names),
            Store::Quorum(_) => false,
        }
    }

    /// The part of the store that the keys of a name are in.
    pub fn partition(&self, name: &str) -> Partition {
        match &self.store {
            Store::One(scripts) => scripts.partition(name),
            Store::Quorum(_) => 0,
        }
    }

    /// The same scripts, each of which waits for these replicas after a change, and what those have
    /// acknowledged. Others than these are in a box, because every operation carries them.
    #[must_use]
    pub fn replicated(
        &self,
        replicas: Option<Replicas>,
    ) -> (Either<&Self, Box<Self>>, ReplicationStatus) {
        if replicas.is_none() {
            return (Either::Left(self), ReplicationStatus::default());
        }
        let mut scripts = self.clone();
        let tally = match &mut scripts.store {
            Store::One(store) => {
                let (replicated, tally) = store.replicated(replicas);
                *store = replicated;
                tally
            }
            // What its stores have in replicas is not looked at.
            Store::Quorum(_) => {
                let none = |replicas| Acks::none(replicas, "a quorum counts stores, not replicas");
                let tally = ReplicationStatus::of(replicas);
                tally.count(replicas.map(none));
                tally
            }
        };
        (Either::Right(Box::new(scripts)), tally)
    }

    /// Whether scripts accept numbers without a record of their kind, as an argument.
    pub(super) fn adopts(&self) -> &'static str {
        flag(self.config.adopts_counters)
    }

    /// How long the record of a kind is kept, as an argument. A number without one would not be
    /// accepted again, unless those of others are.
    pub(super) fn kind_retention(&self) -> u64 {
        millis(if self.config.adopts_counters {
            self.config.idle_token_retention
        } else {
            Duration::ZERO
        })
    }

    /// The one store; a quorum does not have what is asked for.
    pub(super) fn single(&self, what: Unsupported) -> Result<&HostScripts, CallError> {
        match &self.store {
            Store::One(scripts) => Ok(scripts),
            Store::Quorum(_) => Err(CallError::Unsupported(what)),
        }
    }
}
