//! What a facade has told a program stays true when answers are lost, when the store is cut off,
//! and when the coordinator is gone.

#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests, which the lint does not take for tests"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use lockkeeper_access::Access;
use lockkeeper_coordinator::{Config, Coordinator, Error, Limits, SessionSecrets};
use lockkeeper_facades::{
    Door, Facades,
    etcd::{
        etcdserverpb::{
            LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
            lease_client,
        },
        v3electionpb::{
            CampaignRequest, LeaderRequest, ProclaimRequest, ResignRequest, election_client,
        },
        v3lockpb::{LockRequest, lock_client},
    },
    terraform::v1::{LockRequest as StateLock, UnlockRequest, state_lock_client},
};
use lockkeeper_store::{
    host::{
        Acks, Call, Connected, HostError, Replication, ScanCursor, Scanned, ScriptHost, Value,
        embedded::{Clock, EmbeddedStore},
    },
    script,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming, service::Routes};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(9);
const CALL_TIMEOUT: Duration = Duration::from_secs(2);

/// The way of one coordinator to the store.
#[derive(Debug)]
struct Way {
    store: Arc<dyn ScriptHost>,
    is_cut: Arc<AtomicBool>,
}

/// A coordinator that can be cut off from the store.
struct Node {
    coordinator: Coordinator,
    routes: Routes,
    is_cut: Arc<AtomicBool>,
}

/// Keepalives of one lease.
struct KeepAlive {
    id: i64,
    asks: mpsc::UnboundedSender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
}

// === impl Way ===

#[async_trait]
impl ScriptHost for Way {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        if self.is_cut.load(Ordering::Relaxed) {
            sleep(CALL_TIMEOUT).await;
            return Err(HostError::OutcomeUnknown("by the test".to_owned()));
        }
        self.store.eval(call).await
    }

    async fn eval_replicated(
        &self,
        call: Call,
        replication: Replication,
    ) -> Result<(Value, Option<Acks>), HostError> {
        self.store.eval_replicated(call, replication).await
    }

    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        self.store.scan(from, containing, work).await
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.store.subscribe(channel).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.store.unsubscribe(channel);
    }
}

// === impl Node ===

impl Node {
    fn on(store: &EmbeddedStore) -> Self {
        let is_cut = Arc::new(AtomicBool::new(false));
        let (host, wakes) = store.connect();
        let way = Way {
            store: host,
            is_cut: Arc::clone(&is_cut),
        };
        let connected: Connected = (Arc::new(way), wakes);
        let coordinator = Coordinator::start(config(), connected);
        let facades = Facades {
            dapr: false,
            etcd: true,
            terraform: Some(SECOND * 3600),
        };
        let door = Door {
            coordinator: coordinator.clone(),
            access: Access::open(),
            status,
            no_right: || Status::permission_denied("no right"),
        };
        Self {
            coordinator,
            routes: facades.routes(&door, 1 << 20),
            is_cut,
        }
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    async fn grant(&self, ttl: Duration) -> Result<i64, Status> {
        let ttl = i64::try_from(ttl.as_secs()).unwrap();
        let mut leases = lease_client::LeaseClient::new(self.routes.clone());
        let granted = leases.lease_grant(LeaseGrantRequest { ttl, id: 0 }).await?;
        assert_eq!(granted.get_ref().ttl, ttl);
        Ok(granted.get_ref().id)
    }

    async fn keep_alive(&self, id: i64) -> KeepAlive {
        let mut leases = lease_client::LeaseClient::new(self.routes.clone());
        let (asks, asked) = mpsc::unbounded_channel();
        let asked = UnboundedReceiverStream::new(asked);
        let answers = leases.lease_keep_alive(asked).await.unwrap().into_inner();
        KeepAlive { id, asks, answers }
    }

    async fn lock(&self, name: &str, lease: i64) -> Result<i64, Status> {
        let mut locks = lock_client::LockClient::new(self.routes.clone());
        let name = name.as_bytes().to_vec();
        let locked = locks.lock(LockRequest { name, lease }).await?;
        Ok(locked.get_ref().header.unwrap().revision)
    }

    async fn lock_state(&self, id: &str) -> bool {
        let mut states = state_lock_client::StateLockClient::new(self.routes.clone());
        let locked = states.lock(StateLock {
            name: "net".to_owned(),
            lock_info: info(id),
        });
        locked.await.unwrap().get_ref().holder.is_empty()
    }

    async fn unlock_state(&self, id: &str) -> Result<(), Status> {
        let mut states = state_lock_client::StateLockClient::new(self.routes.clone());
        let unlocked = states.unlock(UnlockRequest {
            name: "net".to_owned(),
            lock_info: info(id),
        });
        unlocked.await.map(drop)
    }
}

// === impl KeepAlive ===

impl KeepAlive {
    async fn ask(&mut self) -> Duration {
        let id = self.id;
        self.asks.send(LeaseKeepAliveRequest { id }).unwrap();
        let answer = self.answers.message().await.unwrap().unwrap();
        Duration::from_secs(answer.ttl.try_into().unwrap())
    }
}

fn status(error: &Error) -> Status {
    let code = match error {
        Error::NotOwner(_) => Code::FailedPrecondition,
        Error::Invalid(_) => Code::InvalidArgument,
        Error::SessionNotFound => Code::NotFound,
        _ => Code::Unavailable,
    };
    Status::new(code, error.to_string())
}

fn config() -> Config {
    Config {
        limits: Limits {
            key_prefix: "".into(),
            name_bytes_max: 512,
            owner_bytes_max: 128,
            request_id_bytes_max: 128,
            client_name_bytes_max: 128,
            lease_min: SECOND,
            lease_max: SECOND * 24 * 3600,
            waiters_per_lock_max: 100,
            waiters_max: 100,
            waits_per_session_max: 100,
            sessions_max: 100,
            grants_per_session_max: 100,
            locks_per_request_max: 100,
        },
        lease: SECOND * 30,
        poll_interval: SECOND,
        poll_jitter: 0.2,
        call_timeout: CALL_TIMEOUT,
        replica_acks: None,
        metric_prefixes: Vec::new(),
        scripts: script::Config {
            idle_token_retention: SECOND * 3600,
            request_retention: SECOND * 60,
            fair_waiter_timeout: SECOND * 5,
            writer_hold_back: SECOND * 5,
            holders_per_lock_max: 100,
            permits_per_name_max: 100,
            adopts_counters: true,
            native_commands: true,
        },
        resume_max: SECOND * 3600,
        session_secrets: SessionSecrets::new(vec![b"a secret of these tests".to_vec()]),
        unix_seconds: || 1_800_000_000,
    }
}

fn store() -> EmbeddedStore {
    EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000))
}

fn info(id: &str) -> Vec<u8> {
    serde_json::json!({ "ID": id }).to_string().into_bytes()
}

/// Keeps a lease alive until then. Returns until when its program may rely on it.
async fn kept(keeping: &mut KeepAlive, until: Instant, every: Duration) -> Instant {
    loop {
        let promised = keeping.ask().await;
        assert_eq!(promised, TTL, "normally all of it");
        let promised = Instant::now() + promised;
        if Instant::now() + every > until {
            return promised;
        }
        sleep(every).await;
    }
}

/// The store is all that is left of the first coordinator.
#[tokio::test(start_paused = true)]
async fn a_lock_is_held_for_as_long_as_the_last_keepalive_said_if_the_coordinator_is_gone() {
    // Before, at and after renewals of the watchdog.
    for lives_for in [1, 29, 32, 34, 59, 62, 95, 124] {
        let store = store();
        let [gone, other] = [(); 2].map(|()| Node::on(&store));
        let lease = gone.grant(TTL).await.unwrap();
        gone.lock("a", lease).await.unwrap();
        let mut keeping = gone.keep_alive(lease).await;
        let end = Instant::now() + Duration::from_millis(lives_for * 100);
        let promised = kept(&mut keeping, end, Duration::from_millis(700)).await;
        sleep_until(end).await;
        gone.cut(true);
        gone.coordinator.stop(Duration::ZERO).await;
        let other_lease = other.grant(SECOND * 600).await.unwrap();
        other.lock("a", other_lease).await.unwrap();
        let (early, late) = (promised - Instant::now(), Instant::now() - promised);
        assert!(early.is_zero(), "{lives_for}: {early:?} too early");
        assert!(late <= SECOND * 4, "{lives_for}: {late:?} later");
    }
}

#[tokio::test(start_paused = true)]
async fn keepalives_promise_no_more_while_the_store_is_cut_off() {
    for cut_at in [1, 29, 31, 45, 59, 62, 90] {
        let store = store();
        let [cut, other] = [(); 2].map(|()| Node::on(&store));
        let lease = cut.grant(TTL).await.unwrap();
        cut.lock("a", lease).await.unwrap();
        let mut keeping = cut.keep_alive(lease).await;
        let cut_at = Instant::now() + Duration::from_millis(cut_at * 100);
        let mut promised = kept(&mut keeping, cut_at, Duration::from_millis(700)).await;
        sleep_until(cut_at).await;
        cut.cut(true);
        let holds = async {
            let lease = other.grant(SECOND * 600).await.unwrap();
            other.lock("a", lease).await.unwrap();
            Instant::now()
        };
        let keeps = async {
            loop {
                let left = keeping.ask().await;
                if left.is_zero() {
                    return promised;
                }
                promised = promised.max(Instant::now() + left);
                sleep(Duration::from_millis(700)).await;
            }
        };
        let (holds, promised) = tokio::join!(holds, keeps);
        assert!(holds >= promised, "{:?} too early", promised - holds);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_a_store_that_comes_back_in_time() {
    let node = Node::on(&store());
    let lease = node.grant(TTL).await.unwrap();
    node.lock("a", lease).await.unwrap();
    let mut keeping = node.keep_alive(lease).await;
    sleep(SECOND).await;
    node.cut(true);
    let left = keeping.ask().await;
    assert!(left <= SECOND * 7, "{left:?}");
    node.cut(false);
    assert_eq!(keeping.ask().await, TTL);
    sleep(SECOND * 8).await;
    assert_eq!(keeping.ask().await, TTL);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_too_long_is_refused_as_by_etcd() {
    let node = Node::on(&store());
    assert!(node.grant(SECOND * 24 * 3600).await.is_ok());
    let refused = node.grant(SECOND * 24 * 3601).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange);
    assert_eq!(refused.message(), "etcdserver: too large lease TTL");
}

#[tokio::test(start_paused = true)]
async fn revisions_grow_with_each_value_and_are_none_from_before_the_term() {
    let node = Node::on(&store());
    let lease = node.grant(TTL * 10).await.unwrap();
    let mut election = election_client::ElectionClient::new(node.routes.clone());
    let name = b"e".to_vec();
    let mut last = 0;
    for value in ["a", "b", "c"] {
        // Other locks of the name move its counter.
        for _ in 0..3 {
            let another = node.grant(TTL).await.unwrap();
            node.lock("e", another).await.unwrap();
            let id = another;
            let revoke = LeaseRevokeRequest { id };
            let mut leases = lease_client::LeaseClient::new(node.routes.clone());
            leases.lease_revoke(revoke).await.unwrap();
        }
        let campaign = CampaignRequest {
            name: name.clone(),
            lease,
            value: value.into(),
        };
        let elected = election.campaign(campaign).await.unwrap().into_inner();
        let (leader, begun) = (elected.leader.unwrap(), elected.header.unwrap().revision);
        assert!(begun > last && begun >= leader.rev);
        let value = b"again".to_vec();
        let proclaim = ProclaimRequest {
            leader: Some(leader.clone()),
            value,
        };
        let proclaimed = election.proclaim(proclaim).await.unwrap().into_inner();
        last = proclaimed.header.unwrap().revision;
        assert!(last > begun);
        let asked = LeaderRequest { name: name.clone() };
        let seen = election.leader(asked).await.unwrap().into_inner();
        let kv = seen.kv.unwrap();
        assert_eq!((kv.mod_revision, kv.create_revision), (last, leader.rev));
        assert_eq!(seen.header.unwrap().revision, last);
        let leader = Some(leader);
        election.resign(ResignRequest { leader }).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_has_ended_resigns_without_an_error() {
    let node = Node::on(&store());
    let lease = node.grant(SECOND).await.unwrap();
    let mut election = election_client::ElectionClient::new(node.routes.clone());
    let campaign = CampaignRequest {
        name: b"e".to_vec(),
        lease,
        value: b"a".to_vec(),
    };
    let elected = election.campaign(campaign).await.unwrap().into_inner();
    sleep(SECOND * 3).await;
    let leader = elected.leader;
    election.resign(ResignRequest { leader }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_terraform_sends_again_has_the_first_answer() {
    let node = Node::on(&store());
    assert!(node.lock_state("one").await);
    node.unlock_state("one").await.unwrap();
    node.unlock_state("one").await.unwrap();
    // Also if another run was faster.
    assert!(node.lock_state("two").await);
    node.unlock_state("one").await.unwrap();
    assert!(!node.lock_state("three").await, "two has it");
    let refused = node.unlock_state("three").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    node.unlock_state("two").await.unwrap();
    // A script may always use the same ID.
    for _ in 0..2 {
        assert!(node.lock_state("one").await);
        assert!(node.lock_state("one").await, "a retry");
        node.unlock_state("one").await.unwrap();
        assert!(node.lock_state("four").await, "it is free");
        node.unlock_state("four").await.unwrap();
    }
    sleep(SECOND * 61).await;
    let refused = node.unlock_state("one").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
}
