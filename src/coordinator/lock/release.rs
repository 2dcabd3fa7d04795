//! Releases one hold of a lock.

use std::{pin::pin, sync::Arc};

use lockkeeper_store::script::{CallError, Mode, Ownership, Released};
use tokio::time::Instant;

use crate::{
    core::Core,
    error::Error,
    events::Event,
    lock::request::Release,
    repeat::undo_while,
    session::session::Session,
    types::{Grant, GrantKey, RequestId, hold_of, safe_until},
    waiters::handover::LastHold,
};

pub(crate) async fn release(core: &Arc<Core>, request: &Release) -> Result<u32, Error> {
    let Release {
        name, mode, owner, ..
    } = request;
    let session = core.session_of(owner)?;
    let owner_lock = core.owner_lock(name, owner).await?;
    let key = GrantKey::new(name, *mode, &owner.label);
    let held = session.as_ref().and_then(|it| it.release_begins(&key));
    // The grant table knows better than the caller whether an exclusive lock has a queue.
    let mode = held.as_ref().map_or(*mode, |held| held.mode);
    let sent_at = Instant::now();
    let released = ask(core, request, mode, session.as_ref(), held.as_ref()).await;
    let Some(session) = session else {
        return of_sessionless(core, request, mode, released?).await;
    };
    match released {
        Ok(Released::Done {
            hold_count,
            held,
            lease,
        }) => {
            // The answer to a repeat is that of the first call; the session's holds are what the
            // store says now.
            let until = Some(safe_until(sent_at, lease));
            session.set_holds(&core.deadlines, &key, held, until);
            Ok(hold_count)
        }
        Ok(Released::NotOwner(ownership)) => {
            let reason = core.why_lost(&session, &key, ownership).await;
            session.lose(&core.deadlines, &key, reason);
            if ownership == Ownership::HeldByAnother {
                core.acknowledge_forced(name, mode, owner).await;
            }
            Err(Error::NotOwner(ownership))
        }
        Err(error) => {
            match (&error, held) {
                (CallError::OutcomeUnknown(_), Some(held)) => {
                    let core = Arc::clone(core);
                    let request = request.clone();
                    core.tasks.clone().spawn("finish-release", async move {
                        finish_release(&core, &session, &request, &key, &held).await;
                        drop(owner_lock);
                    });
                }
                _ => session.set_releasing(&key, false),
            }
            Err(error.into())
        }
    }
}

/// The answer to an owner without a session.
async fn of_sessionless(
    core: &Core,
    request: &Release,
    mode: Mode,
    released: Released,
) -> Result<u32, Error> {
    let Release { name, owner, .. } = request;
    match released {
        Released::Done {
            hold_count, held, ..
        } => {
            // The answer to a repeat is that of the first call, and the lock may be held again.
            if held == 0 {
                core.sessionless.release(name, mode, owner);
            }
            if held == hold_count {
                core.events
                    .tell(|| Event::of_release(name, mode, owner, held));
            }
            Ok(hold_count)
        }
        Released::NotOwner(ownership) => {
            // An earlier release may have run, although it was not answered.
            core.sessionless.release(name, mode, owner);
            if ownership == Ownership::HeldByAnother {
                core.acknowledge_forced(name, mode, owner).await;
            }
            Err(Error::NotOwner(ownership))
        }
    }
}

async fn ask(
    core: &Core,
    request: &Release,
    mode: Mode,
    session: Option<&Arc<Session>>,
    held: Option<&Grant>,
) -> Result<Released, CallError> {
    let Release { name, owner, .. } = request;
    let lease = core.lease_of_held(session, held);
    let record = request.request_id.as_ref().map(RequestId::as_str);
    let serial = held.map(|held| held.serial);
    let (scripts, acks) = core.replicated(0);
    let field = held.and_then(|held| held.field.as_ref());
    let noted = held.is_some_and(|held| held.note.is_some());
    let which = hold_of(name, mode, owner, field.map(AsRef::as_ref)).noted(noted);
    // Of a session without a stream, what was in doubt is not undone, so the store may have more
    // holds than are known.
    let is_sure = session.is_none_or(|session| session.expect_live().is_ok());
    let has_one_hold =
        is_sure && held.is_some_and(|held| held.hold_count == 1 && !noted) && record.is_none();
    // Pinned, so that its state is not kept again by what it is given to.
    let call = pin!(async {
        if has_one_hold {
            scripts.release_last(which, serial, lease).await
        } else {
            scripts.release(which, serial, lease, record).await
        }
    });
    // The answer to a repeat does not say whether the lock has just become free.
    let is_last = is_sure && held.is_none_or(|held| held.hold_count <= 1) && record.is_none();
    let in_one_call = !noted && !core.waits_for_replicas(0);
    let hands_over = match mode {
        Mode::Exclusive => core.scripts.keeps_order(),
        Mode::Fair => in_one_call,
        // A quorum does not hand over.
        Mode::Read | Mode::Write => in_one_call && core.scripts.keeps_order(),
    };
    let released = if is_last && hands_over {
        let last = LastHold {
            name,
            mode,
            owner,
            field,
            serial,
        };
        core.waiters.hand_over(last, in_one_call, call).await
    } else {
        call.await
    };
    // A release known only to the master is safe: at worst the lock is held until its lease ends.
    if let Err(error) = acks.acknowledged() {
        tracing::info!(%name, %error, "released");
    }
    released
}

/// Completes a release with an unknown outcome: the caller wanted it, and repeating it is harmless.
async fn finish_release(
    core: &Arc<Core>,
    session: &Arc<Session>,
    request: &Release,
    key: &GrantKey,
    held: &Grant,
) {
    let left = held.hold_count.saturating_sub(1);
    let (which, serial) = (held.hold(), held.serial);
    let at_most = held.lease;
    // The session no longer has the grant, or only the remaining holds, whatever the store says.
    session.set_holds(&core.deadlines, key, left, None);
    if let Some(id) = &request.request_id {
        // The same call again leaves the record that the client's own repeat will find.
        let again = || {
            core.scripts
                .release(which, Some(serial), at_most, Some(id.as_str()))
        };
        core.until_answered(at_most, again).await;
    } else {
        let only_while = (left > 0).then_some(&**session);
        let lower = || undo_while(only_while, core.scripts.lower(which, serial, left, at_most));
        core.until_answered(at_most, lower).await;
    }
}
