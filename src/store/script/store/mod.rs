//! The coordinator's handle: one store, or a quorum of several.

mod admin;
mod counters;

use std::{sync::Arc, time::Duration};

use lockkeeper_base::{metrics::Registrar, tasks::Tasks};

use super::{
    Acquired, AcquiredAll, Attempt, AttemptAll, CallError, Config, Hold, Inspected, Members, Mode,
    QuorumMember, Refusal, Released, ReleasedMember, Renewal, Renewals, Tally, Unsupported,
    Vouched, calls::HostScripts, metrics::Metrics, quorum::Quorum,
};
use crate::host::{Acks, Partition, Replicas, ScriptHost};

/// The scripts, wherever they run.
#[derive(Clone, Debug)]
pub struct Scripts {
    config: Config,
    store: Store,
    metrics: Arc<Metrics>,
}

#[derive(Clone, Debug)]
enum Store {
    One(HostScripts),
    Quorum(Quorum),
}

// === impl Scripts ===

impl Scripts {
    /// The scripts on one store.
    pub fn new(host: Arc<dyn ScriptHost>, config: Config) -> Self {
        let metrics = Metrics::new(1);
        let scripts = HostScripts::counted(host, config.clone(), metrics.of_store(0));
        Self {
            store: Store::One(scripts),
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

    /// Whether an acquire that ended with this error may have left something for those who wait. Of
    /// a quorum some stores may have answered.
    pub fn may_have_run(&self, error: &CallError) -> bool {
        match (error, &self.store) {
            (CallError::OutcomeUnknown(_), _) => true,
            (error, Store::Quorum(_)) => error.is_transient(),
            _ => false,
        }
    }

    /// Whether calls about one name run in the order in which they are made, and a release is told
    /// of by one message.
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

    /// The same scripts, each of which waits for so many replicas after it has changed something,
    /// and what those have acknowledged.
    #[must_use]
    pub fn replicated(&self, replicas: Option<Replicas>) -> (Self, Tally) {
        let (store, tally) = match &self.store {
            Store::One(scripts) => {
                let (scripts, tally) = scripts.replicated(replicas);
                (Store::One(scripts), tally)
            }
            // What its stores have in replicas is not looked at.
            quorum @ Store::Quorum(_) => {
                let none = |replicas| Acks::none(replicas, "a quorum counts stores, not replicas");
                let tally = Tally::of(replicas);
                tally.count(replicas.map(none));
                (quorum.clone(), tally)
            }
        };
        let scripts = Self {
            config: self.config.clone(),
            store,
            metrics: Arc::clone(&self.metrics),
        };
        (scripts, tally)
    }

    fn only(&self, what: Unsupported) -> Result<&HostScripts, CallError> {
        match &self.store {
            Store::One(scripts) => Ok(scripts),
            Store::Quorum(_) => Err(CallError::Unsupported(what)),
        }
    }

    /// Takes a lock for the owner, or takes it again. With a request id a repeat gets the first
    /// answer.
    pub async fn acquire(
        &self,
        hold: Hold<'_>,
        lease: Duration,
        attempt: Attempt<'_>,
        refused: Refusal,
    ) -> Result<Acquired, CallError> {
        self.check_mode(hold.mode)?;
        match &self.store {
            Store::One(scripts) => scripts.acquire(hold, lease, attempt, refused).await,
            Store::Quorum(quorum) => Box::pin(quorum.acquire(hold, lease, attempt, refused)).await,
        }
    }

    /// Gives one hold of the grant with this serial back, or of any that the owner has; what is
    /// left of it gets `lease` from now. With a request id a repeat gets the first answer.
    pub async fn release(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        lease: Duration,
        request_id: Option<&str>,
    ) -> Result<Released, CallError> {
        self.check_mode(hold.mode)?;
        match &self.store {
            Store::One(scripts) => scripts.release(hold, serial, lease, request_id).await,
            Store::Quorum(quorum) => {
                Box::pin(quorum.release(hold, serial, lease, request_id)).await
            }
        }
    }

    /// Gives the last hold of an exclusive lock to an owner who has none, with this lease; the lock
    /// is free at no moment between. Returns the token of the new grant, which is its serial too;
    /// none if nothing changed, because it is not the last hold of that grant, or the store is a
    /// quorum.
    pub async fn hand_on(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        next: &str,
        lease: Duration,
    ) -> Result<Option<u64>, CallError> {
        match &self.store {
            Store::One(scripts) => scripts.hand_on(hold, serial, next, lease).await,
            Store::Quorum(_) => Ok(None),
        }
    }

    /// Undoes an attempt, whether or not it ran; without a request id it lowers the owner's holds
    /// to those that the attempt knew of. True if a hold was taken back.
    pub async fn undo(&self, hold: Hold<'_>, attempt: Attempt<'_>) -> Result<bool, CallError> {
        match &self.store {
            Store::One(scripts) => scripts.undo(hold, attempt).await,
            Store::Quorum(quorum) => Box::pin(quorum.undo(hold, attempt)).await,
        }
    }

    /// Lowers the holds of the grant with this serial to a number, freeing the lock at 0. Safe to
    /// repeat.
    pub async fn lower(&self, hold: Hold<'_>, serial: u64, holds: u32) -> Result<bool, CallError> {
        self.undo(hold, Attempt::to_lower(serial, holds)).await
    }

    /// Takes away what an acquire with [`Refusal::Waits`] left behind. Safe to repeat.
    pub async fn leave(&self, hold: Hold<'_>) -> Result<(), CallError> {
        match &self.store {
            Store::One(scripts) => scripts.leave(hold).await,
            Store::Quorum(quorum) => Box::pin(quorum.leave(hold)).await,
        }
    }

    /// Says that these waiters of a fair lock live, so that they keep their places, and tells where
    /// they stand.
    pub async fn vouch(&self, name: &str, owners: &[&str]) -> Result<Vouched, CallError> {
        self.only(Unsupported::FairLocks)?.vouch(name, owners).await
    }

    /// Extends many leases; never shortens one. What has no outcome may have been extended.
    pub async fn renew(&self, renewals: &[Renewal]) -> Renewals {
        match &self.store {
            Store::One(scripts) => scripts.renew(renewals).await,
            Store::Quorum(quorum) => Box::pin(quorum.renew(renewals)).await,
        }
    }

    /// Who holds a lock, and who waits in its queue, at most `max` of each. Changes nothing.
    pub async fn inspect(&self, name: &str, max: u32) -> Result<Inspected, CallError> {
        match &self.store {
            Store::One(scripts) => scripts.inspect(name, max).await,
            Store::Quorum(quorum) => Box::pin(quorum.inspect(name, max)).await,
        }
    }

    /// Takes all of the locks, none of them fair, or none, where [`Scripts::takes_together`]. The
    /// record makes a repeat get the first answer.
    pub async fn acquire_all(
        &self,
        members: Members<'_>,
        lease: Duration,
        attempt: AttemptAll<'_>,
        refused: Refusal,
    ) -> Result<AcquiredAll, CallError> {
        let scripts = self.only(Unsupported::SeveralAtOnce)?;
        scripts.acquire_all(members, lease, attempt, refused).await
    }

    /// Gives one hold of each lock back, as far as the owner has one; each is told in order. What
    /// is left of it gets the lease of the same place. With a request id a repeat gets the first
    /// answer.
    pub async fn release_all(
        &self,
        members: Members<'_>,
        leases: &[Duration],
        request_id: Option<&str>,
    ) -> Result<Vec<ReleasedMember>, CallError> {
        match &self.store {
            Store::One(scripts) => scripts.release_all(members, leases, request_id).await,
            Store::Quorum(quorum) => {
                Box::pin(quorum.release_each(members, leases, request_id)).await
            }
        }
    }

    /// Undoes an attempt, whether or not it ran. Where its record is gone, the owner's holds are
    /// lowered to those that are known; members for which `undo` says no are left alone. True if
    /// the attempt is undone.
    pub async fn undo_all(
        &self,
        members: Members<'_>,
        attempt: AttemptAll<'_>,
        undo: impl Fn(usize) -> bool + Send,
    ) -> Result<bool, CallError> {
        let scripts = self.only(Unsupported::SeveralAtOnce)?;
        scripts.undo_all(members, attempt, undo).await
    }
}
