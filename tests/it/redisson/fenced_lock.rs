//! `RedissonFencedLockTest`.

use lockkeeper_api::pb::LockMode::Exclusive;

use super::{parties::Program, stories::NAME};
use crate::support::secs;

/// Tokens are times here and not small numbers; but they grow all the same, however the lock is
/// taken.
#[tokio::test(start_paused = true)]
async fn token_increase() {
    let (_world, program) = Program::alone().await;
    let lock = program.lock(NAME, Exclusive, "1");
    let mut tokens = Vec::new();
    for way in 0..5 {
        let grant = match way {
            0 | 1 => lock.lock().await,
            2 => lock.lock_with(secs(10)).await,
            3 => lock.try_for_grant(None).await.unwrap(),
            _ => lock.try_for_grant(Some(secs(10))).await.unwrap(),
        };
        assert_eq!(
            lock.describe().await.last_fencing_token,
            grant.fencing_token
        );
        tokens.push(grant.fencing_token);
        lock.unlock().await;
        assert_eq!(
            lock.describe().await.last_fencing_token,
            grant.fencing_token
        );
    }
    assert!(
        tokens[0] > 0 && tokens.is_sorted_by(|a, b| a < b),
        "{tokens:?}"
    );
}
