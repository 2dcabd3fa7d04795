//! `RedissonReadWriteLockTest`.

mod leases;

use std::cell::Cell;

use lockkeeper_api::pb::LockMode::{Read, Write};

use super::{
    parties::{Lock, Program},
    stories::{self, NAME, is_free},
};
use crate::support::prelude::*;

fn read(program: &Program, thread: &str) -> Lock {
    program.lock(NAME, Read, thread)
}

fn write(program: &Program, thread: &str) -> Lock {
    program.lock(NAME, Write, thread)
}

#[tokio::test(start_paused = true)]
async fn read_lock_is_locked() {
    let (world, program) = Program::alone().await;
    write(&program, "1").lock().await;
    assert!(!read(&program, "1").is_locked().await);
    read(&program, "1").lock().await;
    assert!(read(&program, "1").is_locked().await && write(&program, "1").is_locked().await);
    read(&program, "1").unlock().await;
    assert!(!read(&program, "1").is_locked().await);
    write(&program, "1").unlock().await;
    assert!(is_free(&world));
}

#[tokio::test(start_paused = true)]
async fn name() {
    const NAME: &str = "{test}:abc:key";
    let (_world, program) = Program::alone().await;
    let readers = (0..10).map(|thread: u32| {
        let lock = program.lock(NAME, Read, &thread.to_string());
        async move {
            lock.lock().await;
            tokio::time::sleep(secs(1)).await;
            lock.unlock().await;
        }
    });
    let writer = program.lock(NAME, Write, "a writer");
    let writing = async {
        assert!(writer.try_lock_for(secs(2)).await);
        writer.unlock().await;
    };
    tokio::join!(join_all(readers), writing);
}

/// `testWR`.
#[tokio::test(start_paused = true)]
async fn wr() {
    let (_world, program) = Program::alone().await;
    let (reader, writer) = (read(&program, "1"), write(&program, "1"));
    writer.lock().await;
    reader.lock().await;
    assert_eq!(reader.unlock().await, 0);
    assert_eq!(writer.hold_count().await, 1);
    assert!(!read(&program, "2").try_lock().await);
    tokio::time::sleep(secs(60)).await;
    assert_eq!(writer.unlock().await, 0, "it is still renewed");
}

#[tokio::test(start_paused = true)]
async fn write_read() {
    let (_world, one, two) = Program::apart().await;
    let writer = write(&one, "writer");
    writer.lock().await;
    let readers = (0..20).map(|thread: u32| {
        let program = if thread.is_multiple_of(2) { &one } else { &two };
        let lock = read(program, &thread.to_string());
        async move {
            lock.lock().await;
            tokio::time::sleep(millis(800)).await;
            lock.unlock().await;
        }
    });
    let writing = async {
        tokio::time::sleep(secs(5)).await;
        writer.unlock().await;
        Instant::now()
    };
    let (_, released) = tokio::join!(join_all(readers), writing);
    assert!(released.elapsed() < secs(1), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn write_read_reentrancy() {
    let (_world, program) = Program::alone().await;
    let (reader, writer) = (read(&program, "1"), write(&program, "1"));
    writer.lock().await;
    reader.lock().await;
    assert!(!read(&program, "2").try_lock().await);
    assert_eq!(writer.unlock().await, 0);
    assert!(!write(&program, "2").try_lock().await);
    let other = read(&program, "2");
    assert!(other.try_lock().await);
    other.unlock().await;
    assert_eq!(reader.unlock().await, 0);
    assert!(write(&program, "2").try_lock().await);
}

#[tokio::test(start_paused = true)]
async fn write_lock() {
    let (_world, program) = Program::alone().await;
    let writer = write(&program, "1");
    assert!(writer.try_lock().await && writer.clone().try_lock().await);
    let (other, reader) = (write(&program, "2"), read(&program, "2"));
    assert_eq!(other.hold_count().await, 0);
    assert!(!other.try_lock().await && !reader.try_lock().await);
    assert_eq!(writer.unlock().await, 1);
    assert!(!reader.try_lock().await);
    assert_eq!(writer.unlock().await, 0);
    assert!(reader.try_lock().await && read(&program, "3").try_lock().await);
    assert!(!writer.try_lock().await);
}

#[tokio::test(start_paused = true)]
async fn multi_read() {
    let (_world, program) = Program::alone().await;
    let (one, two) = (read(&program, "1"), read(&program, "2"));
    assert!(one.try_lock().await && two.try_lock().await);
    assert_eq!((one.hold_count().await, two.hold_count().await), (1, 1));
    let writer = write(&program, "3");
    assert!(!writer.try_lock().await);
    one.unlock().await;
    assert!(!writer.try_lock().await);
    two.unlock().await;
    assert!(writer.try_lock().await);
}

/// Readers and writers at two coordinators; unlike in Redisson's tests nobody may write together
/// with another.
async fn concurrency(programs: usize, threads: u32, rounds: u32) {
    let world = World::of(2);
    let mut running = Vec::new();
    for number in 0..programs {
        running.push(Program::start_at(&world, number % 2).await);
    }
    let (reading, writing) = (Cell::new(0_u32), Cell::new(false));
    let (reading, writing) = (&reading, &writing);
    let all = running.iter().flat_map(|program| {
        (0..threads).map(move |thread| async move {
            let (reader, writer) = (
                read(program, &thread.to_string()),
                write(program, &thread.to_string()),
            );
            for _ in 0..rounds {
                if rand::random_bool(0.5) {
                    reader.lock().await;
                    assert!(!writing.get(), "a reader with a writer");
                    reading.set(reading.get() + 1);
                    tokio::task::yield_now().await;
                    reading.set(reading.get() - 1);
                    assert_eq!(reader.unlock().await, 0);
                } else {
                    writer.lock().await;
                    assert!(
                        !writing.replace(true) && reading.get() == 0,
                        "a writer with others"
                    );
                    tokio::task::yield_now().await;
                    writing.set(false);
                    assert_eq!(writer.unlock().await, 0);
                }
            }
        })
    });
    join_all(all).await;
    for program in running {
        program.session.close().await.unwrap();
    }
    world.expect_nothing_left(&[NAME]).await;
}

stories::tests! {
    #[test] fn force_unlock() = stories::force_unlock(Read), stories::force_unlock(Write);
    #[test] fn hold_count() = stories::get_hold_count(Read), stories::get_hold_count(Write);
    #[test] fn is_held_by_current_thread_other_thread() =
        stories::is_held_by_current_thread_other_thread(Read),
        stories::is_held_by_current_thread_other_thread(Write);
    #[test] fn is_held_by_current_thread() =
        stories::is_held_by_current_thread(Read), stories::is_held_by_current_thread(Write);
    #[test] fn is_locked_other_thread() =
        stories::is_locked_other_thread(Read), stories::is_locked_other_thread(Write);
    #[test] fn is_locked() = stories::is_locked(Read), stories::is_locked(Write);
    #[test] fn unlock_fail() = stories::unlock_fail(Read), stories::unlock_fail(Write);
    #[test] fn lock_unlock() = stories::lock_unlock(Read), stories::lock_unlock(Write);
    #[test] fn reentrancy() =
        stories::reentrancy(Read, Write),
        stories::reentrancy(Write, Read),
        stories::reentrancy(Write, Write);
    #[test] fn concurrency_single_instance() = concurrency(1, 15, 2);
    #[test] fn concurrency_loop_multi_instance() = concurrency(16, 1, 10);
    #[test] fn concurrency_multi_instance() = concurrency(100, 1, 1);
}
