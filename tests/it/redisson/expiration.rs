//! `RedissonLockExpirationRenewalTest`: the store comes back without its data.

use lockkeeper_api::pb::LockMode::{self, Exclusive, Read, Write};

use super::{
    parties::Program,
    stories::{self, NAME, is_free},
};
use crate::support::secs;

/// What was held is gone, is told as such, and cannot be given back; what is taken then is renewed.
async fn after_timeout(mode: LockMode) {
    let (world, mut program) = Program::alone().await;
    let lock = program.lock(NAME, mode, "1");
    lock.lock().await;
    world.store.flush_all();
    assert_eq!(lock.try_unlock().await, Err("NOT_OWNER".to_owned()));
    program.session.expect_lost().await;
    lock.lock().await;
    tokio::time::sleep(secs(60)).await;
    assert!(lock.is_locked().await);
    assert_eq!(lock.unlock().await, 0);
    assert!(is_free(&world));
}

#[tokio::test(start_paused = true)]
async fn lock_reentrant_renew() {
    let (_world, program) = Program::alone().await;
    let (one, two) = (
        program.lock(NAME, Exclusive, "1"),
        program.lock(NAME, Exclusive, "2"),
    );
    one.lock().await;
    one.lock().await;
    assert_eq!((one.unlock().await, one.unlock().await), (1, 0));
    two.lock().await;
    tokio::time::sleep(secs(300)).await;
    assert_eq!(two.hold_count().await, 1);
    assert_eq!(two.unlock().await, 0);
}

stories::tests! {
    #[test] fn write_lock_after_timeout() = after_timeout(Write);
    #[test] fn read_lock_after_timeout() = after_timeout(Read);
    #[test] fn lock_after_timeout() = after_timeout(Exclusive);
}
