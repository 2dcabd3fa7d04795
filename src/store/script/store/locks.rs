//! Locks: what the one store does, or what the stores of a quorum do together.

use std::{sync::Arc, time::Duration};

use super::scripts::{Scripts, Store, on_store};
use crate::{
    host::{Call, Server, words},
    script::{
        Acquired, Asked, Attempt, Batch, CallError, Forced, ForcedRecord, HandOver, Hold,
        Inspected, Mode, NameKind, Note, Ownership, Refusal, Released, Renewal, Renewals,
        Unsupported, WalkCursor,
        calls::{
            encoding::{DONE, NOT_DONE, count, malformed, millis, numbers, refusal, time_to_live},
            fair_keys, take_note,
        },
        catalog, keys,
    },
};

/// Positions in the queue of a fair lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuePositions {
    /// What is left of the holder's lease; none if it is free or has no time to live.
    pub remaining: Option<Duration>,
    /// Their places, in the order they were named; 0: not in the queue.
    pub places: Vec<u32>,
    /// What the holder says of its hold.
    pub note: Option<Arc<Note>>,
}

// === impl Scripts ===

impl Scripts {
    /// Takes a lock for the owner, or takes it again. With a request id a repeat gets the first
    /// answer.
    pub async fn acquire(
        &self,
        hold: Hold<'_>,
        lease: Duration,
        attempt: &Attempt<'_>,
        refused: Refusal,
    ) -> Result<Acquired, CallError> {
        self.check_mode(hold.mode)?;
        self.check_note(attempt.note.is_some())?;
        if attempt.least.is_some() {
            self.single(Unsupported::HoldAtLeast)?;
        }
        if attempt.delay.is_some() {
            self.single(Unsupported::LockDelay)?;
        }
        on_store!(self, acquire(hold, lease, attempt, refused))
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
        on_store!(self, release(hold, serial, lease, request_id))
    }

    /// The same without a request id, where the caller knows that the grant has one hold.
    pub async fn release_last(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        lease: Duration,
    ) -> Result<Released, CallError> {
        match &self.store {
            Store::One(store) => store.release_last(hold, serial, lease).await,
            Store::Quorum(_) => self.release(hold, serial, lease, None).await,
        }
    }

    /// Whether the field of a session's new grant in this mode is to name it, as
    /// [`grant_field`](crate::script::keys::grant_field) does. Then no script may be needed.
    pub fn names_grants(&self, mode: Mode) -> bool {
        match &self.store {
            Store::One(store) => store.names_grants(mode),
            Store::Quorum(_) => false,
        }
    }

    /// Gives the last hold of an exclusive or write lock to an owner who has none, that of a fair
    /// lock to the first in its queue, or that of the last reader to a writer, with this lease. The
    /// lock is free at no moment between. `attempt` is that owner's.
    pub async fn hand_over(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        next: (&str, Duration),
        attempt: &Attempt<'_>,
    ) -> Result<HandOver, CallError> {
        match &self.store {
            Store::One(store) => store.hand_over(hold, serial, next, attempt).await,
            Store::Quorum(_) => Ok(HandOver::Refused),
        }
    }

    /// An error if locks cannot be handed over on this store.
    pub fn check_tickets(&self) -> Result<(), CallError> {
        self.single(Unsupported::Tickets).map(drop)
    }

    /// Undoes an attempt, whether or not it ran; without a request id it lowers the owner's holds
    /// to those that the attempt knew of. True if a hold was taken back.
    pub async fn undo(&self, hold: Hold<'_>, attempt: &Attempt<'_>) -> Result<bool, CallError> {
        on_store!(self, undo(hold, attempt))
    }

    /// Lowers the holds of the grant with this serial and lease to a number, freeing the lock at 0.
    /// Safe to repeat.
    pub async fn lower(
        &self,
        hold: Hold<'_>,
        serial: u64,
        holds: u32,
        lease: Duration,
    ) -> Result<bool, CallError> {
        let lower = Attempt {
            lease,
            ..Attempt::to_lower(Some(serial), holds)
        };
        self.undo(hold, &lower).await
    }

    /// Takes away what an acquire with [`Refusal::Waits`] left behind. Safe to repeat.
    pub async fn leave(&self, hold: Hold<'_>) -> Result<(), CallError> {
        on_store!(self, leave(hold))
    }

    /// Puts a waiter of a fair lock first in the queue. False if it does not wait.
    pub async fn fair_first(&self, name: &str, owner: &str) -> Result<bool, CallError> {
        let store = self.single(Unsupported::FairLocks)?;
        let script = &catalog::FAIR_FIRST;
        let mut args = words![owner, millis(self.config.fair_waiter_timeout)];
        store.add_wake_one(&mut args, name);
        match *store.eval(script, fair_keys(name), args).await? {
            [DONE] => Ok(true),
            [NOT_DONE] => Ok(false),
            ref other => Err(refusal(script, other)),
        }
    }

    /// Keeps the places of these waiters of a fair lock, and returns them.
    pub async fn fair_keepalive(
        &self,
        name: &str,
        owners: &[&str],
    ) -> Result<QueuePositions, CallError> {
        let store = self.single(Unsupported::FairLocks)?;
        let script = &catalog::FAIR_VOUCH;
        let mut args = words![millis(self.config.fair_waiter_timeout)];
        store.add_wake_one(&mut args, name);
        args.extend(owners);
        let mut keys = fair_keys(name);
        keys.push(keys::counter(name));
        let mut reply = store.call(Call { script, keys, args }).await?;
        let note = take_note(&mut reply, 1 + owners.len());
        let reply = numbers(script, &reply)?;
        match reply.as_slice() {
            [remaining, places @ ..] if places.len() == owners.len() => Ok(QueuePositions {
                remaining: time_to_live(*remaining),
                places: places.iter().map(|place| count(*place)).collect(),
                note,
            }),
            _ => Err(malformed(script, &reply)),
        }
    }

    /// Extends many leases; never shortens one. What has no outcome may have been extended.
    pub async fn renew(&self, renewals: &[Renewal]) -> Renewals {
        on_store!(self, renew(renewals))
    }

    /// The same where nothing but the leases is wanted, which costs the store less.
    pub async fn extend(&self, renewals: &[Renewal]) -> Batch<Result<Duration, Ownership>> {
        match &self.store {
            Store::One(store) => store.extend(renewals).await,
            Store::Quorum(_) => {
                let renewed = Box::pin(self.renew(renewals)).await;
                renewed.map(|outcome| outcome.map(|renewed| renewed.lease))
            }
        }
    }

    /// The servers that share the keys of one store, as far as they are known; none if one server
    /// has all of them, and for a quorum.
    pub fn servers(&self) -> Vec<Server> {
        match &self.store {
            Store::One(store) => store.servers(),
            Store::Quorum(_) => Vec::new(),
        }
    }

    /// Whether the store takes writes; names begin with this. An error says why not.
    pub async fn takes_writes(&self, prefix: &str) -> Result<(), CallError> {
        on_store!(self, takes_writes(prefix))
    }

    /// Who holds a lock, and who waits in its queue, at most `max` of each. Changes nothing.
    pub async fn inspect(&self, name: &str, max: u32) -> Result<Inspected, CallError> {
        on_store!(self, inspect(name, max))
    }

    /// Some names in use that begin with this, sorted, with their kinds, and where to go on. `work`
    /// bounds the keys that are looked at.
    pub async fn walk(
        &self,
        from: WalkCursor,
        prefix: &str,
        work: u32,
    ) -> Result<(Vec<(String, NameKind)>, Option<WalkCursor>), CallError> {
        match &self.store {
            Store::One(scripts) => {
                let (names, next) = scripts.scan_names(from.at, prefix, work).await?;
                let kinds = scripts.kinds(&names).await?;
                let known = names.into_iter().zip(kinds);
                let known = known.filter_map(|(name, kind)| Some((name, kind?)));
                Ok((known.collect(), next.map(|at| WalkCursor { store: 0, at })))
            }
            Store::Quorum(quorum) => quorum.walk(from, prefix, work).await,
        }
    }

    /// Takes every hold of a lock away, from any holder, and returns at most `max` of them; none if
    /// it was free. The lock stays closed for `grace`, at most for the lease that was left, unless
    /// all former holders acknowledge before. If holders were `asked` to yield, it is taken from
    /// these, and only while it has no other holder.
    pub async fn force_release(
        &self,
        name: &str,
        reason: &str,
        grace: Duration,
        asked: Option<Asked<'_>>,
        max: u32,
    ) -> Result<Option<Forced>, CallError> {
        on_store!(self, force_release(name, reason, grace, asked, max))
    }

    /// A former holder no longer relies on a hold that was taken away by force. Returns whether the
    /// lock is free now; false if there was nothing to acknowledge.
    pub async fn acknowledge_forced(&self, hold: Hold<'_>) -> Result<bool, CallError> {
        on_store!(self, acknowledge_forced(hold))
    }

    /// What is known of the last release of a lock by force. Changes nothing.
    pub async fn forced(&self, name: &str) -> Result<Option<ForcedRecord>, CallError> {
        on_store!(self, forced(name))
    }
}
