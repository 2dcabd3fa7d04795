//! Resumes a session: the grants that its client names are checked in the store.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use lockkeeper_access::Account;
use lockkeeper_store::script::{
    CallError, Mode, Moved, Note, Ownership, PermitId, PermitRenewal, Renewal,
};
use tokio::{
    sync::SemaphorePermit,
    time::{Instant, timeout},
};

use crate::{
    coordinator::Coordinator,
    core::Core,
    error::{Error, Limit},
    lock::describe::LISTED_MAX,
    owner_lock::OwnerLock,
    resume_token::{Claims, Issue},
    session::session::Session,
    stream::{Opened, Stream},
    types::{
        Grant, GrantKey, Holding, LockName, LostReason, OnDisconnect, Owner, PermitGrant,
        SessionId, safe_until,
    },
    watchdog::RENEWALS_PER_CALL,
};

/// A grant that a resuming client presumes to hold.
#[derive(Clone, Debug)]
pub struct ResumedGrant {
    /// The lock.
    pub name: LockName,
    /// The mode it is held in.
    pub mode: Mode,
    /// The owner within the session.
    pub owner: Owner,
    /// Whether the watchdog renews it.
    pub watched: bool,
    /// The last fencing token the client knows, for the notice if the grant is lost.
    pub fencing_token: u64,
    /// The last hold count the client knows, for the notice if the grant is lost.
    pub hold_count: u32,
}

/// Permits of one grant that a resuming client presumes to hold.
#[derive(Clone, Debug)]
pub struct ResumedPermits {
    /// The semaphore.
    pub name: LockName,
    /// The owner within the session.
    pub owner: Owner,
    /// The permits.
    pub ids: Arc<[PermitId]>,
    /// Whether the watchdog renews them.
    pub watched: bool,
}

/// Everything that a resuming client presumes to hold.
#[derive(Clone, Debug, Default)]
pub struct Resumed {
    /// Locks.
    pub locks: Vec<ResumedGrant>,
    /// Permits.
    pub permits: Vec<ResumedPermits>,
}

/// A grant checked in the store: its state, when the check was sent, and why it is gone if it is.
type Checked = (Holding, Instant, Result<(), Ownership>);

/// What a resumed session holds of what its client named.
#[derive(Default)]
struct Kept {
    grants: Vec<Grant>,
    permits: Vec<PermitGrant>,
    /// All that the client named, held or not.
    named: HashSet<GrantKey>,
    permit_ids: HashSet<PermitId>,
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
        named: Resumed,
    ) -> Result<Opened, Error> {
        let core = &self.core;
        core.check_serving()?;
        let limits = &core.config.limits;
        let whose = account.identity();
        let secrets = &core.config.session_secrets;
        let (claims, issue) = Claims::verify(resume_token, secrets, (id, whose), limits)
            .ok_or(Error::ResumeTokenInvalid)?;
        let _turn = core.turn_to_resume(claims.lease).await?;
        let is_fresh = core.is_fresh(id, issue)?;
        if named.locks.len() + named.permits.len() > limits.grants_per_session_max {
            return Err(Error::LimitReached(Limit::GrantsPerSession));
        }
        let group = core.group(whose);
        if core.scripts.has_session_ended(&group, &id.digest()).await? {
            return Err(Error::SessionEnded);
        }
        // Another coordinator would release the grants of such a session on noticing its own broken
        // stream.
        if claims.on_disconnect == OnDisconnect::Release {
            core.sessions.get(id)?.live()?;
        }
        // Operations in progress on these grants end before the check, and later ones know that
        // they were confirmed.
        let owner_locks = core.turns_of(&named).await?;
        let mut checked = core.check(&claims, named.locks).await?;
        checked.extend(core.check_permits(&claims, named.permits).await?);
        // A client may keep an old token as long as its session lives, as a grant shows.
        if !is_fresh && !checked.iter().any(|(_, _, held)| held.is_ok()) {
            return Err(Error::ResumeTokenExpired);
        }
        let reasons = core.why_all_gone(&checked).await;
        let known = core.sessions.get(id).ok();
        let resumed = known.and_then(|session| Stream::new(core, session));
        let is_new = resumed.is_none();
        let stream = if let Some(stream) = resumed {
            stream
        } else {
            let session = core
                .sessions
                .add(id.clone(), claims, account, &core.deadlines)?;
            Stream::new(core, session).ok_or(Error::SessionNotFound)?
        };
        let session = Arc::clone(&stream.session);
        core.count_resume(&session, issue, is_new);
        let known = session.grants();
        session.forget_losses();
        let kept = core.take_over(&session, checked, reasons)?;
        drop(owner_locks);
        core.release_unnamed(&session, known, &kept);
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

    /// Counts a resume, and tells of it if another coordinator may have the session, too: it is new
    /// here, or its token is from elsewhere.
    fn count_resume(self: &Arc<Self>, session: &Session, issue: Option<Issue>, is_new: bool) {
        let generation = issue.map_or(0, |it| it.generation).saturating_add(1);
        let before = session.generation.fetch_max(generation, Ordering::Relaxed);
        if is_new || generation > before.saturating_add(1) {
            self.tell_moved(session, generation);
        }
    }

    /// Tells the coordinator that had the session so far: its stream there may be broken without a
    /// sign, and what it still waits for would be granted to nobody. If the message is missed, the
    /// end of that stream is noticed later.
    fn tell_moved(self: &Arc<Self>, session: &Session, generation: u32) {
        let moved = Moved {
            session: session.id.as_str().to_owned(),
            generation,
        };
        let (core, lease) = (Arc::clone(self), session.lease);
        self.tasks.spawn("moved", async move {
            let (channel, prefix) = (&core.holders_channel, &core.config.limits.key_prefix);
            let tell = || core.scripts.tell_moved(channel, prefix, &moved);
            core.until_answered(lease, tell).await;
        });
    }

    /// Another coordinator has resumed a session.
    pub(crate) fn on_moved(&self, moved: &Moved) {
        let id = SessionId::parse(&moved.session);
        let Some(session) = id.and_then(|id| self.sessions.get(&id).ok()) else {
            return;
        };
        // Such a session is never resumed elsewhere.
        if session.on_disconnect == OnDisconnect::Release {
            return;
        }
        if session.end_if_moved(&self.deadlines, moved.generation) {
            self.sessions.remove(&session);
            tracing::debug!(session = %session.id.digest(), "session resumed elsewhere");
        }
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
        &self,
        session: &Arc<Session>,
        checked: Vec<Checked>,
        reasons: Vec<Option<LostReason>>,
    ) -> Result<Kept, Error> {
        let mut kept = Kept::default();
        let deadlines = &self.deadlines;
        for ((grant, sent_at, outcome), reason) in checked.into_iter().zip(reasons) {
            let key = GrantKey::of_holding(&grant);
            kept.named.insert(key.clone());
            if let Err(ownership) = outcome {
                let reason = reason.unwrap_or_else(|| ownership.into());
                session.lose_named(deadlines, grant, reason);
                continue;
            }
            match grant {
                Holding::Lock(grant) => {
                    let grant = session.register_found(deadlines, grant, sent_at)?;
                    kept.grants.push(grant);
                }
                Holding::Permits(grant) => {
                    kept.permit_ids.extend(grant.ids.iter());
                    let grant = session.register_found_permits(deadlines, grant, sent_at)?;
                    kept.permits.push(grant);
                }
            }
            session.confirm(&key);
        }
        Ok(kept)
    }

    /// Releases what a resumed session had and its client did not name.
    fn release_unnamed(self: &Arc<Self>, session: &Arc<Session>, known: Vec<Holding>, kept: &Kept) {
        for mut grant in known {
            let key = GrantKey::of_holding(&grant);
            let is_named = kept.named.contains(&key);
            if !is_named {
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

    /// Renews the grants that a resuming client names. Those with a lease of their own are only
    /// inspected.
    async fn check(
        &self,
        claims: &Claims,
        named: Vec<ResumedGrant>,
    ) -> Result<Vec<Checked>, CallError> {
        let mut checked = Vec::with_capacity(named.len());
        for batch in named.chunks(RENEWALS_PER_CALL) {
            let renewals: Vec<Renewal> = batch
                .iter()
                .map(|grant| Renewal {
                    name: grant.name.shared(),
                    mode: grant.mode,
                    owner: grant.owner.shared_field(),
                    lease: if grant.watched {
                        claims.lease
                    } else {
                        Duration::ZERO
                    },
                    noted: false,
                })
                .collect();
            let sent_at = Instant::now();
            let (scripts, acks) = self.replicated(0);
            let outcomes = scripts.renew(&renewals).await.complete()?;
            let replica_acks = acks.acknowledged()?;
            for (named, outcome) in batch.iter().zip(outcomes) {
                let renewed = outcome.as_ref().ok();
                let lease = renewed.map_or(Duration::ZERO, |renewed| renewed.lease);
                let grant = Grant {
                    name: named.name.clone(),
                    mode: named.mode,
                    owner: named.owner.clone(),
                    field: None,
                    hold_count: renewed.map_or(named.hold_count, |renewed| renewed.hold_count),
                    fencing_token: renewed.map_or(named.fencing_token, |renewed| renewed.token),
                    serial: renewed.map_or(0, |renewed| renewed.serial),
                    lease,
                    safe_until: safe_until(sent_at, lease),
                    watched: named.watched,
                    replica_acks,
                    min_replica_acks: 0,
                    note: match renewed {
                        Some(renewed) if renewed.noted => self.note_of(named).await?,
                        _ => None,
                    },
                };
                checked.push((Holding::Lock(grant), sent_at, outcome.map(drop)));
            }
        }
        Ok(checked)
    }

    /// What the owner of a grant said of it to the coordinator that it had before.
    async fn note_of(&self, named: &ResumedGrant) -> Result<Option<Arc<Note>>, CallError> {
        let (name, max) = (named.name.store_key(), LISTED_MAX);
        let seen = self.scripts.inspect(name, max).await?;
        let mut holders = seen.holders.into_iter();
        let own = holders.find(|it| {
            let is_read = (it.mode == Mode::Read) == (named.mode == Mode::Read);
            is_read && it.owner == named.owner.field()
        });
        Ok(own.and_then(|own| own.note))
    }

    /// The same for permits.
    async fn check_permits(
        &self,
        claims: &Claims,
        named: Vec<ResumedPermits>,
    ) -> Result<Vec<Checked>, CallError> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let renewals = named.iter().map(|permits| PermitRenewal {
            name: permits.name.shared(),
            owner: permits.owner.shared_field(),
            lease: if permits.watched {
                claims.lease
            } else {
                Duration::ZERO
            },
            ids: Arc::clone(&permits.ids),
        });
        let renewals: Vec<_> = renewals.collect();
        let sent_at = Instant::now();
        let (scripts, acks) = self.replicated(0);
        let outcomes = scripts.renew_permits(&renewals).await.complete()?;
        let replica_acks = acks.acknowledged()?;
        let checked = named.into_iter().zip(outcomes).map(|(permits, outcome)| {
            let lease = outcome.unwrap_or_default();
            let grant = PermitGrant {
                name: permits.name,
                owner: permits.owner,
                ids: permits.ids,
                serial: 0,
                lease,
                safe_until: safe_until(sent_at, lease),
                watched: permits.watched,
                replica_acks,
                min_replica_acks: 0,
            };
            (Holding::Permits(grant), sent_at, outcome.map(drop))
        });
        Ok(checked.collect())
    }

    /// The reason for each one that is gone; all are requested concurrently.
    async fn why_all_gone(&self, checked: &[Checked]) -> Vec<Option<LostReason>> {
        let reasons = checked.iter().map(|(grant, _, outcome)| async {
            match outcome {
                Err(ownership) => Some(self.why_gone(grant, *ownership).await),
                Ok(()) => None,
            }
        });
        futures::future::join_all(reasons).await
    }
}
