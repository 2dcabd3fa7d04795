//! The tests of `RedissonReadWriteLockTest` about leases: each hold has its own, and the lock lives
//! as long as the longest.

use lockkeeper_api::pb::LockMode::{Read, Write};

use super::{
    super::{
        parties::Program,
        stories::{self, is_free},
    },
    read, write,
};
use crate::support::prelude::*;

/// How long a writer of another thread waits from now on.
async fn writer_waits(program: &Program) -> Duration {
    let begun = Instant::now();
    let writer = write(program, "a writer");
    assert!(writer.try_lock_for(secs(600)).await);
    writer.unlock().await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn read_lock_expiration() {
    let (_world, program) = Program::alone().await;
    read(&program, "1").lock_with(secs(10)).await;
    read(&program, "2").lock_with(secs(3)).await;
    let waited = writer_waits(&program).await;
    assert!(
        waited > millis(9900) && waited < millis(10_100),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn read_lock_expiration_renewal() {
    let (world, program) = Program::alone().await;
    let readers = (0..50_u32).map(|thread| {
        let lock = read(&program, &thread.to_string());
        async move {
            lock.lock().await;
            tokio::time::sleep(secs(40) + millis(7) * thread).await;
            assert_eq!(lock.unlock().await, 0);
        }
    });
    join_all(readers).await;
    assert!(is_free(&world));
}

#[tokio::test(start_paused = true)]
async fn write_lock_expiration() {
    let (_world, program) = Program::alone().await;
    let writer = write(&program, "1");
    writer.lock_with(secs(10)).await;
    writer.lock_with(secs(1)).await;
    assert!(!write(&program, "2").try_lock_for(secs(3)).await);
    assert!(!read(&program, "2").try_lock_for(secs(3)).await);
    // Redisson adds the two leases up; here the longer one counts.
    let remaining = writer.remaining().await.unwrap();
    assert!(remaining < millis(4100), "{remaining:?}");
}

#[tokio::test(start_paused = true)]
async fn read_lock_lease_timeout_diff_threads_wrr() {
    let (_world, program) = Program::alone().await;
    write(&program, "1").lock_with(secs(10)).await;
    let begun = Instant::now();
    let (two, three) = (read(&program, "2"), read(&program, "3"));
    let (two, three) = tokio::join!(two.try_lock_for(secs(11)), three.try_lock_for(secs(11)));
    assert!(two && three);
    assert!(begun.elapsed() < millis(10_100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn read_lock_lease_timeout_diff_threads_rrw() {
    let (_world, program) = Program::alone().await;
    read(&program, "1").lock_with(secs(10)).await;
    tokio::time::sleep(secs(5)).await;
    let second = read(&program, "2");
    second.lock_with(secs(10)).await;
    assert_eq!(second.unlock().await, 0);
    let waited = writer_waits(&program).await;
    assert!(waited > millis(4900) && waited < millis(5100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn read_lock_lease_timeout() {
    let (_world, program) = Program::alone().await;
    let reader = read(&program, "1");
    reader.lock_with(secs(10)).await;
    reader.lock_with(secs(10)).await;
    tokio::time::sleep(secs(5)).await;
    assert_eq!(reader.unlock().await, 1);
    let waited = writer_waits(&program).await;
    // In Redisson the first hold ends with its own lease, 5 s from now; here what remains gets a
    // full one when a hold is given back.
    assert!(
        waited > millis(9900) && waited < millis(10_100),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn read_write_ttl() {
    let (world, program) = Program::alone().await;
    let (reader, writer) = (read(&program, "1"), write(&program, "1"));
    writer.lock().await;
    reader.lock().await;
    for _ in 0..2 {
        for _ in 0..25 {
            tokio::time::sleep(secs(1)).await;
            let remaining = reader.remaining().await.unwrap();
            assert!(remaining > secs(19), "{remaining:?}");
        }
        // The second time there is none to give back any more.
        assert!(matches!(writer.try_unlock().await, Ok(0) | Err(_)));
    }
    assert_eq!(reader.unlock().await, 0);
    assert!(is_free(&world));
}

#[tokio::test(start_paused = true)]
async fn expire_read() {
    let (_world, program) = Program::alone().await;
    read(&program, "1").lock_with(secs(2)).await;
    let begun = Instant::now();
    read(&program, "2").lock().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
    stories::expire(Read, Write).await;
}

#[tokio::test(start_paused = true)]
async fn multi_instance_read_lock_zombie_cleanup() {
    let (_world, zombie, living) = Program::apart().await;
    read(&zombie, "1").lock().await;
    let reader = read(&living, "1");
    reader.lock().await;
    zombie.die();
    tokio::time::sleep(secs(40)).await;
    assert_eq!(reader.unlock().await, 0);
    let waited = writer_waits(&living).await;
    assert!(waited < millis(50), "{waited:?}");
}

stories::tests! {
    #[test] fn expire_write() = stories::expire(Write, Write), stories::expire(Write, Read);
    #[test] fn auto_expire() =
        stories::auto_expire(Write, Write), stories::auto_expire(Read, Write);
}
