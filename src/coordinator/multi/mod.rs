//! Several locks at once, held only if all are held.
//!
//! Where no lock is fair, one script takes all or none, and a call that waits holds nothing
//! meanwhile: it stands in the line of one lock that somebody else holds, and tries all when that
//! may be free. A fair lock is taken by whoever stands first in its queue, so a call with one of
//! those takes the locks one after the other, as does a call whose locks are in different parts of
//! the store; see [`in_order`]. Either way no two calls can each hold what the other waits for.
//!
//! Once granted, each lock is a grant of its own: renewed, lost, resumed and given back as any
//! other.

pub(crate) mod attempt;
pub(crate) mod in_order;
pub(crate) mod locks;
pub(crate) mod release;
pub(crate) mod undo;

pub use locks::Locks;
pub use undo::DeliveryAll;


use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::Instant;

use lockkeeper_store::script::{CallError, Refusal};

use crate::{
    Core,
    acquire::{InLine, Stops, ended_in, leave},
    error::Error,
    multi::attempt::{AttemptedAll, attempt_all},
    operation::{Acquire, Answer, NotGranted, Reply},
    types::{Lease, LockName, Owner, RequestId},
};
use lockkeeper_store::script::Mode;

/// A wish to hold several locks.
#[derive(Clone, Debug)]
pub struct AcquireAll {
    /// The locks.
    pub locks: Locks,
    /// Who wants them.
    pub owner: Owner,
    /// None: watched in a session, else the default lease.
    pub lease: Option<Lease>,
    /// For all of them together; none: without limit.
    pub wait: Option<Duration>,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
    /// As of [`Acquire`].
    pub min_replica_acks: u32,
}

/// Holds of several locks to give back.
#[derive(Clone, Debug)]
pub struct ReleaseAll {
    /// The locks.
    pub locks: Locks,
    /// Who holds them.
    pub owner: Owner,
    /// Makes a repeat safe.
    pub request_id: Option<RequestId>,
}

/// What a try came to.
#[derive(Debug)]
pub enum TriedAll {
    /// The caller holds the locks as soon as it takes this.
    Acquired(DeliveryAll),
    /// Somebody else holds one of them.
    Busy {
        /// That one.
        name: LockName,
        /// When the holder's lease ends; none if its key has no time to live.
        holder_until: Option<Instant>,
    },
}

/// What became of one of several locks.
#[derive(Clone, Debug)]
pub struct ReleasedLock {
    /// The lock.
    pub name: LockName,
    /// How it was held.
    pub mode: Mode,
    /// Holds left after one was given back; none if the owner did not hold it.
    pub left: Option<u32>,
}

/// The locks because of which attempts were refused, so that there may be the mark of a writer.
type Refused = BTreeSet<usize>;

/// Takes several locks if all of them can be had now.
pub(super) async fn try_acquire_all(
    core: &Arc<Core>,
    request: &AcquireAll,
) -> Result<Answer, Error> {
    if core.draining.is_cancelled() {
        return Err(Error::Draining);
    }
    check_modes(core, request)?;
    let refusal = if request.request_id.is_some() {
        Refusal::Recorded
    } else {
        Refusal::Forgotten
    };
    try_once(core, request, refusal).await.map(Answer::TriedAll)
}

/// Runs an acquire of several locks to its end; the answers before the last go to `reply`.
pub(super) async fn acquire_all(
    core: &Arc<Core>,
    request: &AcquireAll,
    reply: &mut Reply,
) -> Result<Answer, Error> {
    let deadline = request
        .wait
        .and_then(|wait| Instant::now().checked_add(wait));
    if core.draining.is_cancelled() {
        return Err(Error::Draining);
    }
    check_modes(core, request)?;
    if request.wait == Some(Duration::ZERO) {
        return Ok(match try_once(core, request, Refusal::Forgotten).await? {
            TriedAll::Acquired(delivery) => Answer::GrantedAll(delivery),
            TriedAll::Busy { holder_until, .. } => {
                Answer::NotGranted(NotGranted::timed_out(holder_until))
            }
        });
    }
    if is_in_order(core, request) {
        return in_order::acquire(core, request, deadline, reply).await;
    }
    let mut refused = Refused::new();
    let answer = acquire_together(core, request, deadline, reply, &mut refused).await;
    // A grant has taken the marks away.
    if !matches!(answer, Ok(Answer::GrantedAll(_))) {
        for which in refused {
            leave(core, &request.member(which, None));
        }
    }
    answer
}

/// Whether the locks are taken one after the other.
fn is_in_order(core: &Core, request: &AcquireAll) -> bool {
    let names = request.locks.iter().map(|(name, _)| name.as_str());
    request.locks.has_fair() || !core.scripts.takes_together(names)
}

/// A mode that the store does not have is refused before anything is taken.
fn check_modes(core: &Core, request: &AcquireAll) -> Result<(), Error> {
    for (name, mode) in request.locks.iter() {
        let checked = core.scripts.check_mode(mode);
        checked.map_err(|error| Error::from(error).of(name))?;
    }
    Ok(())
}

async fn try_once(
    core: &Arc<Core>,
    request: &AcquireAll,
    refusal: Refusal,
) -> Result<TriedAll, Error> {
    if is_in_order(core, request) {
        return in_order::try_acquire(core, request, refusal).await;
    }
    Ok(match attempt_all(core, request, refusal).await? {
        AttemptedAll::Granted(delivery) => TriedAll::Acquired(delivery),
        AttemptedAll::Busy {
            which,
            holder_until,
        } => TriedAll::Busy {
            name: request.locks.name(which).clone(),
            holder_until,
        },
    })
}

/// Tries, and waits in the line of one lock that is held by somebody else, holding none.
async fn acquire_together(
    core: &Arc<Core>,
    request: &AcquireAll,
    deadline: Option<Instant>,
    reply: &mut Reply,
    refused: &mut Refused,
) -> Result<Answer, Error> {
    let (mut awaited, holder_until) = match attempt_all(core, request, Refusal::Waits).await {
        Ok(AttemptedAll::Granted(delivery)) => return Ok(Answer::GrantedAll(delivery)),
        Ok(AttemptedAll::Busy {
            which,
            holder_until,
        }) => (which, holder_until),
        Err(error) => {
            if let Error::Store(CallError::OutcomeUnknown(_)) = error {
                refused.extend(0..request.locks.len());
            }
            return Err(error);
        }
    };
    refused.insert(awaited);
    let stops = Stops::admit(core, core.session_of(&request.owner)?, deadline, reply)?;
    let mut line = join(core, request, awaited, holder_until)?;
    let mut trouble: Option<CallError> = None;
    loop {
        let name = request.locks.name(awaited);
        let tell = |waiting| stops.reply.waiting_for(name, waiting);
        if let Some(ended) = line.until_try(core, &stops, tell).await? {
            return ended_in(trouble, ended);
        }
        match attempt_all(core, request, Refusal::Waits).await {
            Ok(AttemptedAll::Granted(delivery)) => {
                line.leave_granted(delivery.safe_until(awaited));
                return Ok(Answer::GrantedAll(delivery));
            }
            Ok(AttemptedAll::Busy {
                which,
                holder_until,
            }) => {
                trouble = None;
                refused.insert(which);
                if which == awaited {
                    line.busy_until(core, holder_until, None);
                } else {
                    // Whoever comes next in the line that is left is told to try.
                    awaited = which;
                    drop(line);
                    line = join(core, request, awaited, holder_until)?;
                }
            }
            Err(Error::Store(
                error @ (CallError::Unavailable(_) | CallError::OutcomeUnknown(_)),
            )) => {
                if let CallError::OutcomeUnknown(_) = error {
                    refused.extend(0..request.locks.len());
                }
                trouble = Some(error);
                line.no_outcome(core);
            }
            Err(error) => return Err(error),
        }
    }
}

fn join(
    core: &Core,
    request: &AcquireAll,
    which: usize,
    holder_until: Option<Instant>,
) -> Result<InLine, Error> {
    let (name, mode) = request.locks.get(which);
    let owner = request.owner.clone();
    let place = core
        .waiters
        .join(name, mode.into(), owner, holder_until, None);
    place.map(InLine::at).map_err(Error::LimitReached)
}

// === impl AcquireAll ===

impl AcquireAll {
    /// The wish to hold one of the locks, as long as that may be waited for.
    fn member(&self, which: usize, wait: Option<Duration>) -> Acquire {
        let (name, mode) = self.locks.get(which);
        Acquire {
            name: name.clone(),
            mode,
            owner: self.owner.clone(),
            lease: self.lease,
            wait,
            request_id: self.request_id.clone(),
            min_replica_acks: self.min_replica_acks,
        }
    }
}
