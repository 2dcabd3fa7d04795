//! Resumes a session: the grants that its client names are checked in the store.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lockkeeper_access::{Account, Identity};
use lockkeeper_store::script::{CallError, PermitId};
use tokio::{sync::SemaphorePermit, time::timeout};

use crate::{
    coordinator::Coordinator,
    core::Core,
    error::{Error, Limit},
    owner_lock::OwnerLock,
    resume_check::{Checked, Resumed},
    resume_token::{Claims, Issue},
    session::session::Session,
    stream::{Opened, Stream},
    types::{
        Grant, GrantKey, Holding, LockName, LostReason, OnDisconnect, Owner, PermitGrant, SessionId,
    },
};

/// What a resumed session holds of what its client named.
#[derive(Default)]
struct Kept {
    grants: Vec<Grant>,
    permits: Vec<PermitGrant>,
    /// All that the client named, held or not.
    named: HashSet<GrantKey>,
    permit_ids: HashSet<PermitId>,
    /// The serials of what the store has confirmed.
    confirmed: HashMap<GrantKey, u64>,
}

// === impl Coordinator ===

impl Coordinator {
    /// Resumes a session, whether or not this coordinator knows it. The grants that the client
    /// names are checked by renewing them. Grants of the session that it does not name are
    /// released, since nobody would release them otherwise. An error leaves the session unchanged.
    ///
    /// Waits for its turn while many others resume, at most for half of the session's lease.
    /// Cancelling it gives the turn up.
    pub async fn resume(
        &self,
        account: Account,
        id: &SessionId,
        resume_token: &[u8],
        mut named: Resumed,
    ) -> Result<Opened, Error> {
        let core = &self.core;
        core.check_serving()?;
        let limits = &core.config.limits;
        let whose = account.identity();
        let secrets = &core.config.session_secrets;
        let (claims, issue) = Claims::verify(resume_token, secrets, (id, whose), limits)
            .ok_or(Error::ResumeTokenInvalid)?;
        let _turn = core.turn_to_resume(claims.lease).await?;
        core.check_serving()?;
        let is_fresh = core.is_fresh(id, issue)?;
        let unknown = core.expect_not_ended(whose, id).await?;
        // Another coordinator would release the grants of such a session on noticing its own broken
        // stream.
        if claims.on_disconnect == OnDisconnect::Release {
            core.sessions.get(id)?.live()?;
        }
        // Operations in progress on these grants end before the check, and later ones know that
        // they were confirmed.
        let owner_locks = core.turns_of(&named).await?;
        let forbidden = named.take_forbidden();
        let mut checked = core.check(&claims, named.locks).await?;
        checked.extend(core.check_permits(&claims, named.permits).await?);
        // A client also names what it may hold, so only what it does hold counts.
        let held = checked.iter().filter(|(_, _, held)| held.is_ok()).count();
        if held > limits.grants_per_session_max {
            return Err(Error::LimitReached(Limit::GrantsPerSession));
        }
        // A grant shows that the session lives: its end releases them all, and until then its
        // client may keep an old token.
        if held == 0 {
            unknown.map_or(Ok(()), Err)?;
            if !is_fresh {
                return Err(Error::ResumeTokenExpired);
            }
        }
        let reasons = core.why_all_gone(&checked).await;
        let generation = issue.map_or(0, |it| it.generation).saturating_add(1);
        let stream = core.attach(id, claims, account, generation)?;
        let session = Arc::clone(&stream.session);
        core.announce_resume(&session, generation);
        let known = session.grants();
        let kept = core.take_over(&session, checked, reasons, forbidden)?;
        drop(owner_locks);
        core.release_unnamed(&session, known, &kept);
        // A drain that began meanwhile may have notified its sessions before this one was there.
        if core.draining.is_cancelled() {
            session.go_away();
        }
        let Kept {
            grants, permits, ..
        } = kept;
        tracing::debug!(session = %session.id.digest(), grants = grants.len(), "session resumed");
        Ok(Opened {
            resume_token: core.resume_token(&session),
            stream,
            grants,
            permits,
        })
    }
}

// === impl Core ===

impl Core {
    /// Waits for the turn of a session with this lease. An error if it comes too late for what the
    /// session holds.
    async fn turn_to_resume(&self, lease: Duration) -> Result<SemaphorePermit<'_>, CallError> {
        let turn = timeout(lease / 2, self.resumes.acquire()).await;
        let turn = turn.ok().and_then(Result::ok);
        turn.ok_or_else(|| {
            let why = "too many sessions are resumed at once; resume again";
            CallError::Unavailable(why.to_owned())
        })
    }

    /// Fails if the session has ended for good. Returns why that is not known, if the server that
    /// has the record does not answer: those of the session's locks may.
    async fn expect_not_ended(
        &self,
        whose: &Identity,
        id: &SessionId,
    ) -> Result<Option<CallError>, Error> {
        let group = self.group(whose);
        match self.scripts.has_session_ended(&group, &id.digest()).await {
            Ok(true) => Err(Error::SessionEnded),
            Ok(false) => Ok(None),
            Err(error) if error.is_transient() => Ok(Some(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// A new stream of the session, which may be new here. The resume is counted before, so that a
    /// message about an earlier one does not end it.
    fn attach(
        self: &Arc<Self>,
        id: &SessionId,
        claims: Claims,
        account: Account,
        generation: u32,
    ) -> Result<Stream, Error> {
        let attach = |session: Arc<Session>| {
            session.count_resume(generation);
            Stream::new(self, session)
        };
        if let Some(stream) = self.sessions.get(id).ok().and_then(attach) {
            return Ok(stream);
        }
        let sessions = &self.sessions;
        let session = sessions.add(id.clone(), claims, account, &self.deadlines)?;
        attach(session).ok_or(Error::SessionNotFound)
    }

    /// A resume token of the session that is issued now.
    pub(crate) fn resume_token(&self, session: &Session) -> Vec<u8> {
        let claims = Claims {
            lease: session.lease,
            on_disconnect: session.on_disconnect,
            client_name: session.client_name.clone(),
        };
        let issue = Issue {
            at: (self.config.unix_seconds)(),
            generation: session.generation.load(Ordering::Relaxed),
        };
        let of = (&session.id, session.account.identity());
        claims.sign(issue, &self.config.session_secrets, of, &self.config.limits)
    }

    /// Whether a token of this issue is accepted by itself: it is young, or this coordinator has
    /// its session. An error if a newer one has replaced it.
    fn is_fresh(&self, id: &SessionId, issue: Option<Issue>) -> Result<bool, Error> {
        if let Ok(session) = self.sessions.get(id) {
            // The answer to the last resume may have been lost, and the one before is then shown.
            let generation = issue.map_or(0, |it| it.generation).saturating_add(1);
            if generation < session.generation.load(Ordering::Relaxed) {
                return Err(Error::ResumeTokenExpired);
            }
            return Ok(true);
        }
        let age = match issue {
            Some(issue) => {
                let now = (self.config.unix_seconds)();
                Duration::from_secs(now.abs_diff(issue.at))
            }
            // Of an older version, which issued it before this coordinator replaced another.
            None => self.started.elapsed(),
        };
        Ok(age <= self.config.resume_max)
    }

    /// Registers the checked grants with a resumed session, and tells its client which are lost.
    fn take_over(
        self: &Arc<Self>,
        session: &Arc<Session>,
        checked: Vec<Checked>,
        reasons: Vec<Option<LostReason>>,
        forbidden: Vec<Holding>,
    ) -> Result<Kept, Error> {
        let mut kept = Kept::default();
        let deadlines = &self.deadlines;
        let gone = forbidden.into_iter().map(|it| (it, LostReason::Expired));
        let mut gone: Vec<_> = gone.collect();
        for (grant, _) in &gone {
            kept.names(grant);
        }
        for ((grant, sent_at, outcome), reason) in checked.into_iter().zip(reasons) {
            if let Err(ownership) = outcome {
                kept.named.insert(GrantKey::of_holding(&grant));
                gone.push((grant, reason.unwrap_or_else(|| ownership.into())));
                continue;
            }
            kept.names(&grant);
            let key = GrantKey::of_holding(&grant);
            kept.confirmed.insert(key.clone(), grant.serial());
            // A loss that the session has heard of since is newer than the answer of the store.
            // Whatever is left of the grant is released.
            match grant {
                Holding::Lock(found) => {
                    match session.register_found(deadlines, found.clone(), sent_at)? {
                        Some(grant) => kept.grants.push(grant),
                        None => self.release_later(Holding::Lock(found)),
                    }
                }
                Holding::Permits(found) => {
                    match session.register_found_permits(deadlines, found.clone(), sent_at)? {
                        Some(grant) => kept.permits.push(grant),
                        None => self.release_later(Holding::Permits(found)),
                    }
                }
            }
            session.confirm(&key);
        }
        let unread = session.forget_losses(|lost| kept.has_confirmed(lost));
        for (grant, reason) in gone {
            session.lose_named(deadlines, grant, reason, &unread);
        }
        Ok(kept)
    }

    /// Releases what a resumed session had and its client did not name.
    fn release_unnamed(self: &Arc<Self>, session: &Arc<Session>, known: Vec<Holding>, kept: &Kept) {
        for mut grant in known {
            let key = GrantKey::of_holding(&grant);
            let is_named = kept.named.contains(&key);
            if !is_named {
                session.disown(&key);
                session.set_holds(&self.deadlines, &key, 0, None);
            }
            match &mut grant {
                Holding::Lock(_) if is_named => continue,
                Holding::Lock(_) => {}
                // The client may name only some permits of a grant, or name it after losing some.
                Holding::Permits(grant) => {
                    let ids = grant.ids.iter();
                    let ids = ids.filter(|id| !kept.permit_ids.contains(*id));
                    grant.ids = ids.copied().collect();
                }
            }
            self.release_later(grant);
        }
    }

    /// The owner locks of all grants that a resuming client names, in an order that prevents
    /// deadlocks between resumes.
    async fn turns_of(&self, named: &Resumed) -> Result<Vec<OwnerLock>, CallError> {
        let locks = named.locks.iter().map(|grant| (&grant.name, &grant.owner));
        let permits = named.permits.iter().map(|it| (&it.name, &it.owner));
        let keys: BTreeMap<(&LockName, &Arc<str>), &Owner> = locks
            .chain(permits)
            .map(|(name, owner)| ((name, &owner.label), owner))
            .collect();
        let mut owner_locks = Vec::with_capacity(keys.len());
        for ((name, _), owner) in keys {
            owner_locks.push(self.owner_lock(name, owner).await?);
        }
        Ok(owner_locks)
    }
}

// === impl Kept ===

impl Kept {
    /// The client has named it: nothing of it is released.
    fn names(&mut self, grant: &Holding) {
        self.named.insert(GrantKey::of_holding(grant));
        if let Holding::Permits(grant) = grant {
            self.permit_ids.extend(grant.ids.iter());
        }
    }

    /// Whether this is a grant that the store has confirmed. Permits are known by their ids.
    fn has_confirmed(&self, grant: &Holding) -> bool {
        let serial = self.confirmed.get(&GrantKey::of_holding(grant));
        serial.is_some_and(|serial| grant.lock().is_none() || *serial == grant.serial())
    }
}
