//! Administration: lists locks and sessions of all callers, and releases locks by force.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use lockkeeper_store::script::{Asked, NameKind, WalkCursor};
use tokio::time::Instant;

use crate::{
    coordinator::Coordinator,
    core::Core,
    error::Error,
    latch::{self, LatchDescription},
    lock::{
        describe::{holder_seen, look},
        outcome::{Description, HolderSeen},
    },
    loss::{FORCED_HOLDERS, closed_until},
    semaphore::{self, outcome::SemaphoreDescription},
    session::seen::SessionSeen,
    types::{Invalid, LockName, LostReason, over},
};

/// Default and maximum entries of a page.
const PAGE_SIZE: usize = 100;
const PAGE_SIZE_MAX: usize = 1000;

/// Keys per step of a walk, and maximum steps per page.
const STEP_KEYS: u32 = 500;
const STEPS_MAX: usize = 20;

/// By how much smaller a step is tried again whose names are more than a page.
const STEP_SHRINKS: u32 = 4;

/// Concurrent lookups of locks.
pub(crate) const LOOKS_AT_ONCE: usize = 32;

/// Holders that a list shows per lock; the others are only counted.
const LISTED_HOLDERS: u32 = 10;

/// Permits per semaphore whose owners a list counts.
const LISTED_PERMITS: u32 = 1000;

/// Maximum bytes of a reason.
const REASON_BYTES_MAX: usize = 256;

/// A page of names in use.
#[derive(Clone, Debug)]
pub struct ListedLocks {
    /// The names found.
    pub locks: Vec<LockSeen>,
    /// Token of the next page; none on the last.
    pub next: Option<String>,
}

/// A name in use.
#[derive(Clone, Debug)]
pub enum LockSeen {
    /// A lock, with its kind.
    Lock(NameKind, Description),
    /// A semaphore.
    Semaphore(SemaphoreDescription),
    /// A latch.
    Latch(LatchDescription),
}

/// A page of sessions.
#[derive(Clone, Debug)]
pub struct ListedSessions {
    /// In the order of their digests.
    pub sessions: Vec<SessionSeen>,
    /// Token of the next page; none on the last.
    pub next: Option<String>,
    /// The total number of sessions.
    pub count: usize,
}

/// The reason of a forced release: not empty, within the limit, without control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(Arc<str>);

/// The holders of a lock that was released by force.
#[derive(Clone, Debug, Default)]
pub struct ForceReleased {
    /// The first holders; empty if there were none.
    pub holders: Vec<HolderSeen>,
    /// The number of holders.
    pub holder_count: usize,
    /// The end of the grace period; `None` if the lock is open.
    pub closed_until: Option<Instant>,
}

/// Where a page of names begins: a step of a walk, and the last name of that step already listed.
#[derive(Debug, Default)]
struct PageCursor {
    cursor: WalkCursor,
    behind: String,
}

// === impl Coordinator ===

impl Coordinator {
    /// A page of the names in use in the store that begin with `prefix`. `page_size` 0: the
    /// default.
    pub async fn list_locks(
        &self,
        prefix: &str,
        page_size: usize,
        page_token: &str,
    ) -> Result<ListedLocks, Error> {
        self.search_locks(prefix, "", page_size, page_token).await
    }

    /// The same of the names that contain `part` behind the prefix.
    pub async fn search_locks(
        &self,
        prefix: &str,
        part: &str,
        page_size: usize,
        page_token: &str,
    ) -> Result<ListedLocks, Error> {
        let core = &self.core;
        let limits = &core.config.limits;
        let prefix = [&limits.key_prefix, prefix].concat();
        let (found, next) = core
            .walk((&prefix, part), page_size_of(page_size), page_token)
            .await?;
        // Other programs' names in the store need not be valid in a request.
        let named = found.into_iter().filter_map(|(name, kind)| {
            let public = name.strip_prefix(limits.key_prefix.as_ref())?;
            Some((LockName::parse(public, limits).ok()?, kind))
        });
        let looks = stream::iter(named).map(|(name, kind)| core.look(name, kind));
        let seen: Vec<_> = looks.buffered(LOOKS_AT_ONCE).try_collect().await?;
        Ok(ListedLocks {
            locks: seen.into_iter().flatten().collect(),
            next: next.map(|place| place.to_token()),
        })
    }

    /// A page of the sessions of this coordinator.
    pub fn list_sessions(&self, page_size: usize, page_token: &str) -> ListedSessions {
        let sessions = self.core.sessions.all();
        let count = sessions.len();
        let mut seen: Vec<SessionSeen> = sessions.iter().map(|session| session.seen()).collect();
        seen.sort_by(|a, b| a.digest.cmp(&b.digest));
        seen.retain(|session| session.digest.as_str() > page_token);
        let more = seen.len() > page_size_of(page_size);
        seen.truncate(page_size_of(page_size));
        let next = seen.last().filter(|_| more);
        ListedSessions {
            next: next.map(|session| session.digest.clone()),
            sessions: seen,
            count,
        }
    }

    /// Releases every hold of a lock by force, notifies the holders that have a session here, and
    /// wakes the waiters. The lock stays closed until all former holders that have a session have
    /// released their lost grants, at most for `grace`.
    pub async fn force_release(
        &self,
        name: &LockName,
        reason: &Reason,
        grace: Duration,
    ) -> Result<ForceReleased, Error> {
        let (core, name, reason) = (Arc::clone(&self.core), name.clone(), reason.clone());
        let work = Box::pin(async move { core.force(&name, &reason, grace, None).await });
        self.core.tasks.detach_on_drop("force_release", work).await
    }
}

// === impl Core ===

impl Core {
    /// At most `count` names in use, with this beginning and this part, and where to continue.
    async fn walk(
        &self,
        (prefix, part): (&str, &str),
        count: usize,
        token: &str,
    ) -> Result<(Vec<(String, NameKind)>, Option<PageCursor>), Error> {
        let mut place = PageCursor::from_token(token)?;
        let mut found: Vec<(String, NameKind)> = Vec::new();
        let mut work = if place.behind.is_empty() {
            STEP_KEYS
        } else {
            1
        };
        for _ in 0..STEPS_MAX {
            let (names, next) = self.scripts.walk(place.cursor, prefix, work).await?;
            let mut new: Vec<_> = names
                .into_iter()
                .filter(|(name, _)| {
                    let rest = name.strip_prefix(prefix);
                    *name > place.behind && rest.is_some_and(|rest| rest.contains(part))
                })
                .collect();
            if found.len() + new.len() > count {
                // The same step covers more keys later, if others are gone. So a page ends before a
                // step that does not fit, or begins with a smaller one.
                if !found.is_empty() {
                    break;
                }
                if work > 1 {
                    work = (work / STEP_SHRINKS).max(1);
                    continue;
                }
                new.truncate(count);
                place.behind = new.last().map_or(place.behind, |(name, _)| name.clone());
                return Ok((new, Some(place)));
            }
            found.append(&mut new);
            let Some(cursor) = next else {
                return Ok((found, None));
            };
            place = PageCursor {
                cursor,
                behind: String::new(),
            };
            if found.len() == count {
                break;
            }
        }
        Ok((found, Some(place)))
    }

    /// None if it is no longer in use.
    pub(crate) async fn look(
        &self,
        name: LockName,
        kind: NameKind,
    ) -> Result<Option<LockSeen>, Error> {
        let seen = match kind {
            NameKind::Lock | NameKind::ReadWriteLock => look(self, &name, LISTED_HOLDERS)
                .await
                .map(|seen| LockSeen::Lock(kind, seen)),
            NameKind::Semaphore => {
                let listed = LISTED_HOLDERS as usize;
                semaphore::describe::look(self, &name, listed, LISTED_PERMITS)
                    .await
                    .map(LockSeen::Semaphore)
            }
            NameKind::Latch => latch::look(self, &name).await.map(LockSeen::Latch),
        };
        match seen {
            Ok(LockSeen::Lock(_, seen)) if seen.holder_count == 0 && seen.waiter_count == 0 => {
                Ok(None)
            }
            Ok(seen) => Ok(Some(seen)),
            Err(Error::Store(error)) if !error.is_transient() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Releases a lock by force; if holders were `asked` to yield, only while it has no other
    /// holder.
    pub(crate) async fn force(
        &self,
        name: &LockName,
        reason: &Reason,
        grace: Duration,
        asked: Option<Asked<'_>>,
    ) -> Result<ForceReleased, Error> {
        let (scripts, acks) = self.replicated(0);
        let (key, max) = (name.store_key(), FORCED_HOLDERS);
        let forced = scripts.force_release(key, &reason.0, grace, asked, max);
        let Some(forced) = forced.await? else {
            return Ok(ForceReleased::default());
        };
        if let Err(error) = acks.acknowledged() {
            tracing::info!(%name, %error, "released by force");
        }
        let mut closed_until = closed_until(forced.grace);
        let lost = LostReason::ForceReleased {
            reason: Arc::clone(&reason.0),
            closed_until,
            preempted: asked.is_some(),
        };
        let holders = forced.holders.iter();
        let holders: Vec<_> = holders.map(|it| holder_seen(self, name, it)).collect();
        self.tell_lost(name, forced.token, &holders, &lost).await;
        for holder in &holders {
            // Nothing tells a holder without a session, so an operator gains nothing by waiting for
            // it. But who preempts relies on its lease.
            if closed_until.is_some()
                && asked.is_none()
                && holder.owner.session.is_none()
                && self
                    .acknowledge_forced(name, holder.mode, &holder.owner)
                    .await
            {
                closed_until = None;
            }
        }
        Ok(ForceReleased {
            holders,
            holder_count: forced.holder_count,
            closed_until,
        })
    }
}

// === impl Reason ===

impl Reason {
    /// Validates a reason.
    pub fn parse(reason: &str) -> Result<Self, Invalid> {
        let refuse = |why: String| Err(Invalid::new("reason", why));
        if reason.trim().is_empty() {
            return refuse("must not be empty".to_owned());
        }
        if let Some(why) = over(reason, REASON_BYTES_MAX) {
            return refuse(why);
        }
        Ok(Self(reason.into()))
    }

    /// The reason.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl PageCursor ===

impl PageCursor {
    fn to_token(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}/{}", self.cursor, self.behind))
    }

    fn from_token(token: &str) -> Result<Self, Invalid> {
        if token.is_empty() {
            return Ok(Self::default());
        }
        let read = || {
            let text = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
            let (cursor, behind) = text.split_once('/')?;
            Some(Self {
                cursor: cursor.parse().ok()?,
                behind: behind.to_owned(),
            })
        };
        read().ok_or_else(|| Invalid::new("page_token", "is not one that was given out"))
    }
}

fn page_size_of(asked: usize) -> usize {
    match asked {
        0 => PAGE_SIZE,
        asked => asked.min(PAGE_SIZE_MAX),
    }
}

#[cfg(test)]
#[path = "admin_tests.rs"]
mod tests;
