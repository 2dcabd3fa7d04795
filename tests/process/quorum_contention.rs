//! Many who want one lock of a quorum.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use lockkeeper_api::pb::acquire_response::Event;

use crate::prelude::*;
use crate::{quorum_members::Quorum, steps::LEASE};

#[tokio::test]
async fn mission_28_of_a_thousand_callers_at_once_exactly_one_is_granted() {
    const CALLERS: usize = 1000;
    let quorum = Quorum::start(3).await;
    // On a busy machine a member may take longer to answer a thousand calls at once than it may in
    // earnest.
    let settings = quorum
        .settings()
        .with("store.call_timeout", "10s")
        .with("store.quorum_member_timeout", "10s");
    let coordinator = quorum.coordinator(&settings).await;
    let client = coordinator.client().await;
    let begun = Instant::now();
    let calls = (0..CALLERS).map(|number| {
        let mut client = client.clone();
        async move {
            let request = acquire_request("build", &format!("owner-{number}"))
                .lasting(secs(60))
                .within(millis(10));
            let mut call = client.acquire(request).await.unwrap();
            matches!(call.end().await.unwrap(), Event::Granted(_))
        }
    });
    let granted = join_all(calls).await;
    measured("a thousand callers at once", begun.elapsed());
    assert_eq!(granted.iter().filter(|granted| **granted).count(), 1);
    assert_eq!(quorum.count_of(&[0, 1, 2], "build").await, 3);
    let shown = client.clone().describe("build").await;
    assert_eq!((shown.holders.len(), shown.waiter_count), (1, 0));
}

/// Who is inside, as the protected resource would see it.
#[derive(Default)]
struct Witness {
    inside: AtomicUsize,
    last_token: AtomicU64,
    grants: AtomicUsize,
    losses: AtomicUsize,
}

/// Takes the lock again and again, and holds it for a moment each time.
async fn contend(coordinator: &Coordinator, witness: &Witness, over: &AtomicBool) {
    let mut session = coordinator.client().await.open().await;
    while !over.load(Ordering::Relaxed) {
        let op_id = session.send_acquire("build", "");
        let grant = loop {
            match session.answer(op_id).await {
                Response::Waiting(_) => {}
                Response::Granted(granted) => break Some(granted),
                // No majority for a moment.
                Response::Failed(_) | Response::NotGranted(_) => break None,
                other => panic!("{other:?}"),
            }
        };
        let Some(grant) = grant else { continue };
        let together = witness.inside.fetch_add(1, Ordering::SeqCst);
        assert_eq!(together, 0, "two hold it at once");
        let before = witness
            .last_token
            .swap(grant.fencing_token, Ordering::SeqCst);
        assert!(
            before < grant.fencing_token,
            "{before} and then {}",
            grant.fencing_token
        );
        witness.grants.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(millis(3)).await;
        witness.inside.fetch_sub(1, Ordering::SeqCst);
        let op_id = session.send_release("build", "");
        match session.answer(op_id).await {
            Response::Released(_) => {}
            _ => drop(witness.losses.fetch_add(1, Ordering::Relaxed)),
        }
    }
    session.close().await.unwrap();
}

#[tokio::test]
async fn of_32_contenders_never_two_hold_it_while_members_freeze_and_restart() {
    const CONTENDERS: usize = 32;
    const RUN: Duration = secs(12);
    let mut quorum = Quorum::start(5).await;
    let settings = quorum.settings();
    let (a, b) = (
        quorum.coordinator(&settings).await,
        quorum.coordinator(&settings).await,
    );
    let (witness, over) = (Witness::default(), AtomicBool::new(false));
    let contenders = (0..CONTENDERS).map(|number| {
        let coordinator = [&a, &b][number % 2];
        contend(coordinator, &witness, &over)
    });
    let churn = async {
        let begun = Instant::now();
        for round in 0.. {
            if begun.elapsed() > RUN {
                break;
            }
            let member = &mut quorum.members[round % 5];
            if round % 2 == 0 {
                member.stop();
                tokio::time::sleep(millis(700)).await;
                member.cont();
            } else {
                // Whoever restarts a member without its data leaves it away for as long as the
                // longest lease.
                member.kill();
                tokio::time::sleep(LEASE).await;
                member.restart_on_same_port().await;
            }
            tokio::time::sleep(millis(200)).await;
        }
        over.store(true, Ordering::Relaxed);
    };
    tokio::join!(join_all(contenders), churn);
    let grants = witness.grants.load(Ordering::Relaxed);
    measured(
        "each grant of 32 contenders at two coordinators",
        RUN / u32::try_from(grants).unwrap().max(1),
    );
    assert!(grants > 50, "only {grants} grants");
    quorum.until_count(&[0, 1, 2, 3, 4], "build", 0).await;
}
