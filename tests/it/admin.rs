//! Looking at what is others', taking it away, and watching what happens.

use std::collections::BTreeSet;

use lockkeeper_api::pb::{
    self, LockMode, LostReason, NameKind, SessionPhase, WatchEvent,
    lock_admin_service_client::LockAdminServiceClient, session_request::Request,
    session_response::Response, watch_response,
};
use lockkeeper_coordinator::Watched;
use lockkeeper_store::host::Value;
use tonic::{Code, Streaming, transport::Channel};

use crate::support::{
    Options, World,
    client::{Client, acquire_request, proto, std_duration},
    reason, secs,
};

type Admin = LockAdminServiceClient<Channel>;

fn admin(client: &Client) -> Admin {
    LockAdminServiceClient::new(client.channel())
}

async fn force(
    admin: &mut Admin,
    name: &str,
    reason: &str,
) -> Result<pb::ForceReleaseResponse, tonic::Status> {
    let request = pb::ForceReleaseRequest {
        name: name.to_owned(),
        reason: reason.to_owned(),
    };
    Ok(admin.force_release(request).await?.into_inner())
}

/// All pages of at most so many.
async fn list(admin: &mut Admin, prefix: &str, page_size: u32) -> Vec<pb::LockSummary> {
    let mut request = pb::ListLocksRequest {
        prefix: prefix.to_owned(),
        page_size,
        page_token: String::new(),
    };
    let mut all = Vec::new();
    loop {
        let page = admin
            .list_locks(request.clone())
            .await
            .unwrap()
            .into_inner();
        assert!(page.locks.len() <= page_size.max(1) as usize);
        all.extend(page.locks);
        if page.next_page_token.is_empty() {
            return all;
        }
        request.page_token = page.next_page_token;
    }
}

async fn watch(admin: &mut Admin, prefix: &str) -> Streaming<pb::WatchResponse> {
    let prefix = prefix.to_owned();
    admin
        .watch(pb::WatchRequest { prefix })
        .await
        .unwrap()
        .into_inner()
}

async fn delta(events: &mut Streaming<pb::WatchResponse>) -> pb::WatchDelta {
    match events.message().await.unwrap().unwrap().event.unwrap() {
        watch_response::Event::Delta(delta) => delta,
        watch_response::Event::Snapshot(snapshot) => panic!("{snapshot:?}"),
    }
}

async fn snapshot(events: &mut Streaming<pb::WatchResponse>) -> Vec<pb::WatchDelta> {
    let mut entries = Vec::new();
    loop {
        match events.message().await.unwrap().unwrap().event.unwrap() {
            watch_response::Event::Snapshot(part) => {
                assert_eq!(part.first, entries.is_empty());
                entries.extend(part.entries);
                if part.last {
                    return entries;
                }
            }
            watch_response::Event::Delta(delta) => panic!("{delta:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_by_force_tells_the_session_here_at_once_and_lets_the_next_in() {
    let world = World::new();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    let (mut session, mut waiting) = (client.open().await, other.open().await);
    let grant = session.acquire("a").await;
    session.acquire("a").await;
    let op_id = waiting.send_acquire("a", "");
    assert!(matches!(waiting.answer(op_id).await, Response::Waiting(_)));
    let begun = tokio::time::Instant::now();
    let released = force(&mut admin(&other), "a", "it hangs").await.unwrap();
    assert!(released.released);
    assert_eq!(
        (released.holder_count, released.holders[0].hold_count),
        (1, 2)
    );
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::ForceReleased);
    assert_eq!(lost.detail, "it hangs");
    assert_eq!(lost.grant.unwrap().fencing_token, grant.fencing_token);
    let next = waiting.expect_granted(op_id).await;
    assert!(next.fencing_token > grant.fencing_token);
    assert!(begun.elapsed() < secs(1), "nobody had to look");
}

#[tokio::test(start_paused = true)]
async fn the_old_token_is_outdated_before_anybody_else_has_the_lock() {
    let world = World::new();
    let mut client = world.client(0).await;
    let grant = client.try_acquire("a", "x", secs(30)).await.unwrap().grant;
    let token = grant.unwrap().fencing_token;
    force(&mut admin(&client), "a", "why").await.unwrap();
    let checked = client.api.check_token(pb::CheckTokenRequest {
        name: "a".to_owned(),
        fencing_token: token,
    });
    let checked = checked.await.unwrap().into_inner();
    assert!(!checked.current && !checked.held);
    let error = client.release("a", "x").await.unwrap_err();
    assert_eq!(reason(&error), "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn a_session_of_another_coordinator_is_told_why_at_its_next_look() {
    for stores in [1, 3] {
        let world = World::with(&Options {
            coordinators: 2,
            stores,
            ..Options::default()
        });
        let (mut client, other) = (world.client(0).await, world.client(1).await);
        let mut session = client.open().await;
        session.acquire("a").await;
        let read = pb::AcquireRequest {
            mode: LockMode::Read.into(),
            ..acquire_request("b", "")
        };
        let op_id = session.send(Request::Acquire(read));
        session.expect_granted(op_id).await;
        let begun = tokio::time::Instant::now();
        for name in ["a", "b"] {
            assert!(
                force(&mut admin(&other), name, "it hangs")
                    .await
                    .unwrap()
                    .released
            );
        }
        let mut names = BTreeSet::new();
        for _ in 0..2 {
            let lost = session.expect_lost().await;
            assert_eq!(lost.reason(), LostReason::ForceReleased, "{stores} stores");
            assert_eq!(lost.detail, "it hangs");
            names.insert(lost.grant.unwrap().name);
        }
        assert_eq!(names.len(), 2);
        assert!(begun.elapsed() <= secs(11), "a third of the lease");
    }
}

#[tokio::test(start_paused = true)]
async fn who_finds_out_by_releasing_is_told_why_too() {
    let world = World::with(&Options {
        coordinators: 2,
        ..Options::default()
    });
    let (mut client, other) = (world.client(0).await, world.client(1).await);
    let mut session = client.open().await;
    session.acquire("a").await;
    force(&mut admin(&other), "a", "it hangs").await.unwrap();
    let op_id = session.send_release("a", "");
    let (mut lost, mut failed) = (false, false);
    while !lost || !failed {
        match session.next().await.unwrap().unwrap().response.unwrap() {
            Response::Lost(told) => lost = told.reason() == LostReason::ForceReleased,
            Response::Failed(_) => failed = true,
            other => panic!("{op_id}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_loss_is_not_told_as_one_by_force() {
    let world = World::with(&Options {
        coordinators: 2,
        ..Options::default()
    });
    let (mut client, other) = (world.client(0).await, world.client(1).await);
    let mut session = client.open().await;
    session.acquire("a").await;
    force(&mut admin(&other), "a", "it hangs").await.unwrap();
    assert_eq!(
        session.expect_lost().await.reason(),
        LostReason::ForceReleased
    );
    session.acquire("a").await;
    world.redis(&["DEL", "a"]);
    let lost = session.expect_lost().await;
    assert_eq!(
        (lost.reason(), lost.detail.as_str()),
        (LostReason::Expired, "")
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_lock_or_has_no_reason_is_refused() {
    let world = World::new();
    let client = world.client(0).await;
    let mut admin = admin(&client);
    world.redis(&["SET", "a", "1"]);
    let refused = force(&mut admin, "a", "why").await.unwrap_err();
    assert_eq!(reason(&refused), "WRONG_KIND");
    for bad in ["", "a\nb"] {
        let refused = force(&mut admin, "a", bad).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_REASON");
    }
    let refused = force(&mut admin, "", "why").await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_NAME");
    let free = force(&mut admin, "b", "why").await.unwrap();
    assert!(!free.released && free.holders.is_empty());
}

#[tokio::test(start_paused = true)]
async fn locks_are_listed_page_by_page_with_who_holds_and_waits() {
    for stores in [1, 3] {
        let world = World::with(&Options {
            stores,
            ..Options::default()
        });
        let mut client = world.client(0).await;
        let open = pb::OpenSession {
            client_name: "worker 7".to_owned(),
            ..Default::default()
        };
        let mut session = client.open_with(open).await.unwrap();
        for number in 0..25 {
            session.acquire(&format!("orders:{number}")).await;
        }
        session.acquire("invoices").await;
        world.redis(&["SET", "orders:x", "no lock"]);
        let op_id = session.send_acquire("orders:3", "another");
        assert!(matches!(session.answer(op_id).await, Response::Waiting(_)));
        let mut admin = admin(&client);
        for page_size in [0, 1, 7, 1000] {
            let page_size = if page_size == 0 { 100 } else { page_size };
            let locks = list(&mut admin, "orders:", page_size).await;
            let names: BTreeSet<_> = locks.iter().map(|lock| lock.name.as_str()).collect();
            assert_eq!(
                (locks.len(), names.len()),
                (25, 25),
                "{stores} stores, {page_size}"
            );
        }
        let locks = list(&mut admin, "orders:3", 100).await;
        let [lock] = locks.as_slice() else {
            panic!("{locks:?}")
        };
        assert_eq!(
            (lock.kind(), lock.mode()),
            (NameKind::Lock, LockMode::Exclusive)
        );
        assert_eq!((lock.holder_count, lock.waiter_count), (1, 1));
        assert_eq!(lock.holders[0].client_name, "worker 7");
        assert!(!lock.holders[0].session_digest.contains(&session.id()));
        assert!(lock.last_fencing_token > 0);
        assert_eq!(std_duration(lock.remaining_lease), secs(30));
        assert_eq!(list(&mut admin, "", 100).await.len(), 26);
        let bad = pb::ListLocksRequest {
            page_token: "nonsense".to_owned(),
            ..Default::default()
        };
        let refused = admin.list_locks(bad).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_PAGE_TOKEN");
    }
}

#[tokio::test(start_paused = true)]
async fn under_a_prefix_of_the_store_only_what_is_ours_is_listed() {
    let mut options = Options::default();
    options.limits.key_prefix = "app1:".into();
    let world = World::with(&options);
    let mut client = world.client(0).await;
    client.try_acquire("a", "x", secs(30)).await.unwrap();
    world.redis(&["HSET", "app2:a", "x", "1"]);
    world.redis(&["PEXPIRE", "app2:a", "30000"]);
    let locks = list(&mut admin(&client), "", 100).await;
    let names: Vec<_> = locks.iter().map(|lock| lock.name.as_str()).collect();
    assert_eq!(names, ["a"]);
    force(&mut admin(&client), "a", "why").await.unwrap();
    assert_eq!(world.redis(&["EXISTS", "app1:a"]), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn semaphores_and_latches_are_listed_as_what_they_are() {
    let world = World::new();
    let client = world.client(0).await;
    let mut semaphores =
        pb::semaphore_service_client::SemaphoreServiceClient::new(client.channel());
    let set = pb::SetPermitsRequest {
        name: "s".to_owned(),
        permits: 3,
        ..Default::default()
    };
    semaphores.set_permits(set).await.unwrap();
    let take = pb::TryAcquirePermitsRequest {
        name: "s".to_owned(),
        permits: 2,
        owner: "x".to_owned(),
        lease: Some(proto(secs(30))),
        ..Default::default()
    };
    semaphores.try_acquire_permits(take).await.unwrap();
    let mut latches = pb::latch_service_client::LatchServiceClient::new(client.channel());
    let set = pb::SetCountRequest {
        name: "t".to_owned(),
        count: 5,
        ..Default::default()
    };
    latches.set_count(set).await.unwrap();
    let mut locks = list(&mut admin(&client), "", 100).await;
    locks.sort_by(|a, b| a.name.cmp(&b.name));
    let [semaphore, latch] = locks.as_slice() else {
        panic!("{locks:?}")
    };
    assert_eq!(semaphore.kind(), NameKind::Semaphore);
    assert_eq!(
        (semaphore.total_permits, semaphore.available_permits),
        (3, 1)
    );
    assert_eq!(
        (
            semaphore.holders[0].owner.as_str(),
            semaphore.holders[0].hold_count
        ),
        ("x", 2)
    );
    assert_eq!((latch.kind(), latch.count), (NameKind::Latch, 5));
    let refused = force(&mut admin(&client), "s", "why").await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "WRONG_KIND")
    );
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_by_their_digests() {
    let world = World::new();
    let (mut client, mut mortal) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    session.acquire("a").await;
    let op_id = session.send_acquire("a", "another");
    assert!(matches!(session.answer(op_id).await, Response::Waiting(_)));
    let _detached = mortal.open().await;
    mortal.cut();
    crate::support::eventually("its stream is gone", || async {
        let sessions = world.coordinator(0).list_sessions(0, "").sessions;
        sessions
            .iter()
            .any(|session| session.detached_until.is_some())
    })
    .await;
    let mut admin = admin(&client);
    let mut request = pb::ListSessionsRequest {
        page_size: 1,
        ..Default::default()
    };
    let mut all = Vec::new();
    loop {
        let page = admin
            .list_sessions(request.clone())
            .await
            .unwrap()
            .into_inner();
        assert_eq!((page.session_count, page.sessions.len()), (2, 1));
        all.extend(page.sessions);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert!(all[0].session_digest < all[1].session_digest);
    let live: Vec<_> = all
        .iter()
        .filter(|it| it.phase() == SessionPhase::Live)
        .collect();
    assert_eq!((live[0].grant_count, live[0].wait_count), (1, 1));
    // What has no address of its own is a socket.
    assert_eq!(live[0].peer_address, "unix");
    assert!(live[0].resumable_for.is_none());
    assert!(all.iter().any(|it| it.resumable_for.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_gets_a_snapshot_and_then_what_happens() {
    let world = World::new();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    let held = session.acquire("a1").await;
    session.acquire("b").await;
    let mut events = watch(&mut admin(&other), "a").await;
    let entries = snapshot(&mut events).await;
    let [entry] = entries.as_slice() else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (entry.event(), entry.name.as_str()),
        (WatchEvent::Granted, "a1")
    );
    assert_eq!(entry.fencing_token, held.fencing_token);
    let op_id = session.send_acquire("a1", "another");
    let told = delta(&mut events).await;
    assert_eq!(
        (told.event(), told.owner.as_str()),
        (WatchEvent::WaitBegan, "another")
    );
    session.release("b").await;
    session.release("a1").await;
    session.expect_granted(op_id).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let delta = delta(&mut events).await;
        told.push((delta.event(), delta.owner));
    }
    told.sort();
    let expected = [
        (WatchEvent::Granted, "another"),
        (WatchEvent::Released, "0"),
        (WatchEvent::WaitEnded, "another"),
    ];
    assert!(
        told.iter()
            .map(|(event, owner)| (*event, owner.as_str()))
            .eq(expected),
        "{told:?}"
    );
    force(&mut admin(&other), "a1", "it hangs").await.unwrap();
    let lost = delta(&mut events).await;
    assert_eq!(
        (lost.event(), lost.reason()),
        (WatchEvent::Lost, LostReason::ForceReleased)
    );
    assert_eq!(lost.detail, "it hangs");
    other.try_acquire("a2", "x", secs(30)).await.unwrap();
    let granted = delta(&mut events).await;
    assert_eq!(
        (granted.event(), granted.session_digest.as_str()),
        (WatchEvent::Granted, "")
    );
    other.release("a2", "x").await.unwrap();
    assert_eq!(delta(&mut events).await.event(), WatchEvent::Released);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_starts_anew() {
    let world = World::new();
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    let coordinator = world.coordinator(0);
    let mut watcher = coordinator.watch(String::new()).unwrap();
    assert!(matches!(
        watcher.next().await,
        Ok(Watched::Snapshot { last: true, .. })
    ));
    for _ in 0..1000 {
        session.acquire("a").await;
        session.release("a").await;
    }
    session.acquire("b").await;
    let Ok(Watched::Snapshot {
        first,
        last,
        entries,
    }) = watcher.next().await
    else {
        panic!("what was missed is told as a snapshot")
    };
    assert!(first && last);
    assert_eq!(entries.len(), 1);
    session.release("b").await;
    assert!(matches!(watcher.next().await, Ok(Watched::Delta(_))));
}

#[tokio::test(start_paused = true)]
async fn watchers_are_bounded_and_end_when_the_coordinator_drains() {
    let world = World::new();
    let coordinator = world.coordinator(0);
    let mut watchers: Vec<_> = (0..64)
        .map(|_| coordinator.watch(String::new()).unwrap())
        .collect();
    assert!(coordinator.watch(String::new()).is_err());
    watchers.pop();
    let client = world.client(0).await;
    let mut events = watch(&mut admin(&client), "").await;
    assert!(snapshot(&mut events).await.is_empty());
    coordinator.drain(secs(1)).await;
    let ended = events.message().await.unwrap_err();
    assert_eq!(reason(&ended), "DRAINING");
}
