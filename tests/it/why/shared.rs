//! What is shared through the store, and what it costs.

use lockkeeper_coordinator::SessionId;

use super::{JOB, holder};
use crate::support::prelude::*;

fn calls(faults: &Faults) -> [usize; 2] {
    ["waits_share", "waits_look"].map(|script| faults.calls(script))
}

#[tokio::test(start_paused = true)]
async fn nothing_is_shared_of_short_waits_and_of_owners_that_hold_nothing() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let _idle = holder(&world, 0, "idle", "a").await;
    // Both hold nothing: a session, and an owner that was made for its wait.
    let mut session = client.open().await;
    session.send_acquire("a", JOB);
    let made = acquire_request("a", "");
    let _waiting = client.acquire(made).await.unwrap();
    tokio::time::sleep(secs(10)).await;
    // One that holds a lock waits for less than a second.
    let mut short = holder(&world, 0, "short", "b").await;
    let mut other = holder(&world, 0, "other", "c").await;
    for _ in 0..10 {
        let op_id = short.send_acquire("c", JOB);
        tokio::time::sleep(millis(900)).await;
        short.send_as(op_id, Request::Cancel(pb::CancelOperation {}));
        short.end(op_id).await;
    }
    assert_eq!(calls(&faults), [0, 0]);
    // What is shared is written 2.5 times a second, and taken back when the wait ends.
    let op_id = short.send_acquire("c", JOB);
    tokio::time::sleep(secs(11)).await;
    let [shared, looked] = calls(&faults);
    assert!((23..=28).contains(&shared), "{shared}");
    assert_eq!(looked, 0, "the session of the holder is here");
    let release = pb::ReleaseRequest::named("c").by(JOB);
    other.send(Request::Release(release));
    short.expect_granted(op_id).await;
    tokio::time::sleep(secs(1)).await;
    let [shared, _] = calls(&faults);
    tokio::time::sleep(secs(10)).await;
    assert_eq!(calls(&faults)[0], shared);
    let digest = SessionId::parse(&short.id()).unwrap().digest();
    let key = keys::waits("", &digest);
    assert_eq!(world.redis(&["EXISTS", &key]), Value::Int(0));
}
