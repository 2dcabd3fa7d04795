//! The leases of one coordinator. Each is a session without a stream of a client: keepalives move
//! its end, and a task closes it at the end, which releases its locks.
//!
//! The answer to a keepalive stays true if this coordinator dies. The store keeps the locks of a
//! lease for longer than its TTL, and a keepalive renews them before it is answered. A keepalive
//! that the store does not confirm moves nothing: its answer is the rest of the last one.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use lockkeeper_access::{Account, Identity};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{
    Acquire, Error, Grant, Invalid, Lease, Limits, LockName, Mode, Notice, OnDisconnect, Owner,
    PeerAddress, Renew, Stream,
};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::refused::{lease_exists, no_lease, refused, ttl_too_large};
use crate::Door;

/// The leases by id. Those of other identities are others, whatever their ids.
#[derive(Clone, Debug, Default)]
pub(super) struct Leases(Arc<Mutex<HashMap<Key, Held>>>);

type Key = (Identity, i64);

/// A lease that has not ended.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) id: i64,
    pub(super) ttl: Duration,
    pub(super) until: Instant,
    pub(super) stream: Arc<Stream>,
}

/// The client names of leases begin with this. The id behind it is read by observers of elections.
const CLIENT_NAME: &str = "etcd-lease/";

/// By how much longer than its TTL the store keeps what a lease holds: a share for clocks that
/// drift, and a while for answers on their way.
const DRIFT_DIVISOR: u32 = 20;
const ON_THE_WAY: Duration = Duration::from_secs(1);

/// Concurrent renewals for one keepalive.
const RENEWALS_AT_ONCE: usize = 16;

/// The lease of a leader by its client name; 0 if it campaigned otherwise.
pub(super) fn lease_of(client_name: &str) -> i64 {
    let id = client_name.strip_prefix(CLIENT_NAME);
    id.and_then(|id| i64::from_str_radix(id, 16).ok())
        .unwrap_or_default()
}

// === impl Leases ===

impl Leases {
    /// Grants a lease of `ttl` seconds, or of the shortest one allowed if that is longer. The id is
    /// random if the caller chose none.
    pub(super) fn grant(
        &self,
        door: &Door,
        account: &Account,
        (id, ttl): (i64, i64),
    ) -> Result<Held, Status> {
        let limits = door.coordinator.limits();
        let invalid = |field, why: &str| refused(door, &Invalid::new(field, why).into());
        let seconds = u64::try_from(ttl).ok().filter(|seconds| *seconds > 0);
        let seconds = seconds.ok_or_else(|| invalid("TTL", "must be at least 1"))?;
        if id < 0 {
            return Err(invalid("ID", "must not be negative"));
        }
        let min = limits.lease_min;
        let shortest = Duration::from_secs(min.as_secs() + u64::from(min.subsec_nanos() > 0));
        let ttl = Duration::from_secs(seconds).max(shortest);
        let lease = Lease::named("TTL", ttl, limits).map_err(|it| ttl_too_large(door, it))?;
        let lease = Lease::named("TTL", stored(lease, limits), limits);
        let lease = lease.map_err(|it| refused(door, &it.into()))?;
        let mut leases = self.0.lock();
        let id = match id {
            0 => rand::random_range(1..=i64::MAX),
            id => id,
        };
        let Entry::Vacant(place) = leases.entry((account.identity().clone(), id)) else {
            return Err(lease_exists(door));
        };
        let client_name = format!("{CLIENT_NAME}{id:x}");
        let keep = OnDisconnect::Keep;
        let opened = door
            .coordinator
            .open(account.clone(), Some(lease), client_name, keep);
        let stream = Arc::new(opened.map_err(|error| refused(door, &error))?.stream);
        if let Some(peer) = account.peer() {
            stream.comes_from(PeerAddress::Tcp(peer));
        }
        let until = Instant::now() + ttl;
        let held = Held {
            id,
            ttl,
            until,
            stream,
        };
        let key = place.key().clone();
        place.insert(held.clone());
        let (leases, stream) = (self.clone(), Arc::clone(&held.stream));
        spawn_detached("etcd-lease", async move { leases.run(key, &stream).await });
        Ok(held)
    }

    /// A lease of the caller that has not ended.
    pub(super) fn get(&self, door: &Door, account: &Account, id: i64) -> Result<Held, Status> {
        if id == 0 {
            let why = "must be that of a LeaseGrant: a lock is held by a lease, and ends with it";
            return Err(refused(door, &Invalid::new("lease", why).into()));
        }
        let held = self.find(account, id);
        held.ok_or_else(|| no_lease(door))
    }

    pub(super) fn find(&self, account: &Account, id: i64) -> Option<Held> {
        let leases = self.0.lock();
        let held = leases.get(&(account.identity().clone(), id));
        held.filter(|held| held.until > Instant::now()).cloned()
    }

    /// Moves the end of a lease, as far as the store confirms that its locks are held. Returns the
    /// time left; none if it has ended.
    pub(super) async fn keep_alive(
        &self,
        door: &Door,
        account: &Account,
        id: i64,
    ) -> Option<Duration> {
        let held = self.find(account, id)?;
        let confirmed = held.confirmed(door).await;
        let (mut leases, now) = (self.0.lock(), Instant::now());
        let known = leases.get_mut(&(account.identity().clone(), id));
        let known = known.filter(|it| it.stream.id() == held.stream.id() && it.until > now)?;
        match confirmed {
            Ok(safe_until) => {
                let until = now + known.ttl;
                let until = safe_until.map_or(until, |safe| safe.min(until));
                known.until = known.until.max(until);
            }
            Err(error) => tracing::debug!(%error, "a lease is not kept alive"),
        }
        Some(known.ttl.min(known.until - now))
    }

    /// Renews a lock that was granted in a request from before the last keepalive, which did not
    /// know of it: without that, the store may keep it for less time than the lease has.
    pub(super) async fn cover(
        &self,
        door: &Door,
        account: &Account,
        (held, grant): (&Held, &Grant),
    ) -> Result<(), Error> {
        let lease = self.find(account, held.id);
        if lease.is_some_and(|lease| grant.safe_until < lease.until) {
            held.renew(door, grant.name.clone()).await?;
        }
        Ok(())
    }

    /// Ends a lease and releases its locks. Returns when the store has answered.
    pub(super) async fn revoke(
        &self,
        door: &Door,
        account: &Account,
        id: i64,
    ) -> Result<(), Status> {
        let held = self.0.lock().remove(&(account.identity().clone(), id));
        let held = held.ok_or_else(|| no_lease(door))?;
        held.stream.close().await;
        Ok(())
    }

    /// The leases of the caller.
    pub(super) fn of(&self, account: &Account) -> Vec<i64> {
        let leases = self.0.lock();
        let own = leases.keys();
        let own = own.filter(|(identity, _)| identity == account.identity());
        let mut own: Vec<i64> = own.map(|(_, id)| *id).collect();
        own.sort_unstable();
        own
    }

    /// Closes the session when the lease has ended, and forgets the lease when the session has. A
    /// lease that loses a lock ends: its program has no other sign of the loss.
    async fn run(self, key: Key, stream: &Stream) {
        while let Some(until) = self.end_of(&key) {
            let ended = async {
                while let Ok(notice) = stream.notice().await {
                    if matches!(notice, Notice::Lost(..)) {
                        break;
                    }
                }
            };
            tokio::select! {
                biased;
                () = stream.superseded().cancelled() => break,
                () = ended => break,
                () = sleep_until(until) => {}
            }
        }
        self.forget(&key, stream);
        stream.close().await;
    }

    /// When the lease ends; none if it has ended. No keepalive moves the end of one that has.
    fn end_of(&self, key: &Key) -> Option<Instant> {
        let until = self.0.lock().get(key)?.until;
        (until > Instant::now()).then_some(until)
    }

    fn forget(&self, key: &Key, stream: &Stream) {
        let mut leases = self.0.lock();
        if leases
            .get(key)
            .is_some_and(|held| held.stream.id() == stream.id())
        {
            leases.remove(key);
        }
    }
}

/// How long the store keeps what a lease with this TTL holds, after each renewal.
fn stored(ttl: Lease, limits: &Limits) -> Duration {
    let ttl = ttl.get();
    (ttl + ttl / DRIFT_DIVISOR + ON_THE_WAY).min(limits.lease_max)
}

// === impl Held ===

impl Held {
    /// Renews what the lease holds. Returns until when all of it is surely held; none if it holds
    /// nothing.
    async fn confirmed(&self, door: &Door) -> Result<Option<Instant>, Error> {
        let renewals = stream::iter(self.stream.names());
        let renewals = renewals.map(|name| self.renew(door, name));
        let renewed = renewals.buffer_unordered(RENEWALS_AT_ONCE);
        let renewed: Vec<Grant> = renewed.try_collect().await?;
        Ok(renewed.iter().map(|grant| grant.safe_until).min())
    }

    async fn renew(&self, door: &Door, name: LockName) -> Result<Grant, Error> {
        let renew = Renew {
            name,
            mode: Mode::Fair,
            owner: self.parsed_owner(door)?,
            lease: None,
        };
        door.coordinator.renew(renew).await
    }

    fn parsed_owner(&self, door: &Door) -> Result<Owner, Error> {
        let (session, limits) = (self.stream.id().clone(), door.coordinator.limits());
        Ok(Owner::in_session(session, "", limits)?)
    }

    /// The owner of what the lease holds.
    pub(super) fn owner(&self, door: &Door) -> Result<Owner, Status> {
        self.parsed_owner(door).map_err(|it| refused(door, &it))
    }

    /// A request for the FAIR lock of a name, as long as it takes. (etcd's locks are granted in the
    /// order of asking.)
    pub(super) fn acquire(
        &self,
        door: &Door,
        account: &Account,
        name: LockName,
    ) -> Result<Acquire, Status> {
        Ok(Acquire::new(name, Mode::Fair, self.owner(door)?, account))
    }
}
