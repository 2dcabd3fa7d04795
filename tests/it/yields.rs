//! Holders that are asked to yield, and those that are preempted.

use lockkeeper_client::Error;

use crate::support::prelude::*;

/// A request that stands for 30 s.
fn asks(name: &str) -> pb::RequestYieldRequest {
    pb::RequestYieldRequest::named(name)
        .because("a release waits")
        .called("deploy")
}

fn preempts(name: &str, within: Duration) -> pb::RequestYieldRequest {
    pb::RequestYieldRequest {
        preempt: true,
        within: Some(proto(within)),
        ..asks(name)
    }
}

async fn ask(
    client: &mut Client,
    request: pb::RequestYieldRequest,
) -> Result<pb::RequestYieldResponse, tonic::Status> {
    Ok(client.api.request_yield(request).await?.into_inner())
}

async fn expect_asked(session: &mut Session) -> pb::YieldRequested {
    expect!(session.notice().await, Response::YieldRequested)
}

/// What is not said within a second is not said.
async fn expect_silence(session: &mut Session) {
    let said = tokio::time::timeout(secs(1), session.notice()).await;
    assert!(said.is_err(), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_learns_on_any_coordinator_who_asks_for_its_lock_why_and_until_when() {
    for (stores, node) in [(1, 0), (1, 1), (3, 0), (3, 1)] {
        let world = World::over(2, stores);
        let (mut client, mut other) = (world.client(0).await, world.client(node).await);
        let mut session = client.open().await;
        let grant = session.acquire("a").await;
        let begun = Instant::now();
        let asked = ask(&mut other, asks("a")).await.unwrap();
        assert_eq!(
            (asked.holder_count, asked.reached_count),
            (1, 1),
            "{stores} {node}"
        );
        assert_eq!((asked.reached.len(), asked.unreached.len()), (1, 0));
        assert_eq!(asked.reached[0].hold_count, 1);
        assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
        let told = expect_asked(&mut session).await;
        let of = told.grant.clone().unwrap();
        assert_eq!(
            (of.name.as_str(), of.fencing_token),
            ("a", grant.fencing_token)
        );
        assert_eq!(
            (told.by.as_str(), told.reason.as_str()),
            ("deploy", "a release waits")
        );
        assert!(!told.preempt);
        let within = std_duration(told.within);
        assert!(within > secs(28) && within <= secs(30), "{within:?}");
        expect_silence(&mut session).await;
        assert!(
            session.release("a").await.released,
            "it is its own until it releases it"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_ignores_a_request_keeps_its_lock() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    ask(&mut other, asks("a")).await.unwrap();
    expect_asked(&mut session).await;
    tokio::time::sleep(secs(60)).await;
    expect_silence(&mut session).await;
    assert!(session.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn each_reader_is_asked_and_no_one_else() {
    let (_world, mut one, mut two) = World::two_with_clients().await;
    let (mut reader, mut second, mut stranger) =
        (one.open().await, two.open().await, one.open().await);
    for session in [&mut reader, &mut second] {
        let read = acquire_request("a", "").in_mode(LockMode::Read);
        session.granted(read).await;
    }
    stranger.acquire("b").await;
    let asked = ask(&mut one, asks("a")).await.unwrap();
    assert_eq!((asked.holder_count, asked.reached_count), (2, 2));
    for session in [&mut reader, &mut second] {
        let told = expect_asked(session).await;
        assert_eq!(told.grant.unwrap().mode(), LockMode::Read);
    }
    expect_silence(&mut stranger).await;
}

#[tokio::test(start_paused = true)]
async fn who_cannot_be_reached_is_named() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    client.try_acquire("a", "ci", secs(100)).await.unwrap();
    let begun = Instant::now();
    let asked = ask(&mut client, asks("a")).await.unwrap();
    assert_eq!((asked.holder_count, asked.reached_count), (1, 0));
    assert_eq!(asked.unreached[0].owner, "ci");
    assert!(
        begun.elapsed() < secs(1),
        "nothing reaches an owner without a session"
    );
    let redisson = "8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:47";
    world.redis(&["HSET", "b", redisson, "1"]);
    let asked = ask(&mut client, asks("b")).await.unwrap();
    assert_eq!((asked.unreached.len(), asked.reached.len()), (1, 0));
    assert_eq!(asked.unreached[0].owner, "47");
    let free = ask(&mut client, asks("c")).await.unwrap();
    assert_eq!(free, pb::RequestYieldResponse::default());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_comes_back_on_another_coordinator_is_reached_then() {
    let mut world = World::of(2);
    let third = world.add_coordinator(&Options::default());
    let (mut client, mut other) = (world.client(0).await, world.client(1).await);
    let mut session = client.open().await;
    let grant = session.acquire("a").await;
    let opened = session.opened.clone();
    client.cut();
    eventually("the stream is gone", || async {
        world.coordinator(0).list_sessions(1, "").sessions[0]
            .detached_until
            .is_some()
    })
    .await;
    let asked = ask(&mut other, asks("a")).await.unwrap();
    assert_eq!((asked.holder_count, asked.reached_count), (1, 0));
    let mut back = world.client(third).await;
    let mut session = back.resume(&opened, vec![grant]).await.unwrap();
    let told = expect_asked(&mut session).await;
    let within = std_duration(told.within);
    assert!(within > secs(10) && within < secs(29), "{within:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_broken_stream_swallowed_is_delivered_by_the_next_one() {
    let (world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    let grant = session.acquire("a").await;
    ask(&mut other, asks("a")).await.unwrap();
    let opened = session.opened.clone();
    client.cut();
    let mut back = world.client(0).await;
    let mut session = back.resume(&opened, vec![grant]).await.unwrap();
    assert_eq!(expect_asked(&mut session).await.reason, "a release waits");
    expect_silence(&mut session).await;
}

#[tokio::test(start_paused = true)]
async fn a_later_holder_is_not_asked_for_an_earlier_one() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    let request = preempts("a", secs(10));
    ask(&mut other, request).await.unwrap();
    expect_asked(&mut session).await;
    session.release("a").await;
    let mut next = other.open().await;
    next.acquire("a").await;
    tokio::time::sleep(secs(20)).await;
    expect_silence(&mut next).await;
    assert!(
        next.release("a").await.released,
        "it was not asked, and is not preempted"
    );
}

#[tokio::test(start_paused = true)]
async fn a_preempted_holder_is_told_twice_before_the_lock_is_anybody_elses() {
    for (stores, node) in [(1, 0), (1, 1), (3, 1)] {
        let world = World::over(2, stores);
        let (mut client, mut other) = (world.client(0).await, world.client(node).await);
        let (mut session, mut waiting) = (client.open().await, other.open().await);
        let grant = session.acquire("a").await;
        let op_id = waiting.waits_for("a", "").await;
        let begun = Instant::now();
        ask(&mut other, preempts("a", secs(12))).await.unwrap();
        assert!(expect_asked(&mut session).await.preempt);
        let lost = session.expect_lost().await;
        assert_eq!(lost.reason(), LostReason::Preempted, "{stores} {node}");
        assert_eq!(lost.detail, "a release waits");
        assert_eq!(lost.grant.unwrap().fencing_token, grant.fencing_token);
        let after = begun.elapsed();
        assert!(
            after >= secs(12) && after < secs(13),
            "at once, also elsewhere: {after:?}"
        );
        // The lease that was left, which the notice has.
        assert!(
            std_duration(lost.valid_for) > secs(15),
            "{:?}",
            lost.valid_for
        );
        assert!(
            !client.gets_for("a", "x", secs(30)).await,
            "the holder may still be working"
        );
        let op = session.send_release("a", "");
        assert_eq!(session.expect_failed(op).await, "NOT_OWNER");
        let next = waiting.expect_granted(op_id).await;
        assert!(next.fencing_token > grant.fencing_token);
        assert!(begun.elapsed() < secs(14));
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_nothing_reaches_keeps_its_lease_but_no_more() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    client.try_acquire("a", "ci", secs(40)).await.unwrap();
    let begun = Instant::now();
    ask(&mut other, preempts("a", secs(10))).await.unwrap();
    tokio::time::sleep(secs(20)).await;
    let refused = client.renew("a", "ci", secs(40)).await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_OWNER");
    let mut next = other.open().await;
    next.acquire("a").await;
    let after = begun.elapsed();
    assert!(after >= secs(40) && after < secs(42), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_grace_period_is_shorter_than_the_lease() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    let request = pb::RequestYieldRequest {
        grace_period: Some(proto(secs(3))),
        ..preempts("a", secs(10))
    };
    let begun = Instant::now();
    ask(&mut other, request).await.unwrap();
    let mut next = other.open().await;
    next.acquire("a").await;
    let after = begun.elapsed();
    assert!(after >= secs(13) && after < secs(15), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_mean_nothing_are_refused() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    let refusals = [
        (asks("a").because(""), "INVALID_REASON"),
        (asks(""), "INVALID_NAME"),
        (preempts("a", secs(0)), "INVALID_WITHIN"),
        (preempts("a", secs(3601)), "INVALID_WITHIN"),
        (asks("a").called("a\nb"), "INVALID_CLIENT_NAME"),
        (
            pb::RequestYieldRequest {
                grace_period: Some(proto(secs(1))),
                ..asks("a")
            },
            "INVALID_GRACE_PERIOD",
        ),
    ];
    for (request, expected) in refusals {
        let refused = ask(&mut client, request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{request:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_stand_are_limited() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    client.try_acquire("a", "ci", secs(100)).await.unwrap();
    for _ in 0..1000 {
        ask(&mut client, preempts("a", secs(50))).await.unwrap();
    }
    assert_eq!(refusal(ask(&mut client, asks("a")).await), "YIELDS_MAX");
    tokio::time::sleep(secs(60)).await;
    ask(&mut client, asks("a")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_for_a_lock_that_nobody_holds_does_not_stand() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    for _ in 0..1001 {
        ask(&mut client, preempts("free", secs(50))).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_request_reaches_a_holder_elsewhere_too() {
    let (_world, mut client, mut other) = World::two_with_clients().await;
    let mut session = client.open().await;
    session.acquire("a").await;
    let asked = ask(&mut other, preempts("a", millis(500))).await.unwrap();
    assert_eq!((asked.holder_count, asked.reached_count), (1, 1));
    let within = std_duration(expect_asked(&mut session).await.within);
    assert!(within > millis(300) && within <= millis(500), "{within:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_fails_if_it_was_never_sent_and_goes_on_if_only_a_repeat_was_not() {
    let (faults, world) = World::faulty();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    session.acquire("a").await;
    client.cut();
    eventually("the stream is gone", || async {
        let sessions = world.coordinator(0).list_sessions(1, "").sessions;
        sessions[0].detached_until.is_some()
    })
    .await;
    let away = || Some(HostError::Unavailable("by the test".to_owned()));
    faults.refuse("holders_tell", away());
    let refused = ask(&mut other, asks("a")).await.unwrap_err();
    assert_eq!(reason(&refused), "STORE_UNAVAILABLE");
    faults.refuse("holders_tell", None);
    let asked = async {
        tokio::time::sleep(millis(15)).await;
        faults.refuse("holders_tell", away());
    };
    let (asked, ()) = tokio::join!(ask(&mut other, asks("a")), asked);
    let asked = asked.unwrap();
    assert_eq!((asked.holder_count, asked.reached_count), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_guard_of_the_client_says_that_its_lock_is_asked_for() {
    let world = World::of(2);
    let session = world.network().client(&[0]).session().open().await.unwrap();
    let guard = session.locks(["a", "b"]).acquire().await.unwrap();
    let mut other = world.client(1).await;
    ask(&mut other, preempts("b", secs(20))).await.unwrap();
    let asked = guard.yield_requested().await;
    assert_eq!((asked.name.as_str(), asked.by.as_str()), ("b", "deploy"));
    assert_eq!(asked.reason, "a release waits");
    assert!(asked.preempts);
    let left = asked.deadline - Instant::now();
    assert!(left > secs(18) && left <= secs(20), "{left:?}");
    guard.lost().cancelled().await;
    let loss = guard.loss().unwrap();
    assert!(
        matches!(&loss, Error::Lost { name, reason: LostReason::Preempted, .. } if name == "b"),
        "{loss}"
    );
    assert!(guard.valid_for().is_zero());
    drop(guard);
    let mut next = other.open().await;
    let begun = Instant::now();
    next.acquire("b").await;
    assert!(begun.elapsed() < secs(1), "a dropped guard acknowledges");
    next.send(Request::Close(pb::CloseSession {}));
}
