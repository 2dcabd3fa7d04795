//! Waiting until a lock is free.

use lockkeeper_client::{Error, NotGrantedReason};

use super::{acquire, two};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_client_waits_until_a_lock_is_free_and_survives_a_broken_connection() {
    let (_world, network, session) = two().await;
    let client = network.client(&[1, 0]);
    client.await_free("a", None).await.unwrap();
    let guard = acquire(&session, "a").await;
    let begun = Instant::now();
    let ended = client.await_free("a", Some(millis(700))).await.unwrap_err();
    let reason = expect!(ended, Error::NotGranted { reason, .. } => reason);
    assert_eq!(reason, NotGrantedReason::WaitTimeout);
    assert!(begun.elapsed() >= millis(700) && begun.elapsed() < secs(1));
    let (free, ()) = tokio::join!(client.await_free("a", None), async {
        tokio::time::sleep(secs(1)).await;
        network.cut(1);
        tokio::time::sleep(secs(5)).await;
        guard.release().await.unwrap();
    });
    free.unwrap();
    assert!(begun.elapsed() < secs(8), "{:?}", begun.elapsed());
}
