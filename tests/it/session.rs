//! Opening, closing, breaking, resuming.

use lockkeeper_api::pb::OnDisconnect;

use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_clean_end_releases_at_once_and_ends_the_waits() {
    let world = World::new();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    for half_close in [false, true] {
        let mut session = client.open().await;
        session.acquire("a").await;
        session.acquire_as("b", "x").await;
        session.acquire_as("b", "x").await;
        other.try_acquire("held", "o", secs(600)).await.unwrap();
        session.send_acquire("held", "");
        world.until_waiting(0, 1).await;
        let ended = if half_close {
            session.half_close().await
        } else {
            session.close().await
        };
        ended.unwrap();
        for name in ["a", "b"] {
            assert_eq!(
                world.redis(&["EXISTS", name]),
                Value::Int(0),
                "{name}, {half_close}"
            );
        }
        world.expect_nothing_left(&["a", "b"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_keeps_the_grants_until_the_lease_ends() {
    let world = World::new();
    let (mut client, mut other) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    session.acquire("a").await;
    tokio::time::sleep(secs(12)).await;
    client.cut();
    tokio::time::sleep(secs(15)).await;
    assert!(!other.gets_for("a", "y", secs(1)).await);
    tokio::time::sleep(secs(16)).await;
    assert!(other.gets_for("a", "y", secs(1)).await);
}

/// `HAProxy` half-closes a stream before it cuts it off.
#[tokio::test(start_paused = true)]
async fn a_half_closed_stream_is_broken_if_the_client_would_send_close() {
    let (world, mut other) = World::with_client().await;
    let mut client = world.client(0).await;
    let open = pb::OpenSession {
        sends_close: true,
        ..Default::default()
    };
    let mut session = client.open_with(open).await.unwrap();
    for _ in ["opened", "resumed"] {
        session.acquire("a").await;
        let resume = pb::ResumeSession {
            session_id: session.opened.session_id.clone(),
            resume_token: session.opened.resume_token.clone(),
            sends_close: true,
            ..Default::default()
        };
        assert_eq!(refusal(session.half_close().await), "STREAM_HALF_CLOSED");
        assert!(!other.gets_for("a", "y", secs(1)).await);
        session = client.session(Request::Resume(resume)).await.unwrap();
    }
    session.close().await.unwrap();
    assert!(other.gets_for("a", "y", secs(1)).await);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_client_resets_is_broken_and_not_closed() {
    let (world, mut client, mut session) = World::with_session().await;
    session.acquire("a").await;
    let opened = session.opened.clone();
    // Dropping both ends of the call resets the stream while the connection lives.
    drop(session);
    tokio::time::sleep(secs(5)).await;
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(1));
    let grant = pb::Grant {
        name: "a".to_owned(),
        watched: true,
        ..Default::default()
    };
    let resumed = client.resume(&opened, vec![grant]).await.unwrap();
    assert_eq!(resumed.opened.grants.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn on_disconnect_release_gives_everything_back_at_once() {
    let world = World::of(2);
    let mut client = world.client(0).await;
    let open = pb::OpenSession::default().upon_disconnect(OnDisconnect::Release);
    let mut session = client.open_with(open).await.unwrap();
    session.acquire("a").await;
    let mut elsewhere = world.client(1).await;
    let refused = elsewhere.resume(&session.opened, Vec::new()).await;
    assert_eq!(refusal(refused), "SESSION_NOT_FOUND");
    client.cut();
    let cut_at = Instant::now();
    world.until_answer(&["EXISTS", "a"], 0).await;
    assert!(cut_at.elapsed() < millis(100));
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_resumed_here_and_on_another_coordinator_and_is_watched_again() {
    let world = World::of(2);
    for node in [0, 1] {
        let mut client = world.client(0).await;
        let mut session = client.open().await;
        let kept = session.acquire("kept").await;
        session.acquire("kept").await;
        let unnamed = session.acquire("unnamed").await;
        let gone = session.acquire("gone").await;
        client.cut();
        tokio::time::sleep(secs(20)).await;
        world.redis(&["DEL", "gone"]);
        let mut elsewhere = world.client(node).await;
        let grants = vec![kept.clone(), gone.clone()];
        let mut resumed = elsewhere.resume(&session.opened, grants).await.unwrap();
        assert_eq!(resumed.id(), session.id());
        let still = &resumed.opened.grants;
        assert_eq!(still.len(), 1);
        assert_eq!(
            (still[0].hold_count, still[0].fencing_token),
            (2, kept.fencing_token)
        );
        assert!(std_duration(still[0].valid_for) > secs(29));
        let lost = resumed.expect_lost().await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert_eq!(lost.grant.unwrap().fencing_token, gone.fencing_token);
        if node == 0 {
            world.until_answer(&["EXISTS", "unnamed"], 0).await;
        }
        tokio::time::sleep(secs(100)).await;
        assert!(!resumed.release("kept").await.released);
        assert!(
            resumed.release("kept").await.released,
            "still held, both times"
        );
        drop(unnamed);
        resumed.close().await.unwrap();
        tokio::time::sleep(secs(60)).await;
        world
            .expect_nothing_left(&["kept", "unnamed", "gone"])
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_takes_over_from_a_stream_that_is_not_known_to_be_dead() {
    let world = World::new();
    let (mut first, mut second) = (world.client(0).await, world.client(0).await);
    let mut old = first.open().await;
    let grant = old.acquire("a").await;
    let mut new = second.resume(&old.opened, vec![grant]).await.unwrap();
    assert_eq!(refusal(old.read_to_end().await), "SESSION_SUPERSEDED");
    drop(old);
    tokio::time::sleep(secs(100)).await;
    assert!(new.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn a_guess_is_no_session_and_a_forged_token_is_no_resume() {
    let mut world = World::new();
    let mut client = world.client(0).await;
    let session = client.open().await;
    for guess in ["nonsense", "00000000-0000-4000-8000-000000000000"] {
        let request = try_request("a", "").of_session(guess);
        let refused = client.try_with(request).await.unwrap_err();
        expect_status(&refused, tonic::Code::NotFound, "SESSION_NOT_FOUND");
    }
    let mut forged = session.opened.clone();
    forged.resume_token[3] ^= 1;
    let refused = client.resume(&forged, Vec::new()).await.err().unwrap();
    assert_eq!(reason(&refused), "SESSION_NOT_FOUND");
    let stranger = Options::with(|it| it.secret = "another secret altogether");
    let node = world.add_coordinator(&stranger);
    let refused = world
        .client(node)
        .await
        .resume(&session.opened, Vec::new())
        .await
        .err()
        .unwrap();
    assert_eq!(reason(&refused), "SESSION_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn calls_name_the_session_and_end_with_it() {
    let world = World::new();
    let (mut client, mut caller) = (world.client(0).await, world.client(0).await);
    caller.try_acquire("held", "o", secs(600)).await.unwrap();
    let session = client.open().await;
    let id = session.id();
    let in_session = |name| acquire_request(name, "").of_session(id.clone());
    let grant = caller.granted(in_session("a")).await;
    assert!(grant.watched);
    let mut waiting = caller.waits(in_session("held")).await;
    session.close().await.unwrap();
    assert_eq!(refusal(waiting.end().await), "SESSION_NOT_FOUND");
    let later = caller
        .acquire(in_session("a"))
        .await
        .unwrap()
        .end()
        .await
        .unwrap_err();
    assert_eq!(reason(&later), "SESSION_NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn every_operation_is_also_a_frame() {
    let (_world, _client, mut session) = World::with_session().await;
    let grant = session
        .try_acquire(try_request("a", ""))
        .await
        .grant
        .unwrap();
    assert_eq!(grant.session_id, session.id());
    let name = || "a".to_owned();
    let op = session.send(Request::Renew(pb::RenewRequest::named(name())));
    let renewed = expect!(session.end(op).await, Response::Renewed);
    assert_eq!(renewed.grant.unwrap().fencing_token, grant.fencing_token);
    let op = session.send(Request::Describe(pb::DescribeRequest::named(name())));
    let seen = expect!(session.end(op).await, Response::Described);
    assert_eq!(seen.holders.len(), 1);
    let check = pb::CheckTokenRequest {
        name: name(),
        fencing_token: grant.fencing_token,
    };
    let op = session.send(Request::CheckToken(check));
    let checked = expect!(session.end(op).await, Response::TokenChecked);
    assert!(checked.current);
    assert!(session.release("a").await.released);
    let op = session.send_release("a", "");
    assert_eq!(session.expect_failed(op).await, "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_frame_ends_with_one_answer() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(600)).await.unwrap();
    let mut session = client.open().await;
    let op = session.waits_for("a", "").await;
    session.send_as(op, Request::Cancel(pb::CancelOperation {}));
    let ended = expect!(session.end(op).await, Response::NotGranted);
    assert_eq!(ended.reason(), pb::NotGrantedReason::Cancelled);
    session.send_as(999, Request::Cancel(pb::CancelOperation {}));
    let again = session.send_acquire("b", "");
    session.expect_granted(again).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_says_how_often_to_ping_and_to_renew_and_answers_pings() {
    let (_world, _client, mut session) = World::with_session().await;
    for op in [0, 7] {
        session.send_as(op, Request::Ping(pb::Ping {}));
        assert!(matches!(session.end(op).await, Response::Pong(_)));
    }
    let opened = &session.opened;
    let lease = std_duration(opened.lease);
    assert_eq!(std_duration(opened.ping_interval), lease / 6);
    assert_eq!(std_duration(opened.renew_interval), lease * 3 / 10);
}

/// The connection is alive all the time, as that to a proxy is.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_no_pings_any_more_is_taken_for_gone() {
    let (world, mut other) = World::with_client().await;
    let mut client = world.client(0).await;
    let mut without = client.open().await;
    without.acquire("b").await;
    for is_resumed in [false, true] {
        let open = pb::OpenSession {
            sends_pings: !is_resumed,
            ..Default::default()
        };
        let mut session = client.open_with(open).await.unwrap();
        if is_resumed {
            let resume = pb::ResumeSession {
                session_id: session.opened.session_id.clone(),
                resume_token: session.opened.resume_token.clone(),
                sends_pings: true,
                ..Default::default()
            };
            session = client.session(Request::Resume(resume)).await.unwrap();
        }
        session.acquire("a").await;
        for _ in 0..20 {
            session.send_as(0, Request::Ping(pb::Ping {}));
            assert!(matches!(session.end(0).await, Response::Pong(_)));
            tokio::time::sleep(secs(29)).await;
        }
        assert!(!other.gets_for("a", "y", secs(1)).await, "it sends them");
        tokio::time::sleep(secs(3 * 30)).await;
        assert!(other.gets_for("a", "y", secs(1)).await, "{is_resumed}");
        assert_eq!(refusal(session.next().await), "SESSION_TIMED_OUT");
    }
    assert!(
        !other.gets_for("b", "z", secs(1)).await,
        "it never sends any"
    );
    assert_eq!(world.coordinator(0).load().sessions, 1);
}

#[tokio::test(start_paused = true)]
async fn with_10_000_waiting_frames_a_release_is_answered_at_once() {
    let (world, _client, mut session) = World::with_session().await;
    session.acquire_as("a", "holder").await;
    let asked: Vec<u64> = (0..10_000)
        .map(|n| session.send_acquire("a", &format!("w{n}")))
        .collect();
    let release = session.send_release("a", "holder");
    let released = expect!(session.end(release).await, Response::Released);
    assert!(released.released);
    let first = session.expect_granted(asked[0]).await;
    assert_eq!(first.owner, "w0");
    session.close().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_taken_for_gone_and_loses_what_it_was_not_told() {
    let world = World::with(&Options::with(|it| it.operations_per_session_max = 64));
    let mut client = world.client(0).await;
    let mut deaf = client.open().await;
    let opened = deaf.opened.clone();
    for n in 0..30_000 {
        deaf.send(Request::Describe(pb::DescribeRequest::named(format!(
            "{n}{}",
            "x".repeat(500)
        ))));
    }
    deaf.send_acquire("a", "");
    tokio::time::sleep(secs(120)).await;
    assert_eq!(world.redis(&["EXISTS", "a"]), Value::Int(0));
    let mut other = world.client(0).await;
    assert!(other.gets_for("a", "y", secs(1)).await, "others are served");
    assert_eq!(world.coordinator(0).load().sessions, 0);
    drop((deaf, opened));
}

#[tokio::test(start_paused = true)]
async fn sessions_and_grants_are_bounded() {
    let options = Options::with(|it| {
        it.limits.sessions_max = 2;
        it.limits.grants_per_session_max = 2;
        it.limits.waits_per_session_max = 1;
    });
    let world = World::with(&options);
    let mut client = world.client(0).await;
    client.try_acquire("held", "o", secs(600)).await.unwrap();
    let mut first = client.open().await;
    let _second = client.open().await;
    let third = client
        .open_with(pb::OpenSession::default())
        .await
        .err()
        .unwrap();
    assert_eq!(reason(&third), "SESSIONS_MAX");
    first.acquire("a").await;
    first.acquire("b").await;
    first.acquire("b").await;
    let op = first.send_acquire("c", "");
    assert_eq!(first.expect_failed(op).await, "GRANTS_PER_SESSION_MAX");
    first.release("a").await;
    first.waits_for("held", "1").await;
    let op = first.send_acquire("held", "2");
    assert_eq!(first.expect_failed(op).await, "WAITS_PER_SESSION_MAX");
}

#[tokio::test(start_paused = true)]
async fn what_comes_first_must_open_and_a_second_open_is_refused_without_harm() {
    let (_world, mut client) = World::with_client().await;
    let wrong = client
        .session(Request::Release(pb::ReleaseRequest::default()))
        .await
        .err()
        .unwrap();
    assert_eq!(wrong.code(), tonic::Code::InvalidArgument);
    let mut session = client.open().await;
    session.acquire("a").await;
    let op = session.send(Request::Open(pb::OpenSession::default()));
    assert_eq!(session.expect_failed(op).await, "INVALID_REQUEST");
    assert!(session.release("a").await.released, "the session goes on");
    let bad = pb::OpenSession::default().lasting(millis(1));
    assert_eq!(refusal(client.open_with(bad).await), "INVALID_LEASE");
    let bad = pb::OpenSession::default().called("x".repeat(129));
    assert_eq!(refusal(client.open_with(bad).await), "INVALID_CLIENT_NAME");
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_comes_after_the_stream_broke_is_undone_and_earlier_ones_stay() {
    let (faults, world) = World::faulty();
    let (mut client, mut caller) = (world.client(0).await, world.client(0).await);
    let mut session = client.open().await;
    let grant = session.acquire("a").await;
    faults.set_answer_delay(millis(500));
    let request = try_request("a", "").of_session(session.id());
    let (answer, ()) = tokio::join!(caller.api.try_acquire(request), async {
        tokio::time::sleep(millis(100)).await;
        client.cut();
    });
    assert_eq!(refusal(answer), "SESSION_NOT_FOUND");
    faults.set_answer_delay(millis(0));
    let field = format!("{}:0", session.id());
    eventually("only the late hold is undone", || async {
        world.redis(&["HGET", "a", &field]) == Value::Bytes("1".into())
    })
    .await;
    let mut resumed = caller.resume(&session.opened, vec![grant]).await.unwrap();
    assert!(resumed.release("a").await.released);
}

#[tokio::test(start_paused = true)]
async fn what_was_asked_before_the_end_is_answered() {
    let (world, _client, mut session) = World::with_session().await;
    let tried = session.send(Request::TryAcquire(try_request("a", "")));
    let released = session.send_release("a", "");
    session.end_requests();
    assert!(matches!(session.end(tried).await, Response::Tried(_)));
    assert!(matches!(session.end(released).await, Response::Released(_)));
    session.read_to_end().await.unwrap();
    world.expect_nothing_left(&["a"]).await;
}
