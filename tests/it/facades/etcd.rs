//! etcd's leases and locks.

use lockkeeper_facades::{
    Facades,
    etcd::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
            LeaseRevokeRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
            lease_client::LeaseClient,
        },
        v3lockpb::{LockRequest, UnlockRequest, lock_client::LockClient},
    },
};
use lockkeeper_testkit::client::Caller;
use tokio::{
    sync::mpsc,
    time::{sleep_until, timeout},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::Streaming;

use crate::admin::{admin, force};
use crate::support::prelude::*;

pub(super) const NO_LEASE: &str = "etcdserver: requested lease not found";

/// A client of etcd.
#[derive(Clone)]
pub(super) struct Etcd {
    pub(super) caller: Caller,
    leases: LeaseClient<Caller>,
    locks: LockClient<Caller>,
}

/// A stream that keeps leases alive.
pub(super) struct KeepAlive {
    asks: mpsc::UnboundedSender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
}

/// What `Lock` answers: the key and the revision.
type Locked = (String, i64);

impl Etcd {
    pub(super) fn of(client: &Client) -> Self {
        Self {
            caller: client.caller(),
            leases: LeaseClient::new(client.caller()),
            locks: LockClient::new(client.caller()),
        }
    }

    pub(super) async fn grant_as(&mut self, id: i64, ttl: i64) -> Result<i64, Status> {
        let granted = self.leases.lease_grant(LeaseGrantRequest { ttl, id });
        let granted = granted.await?.into_inner();
        assert_eq!(granted.ttl, ttl);
        Ok(granted.id)
    }

    pub(super) async fn grant(&mut self, ttl: i64) -> i64 {
        self.grant_as(0, ttl).await.unwrap()
    }

    pub(super) async fn revoke(&mut self, id: i64) -> Result<(), Status> {
        let revoked = self.leases.lease_revoke(LeaseRevokeRequest { id });
        revoked.await.map(drop)
    }

    pub(super) async fn time_to_live(&mut self, id: i64) -> LeaseTimeToLiveResponse {
        let request = LeaseTimeToLiveRequest { id, keys: true };
        let shown = self.leases.lease_time_to_live(request).await;
        shown.unwrap().into_inner()
    }

    pub(super) async fn leases(&mut self) -> Vec<i64> {
        let own = self.leases.lease_leases(LeaseLeasesRequest {}).await;
        let own = own.unwrap().into_inner().leases;
        own.into_iter().map(|lease| lease.id).collect()
    }

    pub(super) async fn keep_alive(&mut self) -> KeepAlive {
        let (asks, asked) = mpsc::unbounded_channel();
        let asked = UnboundedReceiverStream::new(asked);
        let answers = self.leases.lease_keep_alive(asked).await.unwrap();
        let answers = answers.into_inner();
        KeepAlive { asks, answers }
    }

    pub(super) async fn lock(&mut self, name: &str, lease: i64) -> Result<Locked, Status> {
        let name = name.as_bytes().to_vec();
        let locked = self.locks.lock(LockRequest { name, lease }).await?;
        let locked = locked.into_inner();
        let revision = locked.header.unwrap().revision;
        Ok((String::from_utf8(locked.key).unwrap(), revision))
    }

    /// A lock that is waited for.
    fn locking(&self, name: &str, lease: i64) -> AbortOnDropHandle<Result<Locked, Status>> {
        let (mut etcd, name) = (self.clone(), name.to_owned());
        let locking = async move { etcd.lock(&name, lease).await };
        AbortOnDropHandle::new(lockkeeper_base::tasks::spawn_detached("lock", locking))
    }

    pub(super) async fn unlock(&mut self, key: &str) -> Result<(), Status> {
        let key = key.as_bytes().to_vec();
        self.locks.unlock(UnlockRequest { key }).await.map(drop)
    }
}

impl KeepAlive {
    /// The time to live that the lease has then; 0 if it has ended.
    pub(super) async fn ask(&mut self, id: i64) -> Result<i64, Status> {
        self.asks.send(LeaseKeepAliveRequest { id }).unwrap();
        let answer = self.answers.message().await?.unwrap();
        assert_eq!(answer.id, id);
        Ok(answer.ttl)
    }
}

pub(super) fn options() -> Options {
    Options::with(|it| {
        it.facades = Facades {
            dapr: true,
            etcd: true,
            terraform: Some(secs(3600)),
        }
    })
}

pub(super) async fn world() -> (World, Client, Etcd) {
    let world = World::with(&options());
    let client = world.client(0).await;
    let etcd = Etcd::of(&client);
    (world, client, etcd)
}

#[tokio::test(start_paused = true)]
async fn locks_are_granted_in_order_with_revisions_that_grow() {
    let (world, mut client, mut etcd) = world().await;
    let leases = [
        etcd.grant(60).await,
        etcd.grant(60).await,
        etcd.grant(60).await,
    ];
    let (key, mut revision) = etcd.lock("team/build", leases[0]).await.unwrap();
    assert_eq!(key, format!("team/build/{:x}", leases[0]));
    let seen = client.describe("team/build").await;
    assert_eq!(i64::try_from(seen.last_fencing_token), Ok(revision));
    let second = etcd.locking("team/build", leases[1]);
    world.until_waiting(0, 1).await;
    let third = etcd.locking("team/build", leases[2]);
    world.until_waiting(0, 2).await;
    let mut held = key;
    for waiting in [second, third] {
        etcd.unlock(&held).await.unwrap();
        let (key, next) = waiting.await.unwrap().unwrap();
        assert!(next > revision, "{next} after {revision}");
        (held, revision) = (key, next);
    }
    assert!(held.ends_with(&format!("{:x}", leases[2])));
    for lease in leases {
        etcd.revoke(lease).await.unwrap();
    }
    world.expect_nothing_left(&["team/build"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_not_kept_alive_loses_its_locks() {
    let (world, mut client, mut etcd) = world().await;
    let lease = etcd.grant(10).await;
    etcd.lock("a", lease).await.unwrap();
    etcd.lock("b", lease).await.unwrap();
    let mut keeping = etcd.keep_alive().await;
    for _ in 0..5 {
        tokio::time::sleep(secs(9)).await;
        assert_eq!(keeping.ask(lease).await.unwrap(), 10);
    }
    let kept_at = Instant::now();
    sleep_until(kept_at + millis(9900)).await;
    assert_eq!(client.describe("a").await.holders.len(), 1);
    let shown = etcd.time_to_live(lease).await;
    assert_eq!((shown.ttl, shown.granted_ttl, shown.keys.len()), (0, 10, 2));
    sleep_until(kept_at + secs(10)).await;
    assert_eq!(keeping.ask(lease).await.unwrap(), 0, "it has ended");
    world.expect_nothing_left(&["a", "b"]).await;
    assert!(
        kept_at.elapsed() < secs(11),
        "released, not left to run out"
    );
    let shown = etcd.time_to_live(lease).await;
    assert_eq!((shown.ttl, shown.keys.len()), (-1, 0));
    assert!(etcd.leases().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_loses_a_lock_ends() {
    let (world, client, mut etcd) = world().await;
    let lease = etcd.grant(60).await;
    etcd.lock("a", lease).await.unwrap();
    etcd.lock("b", lease).await.unwrap();
    let mut keeping = etcd.keep_alive().await;
    assert_eq!(keeping.ask(lease).await.unwrap(), 60);
    let begun = Instant::now();
    force(&mut admin(&client), "a", "why").await.unwrap();
    world.expect_nothing_left(&["a", "b"]).await;
    assert!(begun.elapsed() < secs(30), "by itself it ends after 60 s");
    assert_eq!(keeping.ask(lease).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn keepalives_end_with_a_drain() {
    let (world, _client, mut etcd) = world().await;
    let lease = etcd.grant(60).await;
    let mut keeping = etcd.keep_alive().await;
    assert_eq!(keeping.ask(lease).await.unwrap(), 60);
    world.coordinator(0).drain(secs(1)).await;
    let ended = keeping.answers.message().await.unwrap_err();
    expect_status(&ended, Code::Unavailable, "DRAINING");
}

#[tokio::test(start_paused = true)]
async fn a_lock_needs_a_lease_and_ends_with_it() {
    let (world, _client, mut etcd) = world().await;
    let refused = etcd.lock("a", 0).await.unwrap_err();
    expect_status(&refused, Code::InvalidArgument, "INVALID_LEASE");
    let refused = etcd.lock("a", 77).await.unwrap_err();
    expect_status(&refused, Code::NotFound, "SESSION_NOT_FOUND");
    assert_eq!(refused.message(), NO_LEASE);

    let (holds, waits) = (etcd.grant(60).await, etcd.grant(60).await);
    let (key, _) = etcd.lock("a", holds).await.unwrap();
    let waiting = etcd.locking("a", waits);
    world.until_waiting(0, 1).await;
    etcd.revoke(waits).await.unwrap();
    let refused = waiting.await.unwrap().unwrap_err();
    assert_eq!(refused.message(), NO_LEASE);
    let refused = etcd.revoke(waits).await.unwrap_err();
    assert_eq!(refused.message(), NO_LEASE);
    etcd.revoke(holds).await.unwrap();
    let refused = etcd.unlock(&key).await.unwrap_err();
    assert_eq!(refused.message(), NO_LEASE);
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_unlock_releases_what_a_lease_has_locked_twice() {
    let (world, mut client, mut etcd) = world().await;
    let lease = etcd.grant(60).await;
    let first = etcd.lock("a", lease).await.unwrap();
    assert_eq!(etcd.lock("a", lease).await.unwrap(), first);
    etcd.unlock(&first.0).await.unwrap();
    assert!(client.describe("a").await.holders.is_empty());
    etcd.unlock(&first.0).await.unwrap();
    etcd.revoke(lease).await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_its_caller_gives_up_leaves_nothing() {
    let (world, _client, mut etcd) = world().await;
    let (holds, waits) = (etcd.grant(60).await, etcd.grant(60).await);
    let (key, _) = etcd.lock("a", holds).await.unwrap();
    let mut impatient = etcd.clone();
    let gave_up = timeout(secs(1), impatient.lock("a", waits)).await;
    assert!(gave_up.is_err(), "it waits");
    world.until_waiting(0, 0).await;
    etcd.unlock(&key).await.unwrap();
    assert!(etcd.time_to_live(waits).await.keys.is_empty());
    for lease in [holds, waits] {
        etcd.revoke(lease).await.unwrap();
    }
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn leases_are_refused_by_field_and_have_the_id_of_the_callers_choice() {
    let (world, _client, mut etcd) = world().await;
    for (id, ttl, field) in [
        (0, 0, "TTL"),
        (0, -1, "TTL"),
        (-5, 60, "ID"),
        (0, 90_000, "TTL"),
    ] {
        let refused = etcd.grant_as(id, ttl).await.unwrap_err();
        assert_eq!(reason(&refused), format!("INVALID_{field}"), "{refused}");
    }
    let refused = etcd.grant_as(0, 90_000).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(refused.message(), "etcdserver: too large lease TTL");
    assert_eq!(etcd.grant_as(7, 60).await.unwrap(), 7);
    let refused = etcd.grant_as(7, 60).await.unwrap_err();
    assert_eq!(refused.message(), "etcdserver: lease already exists");
    assert_eq!(etcd.leases().await, [7]);
    for key in ["", "a", "a/", "a/xyz"] {
        expect_refused(etcd.unlock(key).await, Code::InvalidArgument, "INVALID_KEY");
    }
    etcd.revoke(7).await.unwrap();
    world.expect_nothing_left(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn an_operator_who_ends_the_session_ends_the_lease() {
    let (world, _client, mut etcd) = world().await;
    let lease = etcd.grant(60).await;
    etcd.lock("a", lease).await.unwrap();
    let coordinator = world.coordinator(0);
    let all = lockkeeper_coordinator::SessionsOf::Identity(String::new());
    let sessions = coordinator.sessions_of(&all);
    assert_eq!(sessions[0].client_name, format!("etcd-lease/{lease:x}"));
    let reason = lockkeeper_coordinator::Reason::parse("the host has burned down").unwrap();
    coordinator.end_sessions(sessions, &reason).await;
    eventually("the lease has ended", || async {
        etcd.clone().time_to_live(lease).await.ttl == -1
    })
    .await;
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_there_is_no_such_service() {
    let world = World::new();
    let mut etcd = Etcd::of(&world.client(0).await);
    let refused = etcd.grant_as(0, 60).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
