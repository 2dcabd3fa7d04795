//! `SemaphoreService` and `LatchService`, RPC by RPC.

use super::{assert_no_session, assert_not_owner, both, locks::assert_digest};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn permits_of_another_session_or_owner_can_neither_be_taken_renewed_nor_released() {
    let (_world, mut alice, mallory) = both().await;
    let mut own = Semaphore::new(&alice, "s");
    own.set(3).await;
    let mut session = alice.open().await;
    let watched = session.acquire_permits("s", 1).await.permit_ids;
    let of_owner = own.take("ci", 1, secs(30)).await.permit_ids;

    let mut others = Semaphore::new(&mallory, "s");
    let id = session.id();
    let take = pb::TryAcquirePermitsRequest::named("s").permits(1);
    let take = others.api.try_acquire_permits(take.of_session(&id));
    assert_no_session(take.await);
    let wait = others.request("", 1).of_session(&id);
    assert_no_session(others.acquire(wait).await);
    let renew = pb::RenewPermitsRequest::named("s").ids(&watched);
    assert_no_session(others.api.renew_permits(renew.of_session(&id)).await);
    let release = pb::ReleasePermitsRequest::named("s").ids(&watched);
    assert_no_session(others.api.release_permits(release.of_session(&id)).await);
    assert_not_owner(others.renew("ci", &of_owner, secs(60)).await);
    assert_not_owner(others.release("ci", &of_owner).await);
    assert_eq!(session.release_permits("s", &watched).await.released, 1);
    assert_eq!(own.release("ci", &of_owner).await.unwrap().released, 1);
}

#[tokio::test(start_paused = true)]
async fn describe_semaphore_shows_owners_of_others_as_digests() {
    let (_world, alice, mallory) = both().await;
    let mut own = Semaphore::new(&alice, "s");
    own.set(2).await;
    own.take("ci", 1, secs(30)).await;
    let describe = || pb::DescribeSemaphoreRequest::named("s");
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
    let down = pb::CountDownRequest::named("l").count_by(1).with_id("r1");
    let count = |answer: tonic::Response<pb::CountDownResponse>| answer.into_inner().count;
    assert_eq!(count(own.api.count_down(down.clone()).await.unwrap()), 2);
    assert_eq!(count(own.api.count_down(down.clone()).await.unwrap()), 2);
    // A call of its own, and no repeat of the first.
    assert_eq!(count(others.api.count_down(down).await.unwrap()), 1);

    let session = alice.open().await;
    let wait = pb::AwaitLatchRequest::named("l").of_session(session.id());
    assert_no_session(others.api.await_latch(wait).await);
}
