//! Two contenders whose work is longer than their lease, or shorter than their limit.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::{sync::Notify, time::sleep};

use super::world::{LATE_MAX, World};
use crate::prelude::*;

pub(super) async fn mission_15_experiment_2_lease_3_s_work_5_s_two_contenders(world: World) {
    const NAME: &str = "experiment-2";
    let mut contenders = Vec::new();
    for number in 0..2 {
        let mut client = world.client(number).await;
        contenders.push(timed(async move {
            let mut session = client.open().await;
            let request = acquire_request(NAME, "").lasting(secs(3));
            let grant = session.granted(request).await;
            let granted = Instant::now();
            let lost = session.expect_lost().await;
            assert_eq!(lost.reason(), LostReason::Expired);
            assert_eq!(lost.grant.unwrap().fencing_token, grant.fencing_token);
            assert!(granted.elapsed() < secs(3) + LATE_MAX);
            sleep(secs(5).saturating_sub(granted.elapsed())).await;
            let op_id = session.send_release(NAME, "");
            assert_eq!(session.expect_failed(op_id).await, "NOT_OWNER");
            (granted, grant.fencing_token)
        }));
    }
    let mut granted = Vec::new();
    for contender in contenders {
        granted.push(contender.await.unwrap().1);
    }
    granted.sort_unstable();
    let [(first, token), (second, larger)] = granted[..] else {
        panic!("two contenders");
    };
    let between = second - first;
    // The first was told of its grant a moment after it began.
    assert!(
        between > secs(2) && between < secs(3) + LATE_MAX,
        "{between:?}"
    );
    assert!(token < larger, "{token} and {larger}");
}

pub(super) async fn mission_16_experiment_3_no_lease_wait_6_s_work_5_s_two_contenders(
    world: World,
) {
    const NAME: &str = "experiment-3";
    let is_inside = Arc::new(AtomicBool::new(false));
    let has_begun = Arc::new(Notify::new());
    let mut contenders = Vec::new();
    for number in 0..2 {
        let (mut client, is_inside) = (world.client(number).await, Arc::clone(&is_inside));
        let has_begun = Arc::clone(&has_begun);
        contenders.push(timed(async move {
            let mut session = client.open().await;
            // The second comes a moment after the first: its second of leeway is not spent before
            // that has begun to work.
            if number > 0 {
                has_begun.notified().await;
            }
            let request = acquire_request(NAME, "").within(secs(6));
            session.granted(request).await;
            assert!(!is_inside.swap(true, Ordering::SeqCst), "held twice");
            has_begun.notify_one();
            sleep(secs(5)).await;
            assert!(is_inside.swap(false, Ordering::SeqCst));
            assert!(session.release(NAME).await.released);
            session.close().await.unwrap();
        }));
    }
    for contender in contenders {
        contender.await.unwrap();
    }
    let client = world.client(0).await;
    eventually("nobody has it", || async {
        client.clone().describe(NAME).await.holders.is_empty()
    })
    .await;
}
