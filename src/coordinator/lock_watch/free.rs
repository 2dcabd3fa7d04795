//! Waiting until a lock is free, without acquiring it. The wait ends with a look at the store that
//! began after the call and found no holder.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, Inspected};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    follow::{followed::Following, task::follow},
    lock::{describe::inspect, outcome::NotGranted},
    lock_watch::look::{LockShown, Look},
    progress::{Progress, WaitState},
    types::{HolderKnown, LockName, SessionId},
    wait::{WaitContext, end_of, ended},
    waiters::place::QueueStatus,
};

/// The position of a call that is in no queue.
const NO_POSITION: u32 = 0;

/// A request to wait until a lock is free.
#[derive(Clone, Debug)]
pub struct AwaitFree {
    /// The lock.
    pub name: LockName,
    /// The session whose end ends the wait.
    pub session: Option<SessionId>,
    /// None: unlimited.
    pub wait: Option<Duration>,
}

/// The lock was free when the store was asked. Any owner may hold it by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockFree {
    /// The lock.
    pub name: LockName,
    /// The newest fencing token; 0 if none is known.
    pub fencing_token: u64,
}

pub(crate) async fn await_free<P: Progress>(
    core: &Arc<Core>,
    request: &AwaitFree,
    progress: &mut P,
) -> Result<Result<LockFree, NotGranted>, Error> {
    let AwaitFree {
        name,
        session,
        wait,
    } = request;
    let begun = Instant::now();
    let deadline = end_of(*wait);
    core.check_serving()?;
    let session = core.live_session(session.as_ref())?;
    let holder = match freed(name, &inspect(core, name, 1).await?) {
        Ok(free) => return Ok(Ok(free)),
        Err(holder) if *wait == Some(Duration::ZERO) => {
            return Ok(Err(NotGranted::timed_out(holder)));
        }
        Err(holder) => holder,
    };
    let stops = WaitContext::admit(core, session, deadline, progress)?;
    let following = follow(core, name, stops.progress.account())?;
    wait_for(core, name, (following, begun), holder, &stops).await
}

async fn wait_for<P: Progress>(
    core: &Core,
    name: &LockName,
    (mut following, mut after): (Following<LockShown>, Instant),
    holder: HolderKnown,
    stops: &WaitContext<'_, P>,
) -> Result<Result<LockFree, NotGranted>, Error> {
    let mut status = QueueStatus {
        position: NO_POSITION,
        holder,
    };
    let mut notified = None;
    let mut trouble: Option<CallError> = None;
    loop {
        let is_news = notified.as_ref().is_none_or(|it| status.is_news(it));
        if is_news
            && stops
                .progress
                .notify(WaitState::Lock(status.clone().into()))
        {
            notified = Some(status.clone());
        }
        let look = tokio::select! {
            biased;
            end = stops.stopped(core) => return end.map(Err),
            () = stops.timed_out() => {
                return ended(NotGranted::timed_out(status.holder), trouble).map(Err);
            }
            look = next_look(&mut following, after) => look?,
        };
        after = look.begun;
        match &look.seen {
            Ok(seen) => match freed(name, seen) {
                Ok(free) => return Ok(Ok(free)),
                Err(holder) => (status.holder, trouble) = (holder, None),
            },
            Err(error) if error.is_transient() => trouble = Some(error.clone()),
            Err(error) => return Err(error.clone().into()),
        }
    }
}

/// The next look that began after this moment. Looks are shared, so the last one may be older than
/// the call.
async fn next_look(
    following: &mut Following<LockShown>,
    after: Instant,
) -> Result<Arc<Look>, Error> {
    let looks = &mut following.changes;
    loop {
        match looks.borrow_and_update().clone() {
            Some(look) if look.begun > after => return Ok(look),
            _ => {}
        }
        // The task that looks ends after those who wait.
        looks.changed().await.map_err(|_ended| Error::Draining)?;
    }
}

/// What is known of the holder unless the lock is free.
fn freed(name: &LockName, seen: &Inspected) -> Result<LockFree, HolderKnown> {
    if seen.mode.is_none() {
        return Ok(LockFree {
            name: name.clone(),
            fencing_token: seen.token,
        });
    }
    Err(HolderKnown {
        until: seen.remaining.map(|left| Instant::now() + left),
        note: seen.holders.first().and_then(|it| it.note.clone()),
    })
}
