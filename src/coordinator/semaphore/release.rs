//! Releases permits.

use std::sync::Arc;

use lockkeeper_store::script::{CallError, PermitsReleased};

use crate::{
    core::Core,
    error::Error,
    events::Event,
    semaphore::{outcome::ReleasedPermits, request::ReleasePermits},
    session::session::Session,
    types::{GrantKey, PermitGrant, RequestId},
};

pub(crate) async fn release(
    core: &Arc<Core>,
    request: &ReleasePermits,
) -> Result<ReleasedPermits, Error> {
    let ReleasePermits {
        name, owner, ids, ..
    } = request;
    let session = core.session_of(owner)?;
    let owner_lock = core.owner_lock(name, owner).await?;
    let held = session
        .as_ref()
        .map_or_else(Vec::new, |session| session.permits_of(name, owner, ids));
    set_releasing(session.as_ref(), &held, true);
    match ask(core, request).await {
        Ok(PermitsReleased::Done {
            permits,
            available,
            repeated,
        }) => {
            if let Some(session) = &session {
                // A repeat has not released what the owner has taken since the first call.
                if repeated && ids.is_empty() {
                    set_releasing(Some(session), &held, false);
                } else {
                    session.drop_permits(&core.deadlines, &held, ids);
                }
            } else {
                if !repeated || !ids.is_empty() {
                    core.sessionless.release_permits(name, owner, ids);
                }
                if !repeated {
                    core.events.tell(|| Event::of_permit_release(name, owner));
                }
            }
            Ok(ReleasedPermits { permits, available })
        }
        Ok(PermitsReleased::NotOwner(ownership)) => {
            match (&session, held.as_slice()) {
                // It has all of them, or another one may be what is gone.
                (Some(session), [grant]) if ids.iter().all(|id| grant.ids.contains(id)) => {
                    let key = GrantKey::of_permits(grant);
                    session.lose(&core.deadlines, &key, ownership.into());
                }
                // The next renewal finds out which of them it is.
                (Some(session), _) => set_releasing(Some(session), &held, false),
                // An earlier release may have run, although it was not answered. Of several
                // permits, one may be what is gone.
                (None, _) if ids.len() <= 1 => core.sessionless.release_permits(name, owner, ids),
                (None, _) => {}
            }
            Err(Error::NotOwner(ownership))
        }
        Err(error) => {
            match (&error, session) {
                (CallError::OutcomeUnknown(_), Some(session)) if !held.is_empty() => {
                    let (core, request) = (Arc::clone(core), request.clone());
                    // The session no longer has them, whatever the store says.
                    session.drop_permits(&core.deadlines, &held, ids);
                    core.tasks.clone().spawn("finish-release", async move {
                        finish_release(&core, &request, held).await;
                        drop(owner_lock);
                    });
                }
                (_, session) => set_releasing(session.as_ref(), &held, false),
            }
            Err(error.into())
        }
    }
}

async fn ask(core: &Core, request: &ReleasePermits) -> Result<PermitsReleased, CallError> {
    let ReleasePermits {
        name,
        owner,
        ids,
        request_id,
    } = request;
    let record = request_id.as_ref().map(RequestId::as_str);
    let (scripts, acks) = core.replicated(0);
    let call = scripts.release_permits(name.store_key(), owner.field(), ids, record);
    let released = call.await;
    if let Err(error) = acks.acknowledged() {
        tracing::info!(%name, %error, "released");
    }
    released
}

/// Completes a release with an unknown outcome: the caller wanted it, and repeating it is harmless.
async fn finish_release(core: &Core, request: &ReleasePermits, held: Vec<PermitGrant>) {
    let at_most = held.iter().map(|grant| grant.lease).max();
    if request.request_id.is_some() {
        // The same call again leaves the record that the client's own repeat will find.
        let at_most = at_most.unwrap_or_default();
        core.until_answered(at_most, || ask(core, request)).await;
        return;
    }
    for mut grant in held {
        if !request.ids.is_empty() {
            let named = grant.ids.iter().filter(|id| request.ids.contains(id));
            grant.ids = named.copied().collect();
        }
        core.give_permits_back(&grant).await;
    }
}

fn set_releasing(session: Option<&Arc<Session>>, grants: &[PermitGrant], releasing: bool) {
    for grant in grants {
        if let Some(session) = session {
            session.set_releasing(&GrantKey::of_permits(grant), releasing);
        }
    }
}
