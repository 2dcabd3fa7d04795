//! How releases and renewals of permits end, in a session and without one.

use crate::support::prelude::*;

/// A semaphore with this many permits, and a session.
pub(crate) async fn pool(total: u32) -> (Faults, World, Client, Semaphore, Session) {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let mut permits = Semaphore::new(&client, "s");
    permits.set(total).await;
    let session = client.open().await;
    (faults, world, client, permits, session)
}

fn release(ids: &[String]) -> pb::ReleasePermitsRequest {
    pb::ReleasePermitsRequest::named("s").ids(ids)
}

async fn renew(
    session: &mut Session,
    request: pb::RenewPermitsRequest,
) -> Result<Vec<pb::PermitGrant>, String> {
    let op_id = session.send(Request::RenewPermits(request));
    match session.answer(op_id).await {
        Response::PermitsRenewed(renewed) => Ok(renewed.grants),
        Response::Failed(failed) => Err(failed.message),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_gives_all_back_has_nothing_left_to_renew() {
    let (_faults, world, _client, _permits, mut session) = pool(3).await;
    session.acquire_permits("s", 2).await;
    assert_eq!(world.coordinator(0).load().deadlines, 1);
    assert_eq!(session.release_permits("s", &[]).await.released, 2);
    assert_eq!(world.coordinator(0).load().deadlines, 0);
}

#[tokio::test(start_paused = true)]
async fn a_repeated_release_leaves_what_was_taken_since() {
    let (_faults, world, _client, mut permits, mut session) = pool(3).await;
    session.acquire_permits("s", 2).await;
    let repeated = || release(&[]).with_id("once");
    let op_id = session.send(Request::ReleasePermits(repeated()));
    assert!(matches!(
        session.answer(op_id).await,
        Response::PermitsReleased(_)
    ));
    session.acquire_permits("s", 1).await;
    let op_id = session.send(Request::ReleasePermits(repeated()));
    let again = expect!(session.answer(op_id).await, Response::PermitsReleased);
    assert_eq!(again.released, 2, "as the first time");
    assert_eq!(permits.describe().await.available, 2);
    assert_eq!(world.coordinator(0).load().deadlines, 1);
    tokio::time::sleep(secs(100)).await;
    assert_eq!(permits.describe().await.available, 2, "it is renewed");
}

#[tokio::test(start_paused = true)]
async fn a_release_of_permits_that_somebody_took_away_is_their_loss() {
    let (_faults, world, _client, _permits, mut session) = pool(2).await;
    let grant = session.acquire_permits("s", 1).await;
    let id = hex::decode(&grant.permit_ids[0]).unwrap();
    let leases = keys::permit_leases("s").to_bytes();
    let removed = world.store.command(&[b"ZREM", &leases, &id]);
    assert_eq!(removed, Ok(Value::Int(1)));
    let op_id = session.send(Request::ReleasePermits(release(&[])));
    assert_eq!(session.expect_failed(op_id).await, "NOT_OWNER");
    let begun = Instant::now();
    let lost = session.expect_permits_lost().await;
    assert_eq!(lost.reason(), pb::LostReason::Expired);
    assert!(begun.elapsed() < secs(1), "not only with the next renewal");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_did_not_reach_the_store_is_made_later_and_no_more_than_it() {
    for id in ["", "once"] {
        let (faults, world, _client, mut permits, mut session) = pool(9).await;
        let grant = session.acquire_permits("s", 3).await;
        faults.lose_requests("permit_release", 1);
        let some = release(&grant.permit_ids[..1]).with_id(id);
        let op_id = session.send(Request::ReleasePermits(some));
        assert_eq!(session.expect_failed(op_id).await, "OUTCOME_UNKNOWN");
        eventually("it is given back", || async {
            permits.clone().describe().await.available == 7
        })
        .await;
        tokio::time::sleep(secs(60)).await;
        assert_eq!(permits.describe().await.available, 7, "the rest is watched");
        assert_eq!(world.coordinator(0).load().deadlines, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_crosses_a_release_of_everything_is_no_loss() {
    let (faults, _world, _client, _permits, mut session) = pool(3).await;
    session.acquire_permits("s", 2).await;
    tokio::time::sleep(millis(9800)).await;
    let renewals = faults.calls("permit_renew");
    faults.set_answer_delay(millis(500));
    assert_eq!(session.release_permits("s", &[]).await.released, 2);
    assert!(faults.calls("permit_renew") > renewals, "it was under way");
    let notice = tokio::time::timeout(secs(60), session.notice()).await;
    assert!(notice.is_err(), "{notice:?}");
}

#[tokio::test(start_paused = true)]
async fn permits_are_renewed_with_their_own_lease_unless_the_session_watches_them() {
    let (_faults, _world, mut client, _permits, _session) = pool(9).await;
    let open = pb::OpenSession::default().lasting(secs(60));
    let mut session = client.open_with(open).await.unwrap();
    session.acquire_permits("s", 1).await;
    let own = pb::AcquirePermitsRequest::named("s")
        .permits(2)
        .lasting(secs(20));
    let op_id = session.send(Request::AcquirePermits(own));
    session.expect_permits(op_id).await;
    let renewed = renew(&mut session, pb::RenewPermitsRequest::named("s")).await;
    for grant in renewed.unwrap() {
        let lease = if grant.permits == 1 {
            secs(60)
        } else {
            secs(20)
        };
        assert_eq!(std_duration(grant.lease), lease, "{grant:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn permits_of_which_one_is_not_held_are_not_renewed() {
    let (_faults, _world, _client, mut permits, mut session) = pool(9).await;
    let grant = session.acquire_permits("s", 1).await;
    let other = permits.take("x", 1, secs(60)).await;
    let both = [grant.permit_ids, other.permit_ids].concat();
    let request = pb::RenewPermitsRequest::named("s").ids(&both);
    renew(&mut session, request).await.unwrap_err();
    let refused = permits.renew("x", &both, secs(60)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn permits_without_a_session_are_valid_for_their_new_lease() {
    let (_faults, _world, _client, mut permits, _session) = pool(2).await;
    let grant = permits.take("x", 1, secs(10)).await;
    let renewed = permits.renew("x", &grant.permit_ids, secs(40)).await;
    let renewed = renewed.unwrap();
    let valid_for = std_duration(renewed[0].valid_for);
    assert!(
        valid_for > secs(39) && valid_for < secs(40),
        "{valid_for:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn who_takes_the_last_permits_lets_the_next_one_wait_in_peace() {
    let (faults, world, _client, mut permits, _session) = pool(1).await;
    permits.take("holder", 1, secs(600)).await;
    let mut calls = Vec::new();
    for owner in ["1", "2"] {
        calls.push(permits.waits(permits.request(owner, 1)).await);
    }
    world.until_waiting(0, 2).await;
    tokio::time::sleep(millis(1500)).await;
    let before = faults.calls("permit_acquire");
    permits.release("holder", &[]).await.unwrap();
    calls[0].expect_granted().await;
    tokio::time::sleep(millis(100)).await;
    assert_eq!(faults.calls("permit_acquire"), before + 1, "none was left");
}

#[tokio::test(start_paused = true)]
async fn an_undone_acquire_leaves_what_a_repeat_has_taken_over() {
    let (faults, _world, client, mut permits, session) = pool(5).await;
    let acquire = |client: &Client| {
        let permits = Semaphore::new(client, "s");
        permits
            .request("", 2)
            .of_session(session.id())
            .with_id("once")
    };
    faults.set_answer_delay(millis(500));
    let mut first = Semaphore::new(&client, "s");
    let request = acquire(&client);
    let gone = tokio::time::timeout(millis(100), async {
        first.acquire(request).await.unwrap().end().await
    });
    assert!(gone.await.is_err());
    let mut again = Semaphore::new(&client, "s");
    let granted = again.granted(acquire(&client)).await;
    assert_eq!(granted.permits, 2);
    faults.set_answer_delay(millis(0));
    tokio::time::sleep(secs(100)).await;
    assert_eq!(permits.describe().await.available, 3, "they are renewed");
}
