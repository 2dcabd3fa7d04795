//! `SemaphoreService` and `LatchService`, RPC by RPC.

use lockkeeper_api::pb;
use lockkeeper_testkit::prelude::*;

use super::{assert_no_session, assert_not_owner, both, locks::assert_digest};
use crate::support::{
    counters::{Latch, Semaphore},
    secs,
};

#[tokio::test(start_paused = true)]
async fn permits_of_another_session_can_neither_be_taken_renewed_nor_released() {
    let (_world, mut alice, mallory) = both().await;
    Semaphore::new(&alice, "s").set(3).await;
    let session = alice.open().await;
    let take = pb::TryAcquirePermitsRequest::named("s")
        .of_session(session.id())
        .permits(1);
    let mut own = Semaphore::new(&alice, "s");
    let tried = own.api.try_acquire_permits(take.clone()).await.unwrap();
    let grant = tried.into_inner().grant.unwrap();

    let mut others = Semaphore::new(&mallory, "s");
    assert_no_session(others.api.try_acquire_permits(take).await);
    let wait = pb::AcquirePermitsRequest::named("s")
        .of_session(session.id())
        .permits(1);
    assert_no_session(others.acquire(wait).await);
    let renew = pb::RenewPermitsRequest::named("s")
        .of_session(session.id())
        .ids(&grant.permit_ids);
    assert_no_session(others.api.renew_permits(renew).await);
    let release = pb::ReleasePermitsRequest {
        name: "s".to_owned(),
        session_id: session.id(),
        permit_ids: grant.permit_ids,
        ..Default::default()
    };
    assert_no_session(others.api.release_permits(release.clone()).await);
    let released = own.api.release_permits(release).await.unwrap();
    assert_eq!(released.into_inner().released, 1);
}

#[tokio::test(start_paused = true)]
async fn permits_of_anothers_owner_can_neither_be_renewed_nor_released() {
    let (_world, alice, mallory) = both().await;
    let mut own = Semaphore::new(&alice, "s");
    own.set(2).await;
    let grant = own.take("ci", 1, secs(30)).await;
    let mut others = Semaphore::new(&mallory, "s");
    let renew = pb::RenewPermitsRequest::named("s")
        .by("ci")
        .ids(&grant.permit_ids)
        .lasting(secs(60));
    assert_not_owner(others.api.renew_permits(renew).await);
    let release = pb::ReleasePermitsRequest {
        name: "s".to_owned(),
        owner: "ci".to_owned(),
        permit_ids: grant.permit_ids,
        ..Default::default()
    };
    assert_not_owner(others.api.release_permits(release.clone()).await);
    let released = own.api.release_permits(release).await.unwrap();
    assert_eq!(released.into_inner().released, 1);
}

#[tokio::test(start_paused = true)]
async fn describe_semaphore_shows_owners_of_others_as_digests() {
    let (_world, alice, mallory) = both().await;
    let mut own = Semaphore::new(&alice, "s");
    own.set(2).await;
    own.take("ci", 1, secs(30)).await;
    let describe = || pb::DescribeSemaphoreRequest {
        name: "s".to_owned(),
    };
    let seen = own.api.describe_semaphore(describe()).await.unwrap();
    assert_eq!(seen.into_inner().holders[0].owner, "ci");
    let mut others = Semaphore::new(&mallory, "s");
    let seen = others.api.describe_semaphore(describe()).await.unwrap();
    assert_digest(&seen.into_inner().holders[0].owner);
}

#[tokio::test(start_paused = true)]
async fn a_latch_tells_nobody_the_answer_to_anothers_request() {
    let (_world, mut alice, mallory) = both().await;
    let set = pb::SetCountRequest::named("l").count(3);
    let (mut own, mut others) = (Latch::new(&alice, "l"), Latch::new(&mallory, "l"));
    own.api.set_count(set).await.unwrap();
    let down = pb::CountDownRequest {
        name: "l".to_owned(),
        by: 1,
        request_id: "r1".to_owned(),
    };
    let count = |answer: tonic::Response<pb::CountDownResponse>| answer.into_inner().count;
    assert_eq!(count(own.api.count_down(down.clone()).await.unwrap()), 2);
    assert_eq!(count(own.api.count_down(down.clone()).await.unwrap()), 2);
    // A call of its own, and no repeat of the first.
    assert_eq!(count(others.api.count_down(down).await.unwrap()), 1);

    let session = alice.open().await;
    let wait = pb::AwaitLatchRequest::named("l").of_session(session.id());
    assert_no_session(others.api.await_latch(wait).await);
}
