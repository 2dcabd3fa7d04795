//! However an attempt ends, and whenever the caller goes: what was taken is given back.

use lockkeeper_access::Account;
use lockkeeper_coordinator::{
    AcquireAll, Limits, LockName, Locks, Mode, Operation, Owner, Reply, RequestId, SessionId,
};
use tokio::sync::mpsc;

use super::{Call, all, back, expect_free, holders, names, specs, take, tried, try_all};
use crate::support::prelude::*;

/// Locks that are taken together, and such that are taken in order; of each the last is held by
/// somebody else at first.
const WORDS: [[&str; 3]; 2] = [["a", "b:write", "c"], ["a", "b:fair", "c"]];

#[tokio::test(start_paused = true)]
async fn a_cancel_at_any_instant_leaves_all_or_nothing() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    // A cancel may come while a script is on its way there, or its answer back.
    faults.set_answer_delay(millis(7));
    let mut session = client.open().await;
    let (mut granted, mut cancelled) = (0, 0);
    for words in WORDS {
        for at in 0..70 {
            client.try_acquire("c", "y", millis(100)).await.unwrap();
            tokio::time::sleep(millis(60)).await;
            let op = session.send(Request::AcquireAll(all(&words, "", secs(60))));
            tokio::time::sleep(millis(at)).await;
            session.send_as(op, Request::Cancel(pb::CancelOperation {}));
            match session.end_of_all(op).await {
                Response::GrantedAll(grants) => {
                    assert_eq!(names(&grants.grants), ["a", "b", "c"]);
                    let op = session.send(Request::ReleaseAll(back(&words, "")));
                    assert!(matches!(session.answer(op).await, Response::ReleasedAll(_)));
                    granted += 1;
                }
                Response::NotGranted(_) => cancelled += 1,
                other => panic!("{other:?}"),
            }
            expect_free(&world, &["a", "b", "c"]).await;
        }
    }
    assert!(granted > 10 && cancelled > 10, "{granted} and {cancelled}");
    session.close().await.unwrap();
    world.expect_nothing_left(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn no_orphan_is_left_when_the_caller_goes_at_any_instant() {
    let (world, mut holder) = World::with_client().await;
    for words in WORDS {
        for at in 85..115 {
            holder.try_acquire("c", "y", millis(100)).await.unwrap();
            let mut waiter = world.client(0).await;
            let request = all(&words, "x", secs(60)).lasting(secs(5));
            let call = async { Call::start(&mut waiter, request).await.end().await.unwrap() };
            let told = tokio::time::timeout(millis(at), call).await.is_ok();
            waiter.cut();
            let cut_at = Instant::now();
            expect_free(&world, &["a", "b", "c"]).await;
            // What was on its way when the connection broke cannot be told from what arrived; its
            // lease ends it.
            assert!(
                told || cut_at.elapsed() <= millis(5200),
                "{:?}",
                cut_at.elapsed()
            );
        }
    }
    world.expect_nothing_left(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_whose_answer_is_lost_is_undone_and_can_be_repeated() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let mut session = client.open().await;
    let words = ["a", "b:write", "c:read"];
    let request = |session_id: String, owner: &str, id: &str| {
        try_all(&words, owner).of_session(session_id).with_id(id)
    };
    for (n, request) in [
        request(String::new(), "x", ""),
        request(String::new(), "x", "r1"),
        request(String::new(), "", ""),
        request(session.id(), "", ""),
        request(session.id(), "", "r2"),
    ]
    .into_iter()
    .enumerate()
    {
        for undo_lost in [0, 1] {
            faults.lose_answers("multi_acquire", 1);
            faults.lose_answers("multi_undo", undo_lost);
            let lost = client.try_all(request.clone()).await.unwrap_err();
            assert_eq!(reason(&lost), "OUTCOME_UNKNOWN", "case {n}");
            expect_free(&world, &["a", "b", "c"]).await;
            faults.lose_requests("multi_acquire", 1);
            let lost = client.try_all(request.clone()).await.unwrap_err();
            assert_eq!(reason(&lost), "OUTCOME_UNKNOWN", "case {n}");
            let again = tried(&mut client, request.clone()).await;
            assert_eq!(names(&again.grants), ["a", "b", "c"], "case {n}");
            let grant = &again.grants[0];
            let back = back(&words, &grant.owner).of_session(grant.session_id.clone());
            client.api.release_all(back).await.unwrap();
            expect_free(&world, &["a", "b", "c"]).await;
            tokio::time::sleep(secs(61)).await;
        }
    }
    take(&mut session, &words).await;
    faults.lose_answers("multi_acquire", 1);
    let op = session.send(Request::AcquireAll(
        pb::AcquireAllRequest::default().of_locks(specs(&words)),
    ));
    assert_eq!(session.expect_failed(op).await, "OUTCOME_UNKNOWN");
    let grants = take(&mut session, &words).await;
    assert_eq!(
        names(&grants),
        ["ax2", "bx2", "cx2"],
        "exactly the lost one was undone"
    );
}

/// The store has the locks for another 6 ms, which are not relied on.
#[tokio::test(start_paused = true)]
async fn holds_whose_answer_comes_too_late_are_given_back_before_the_owner_tries_again() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let words = ["a", "b:write", "c:read"];
    let request = || try_all(&words, "x").lasting(secs(1));
    faults.set_answer_delay(millis(994));
    let mut other = world.client(0).await;
    let again = async {
        tokio::time::sleep(millis(1)).await;
        faults.set_answer_delay(millis(0));
        tried(&mut other, request()).await
    };
    let (late, again) = tokio::join!(client.try_all(request()), again);
    assert_eq!(refusal(late), "OUTCOME_UNKNOWN");
    assert_eq!(names(&again.grants), ["a", "b", "c"]);
    assert_eq!(holders(&mut client, "a").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_rides_out_a_store_that_is_away() {
    let (faults, _world, mut client) = World::faulty_with_client().await;
    for words in WORDS {
        client.try_acquire("c", "y", secs(5)).await.unwrap();
        let mut call = Call::start(&mut client, all(&words, "x", secs(60))).await;
        call.expect_waiting().await;
        tokio::time::sleep(secs(2)).await;
        faults.set_unavailable(true);
        tokio::time::sleep(secs(5)).await;
        faults.set_unavailable(false);
        assert_eq!(names(&call.expect_granted().await), ["a", "b", "c"]);
        let given = super::released(&mut client, back(&words, "x")).await;
        assert_eq!(given, ["a=0", "b=0", "c=0"]);
    }
    client.try_acquire("c", "y", secs(500)).await.unwrap();
    let mut call = Call::start(&mut client, all(&WORDS[0], "x", secs(5))).await;
    call.expect_waiting().await;
    faults.set_unavailable(true);
    let failed = call.end().await.unwrap_err();
    assert_eq!(
        reason(&failed),
        "STORE_UNAVAILABLE",
        "whether it was free is not known"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_while_the_answer_is_on_its_way_keeps_none() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    for words in WORDS {
        let session = client.open().await;
        faults.set_answer_delay(millis(50));
        let request = try_all(&words, "").of_session(session.id());
        let (refused, closed) = tokio::join!(client.try_all(request), async {
            tokio::time::sleep(millis(10)).await;
            session.close().await
        });
        closed.unwrap();
        assert_eq!(refusal(refused), "SESSION_NOT_FOUND");
        faults.set_answer_delay(millis(0));
        world.expect_nothing_left(&["a", "b", "c"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_waits_and_leaves_nothing() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("c", "y", secs(600)).await.unwrap();
    let mut calls = Vec::new();
    for (n, words) in WORDS.into_iter().enumerate() {
        let request = all(&words, &format!("x{n}"), secs(600));
        let mut call = Call::start(&mut client, request).await;
        call.expect_waiting().await;
        calls.push(call);
    }
    assert_eq!(
        holders(&mut client, "a").await,
        ["x1=1"],
        "the second takes them in order"
    );
    world.coordinator(0).drain(secs(1)).await;
    for call in &mut calls {
        assert_eq!(refusal(call.end().await), "DRAINING");
    }
    expect_free(&world, &["a", "b"]).await;
    world.until_waiting(0, 0).await;
}

/// An operation whose caller goes: before the answer is there, or with the answer unread.
#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_takes_is_given_back_at_once() {
    let (faults, world, mut client) = World::faulty_with_client().await;
    let session = client.open().await;
    let coordinator = world.coordinator(0);
    let limits = coordinator.limits();
    let in_session = SessionId::parse(&session.id()).unwrap();
    let in_session = Owner::in_session(in_session, "", limits).unwrap();
    let named = Owner::sessionless("x", limits).unwrap();
    let made = Owner::made(&LockName::parse("a", limits).unwrap(), None);
    faults.set_answer_delay(millis(20));
    for words in WORDS {
        for owner in [&in_session, &named, &made] {
            for (id, wait, read_late) in [
                ("", None, false),
                ("", Some(secs(0)), true),
                ("r", None, true),
                ("r", Some(secs(9)), false),
            ] {
                let request = AcquireAll {
                    locks: locks(&words, limits),
                    owner: owner.clone(),
                    lease: None,
                    wait,
                    request_id: RequestId::parse(id, limits).unwrap(),
                    min_replica_acks: 0,
                    end_on_deadlock: false,
                    note: None,
                    account: Account::default(),
                };
                let (to, answers) = mpsc::channel(4);
                let reply = Reply {
                    op_id: 1,
                    to: to.into(),
                    cancel: None,
                    slot: None,
                    account: Account::default(),
                };
                coordinator.submit(Operation::AcquireAll(request), reply);
                tokio::time::sleep(millis(if read_late { 200 } else { 10 })).await;
                assert_eq!(holders(&mut client, "a").await.len(), 1);
                drop(answers);
                let gone_at = Instant::now();
                expect_free(&world, &["a", "b", "c"]).await;
                assert!(
                    gone_at.elapsed() < secs(1),
                    "{words:?} {owner:?} {id} {wait:?}"
                );
                assert_eq!(coordinator.load().deadlines, 0, "nothing is in the books");
            }
        }
    }
}

fn locks(words: &[&str], limits: &Limits) -> Locks {
    let named = words.iter().map(|word| {
        let (name, mode) = word.split_once(':').unwrap_or((word, ""));
        let mode = match mode {
            "fair" => Mode::Fair,
            "write" => Mode::Write,
            _ => Mode::Exclusive,
        };
        Ok((LockName::parse(name, limits)?, mode))
    });
    Locks::new(named, limits).unwrap()
}
