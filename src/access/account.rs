//! Quotas: how much one identity may hold at once, and how often it may call.

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use governor::{DefaultDirectRateLimiter, RateLimiter, clock::Clock as _, clock::DefaultClock};
use lockkeeper_base::metrics::{Counters, Label as _, Registrar, label};
use parking_lot::RwLock;

use super::Identity;

/// Limits for each identity at one coordinator; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quotas {
    /// Sessions.
    pub sessions: u32,
    /// Grants; each permit counts.
    pub grants: u32,
    /// Waiting calls.
    pub waiters: u32,
    /// Waiting calls for one name.
    pub waiters_per_lock: u32,
    /// Streams of requests, which clients may leave open.
    pub streams: u32,
    /// Requests per second, also the size of a burst; frames of a session count.
    pub requests_per_second: u32,
}

/// A countable resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Sessions.
    Sessions,
    /// Grants; each permit counts.
    Grants,
    /// Waiting calls.
    Waiters,
    /// Streams of requests.
    Streams,
}

label! {
    /// The quota that refused a request.
    enum Refusing = "quota" {
        Sessions = "sessions",
        Grants = "grants",
        Waiters = "waiters",
        WaitersPerLock = "waiters_per_lock",
        Streams = "streams",
        RequestsPerSecond = "requests_per_second",
    }
}

/// A request exceeds a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the caller's quota access.quotas.{} is used up", self.name())]
pub enum QuotaReached {
    /// The identity has reached the limit.
    Full(Quota),
    /// It has as many waiting calls for one name as it may have.
    WaitersPerLock,
    /// It calls too often, and may call again after this time.
    TooOften(Duration),
}

/// The usage of one identity. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Account {
    identity: Identity,
    /// The peer address, for the audit log.
    peer: Option<SocketAddr>,
    /// None without quotas.
    usage: Option<Arc<Usage>>,
}

/// A use of a quota; dropping this ends it.
#[derive(Debug, Default)]
pub struct Counted(Option<(Arc<Usage>, Quota, u32)>);

#[derive(Debug)]
struct Usage {
    quotas: RwLock<Quotas>,
    refusals: Arc<Counters<Refusing>>,
    sessions: AtomicU32,
    grants: AtomicU32,
    waiters: AtomicU32,
    streams: AtomicU32,
    requests: RwLock<Option<DefaultDirectRateLimiter>>,
}

/// The accounts of one coordinator.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    quotas: RwLock<Quotas>,
    refusals: Arc<Counters<Refusing>>,
    by_identity: DashMap<Identity, Arc<Usage>>,
}

/// Above this number of accounts, a new one removes those without use.
const ACCOUNTS_KEPT: usize = 10_000;

// === impl Accounts ===

impl Accounts {
    pub(super) fn new(quotas: Quotas) -> Self {
        Self {
            quotas: RwLock::new(quotas),
            refusals: Arc::default(),
            by_identity: DashMap::new(),
        }
    }

    /// Sets new quotas. What is above them stays, and counts.
    pub(super) fn set(&self, quotas: Quotas) {
        *self.quotas.write() = quotas;
        // An account that is made meanwhile has them, or is in its shard before that is walked.
        for usage in &self.by_identity {
            usage.set(quotas);
        }
    }

    pub(super) fn register(&self, registrar: &mut Registrar<'_>) {
        let help = "Requests refused because of a quota of the caller's identity";
        registrar.add("quota_refusals", help, self.refusals.family());
    }

    pub(super) fn of(&self, identity: Identity) -> Account {
        if *self.quotas.read() == Quotas::default() {
            return Account::from(identity);
        }
        if let Some(usage) = self.by_identity.get(&identity) {
            let usage = Some(Arc::clone(&usage));
            return Account {
                usage,
                ..identity.into()
            };
        }
        if self.by_identity.len() >= ACCOUNTS_KEPT {
            self.by_identity
                .retain(|_, usage| Arc::strong_count(usage) > 1);
        }
        let made = || {
            let quotas = *self.quotas.read();
            Arc::new(Usage::new(quotas, Arc::clone(&self.refusals)))
        };
        let usage = self
            .by_identity
            .entry(identity.clone())
            .or_insert_with(made);
        let usage = Some(Arc::clone(&usage));
        Account {
            usage,
            ..identity.into()
        }
    }
}

// === impl Account ===

impl Account {
    /// The identity that it belongs to.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The same account, used from this peer.
    #[must_use]
    pub fn used_from(self, peer: Option<SocketAddr>) -> Self {
        Self { peer, ..self }
    }

    /// The peer address, if known.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Adds to the count. Fails if the quota has no room for `more`.
    pub fn count(&self, quota: Quota, more: u32) -> Result<Counted, QuotaReached> {
        let Some(usage) = &self.usage else {
            return Ok(Counted::default());
        };
        let (count, max) = usage.of(quota);
        let added = |count: u32| {
            let sum = count.checked_add(more)?;
            (max == 0 || sum <= max || more == 0).then_some(sum)
        };
        let counted = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
        counted.map_err(|_full| usage.refused(QuotaReached::Full(quota)))?;
        Ok(Counted(Some((Arc::clone(usage), quota, more))))
    }

    /// Adds to the count unconditionally, for what exists already.
    pub fn count_anyway(&self, quota: Quota, more: u32) -> Counted {
        let Some(usage) = &self.usage else {
            return Counted::default();
        };
        usage.of(quota).0.fetch_add(more, Ordering::Relaxed);
        Counted(Some((Arc::clone(usage), quota, more)))
    }

    /// Whether anything is counted.
    pub fn has_quotas(&self) -> bool {
        self.usage.is_some()
    }

    /// Checks that there may be one more waiting call for a name, besides `others`.
    pub fn may_wait_beside(&self, others: usize) -> Result<(), QuotaReached> {
        let max = |usage: &Usage| usage.quotas.read().waiters_per_lock as usize;
        match &self.usage {
            Some(usage) if max(usage) > 0 && others >= max(usage) => {
                Err(usage.refused(QuotaReached::WaitersPerLock))
            }
            _ => Ok(()),
        }
    }

    /// Whether the quota has room for one more. Counts nothing.
    pub fn has_room(&self, quota: Quota) -> bool {
        self.usage.as_ref().is_none_or(|usage| {
            let (count, max) = usage.of(quota);
            max == 0 || count.load(Ordering::Relaxed) < max
        })
    }

    /// Counts one request. Fails if the caller calls too often.
    pub fn request(&self) -> Result<(), QuotaReached> {
        let Some(usage) = &self.usage else {
            return Ok(());
        };
        let requests = usage.requests.read();
        let Some(requests) = &*requests else {
            return Ok(());
        };
        requests.check().map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            usage.refused(QuotaReached::TooOften(wait))
        })
    }
}

impl From<Identity> for Account {
    fn from(identity: Identity) -> Self {
        Self {
            identity,
            peer: None,
            usage: None,
        }
    }
}

// === impl Usage ===

impl Usage {
    fn new(quotas: Quotas, refusals: Arc<Counters<Refusing>>) -> Self {
        Self {
            quotas: RwLock::new(quotas),
            refusals,
            sessions: AtomicU32::new(0),
            grants: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            requests: RwLock::new(limiter(quotas)),
        }
    }

    fn set(&self, quotas: Quotas) {
        let mut known = self.quotas.write();
        if known.requests_per_second != quotas.requests_per_second {
            *self.requests.write() = limiter(quotas);
        }
        *known = quotas;
    }

    fn of(&self, quota: Quota) -> (&AtomicU32, u32) {
        let quotas = self.quotas.read();
        match quota {
            Quota::Sessions => (&self.sessions, quotas.sessions),
            Quota::Grants => (&self.grants, quotas.grants),
            Quota::Waiters => (&self.waiters, quotas.waiters),
            Quota::Streams => (&self.streams, quotas.streams),
        }
    }

    fn refused(&self, reached: QuotaReached) -> QuotaReached {
        self.refusals.of(reached.into()).inc();
        reached
    }
}

fn limiter(quotas: Quotas) -> Option<DefaultDirectRateLimiter> {
    let per_second = NonZeroU32::new(quotas.requests_per_second)?;
    Some(RateLimiter::direct(governor::Quota::per_second(per_second)))
}

// === impl QuotaReached ===

impl QuotaReached {
    /// The quota's key in the configuration.
    pub fn name(self) -> &'static str {
        Refusing::from(self).value()
    }
}

impl From<QuotaReached> for Refusing {
    fn from(reached: QuotaReached) -> Self {
        match reached {
            QuotaReached::Full(Quota::Sessions) => Self::Sessions,
            QuotaReached::Full(Quota::Grants) => Self::Grants,
            QuotaReached::Full(Quota::Waiters) => Self::Waiters,
            QuotaReached::Full(Quota::Streams) => Self::Streams,
            QuotaReached::WaitersPerLock => Self::WaitersPerLock,
            QuotaReached::TooOften(_) => Self::RequestsPerSecond,
        }
    }
}

// === impl Counted ===

impl Counted {
    /// Whether it counts anything: there is an account with quotas, and the number is not zero.
    pub fn counts(&self) -> bool {
        self.0.as_ref().is_some_and(|(.., number)| *number > 0)
    }

    /// Takes a part out, at most what there is.
    #[must_use]
    pub fn split(&mut self, part: u32) -> Self {
        let taken = self.0.as_mut().map(|(usage, quota, number)| {
            let part = part.min(*number);
            *number -= part;
            (Arc::clone(usage), *quota, part)
        });
        Self(taken)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some((usage, quota, number)) = self.0.take() {
            usage.of(quota).0.fetch_sub(number, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
