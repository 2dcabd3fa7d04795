//! Permits that sessions hold: watched, lost, resumed, and given back at the end.

use crate::permits_ended::pool;
use crate::support::prelude::*;

fn resume(opened: &pb::SessionOpened, permits: Vec<pb::PermitGrant>) -> Request {
    Request::Resume(pb::ResumeSession {
        session_id: opened.session_id.clone(),
        resume_token: opened.resume_token.clone(),
        permits,
        ..Default::default()
    })
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_keeps_permits_as_long_as_the_session_lives() {
    let (_faults, world, _client, mut permits, mut session) = pool(3).await;
    let lock = session.acquire("lock").await;
    let grant = session.acquire_permits("s", 2).await;
    assert!(lock.watched && grant.watched);
    tokio::time::sleep(secs(300)).await;
    let seen = permits.describe().await;
    assert_eq!(seen.available, 1);
    assert!(std_duration(seen.holders[0].remaining_lease) >= secs(15));
    session.close().await.unwrap();
    assert!(permits.is_idle(3).await, "given back at once");
    permits.set(0).await;
    world.expect_nothing_left(&["s", "lock"]).await;
}

#[tokio::test(start_paused = true)]
async fn permits_with_a_lease_of_their_own_run_out_and_that_is_told() {
    let (_faults, _world, _client, permits, mut session) = pool(1).await;
    let op_id = session.send(Request::AcquirePermits(
        permits.request("", 1).lasting(secs(5)),
    ));
    let grant = session.expect_permits(op_id).await;
    assert!(!grant.watched);
    let begun = Instant::now();
    let lost = session.expect_permits_lost().await;
    assert!(
        begun.elapsed() < secs(5),
        "before somebody else can have it"
    );
    assert_eq!(lost.reason(), pb::LostReason::Expired);
    assert_eq!(lost.grant.unwrap().permit_ids, grant.permit_ids);
}

#[tokio::test(start_paused = true)]
async fn some_of_a_grant_are_given_back_and_the_rest_stays_watched() {
    let (_faults, world, _client, mut permits, mut session) = pool(4).await;
    let grant = session.acquire_permits("s", 3).await;
    let other = session.acquire_permits("s", 1).await;
    // In whatever order they are sorted, the rest is another set of permits than before.
    for (id, left) in grant.permit_ids.iter().zip([1, 2]) {
        tokio::time::sleep(secs(9)).await;
        let released = session.release_permits("s", std::slice::from_ref(id)).await;
        assert_eq!((released.released, released.available), (1, left));
    }
    tokio::time::sleep(secs(100)).await;
    assert_eq!(permits.describe().await.available, 2);
    let renew = pb::RenewPermitsRequest::named("s").lasting(secs(600));
    let op_id = session.send(Request::RenewPermits(renew));
    let renewed = expect!(session.answer(op_id).await, Response::PermitsRenewed);
    let mut counts: Vec<_> = renewed.grants.iter().map(|grant| grant.permits).collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 1], "both grants, as they are now");
    let all = session.release_permits("s", &[]).await;
    assert_eq!((all.released, all.available), (2, 4));
    drop(other);
    session.close().await.unwrap();
    world.expect_nothing_left(&[]).await;
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_crosses_a_release_of_some_permits_loses_nothing() {
    let (faults, world) = World::faulty_with(&Options::with(|it| it.call_timeout = secs(5)));
    let mut client = world.client(0).await;
    let mut permits = Semaphore::new(&client, "s");
    permits.set(3).await;
    let mut session = client.open().await;
    let grant = session.acquire_permits("s", 3).await;
    // The release is done in the store but not answered when the renewal asks for all three.
    tokio::time::sleep(millis(9500)).await;
    let renewals = faults.calls("permit_renew");
    faults.set_answer_delay(secs(2));
    session.release_permits("s", &grant.permit_ids[..1]).await;
    assert!(faults.calls("permit_renew") > renewals, "it was under way");
    faults.set_answer_delay(millis(0));
    tokio::time::sleep(secs(100)).await;
    assert_eq!(permits.describe().await.available, 1);
    let left = session.release_permits("s", &grant.permit_ids[1..]).await;
    assert_eq!((left.released, left.available), (2, 3));
    session.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permits_that_somebody_took_away_are_told_as_lost_at_the_next_renewal() {
    let (_faults, world, _client, _permits, mut session) = pool(2).await;
    let grant = session.acquire_permits("s", 2).await;
    let id = hex::decode(&grant.permit_ids[0]).unwrap();
    let leases = keys::permit_leases("s").to_bytes();
    let removed = world.store.command(&[b"ZREM", &leases, &id]);
    assert_eq!(removed, Ok(Value::Int(1)));
    let begun = Instant::now();
    let lost = session.expect_permits_lost().await;
    assert!(begun.elapsed() <= secs(11));
    assert_eq!(lost.reason(), pb::LostReason::Expired);
    assert_eq!(lost.grant.unwrap().permits, 2);
}

#[tokio::test(start_paused = true)]
async fn permits_are_lost_by_the_clock_when_the_store_is_away() {
    let (faults, _world, _client, _permits, mut session) = pool(2).await;
    session.acquire_permits("s", 2).await;
    faults.set_unavailable(true);
    let begun = Instant::now();
    let at_risk = session.notice().await;
    assert!(matches!(at_risk, Response::AtRisk(_)), "{at_risk:?}");
    let lost = session.expect_permits_lost().await;
    assert!(begun.elapsed() < secs(30));
    assert_eq!(lost.reason(), pb::LostReason::StoreUnreachable);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_elsewhere_with_its_permits() {
    let world = World::of(2);
    let mut first = world.client(0).await;
    let mut permits = Semaphore::new(&world.client(1).await, "s");
    permits.set(5).await;
    let mut session = first.open().await;
    let kept = session.acquire_permits("s", 2).await;
    let gone = session.acquire_permits("s", 1).await;
    first.cut();
    permits.release("nobody", &[]).await.unwrap_err();
    let id = hex::decode(&gone.permit_ids[0]).unwrap();
    let leases = keys::permit_leases("s").to_bytes();
    world.store.command(&[b"ZREM", &leases, &id]).unwrap();
    world.store.command(&[b"INCRBY", b"s", b"1"]).unwrap();
    let mut second = world.client(1).await;
    let named = vec![kept.clone(), gone.clone()];
    let mut resumed = second
        .session(resume(&session.opened, named))
        .await
        .unwrap();
    assert_eq!(resumed.opened.permits.len(), 1);
    assert_eq!(resumed.opened.permits[0].permit_ids, kept.permit_ids);
    let lost = resumed.expect_permits_lost().await;
    assert_eq!(lost.grant.unwrap().permit_ids, gone.permit_ids);
    tokio::time::sleep(secs(100)).await;
    assert_eq!(permits.describe().await.available, 3, "still renewed");
    resumed.close().await.unwrap();
    assert!(permits.is_idle(5).await);
}

#[tokio::test(start_paused = true)]
async fn a_resume_gives_back_the_permits_that_it_does_not_name() {
    let world = World::new();
    let mut permits = Semaphore::new(&world.client(0).await, "s");
    permits.set(5).await;
    // Of the first grant the client knows one permit less than the coordinator: that which is
    // sorted first, or the other one.
    for named in 0..2 {
        let mut client = world.client(0).await;
        let mut session = client.open().await;
        let mut part = session.acquire_permits("s", 2).await;
        session.acquire_permits("s", 1).await;
        part.permit_ids.sort_unstable();
        client.cut();
        let named = pb::PermitGrant {
            permit_ids: vec![part.permit_ids[named].clone()],
            ..part.clone()
        };
        let resume = resume(&session.opened, vec![named]);
        let mut again = world.client(0).await;
        let resumed = again.session(resume).await.unwrap();
        assert_eq!(resumed.opened.permits[0].permits, 1);
        let resumed_at = Instant::now();
        eventually("the others are free", || async {
            permits.clone().describe().await.available == 4
        })
        .await;
        assert!(resumed_at.elapsed() < secs(1), "not by their leases");
        tokio::time::sleep(secs(100)).await;
        assert_eq!(permits.describe().await.available, 4);
        resumed.close().await.unwrap();
        assert!(permits.is_idle(5).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_on_the_stream_ends_with_a_cancel_or_with_the_session() {
    let (world, mut client) = World::with_client().await;
    let mut permits = Semaphore::new(&client, "s");
    permits.set(1).await;
    permits.take("x", 1, secs(600)).await;
    let mut session = client.open().await;
    let first = session.send_acquire_permits("s", 1);
    let told = session.answer(first).await;
    assert!(matches!(told, Response::WaitingForPermits(_)), "{told:?}");
    session.send_as(first, Request::Cancel(pb::CancelOperation {}));
    let ended = session.answer(first).await;
    let ended = expect!(ended, Response::PermitsNotGranted);
    assert_eq!(ended.reason(), pb::NotGrantedReason::Cancelled);
    let second = session.send_acquire_permits("s", 1);
    session.answer(second).await;
    session.close().await.unwrap();
    permits.release("x", &[]).await.unwrap();
    assert!(permits.is_idle(1).await);
    permits.set(0).await;
    world.expect_nothing_left(&["s"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_acquire_whose_outcome_is_not_known_is_undone_exactly() {
    let (faults, world) = World::faulty_with(&Options::with(|it| it.call_timeout = secs(1)));
    let mut client = world.client(0).await;
    let mut permits = Semaphore::new(&client, "s");
    permits.set(5).await;
    let mut session = client.open().await;
    session.acquire_permits("s", 1).await;
    faults.lose_answers("permit_acquire", 1);
    let tried = session.send(Request::TryAcquirePermits(
        pb::TryAcquirePermitsRequest::named("s").permits(2),
    ));
    assert_eq!(session.expect_failed(tried).await, "OUTCOME_UNKNOWN");
    eventually("they are given back", || async {
        permits.clone().describe().await.available == 4
    })
    .await;
    // A release that may have happened: it is brought to its end, and nothing is lost.
    faults.lose_requests("permit_release", 1);
    let release = session.send(Request::ReleasePermits(pb::ReleasePermitsRequest::named(
        "s",
    )));
    assert_eq!(session.expect_failed(release).await, "OUTCOME_UNKNOWN");
    eventually("it is given back", || async {
        permits.clone().is_idle(5).await
    })
    .await;
    session.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn permits_that_nobody_takes_are_given_back() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let mut permits = Semaphore::new(&world.client(0).await, "s");
    permits.set(3).await;
    let session = client.open().await;
    faults.set_answer_delay(millis(500));
    let mut theirs = Semaphore::new(&client, "s");
    let request = theirs.request("", 2).of_session(session.id());
    let call = tokio::time::timeout(millis(100), async {
        theirs.acquire(request).await.unwrap().end().await
    });
    assert!(call.await.is_err(), "gone before the answer");
    faults.set_answer_delay(millis(0));
    eventually("they are given back", || async {
        permits.clone().is_idle(3).await
    })
    .await;
    session.close().await.unwrap();
}
