//! `RedissonPermitExpirableSemaphoreTest`; and `RedissonSemaphoreTest`, as far as it is about
//! waiting and counting, because permits without a lease do not exist here.

use std::cell::Cell;

use crate::support::prelude::*;

const NAME: &str = "semaphore";

/// A semaphore that has so many permits.
async fn with(permits: u32) -> (World, Semaphore) {
    let world = World::new();
    let mut semaphore = Semaphore::new(&world.client(0).await, NAME);
    semaphore.set(permits).await;
    (world, semaphore)
}

#[tokio::test(start_paused = true)]
async fn update_lease_time() {
    let (_world, mut semaphore) = with(1).await;
    let unknown = ["0123456789abcdef0123456789abcdef".to_owned()];
    let refused = semaphore.renew("1", &unknown, secs(30)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_OWNER");
    let grant = semaphore.take("1", 1, secs(10)).await;
    tokio::time::sleep(secs(5)).await;
    let renewed = semaphore
        .renew("1", &grant.permit_ids, secs(30))
        .await
        .unwrap();
    assert_eq!(std_duration(renewed[0].lease), secs(30));
    tokio::time::sleep(secs(29)).await;
    assert_eq!(semaphore.describe().await.available, 0);
    tokio::time::sleep(secs(2)).await;
    let late = semaphore
        .renew("1", &grant.permit_ids, secs(30))
        .await
        .unwrap_err();
    assert_eq!(reason(&late), "NOT_OWNER");
    assert_eq!(semaphore.describe().await.available, 1);
}

#[tokio::test(start_paused = true)]
async fn not_existent() {
    let world = World::new();
    let mut semaphore = Semaphore::new(&world.client(0).await, NAME);
    let seen = semaphore.describe().await;
    assert_eq!((seen.total, seen.available, seen.holder_count), (0, 0, 0));
    let refused = semaphore.try_acquire("1", 1, secs(1)).await.unwrap_err();
    assert_eq!(reason(&refused), "SEMAPHORE_NOT_FOUND");
}

/// `testAvailablePermits`, `testAcquiredPermits` and `testGetPermits`.
#[tokio::test(start_paused = true)]
async fn available_permits() {
    let (_world, mut semaphore) = with(10).await;
    let held = semaphore.take("1", 3, secs(600)).await;
    semaphore.take("2", 2, secs(2)).await;
    let counts = async |semaphore: &mut Semaphore| {
        let seen = semaphore.describe().await;
        let acquired: u32 = seen.holders.iter().map(|holder| holder.permits).sum();
        (seen.total, seen.available, acquired)
    };
    assert_eq!(counts(&mut semaphore).await, (10, 5, 5));
    tokio::time::sleep(millis(2010)).await;
    assert_eq!(counts(&mut semaphore).await, (10, 7, 3));
    semaphore.release("1", &held.permit_ids).await.unwrap();
    assert_eq!(counts(&mut semaphore).await, (10, 10, 0));
}

/// `testExpire` and `testExpireTryAcquire`.
#[tokio::test(start_paused = true)]
async fn expire() {
    let (_world, mut semaphore) = with(1).await;
    let expired = semaphore.take("1", 1, secs(2)).await;
    let begun = Instant::now();
    let mut call = semaphore.acquire(semaphore.request("2", 1)).await.unwrap();
    let next = call.expect_granted().await;
    let waited = begun.elapsed();
    assert!(waited > millis(1900) && waited < millis(2100), "{waited:?}");
    let late = semaphore
        .release("1", &expired.permit_ids)
        .await
        .unwrap_err();
    assert_eq!(reason(&late), "NOT_OWNER");
    assert_eq!(
        semaphore
            .release("2", &next.permit_ids)
            .await
            .unwrap()
            .available,
        1
    );
}

#[tokio::test(start_paused = true)]
async fn try_set_permits() {
    let world = World::new();
    let mut semaphore = Semaphore::new(&world.client(0).await, NAME);
    let mut set = async |permits| {
        let request = pb::SetPermitsRequest {
            name: NAME.to_owned(),
            permits,
            only_if_absent: true,
        };
        let answer = semaphore.api.set_permits(request).await.unwrap();
        let answer = answer.into_inner();
        (answer.created, answer.total)
    };
    assert_eq!(set(10).await, (true, 10));
    assert_eq!(set(15).await, (false, 10));
}

/// `testSetPermits`, `testAddPermits` and `testReducePermits`.
#[tokio::test(start_paused = true)]
async fn set_permits() {
    let (_world, mut semaphore) = with(5).await;
    let held = semaphore.take("1", 3, secs(600)).await;
    for (total, available) in [(8, 5), (8, 5), (4, 1), (2, -1)] {
        assert_eq!(semaphore.set(total).await.available, available);
    }
    assert!(!semaphore.gets_for("2", 1, secs(1)).await);
    semaphore.release("1", &held.permit_ids).await.unwrap();
    assert!(semaphore.is_idle(2).await);
}

/// `RedissonSemaphoreTest.testAcquireAfterAddPermits`.
#[tokio::test(start_paused = true)]
async fn acquire_after_add_permits() {
    let (_world, mut semaphore) = with(2).await;
    semaphore.take("1", 2, secs(600)).await;
    let mut call = semaphore.waits(semaphore.request("2", 2)).await;
    semaphore.set(3).await;
    let early = tokio::time::timeout(secs(10), call.end()).await;
    assert!(early.is_err(), "one of two is not enough: {early:?}");
    semaphore.set(4).await;
    call.expect_granted().await;
}

/// `testBlockingAcquire` and `testTryAcquire`.
#[tokio::test(start_paused = true)]
async fn blocking_acquire() {
    let (_world, mut semaphore) = with(1).await;
    let first = semaphore.take("1", 1, secs(600)).await;
    assert!(first.permit_ids.iter().all(|id| id.len() == 32));
    let mut call = semaphore.waits(semaphore.request("2", 1)).await;
    tokio::time::sleep(secs(1)).await;
    let released = Instant::now();
    semaphore.release("1", &first.permit_ids).await.unwrap();
    let second = call.expect_granted().await;
    assert!(released.elapsed() < millis(50), "{:?}", released.elapsed());
    assert_ne!(first.permit_ids, second.permit_ids);
}

/// `testBlockingAcquireMany`, `testTryAcquireMany`, and `testBlockingNAcquire` and
/// `testTryNAcquire` of `RedissonSemaphoreTest`.
#[tokio::test(start_paused = true)]
async fn blocking_acquire_many() {
    let (_world, mut semaphore) = with(5).await;
    let held = semaphore.take("1", 3, secs(600)).await;
    let refused = semaphore.try_acquire("2", 4, secs(600)).await.unwrap();
    assert_eq!((refused.acquired, refused.available), (false, 2));
    let mut call = semaphore.waits(semaphore.request("2", 4)).await;
    // Two single releases, of which the first is not enough.
    for id in &held.permit_ids[..2] {
        tokio::time::sleep(millis(500)).await;
        semaphore
            .release("1", std::slice::from_ref(id))
            .await
            .unwrap();
    }
    assert_eq!(call.expect_granted().await.permit_ids.len(), 4);
    assert_eq!(semaphore.describe().await.available, 0);
}

/// `testRelease` and `testReleaseWithoutPermits`.
#[tokio::test(start_paused = true)]
async fn release() {
    let (_world, mut semaphore) = with(3).await;
    let unknown = ["0123456789abcdef0123456789abcdef".to_owned()];
    assert_eq!(refusal(semaphore.release("1", &unknown).await), "NOT_OWNER");
    let held = semaphore.take("1", 2, secs(600)).await;
    let released = semaphore.release("1", &held.permit_ids).await.unwrap();
    assert_eq!((released.released, released.available), (2, 3));
    let twice = semaphore.release("1", &held.permit_ids).await.unwrap_err();
    assert_eq!(reason(&twice), "NOT_OWNER");
    assert!(semaphore.is_idle(3).await);
}

/// `testReleaseExpired`, `testReleaseManyExpiredDoesNotThrow`, `testTryReleaseManyExpired` and
/// `testReleaseManyNotExistOrExpired`.
#[tokio::test(start_paused = true)]
async fn release_many_not_exist_or_expired() {
    let (_world, mut semaphore) = with(4).await;
    let short = semaphore.take("1", 2, secs(1)).await.permit_ids;
    let long = semaphore.take("1", 2, secs(600)).await.permit_ids;
    tokio::time::sleep(secs(2)).await;
    let both = [long.clone(), short].concat();
    assert_eq!(refusal(semaphore.release("1", &both).await), "NOT_OWNER");
    assert_eq!(
        semaphore.describe().await.available,
        2,
        "all or none; what has expired is free"
    );
    assert_eq!(semaphore.release("1", &long).await.unwrap().available, 4);
}

/// Holders of one permit each, of which there are few; unlike in Redisson's tests it is counted how
/// many hold one at once.
async fn concurrency(permits: u32, programs: usize, rounds: u32) {
    let world = World::of(2);
    let clients = [world.client(0).await, world.client(1).await];
    let mut semaphore = Semaphore::new(&clients[0], NAME);
    semaphore.set(permits).await;
    let (inside, entered) = (Cell::new(0_u32), Cell::new(0_u32));
    let all = (0..programs).map(|program| {
        let mut semaphore = Semaphore::new(&clients[program % 2], NAME);
        let (inside, entered) = (&inside, &entered);
        async move {
            let owner = program.to_string();
            for _ in 0..rounds {
                let request = semaphore.request(&owner, 1);
                let grant = semaphore.granted(request).await;
                inside.set(inside.get() + 1);
                assert!(inside.get() <= permits);
                tokio::task::yield_now().await;
                inside.set(inside.get() - 1);
                entered.set(entered.get() + 1);
                semaphore.release(&owner, &grant.permit_ids).await.unwrap();
            }
        }
    });
    join_all(all).await;
    assert_eq!(entered.get(), u32::try_from(programs).unwrap() * rounds);
    eventually("all are free", || async {
        semaphore.clone().is_idle(permits).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_single_instance() {
    concurrency(1, 15, 1).await;
}

#[tokio::test(start_paused = true)]
async fn concurrency_loop_multi_instance() {
    concurrency(1, 16, 20).await;
    concurrency(3, 16, 20).await;
}

/// `testConcurrencyMultiPermits` and `testConcurrencyMultiPermits2`.
#[tokio::test(start_paused = true)]
async fn concurrency_multi_permits() {
    for wanted in [[2, 2], [1, 2]] {
        let (_world, semaphore) = with(2).await;
        let begun = Instant::now();
        let threads = wanted.into_iter().enumerate().map(|(thread, wanted)| {
            let mut semaphore = semaphore.clone();
            async move {
                let owner = thread.to_string();
                let request = semaphore.request(&owner, wanted);
                let grant = semaphore.granted(request).await;
                tokio::time::sleep(millis(500)).await;
                semaphore.release(&owner, &grant.permit_ids).await.unwrap();
            }
        });
        join_all(threads).await;
        assert!(begun.elapsed() < secs(2), "{:?}", begun.elapsed());
    }
}
