//! Two coordinators on one Redis: what one of them leaves behind when it dies, and how the other
//! goes on with it.

use lockkeeper_api::pb::OpenSession;

use crate::prelude::*;
use crate::steps::{self, HAND_OVER_MAX, LEASE, lease_end};

async fn two_coordinators() -> (RedisServer, Coordinator, Coordinator) {
    // The store always answers here; a busy machine takes longer than a call may take by the other
    // tests' settings.
    steps::two_coordinators(|url| settings_on(url).with("store.call_timeout", "2s")).await
}

#[tokio::test]
async fn a_killed_coordinator_hands_its_locks_over_when_their_leases_end() {
    judged_by_time(async || {
        let (redis, a, b) = two_coordinators().await;
        let mut holder = a.client().await.open().await;
        let held = holder.acquire("build").await;
        let waiter = timed_wait(&mut b.client().await, "build").await;

        a.kill();
        let end = lease_end(&redis, "build").await;
        let (granted_at, (granted, session)) = waiter.await.unwrap();
        let earliest = end - millis(5);
        assert!(
            granted_at >= earliest,
            "{:?} too early",
            earliest - granted_at
        );
        between(end, granted_at).must_be_below(
            HAND_OVER_MAX,
            "hand-over after the end of a killed coordinator's lease",
        );
        assert!(granted.fencing_token > held.fencing_token);
        assert!(holder.read_to_end().await.is_err());
        session.close().await.unwrap();
        expect_no_trace(&redis).await;
        expect_serving(&b).await;
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_resumed_too_late_is_told_so() {
    let (redis, a, b) = two_coordinators().await;
    let mut holder = a.client().await.open().await;
    let held = holder.acquire("build").await;
    let mut other = b.client().await;
    let waiter = timed_wait(&mut other, "build").await;
    a.kill();
    let (_, (granted, session)) = waiter.await.unwrap();

    let mut resumed = other
        .resume(&holder.opened, vec![held.clone()])
        .await
        .unwrap();
    assert!(resumed.opened.grants.is_empty());
    let lost = resumed.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::TakenOver);
    assert_eq!(lost.grant.unwrap().fencing_token, held.fencing_token);
    assert!(granted.fencing_token > held.fencing_token);
    assert_eq!(other.describe("build").await.holders.len(), 1);
    session.close().await.unwrap();
    expect_no_trace(&redis).await;
}

#[tokio::test]
async fn a_restarted_coordinator_goes_on_with_its_sessions() {
    let (redis, mut a, _b) = two_coordinators().await;
    let mut holder = a.client().await.open().await;
    let held = holder.acquire("build").await;
    a.kill();
    a.restart_on_same_address().await;
    let mut client = a.client().await;
    let mut resumed = client.resume(&holder.opened, vec![held]).await.unwrap();
    assert_eq!(resumed.opened.grants.len(), 1);
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(redis.lease_left("build").await.is_some());
    assert!(resumed.release("build").await.released);
}

#[tokio::test]
async fn a_thousand_locks_and_waits_survive_a_killed_coordinator() {
    const LOCKS: usize = 1000;
    let (redis, a, b) = two_coordinators().await;
    let (mut at_a, mut at_b) = (a.client().await, b.client().await);
    let mut holder = open_with_lease(&mut at_a, secs(4)).await;
    let mut waiting = at_b.open().await;
    let names: Vec<_> = (0..LOCKS).map(|number| format!("build-{number}")).collect();
    let (mut grants, mut waits) = (Vec::new(), Vec::new());
    for name in &names {
        grants.push(holder.acquire(name).await);
        waits.push(waiting.send_acquire(name, ""));
    }
    a.kill();
    let mut resumed = at_b.resume(&holder.opened, grants.clone()).await.unwrap();
    let kept = &resumed.opened.grants;
    assert!(kept.len() == LOCKS && kept.iter().all(|grant| grant.watched));
    // Time itself is what is tested: without the resume the leases would end, and the waiter would
    // get the locks.
    tokio::time::sleep(secs(5)).await;
    let left = join_all(names.iter().map(|name| redis.lease_left(name))).await;
    assert!(left.iter().all(Option::is_some), "a lock was not renewed");
    while let Ok(frame) = timeout(millis(100), waiting.next()).await {
        let response = frame.unwrap().unwrap().response;
        assert!(
            matches!(response, Some(Response::Waiting(_))),
            "{response:?}"
        );
    }

    for name in &names {
        resumed.send_release(name, "");
    }
    for (op_id, before) in waits.into_iter().zip(&grants) {
        let grant = waiting.expect_granted(op_id).await;
        assert_eq!((&grant.name, grant.hold_count), (&before.name, 1));
        assert!(grant.fencing_token > before.fencing_token);
    }
    resumed.close().await.unwrap();
    waiting.close().await.unwrap();
    expect_no_trace(&redis).await;
    expect_serving(&b).await;
}

#[tokio::test]
async fn the_commands_show_all_coordinators_and_name_one_that_is_gone() {
    let settings = |url: &str| settings_on(url).with("fleet.address", "127.0.0.1");
    let (_redis, a, b) = steps::two_coordinators(settings).await;
    let open = OpenSession::default().called("b.sh");
    let mut session = b.client().await.open_with(open).await.unwrap();
    session.acquire("build").await;
    let said = async |arguments: &[&str]| {
        let output = lockkeeper(&a, arguments).output().await.unwrap();
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output.status.success(), "{arguments:?}: {texts:?}");
        texts
    };
    eventually("they know each other", || async {
        said(&["coordinators"]).await[0].lines().count() == 2
    })
    .await;
    let at_b = format!("coordinator={}", b.url());
    let [sessions, missing] = said(&["sessions"]).await;
    assert!(
        sessions.contains(&at_b) && missing.is_empty(),
        "{sessions}{missing}"
    );
    let [sessions, _] = said(&["sessions", "--this-coordinator"]).await;
    assert_eq!(sessions, "");
    let [locks, _] = said(&["list"]).await;
    assert!(locks.contains("build") && locks.contains("b.sh"), "{locks}");
    let [locks, _] = said(&["list", "--this-coordinator"]).await;
    assert!(
        locks.contains("build") && !locks.contains("b.sh"),
        "{locks}"
    );
    let [json, _] = said(&["list", "--output", "json"]).await;
    assert!(json.contains("heldFor"), "{json}");

    b.kill();
    let [sessions, missing] = said(&["sessions"]).await;
    assert_eq!(sessions, "");
    let expected = format!(
        "lockkeeper: could not ask {}: it cannot be reached: ",
        b.url()
    );
    assert!(missing.starts_with(&expected), "{missing}");
    // It starts again under the same address.
    let mut b = b;
    b.restart_on_same_address().await;
    eventually("it is known again", || async {
        let [coordinators, _] = said(&["coordinators"]).await;
        coordinators.contains(&b.url())
    })
    .await;
}
