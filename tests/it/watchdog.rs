//! What keeps a grant alive, and how its loss is told.

use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn mission_12_a_third_of_the_lease_after_another_it_is_renewed() {
    let (world, mut client, mut session) = World::with_session().await;
    let grant = session.acquire("a").await;
    assert!(grant.watched);
    assert_eq!(std_duration(grant.lease), secs(30));
    // Never below two thirds, and never asked for before it is due.
    for _ in 0..60 {
        tokio::time::sleep(secs(1)).await;
        let left = expect!(world.redis(&["PTTL", "a"]), Value::Int);
        assert!(left >= 19_900, "{left}");
    }
    let open = pb::OpenSession::default().lasting(secs(6));
    let mut quick = client.open_with(open).await.unwrap();
    assert_eq!(
        std_duration(quick.acquire("b").await.lease),
        secs(6),
        "the time is configurable"
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_pings_may_pause_however_short_its_lease() {
    let (world, mut client) = World::with_client().await;
    let open = pb::OpenSession {
        sends_pings: true,
        ..Default::default()
    };
    let mut session = client.open_with(open.lasting(secs(1))).await.unwrap();
    session.acquire("a").await;
    tokio::time::sleep(secs(9)).await;
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(1));
    tokio::time::sleep(secs(12)).await;
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));
}

#[tokio::test(start_paused = true)]
async fn a_new_grant_is_not_safe_for_as_long_as_one_that_the_store_has_forgotten() {
    let (world, _client, mut session) = World::with_session().await;
    let first = session.acquire("a").await;
    world.redis(&["DEL", "a"]);
    let fixed = acquire_request("a", "").lasting(secs(4));
    let grant = session.granted(fixed).await;
    assert!(grant.fencing_token > first.fencing_token);
    assert!(std_duration(grant.valid_for) <= secs(4), "{grant:?}");
    assert!(!grant.watched);
}

#[tokio::test(start_paused = true)]
async fn mission_12_a_lease_that_was_given_is_not_renewed() {
    let (_world, _client, mut session) = World::with_session().await;
    let fixed = acquire_request("a", "").lasting(secs(4));
    let grant = session.granted(fixed).await;
    assert!(!grant.watched);
    let taken = Instant::now();
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::Expired);
    assert_eq!(lost.grant.unwrap().fencing_token, grant.fencing_token);
    assert!(
        taken.elapsed() < secs(4),
        "told before anybody else can have it"
    );
}

#[tokio::test(start_paused = true)]
async fn mission_13_the_watchdog_ends_with_the_last_release_the_owner_and_the_loss() {
    let (world, client, mut session) = World::with_session().await;
    let deadlines = || world.coordinator(0).load().deadlines;
    session.acquire("a").await;
    session.acquire("a").await;
    assert_eq!(deadlines(), 1);
    session.release("a").await;
    assert_eq!(deadlines(), 1, "one hold is left");
    session.release("a").await;
    assert_eq!(deadlines(), 0, "the last release");
    session.acquire("a").await;
    world.redis(&["DEL", "a"]);
    assert_eq!(session.expect_lost().await.reason(), LostReason::Expired);
    assert_eq!(deadlines(), 0, "a renewal found nothing");
    session.acquire("a").await;
    client.cut();
    world.until_answer(&["EXISTS", "a"], 0).await;
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_taken_over_is_told_as_such() {
    let (world, mut client, mut session) = World::with_session().await;
    session.acquire("a").await;
    world.redis(&["DEL", "a"]);
    client.try_acquire("a", "y", secs(60)).await.unwrap();
    assert_eq!(session.expect_lost().await.reason(), LostReason::TakenOver);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_granted_anew_is_told_as_lost_at_once() {
    let (world, mut client, mut session) = World::with_session().await;
    for name in ["a", "b"] {
        session.acquire(name).await;
    }
    let begun = Instant::now();
    // An attempt that began when the grant was made may have come before it.
    tokio::time::sleep(millis(1)).await;
    world.redis(&["DEL", "a"]);
    let mut other = client.open().await;
    other.acquire("a").await;
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::TakenOver);
    assert_eq!(lost.grant.unwrap().name, "a");
    // By an owner without a session too, and its own grant is no reason to look.
    world.redis(&["DEL", "b"]);
    assert!(client.gets_for("b", "y", secs(60)).await);
    assert_eq!(session.expect_lost().await.grant.unwrap().name, "b");
    world.redis(&["DEL", "a"]);
    other.acquire("a").await;
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_told_as_risk_then_as_loss_before_the_lease_ends() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    let granted = Instant::now();
    let grant = session.acquire("a").await;
    faults.set_unavailable(true);
    let risk = expect!(session.notice().await, Response::AtRisk);
    assert!(
        std_duration(risk.valid_for) > secs(15),
        "early enough to act"
    );
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::StoreUnreachable);
    assert!(granted.elapsed() < secs(30), "nobody else can have it yet");
    assert!(
        granted.elapsed() + millis(10) > std_duration(grant.valid_for),
        "not given up early"
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_in_time_is_told_as_recovered() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    session.acquire("b").await;
    faults.set_unavailable(true);
    assert!(matches!(session.notice().await, Response::AtRisk(_)));
    faults.set_unavailable(false);
    assert!(matches!(session.notice().await, Response::Recovered(_)));
    tokio::time::sleep(secs(100)).await;
    assert!(session.release("a").await.released);
    assert!(session.release("b").await.released);
}

#[tokio::test(start_paused = true)]
async fn one_bad_entry_does_not_stop_the_other_renewals() {
    let (world, _client, mut session) = World::with_session().await;
    for name in ["a", "b", "c"] {
        session.acquire(name).await;
    }
    world.redis(&["DEL", "b"]);
    world.redis(&["RPUSH", "b", "another type"]);
    let lost = session.expect_lost().await;
    assert_eq!(
        (lost.grant.as_ref().unwrap().name.as_str(), lost.reason()),
        ("b", LostReason::TakenOver)
    );
    tokio::time::sleep(secs(100)).await;
    assert!(session.release("a").await.released);
    assert!(session.release("c").await.released);
}

#[tokio::test(start_paused = true)]
async fn a_forward_step_of_the_stores_clock_is_noticed_and_told() {
    let (world, _client, mut session) = World::with_session().await;
    session.acquire("a").await;
    let fixed = acquire_request("b", "").lasting(secs(60));
    session.granted(fixed).await;
    tokio::time::sleep(secs(11)).await;
    world.store.clock().step_forward(secs(15));
    assert!(matches!(session.notice().await, Response::AtRisk(_)));
    assert!(matches!(session.notice().await, Response::Recovered(_)));
    let before = Instant::now();
    assert_eq!(session.expect_lost().await.grant.unwrap().name, "b");
    let left = expect!(world.redis(&["PTTL", "b"]), Value::Int);
    assert!(
        left > 0,
        "told before it is over, {left} ms, after {:?}",
        before.elapsed()
    );
    assert!(session.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_after_a_step_of_the_clock_is_kept_and_what_ended_says_clock() {
    let (world, _client, mut session) = World::with_session().await;
    session.acquire("before").await;
    tokio::time::sleep(secs(11)).await;
    world.store.clock().step_forward(secs(40));
    session.acquire("after").await;
    let fixed = acquire_request("fixed", "").lasting(secs(35));
    let op_id = session.send(Request::Acquire(fixed));
    session.expect_granted(op_id).await;
    let mut notices = Vec::new();
    for _ in 0..3 {
        notices.push(session.notice().await);
    }
    // The loss may be found before or after the risk is reported.
    let lost = notices
        .iter()
        .position(|it| matches!(it, Response::Lost(_)));
    let lost = expect!(notices.remove(lost.expect("one is lost")), Response::Lost);
    assert_eq!(lost.reason(), LostReason::ClockStepped);
    assert_eq!(lost.grant.unwrap().name, "before");
    assert!(
        matches!(&notices[..], [Response::AtRisk(_), Response::Recovered(_)]),
        "{notices:?}"
    );
    tokio::time::sleep(secs(12)).await;
    assert!(session.release("fixed").await.released);
    tokio::time::sleep(secs(100)).await;
    assert!(session.release("after").await.released);
}

#[tokio::test(start_paused = true)]
async fn recovered_comes_when_the_grant_at_risk_is_released_or_lost() {
    let (faults, world) = World::faulty();
    let mut client = world.client(0).await;
    let mut session = client.open().await;
    session.acquire("a").await;
    faults.set_unavailable(true);
    assert!(matches!(session.notice().await, Response::AtRisk(_)));
    faults.set_unavailable(false);
    assert!(session.release("a").await.released);
    assert!(matches!(session.notice().await, Response::Recovered(_)));

    session.acquire("b").await;
    faults.set_unavailable(true);
    assert!(matches!(session.notice().await, Response::AtRisk(_)));
    let lost = session.expect_lost().await;
    assert_eq!(lost.reason(), LostReason::StoreUnreachable);
    assert!(matches!(session.notice().await, Response::Recovered(_)));
}

#[tokio::test(start_paused = true)]
async fn renewals_travel_together() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    for n in 0..300 {
        session.acquire(&format!("lock-{n}")).await;
    }
    let before = faults.calls("lock_renew");
    tokio::time::sleep(secs(30)).await;
    let calls = faults.calls("lock_renew") - before;
    assert!(
        (9..=12).contains(&calls),
        "300 grants, three times each, in {calls} calls"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_when_the_lease_is_over_is_no_grant() {
    let (faults, world) = World::faulty_with(&Options::with(|it| it.call_timeout = secs(10)));
    let mut client = world.client(0).await;
    faults.set_answer_delay(Duration::from_millis(1200));
    let refused = client.try_acquire("a", "x", secs(1)).await.unwrap_err();
    assert_eq!(reason(&refused), "OUTCOME_UNKNOWN");
    faults.set_answer_delay(Duration::ZERO);
    world.expect_nothing_left(&["a"]).await;
}
