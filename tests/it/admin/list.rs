//! Locks and sessions, page by page.

use std::collections::BTreeSet;

use lockkeeper_api::pb::{NameKind, SessionPhase};

use super::{Admin, admin, force};
use crate::support::prelude::*;

/// All pages of at most so many.
async fn list(admin: &mut Admin, prefix: &str, page_size: u32) -> Vec<pb::LockSummary> {
    let mut request = pb::ListLocksRequest {
        prefix: prefix.to_owned(),
        page_size,
        ..Default::default()
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

#[tokio::test(start_paused = true)]
async fn locks_are_listed_page_by_page_with_who_holds_and_waits() {
    for stores in [1, 3] {
        let world = World::over(1, stores);
        let mut client = world.client(0).await;
        let open = pb::OpenSession::default().called("worker 7");
        let mut session = client.open_with(open).await.unwrap();
        for number in 0..25 {
            session.acquire(&format!("orders:{number}")).await;
        }
        session.acquire("invoices").await;
        world.redis(&["SET", "orders:x", "no lock"]);
        session.waits_for("orders:3", "another").await;
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
        let lock = expect!(locks.as_slice(), [lock] => lock);
        assert_eq!(
            (lock.kind(), lock.mode()),
            (NameKind::Lock, LockMode::Exclusive)
        );
        assert_eq!((lock.holder_count, lock.waiter_count), (1, 1));
        assert_eq!(lock.holders[0].client_name, "worker 7");
        assert!(!lock.holders[0].session_digest.contains(&session.id()));
        assert!(lock.last_fencing_token > 0);
        let left = std_duration(lock.remaining_lease);
        assert!((secs(29)..=secs(30)).contains(&left), "{left:?}");
        assert_eq!(list(&mut admin, "", 100).await.len(), 26);
        let bad = pb::ListLocksRequest {
            page_token: "nonsense".to_owned(),
            ..Default::default()
        };
        assert_eq!(refusal(admin.list_locks(bad).await), "INVALID_PAGE_TOKEN");
    }
}

#[tokio::test(start_paused = true)]
async fn what_stays_held_is_listed_while_other_keys_go() {
    let (world, mut client) = World::with_client().await;
    for number in 0..300 {
        let name = format!("held:{number}");
        client.try_acquire(&name, "x", secs(30)).await.unwrap();
        for other in 0..2 {
            world.redis(&["SET", &format!("other:{number}:{other}"), ""]);
        }
    }
    let mut admin = admin(&client);
    let (mut request, mut names) = (pb::ListLocksRequest::default(), BTreeSet::new());
    request.page_size = 10;
    loop {
        let page = admin.list_locks(request.clone()).await.unwrap();
        let page = page.into_inner();
        names.extend(page.locks.into_iter().map(|lock| lock.name));
        for number in 0..300 {
            for other in 0..2 {
                world.redis(&["DEL", &format!("other:{number}:{other}")]);
            }
        }
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(names.len(), 300);
}

#[tokio::test(start_paused = true)]
async fn under_a_prefix_of_the_store_only_what_is_ours_is_listed() {
    let options = Options::with(|it| it.limits.key_prefix = "app1:".into());
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
    let (_world, client) = World::with_client().await;
    let mut semaphores =
        pb::semaphore_service_client::SemaphoreServiceClient::new(client.channel());
    let set = pb::SetPermitsRequest::named("s").permits(3);
    semaphores.set_permits(set).await.unwrap();
    let take = pb::TryAcquirePermitsRequest::named("s")
        .permits(2)
        .by("x")
        .lasting(secs(30));
    semaphores.try_acquire_permits(take).await.unwrap();
    let mut latches = pb::latch_service_client::LatchServiceClient::new(client.channel());
    let set = pb::SetCountRequest::named("t").count(5);
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
    expect_status(&refused, Code::FailedPrecondition, "WRONG_KIND");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_listed_by_their_digests() {
    let world = World::new();
    let (mut client, mut mortal) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    session.acquire("a").await;
    session.waits_for("a", "another").await;
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
