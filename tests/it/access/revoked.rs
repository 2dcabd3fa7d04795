//! Access that is taken away ends every stream of the identity, not only its sessions.

use std::path::PathBuf;

use lockkeeper_access::{Access, Config, Port, Right};
use lockkeeper_api::pb::{
    lock_admin_service_client::LockAdminServiceClient, lock_service_client::LockServiceClient,
};
use lockkeeper_facades::{
    Facades,
    etcd::{
        etcdserverpb::{LeaseGrantRequest, lease_client::LeaseClient},
        v3lockpb::{LockRequest, lock_client::LockClient},
    },
};
use tempfile::TempDir;
use tonic::{Request, Streaming};

use super::rule;
use crate::support::prelude::*;

const ALICE: &str = "0123456789abcdef0123456789abcdef";
const BOB: &str = "fedcba9876543210fedcba9876543210";

/// A world whose callers show tokens of a file.
struct Tokens {
    world: World,
    access: Access,
    file: PathBuf,
    _folder: TempDir,
}

// === impl Tokens ===

impl Tokens {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("tokens");
        std::fs::write(&file, format!("alice {ALICE}\nbob {BOB}\n")).unwrap();
        let config = Config {
            token_file: Some(file.clone()),
            rules: vec![rule("*", "", &Right::ALL)],
            ..Config::default()
        };
        let port = Port {
            admits_anonymous: false,
            ..Port::OPEN
        };
        let access = Access::new(config, port).unwrap();
        let world = World::with(&Options::with(|it| {
            it.access = access.clone();
            it.facades = Facades {
                etcd: true,
                ..Facades::default()
            };
        }));
        Self {
            world,
            access,
            file,
            _folder: folder,
        }
    }

    /// Takes Alice's token away.
    fn revoke(&self) {
        std::fs::write(&self.file, format!("bob {BOB}\n")).unwrap();
        self.access.reload();
    }
}

fn shown<T>(token: &str, request: T) -> Request<T> {
    let mut request = Request::new(request);
    let header = format!("Bearer {token}").parse().unwrap();
    request.metadata_mut().insert("authorization", header);
    request
}

/// Reads a stream to its end.
async fn end<T>(mut stream: Streaming<T>) -> Status {
    let ended = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended as if nothing was wrong"),
                Err(status) => return status,
            }
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ended);
    ended.await.expect("it goes on")
}

#[tokio::test(start_paused = true)]
async fn waits_and_watches_of_a_token_that_is_removed_end() {
    let tokens = Tokens::new();
    let channel = tokens.world.client(0).await.channel();
    let mut locks = LockServiceClient::new(channel.clone());
    let mut admin = LockAdminServiceClient::new(channel);
    let take = pb::TryAcquireRequest {
        lease: Some(secs(3600).try_into().unwrap()),
        ..crate::support::client::try_request("a", "holder")
    };
    locks.try_acquire(shown(BOB, take)).await.unwrap();
    let (mut waits, mut watches) = (Vec::new(), Vec::new());
    for token in [ALICE, BOB] {
        let wait = shown(token, acquire_request("a", "waiter"));
        let mut wait = locks.acquire(wait).await.unwrap().into_inner();
        wait.message().await.unwrap().expect("it waits");
        waits.push(wait);
        let watch = shown(token, pb::WatchRequest::default());
        let mut watch = admin.watch(watch).await.unwrap().into_inner();
        watch.message().await.unwrap().expect("a snapshot");
        watches.push(watch);
    }
    tokens.revoke();
    for status in [end(waits.remove(0)).await, end(watches.remove(0)).await] {
        assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
        assert_eq!(reason(&status), "UNAUTHENTICATED");
    }
    // The wait left nothing, and those of others go on.
    tokens.world.until_waiting(0, 1).await;
    let release = pb::ReleaseRequest::named("a").by("holder");
    locks.release(shown(BOB, release)).await.unwrap();
    let granted = waits.remove(0).message().await.unwrap().unwrap();
    assert!(matches!(
        granted.event,
        Some(pb::acquire_response::Event::Granted(_))
    ));
    let event = watches.remove(0).message().await.unwrap();
    assert!(event.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_before_it_answers_ends_with_its_token() {
    let tokens = Tokens::new();
    let channel = tokens.world.client(0).await.channel();
    let take = pb::TryAcquireRequest {
        lease: Some(secs(3600).try_into().unwrap()),
        ..crate::support::client::try_request("a", "holder")
    };
    let mut holder = LockServiceClient::new(channel.clone());
    holder.try_acquire(shown(BOB, take)).await.unwrap();
    let mut leases = LeaseClient::new(channel.clone());
    let lease = LeaseGrantRequest { ttl: 3600, id: 0 };
    let lease = leases.lease_grant(shown(ALICE, lease)).await.unwrap();
    let lock = LockRequest {
        name: "a".into(),
        lease: lease.into_inner().id,
    };
    let mut locks = LockClient::new(channel);
    let revoked = async {
        tokens.world.until_waiting(0, 1).await;
        tokens.revoke();
    };
    let waiting = tokio::time::timeout(Duration::from_secs(60), locks.lock(shown(ALICE, lock)));
    let (locked, ()) = tokio::join!(waiting, revoked);
    let refused = locked.expect("it goes on").unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    assert_eq!(reason(&refused), "UNAUTHENTICATED");
    tokens.world.until_waiting(0, 0).await;
}
