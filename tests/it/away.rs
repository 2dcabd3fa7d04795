//! Waits that end while the store is away.

use lockkeeper_api::pb::NotGrantedReason;

use crate::support::prelude::*;

/// A wait of each kind, in one session.
fn waits() -> [Request; 4] {
    [
        Request::Acquire(acquire_request("a", "")),
        Request::AwaitLatch(pb::AwaitLatchRequest::named("l")),
        Request::AwaitFree(pb::AwaitFreeRequest::named("a")),
        Request::AcquirePermits(pb::AcquirePermitsRequest::named("s").permits(1)),
    ]
}

/// A store in which each of them waits.
async fn held() -> (Faults, World, Client, Session) {
    let (faults, world, mut client) = World::faulty_with_client().await;
    client.try_acquire("a", "holder", secs(600)).await.unwrap();
    assert!(Latch::new(&client, "l").set(1).await);
    let mut semaphore = Semaphore::new(&client, "s");
    semaphore.set(1).await;
    semaphore.take("holder", 1, secs(600)).await;
    let session = client.open().await;
    (faults, world, client, session)
}

fn cancelled(answer: &Response) -> bool {
    let reason = match answer {
        Response::NotGranted(ended) => ended.reason(),
        Response::LatchNotOpened(ended) => ended.reason(),
        Response::PermitsNotGranted(ended) => ended.reason(),
        other => panic!("{other:?}"),
    };
    reason == NotGrantedReason::Cancelled
}

#[tokio::test(start_paused = true)]
async fn a_cancel_is_answered_as_such_although_the_last_attempt_had_no_outcome() {
    let (faults, _world, _client, mut session) = held().await;
    let ops = waits().map(|request| session.send(request));
    for op in ops {
        // It waits.
        session.answer(op).await;
    }
    faults.set_unavailable(true);
    // Each tries again within a second or two.
    tokio::time::sleep(secs(4)).await;
    for op in ops {
        session.send_as(op, Request::Cancel(pb::CancelOperation {}));
        let answer = session.end(op).await;
        assert!(cancelled(&answer), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passes_meanwhile_is_no_answer_of_the_store() {
    let (faults, _world, mut client, mut session) = held().await;
    let mut latch = Latch::new(&client, "l").wait(Some(secs(6))).await;
    let request = acquire_request("a", "").within(secs(6));
    let op = session.send(Request::Acquire(request));
    session.answer(op).await;
    latch.expect_waiting(1).await;
    faults.set_unavailable(true);
    expect_refused(latch.next().await, Code::Unavailable, "STORE_UNAVAILABLE");
    assert_eq!(session.expect_failed(op).await, "STORE_UNAVAILABLE");
    faults.set_unavailable(false);
    // One that was away and is back has answered.
    let mut call = client
        .waits(acquire_request("a", "x").within(secs(10)))
        .await;
    faults.set_unavailable(true);
    // It tries meanwhile.
    tokio::time::sleep(secs(2)).await;
    faults.set_unavailable(false);
    call.expect_timeout().await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_once_if_the_name_becomes_one_of_another_kind() {
    let (_faults, world, client, mut session) = held().await;
    let op = session.send(Request::AwaitFree(pb::AwaitFreeRequest::named("a")));
    session.answer(op).await;
    world.redis(&["DEL", "a"]);
    Semaphore::new(&client, "a").set(1).await;
    let begun = Instant::now();
    assert_eq!(session.expect_failed(op).await, "WRONG_KIND");
    assert!(begun.elapsed() < secs(3), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_observer_waits_for_a_store_that_was_there_and_not_for_one_that_never_was() {
    use lockkeeper_access::Account;
    use lockkeeper_coordinator::{LockName, Observed};
    let (faults, world, mut client) = World::faulty_with_client().await;
    let coordinator = world.coordinator(0);
    let name = LockName::parse("election", coordinator.limits()).unwrap();
    let observe = || {
        let observer = coordinator.observe(name.clone(), None, &Account::default());
        observer.unwrap()
    };
    let mut observer = observe();
    assert!(matches!(observer.next().await, Ok(Observed::NoLeader)));
    let away = HostError::Unavailable("by the test".to_owned());
    faults.refuse("election_inspect", Some(away));
    let refused = tokio::time::timeout(secs(1), observe().next()).await;
    assert!(refused.unwrap().is_err());
    let session = client.open().await;
    let mut elections = pb::election_service_client::ElectionServiceClient::new(client.channel());
    let campaign = pb::CampaignRequest::named("election")
        .of_session(session.id())
        .value("here");
    let mut events = elections.campaign(campaign).await.unwrap().into_inner();
    events.message().await.unwrap().expect("elected");
    let blind = tokio::time::timeout(secs(5), observer.next()).await;
    assert!(blind.is_err(), "{blind:?}");
    faults.refuse("election_inspect", None);
    let seen = tokio::time::timeout(secs(5), observer.next()).await;
    let leader = expect!(seen, Ok(Ok(Observed::Leader(leader))) => leader);
    assert_eq!(leader.value, "here");
}
