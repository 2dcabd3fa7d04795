//! Several locks in a session: frames, the watchdog, losses one by one, resuming, and the end.

use super::{all, back, expect_free, holders, names, specs, take, told, try_all};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn frames_do_what_the_rpcs_do() {
    let (world, mut client, mut session) = World::with_session().await;
    client.try_acquire("b", "y", secs(60)).await.unwrap();
    let op = session.send(Request::TryAcquireAll(try_all(&["a", "b"], "")));
    let tried = expect!(session.answer(op).await, Response::TriedAll);
    assert_eq!((tried.acquired, tried.busy_name.as_str()), (false, "b"));
    let op = session.send(Request::AcquireAll(all(&["a", "b"], "", secs(60))));
    let waiting = expect!(session.answer(op).await, Response::WaitingForAll);
    let left = std_duration(waiting.waiting.unwrap().holder_remaining_lease);
    assert!((secs(59)..=secs(60)).contains(&left), "{left:?}");
    assert_eq!(waiting.name, "b");
    session.send_as(op, Request::AcquireAll(all(&["c"], "", secs(60))));
    assert_eq!(session.expect_failed(op).await, "INVALID_OP_ID");
    session.send_as(op, Request::Cancel(pb::CancelOperation {}));
    let ended = expect!(session.end_of_all(op).await, Response::NotGranted);
    assert_eq!(ended.reason(), pb::NotGrantedReason::Cancelled);
    client.release("b", "y").await.unwrap();
    assert_eq!(names(&take(&mut session, &["a", "b"]).await), ["a", "b"]);
    let op = session.send(Request::ReleaseAll(back(&["a", "b", "c"], "")));
    let answer = expect!(session.answer(op).await, Response::ReleasedAll);
    assert_eq!(told(answer), ["a=0", "b=0", "c lost"]);
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_watchdog_renews_all_and_each_is_lost_on_its_own() {
    let (world, mut client, mut session) = World::with_session().await;
    let words = ["a", "b:write", "c:read", "d:fair"];
    let grants = take(&mut session, &words).await;
    assert!(grants.iter().all(|grant| grant.watched));
    tokio::time::sleep(secs(300)).await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(holders(&mut client, name).await, ["0=1"], "{name}");
    }
    world.redis(&["DEL", "b"]);
    let lost = session.expect_lost().await.grant.unwrap();
    assert_eq!(lost.name, "b");
    assert_eq!(session.release("a").await.hold_count, 0);
    let op = session.send(Request::ReleaseAll(back(&words, "")));
    let answer = expect!(session.answer(op).await, Response::ReleasedAll);
    assert_eq!(told(answer), ["a lost", "b lost", "c=0", "d=0"]);
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b", "c", "d"]).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_wait_and_gives_all_back() {
    let (world, mut client) = World::with_client().await;
    for fair in ["e", "e:fair"] {
        let mut session = client.open().await;
        take(&mut session, &["a", "b:read", "c"]).await;
        client.try_acquire("f", "y", secs(600)).await.unwrap();
        session.send(Request::AcquireAll(all(&[fair, "f"], "", secs(600))));
        world.until_waiting(0, 1).await;
        session.close().await.unwrap();
        client.release("f", "y").await.unwrap();
        world.expect_nothing_left(&["a", "b", "c", "e", "f"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_keeps_all_to_be_resumed_elsewhere() {
    let (_world, mut near, mut far) = World::two_with_clients().await;
    let mut session = near.open().await;
    let grants = take(&mut session, &["a", "b:write", "c:read"]).await;
    near.cut();
    let opened = session.opened.clone();
    let mut session = far.resume(&opened, grants).await.unwrap();
    assert_eq!(names(&session.opened.grants), ["a", "b", "c"]);
    tokio::time::sleep(secs(100)).await;
    let op = session.send(Request::ReleaseAll(back(&["a", "b:write", "c:read"], "")));
    let answer = expect!(session.answer(op).await, Response::ReleasedAll);
    assert_eq!(told(answer), ["a=0", "b=0", "c=0"]);
}

#[tokio::test(start_paused = true)]
async fn leases_of_their_own_run_out_together() {
    let (world, _client, mut session) = World::with_session().await;
    let request = try_all(&["a", "b"], "").lasting(secs(2));
    let op = session.send(Request::TryAcquireAll(request));
    let tried = expect!(session.answer(op).await, Response::TriedAll);
    assert!(tried.acquired && !tried.grants[0].watched);
    for name in ["a", "b"] {
        assert_eq!(session.expect_lost().await.grant.unwrap().name, name);
    }
    expect_free(&world, &["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_is_brought_to_its_end() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    for (ran, id) in [(true, ""), (false, ""), (true, "r1"), (false, "r2")] {
        take(&mut session, &["a", "b:read"]).await;
        if ran {
            faults.lose_answers("multi_release", 1);
        } else {
            faults.lose_requests("multi_release", 1);
        }
        let request = pb::ReleaseAllRequest::default()
            .with_id(id)
            .of_locks(specs(&["a", "b:read"]));
        let op = session.send(Request::ReleaseAll(request.clone()));
        assert_eq!(session.expect_failed(op).await, "OUTCOME_UNKNOWN");
        if !id.is_empty() {
            let op = session.send(Request::ReleaseAll(request));
            let answer = expect!(session.answer(op).await, Response::ReleasedAll);
            assert_eq!(told(answer), ["a=0", "b=0"]);
        }
        expect_free(&world, &["a", "b"]).await;
    }
    tokio::time::sleep(millis(10)).await;
    assert_eq!(
        world.coordinator(0).load().deadlines,
        0,
        "nothing is in the books"
    );
}
