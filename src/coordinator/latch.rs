//! Latches: setting a count, counting down, and waiting for zero. All waiters here form one line;
//! its head looks at the latch and notifies the others.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, CountSet, CountedDown, keys};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    progress::{Progress, WaitState},
    summary::Summary,
    types::{Goal, LockName, Owner, RequestId, SessionId, WaitEnd},
    wait::{Next, WaitContext, end_of, ended, next},
    waiters::queue::QueueTicket,
};

/// A count for a latch.
#[derive(Clone, Debug)]
pub struct SetCount {
    /// The latch.
    pub name: LockName,
    /// At least 1.
    pub count: u32,
    /// Time to live; none: unlimited.
    pub ttl: Option<Duration>,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
}

/// A count to lower.
#[derive(Clone, Debug)]
pub struct CountDown {
    /// The latch.
    pub name: LockName,
    /// The amount; at least 1.
    pub by: u32,
    /// Makes a repeat idempotent.
    pub request_id: Option<RequestId>,
}

/// A request to wait until a latch is open.
#[derive(Clone, Debug)]
pub struct AwaitLatch {
    /// The latch.
    pub name: LockName,
    /// The session whose end ends the wait.
    pub session: Option<SessionId>,
    /// None: unlimited.
    pub wait: Option<Duration>,
}

/// The latch is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatchOpened {
    /// The latch.
    pub name: LockName,
}

/// A wait that ended while the latch was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatchNotOpened {
    /// Why the wait ended.
    pub why: WaitEnd,
    /// The remaining count when the store was last asked.
    pub count: u32,
}

/// A latch at the moment the store was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatchDescription {
    /// The latch.
    pub name: LockName,
    /// The remaining count; 0: it is open.
    pub count: u32,
    /// Remaining time to live; none if it is open or stays.
    pub remaining: Option<Duration>,
    /// The number of waiters at this coordinator.
    pub waiter_count: usize,
}

pub(crate) async fn set(core: &Core, request: &SetCount) -> Result<CountSet, Error> {
    let SetCount {
        name,
        count,
        ttl,
        request_id,
    } = request;
    let record = request_id.as_ref().map(RequestId::as_str);
    let set = core
        .scripts
        .set_count(name.store_key(), *count, *ttl, record);
    Ok(set.await?)
}

/// Returns the remaining count.
pub(crate) async fn count_down(core: &Core, request: &CountDown) -> Result<u32, Error> {
    let record = request.request_id.as_ref().map(RequestId::as_str);
    let name = request.name.store_key();
    match core.scripts.count_down(name, request.by, record).await? {
        CountedDown::Left(left) => {
            // Nothing is published before the latch opens, because Redisson knows no such message.
            if left > 0 {
                core.waiters.hint(&keys::latch_channel(name));
            }
            Ok(left)
        }
        CountedDown::TooMany(count) => Err(Error::CountExceeded { count }),
    }
}

/// Returns whether it existed.
pub(crate) async fn delete(core: &Core, name: &LockName) -> Result<bool, Error> {
    Ok(core.scripts.delete_latch(name.store_key()).await?)
}

pub(crate) async fn look(core: &Core, name: &LockName) -> Result<LatchDescription, Error> {
    let seen = core.scripts.inspect_latch(name.store_key()).await?;
    let (_, waiter_count) = core.waiters.list_for(name, Goal::Latch, 0);
    Ok(LatchDescription {
        name: name.clone(),
        count: seen.count,
        remaining: seen.remaining,
        waiter_count,
    })
}

pub(crate) async fn await_latch<P: Progress>(
    core: &Arc<Core>,
    request: &AwaitLatch,
    progress: &mut P,
) -> Result<Result<LatchOpened, LatchNotOpened>, Error> {
    let AwaitLatch {
        name,
        session,
        wait,
    } = request;
    let deadline = end_of(*wait);
    core.check_serving()?;
    let session = core.live_session(session.as_ref())?;
    let seen = core.scripts.inspect_latch(name.store_key()).await?;
    if seen.count == 0 {
        return Ok(Ok(opened(name)));
    }
    if *wait == Some(Duration::ZERO) {
        return Ok(Err(LatchNotOpened {
            why: WaitEnd::TimedOut,
            count: seen.count,
        }));
    }
    let stops = WaitContext::admit(core, session, deadline, progress)?;
    let forgotten_at = seen.remaining.map(|left| Instant::now() + left);
    // A latch grants nothing, so its waiters need no owner of their own.
    let owner = Owner::made(name, None);
    let place = core.waiters.join(
        name,
        Goal::Latch,
        (owner, stops.progress.account()),
        forgotten_at.into(),
        None,
    )?;
    wait_for(core, name, &place, seen.count, &stops).await
}

fn opened(name: &LockName) -> LatchOpened {
    LatchOpened { name: name.clone() }
}

async fn wait_for<P: Progress>(
    core: &Core,
    name: &LockName,
    place: &QueueTicket,
    mut count: u32,
    stops: &WaitContext<'_, P>,
) -> Result<Result<LatchOpened, LatchNotOpened>, Error> {
    let mut notified = None;
    let mut trouble: Option<CallError> = None;
    let mut check_at = None;
    loop {
        if place.is_next() {
            check_at.get_or_insert_with(|| core.check_at(place.standing().holder.until));
        }
        if notified != Some(count) && stops.progress.notify(WaitState::Latch(count)) {
            notified = Some(count);
        }
        match next(core, place, check_at, stops).await {
            Next::Notify => match place.seen() {
                Some(0) => return Ok(Ok(opened(name))),
                seen => count = seen.unwrap_or(count),
            },
            Next::End(end) => {
                let why = ended(end?, trouble)?.why;
                return Ok(Err(LatchNotOpened { why, count }));
            }
            Next::Try => {
                let begun = place.begin_look();
                match core.scripts.inspect_latch(name.store_key()).await {
                    Ok(seen) => {
                        trouble = None;
                        count = seen.count;
                        place.tell_seen(begun, count);
                        if count == 0 {
                            return Ok(Ok(opened(name)));
                        }
                        let forgotten_at = seen.remaining.map(|left| Instant::now() + left);
                        check_at = Some(core.check_at(forgotten_at));
                    }
                    Err(error @ (CallError::Unavailable(_) | CallError::OutcomeUnknown(_))) => {
                        trouble = Some(error);
                        check_at = Some(core.check_at(None));
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

// === impl LatchNotOpened ===

impl LatchNotOpened {
    pub(crate) fn summary(self) -> Summary {
        Summary::NotOpened(self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        coordinator::Coordinator,
        testing::{Caller, Fault, Faults, MILLI, SECOND, config, name, start_faulty},
    };

    /// A coordinator with a latch that is closed.
    async fn closed(ttl: Option<Duration>) -> (Faults, Coordinator) {
        let (faults, coordinator, _store) = start_faulty(config());
        let set = SetCount {
            name: name("l"),
            count: 1,
            ttl,
            request_id: None,
        };
        super::set(&coordinator.core, &set).await.unwrap();
        (faults, coordinator)
    }

    fn awaiting(wait: Option<Duration>) -> AwaitLatch {
        AwaitLatch {
            name: name("l"),
            session: None,
            wait,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_latch_that_is_forgotten_later_is_not_looked_at_earlier() {
        let mut looks = Vec::new();
        for ttl in [None, Some(SECOND * 10)] {
            let (faults, coordinator) = closed(ttl).await;
            let core = Arc::clone(&coordinator.core);
            coordinator.core.tasks.spawn("wait", async move {
                let mut caller = Caller::default();
                drop(await_latch(&core, &awaiting(None), &mut caller).await);
            });
            tokio::time::sleep(MILLI * 500).await;
            looks.push(faults.calls("latch_inspect"));
        }
        assert!(looks[0] > 0 && looks[0] == looks[1], "{looks:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_an_error_of_a_store_that_is_still_away() {
        // How many looks fail from some moment on; as many would fail at once if nothing paused.
        for (failures, is_back) in [(1, true), (1000, false)] {
            let (faults, coordinator) = closed(None).await;
            let (request, mut caller) = (awaiting(Some(SECOND * 5)), Caller::default());
            let waits = await_latch(&coordinator.core, &request, &mut caller);
            let outage = async {
                tokio::time::sleep(SECOND).await;
                for _ in 0..failures {
                    faults.next("latch_inspect", Fault::Unavailable);
                }
            };
            let (ended, ()) = tokio::join!(waits, outage);
            let not_opened = LatchNotOpened {
                why: WaitEnd::TimedOut,
                count: 1,
            };
            match ended {
                Ok(ended) => assert_eq!((ended, is_back), (Err(not_opened), true)),
                Err(error) => {
                    let is_away = matches!(error, Error::Store(CallError::Unavailable(_)));
                    assert!(is_away && !is_back, "{error:?}");
                }
            }
        }
    }
}
