//! Taking several locks that can be had together: all or none, mixed modes, waits, and no deadlock.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Call, all, back, expect_free, holders, names, released, specs, tried, try_all};
use crate::support::prelude::*;

#[tokio::test(start_paused = true)]
async fn mission_19_several_locks_are_held_only_if_all_are() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("b", "y", secs(20)).await.unwrap();
    let refused = tried(&mut client, try_all(&["c", "a", "b"], "x")).await;
    assert!(!refused.acquired && refused.grants.is_empty());
    assert_eq!(refused.busy_name, "b");
    assert_eq!(std_duration(refused.holder_remaining_lease), secs(20));
    for free in ["a", "c"] {
        assert!(holders(&mut client, free).await.is_empty());
    }
    client.release("b", "y").await.unwrap();
    let taken = tried(&mut client, try_all(&["c", "a", "b"], "x")).await;
    assert!(taken.acquired && taken.busy_name.is_empty());
    assert_eq!(names(&taken.grants), ["a", "b", "c"]);
    for grant in &taken.grants {
        let seen = client.describe(&grant.name).await;
        assert_eq!(seen.last_fencing_token, grant.fencing_token, "one for each");
        assert_eq!(std_duration(grant.lease), secs(30));
        assert!(std_duration(grant.valid_for) > secs(29));
    }
    let given = released(&mut client, back(&["a", "b", "c"], "x")).await;
    assert_eq!(given, ["a=0", "b=0", "c=0"]);
    world.expect_nothing_left(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn mission_19_the_time_limit_is_over_the_whole_and_nothing_is_kept() {
    let (world, mut client) = World::with_client().await;
    client.try_acquire("a", "y", millis(1500)).await.unwrap();
    client.try_acquire("b", "y", secs(60)).await.unwrap();
    let begun = Instant::now();
    let mut call = Call::start(&mut client, all(&["a", "b", "c"], "x", secs(2))).await;
    assert_eq!(call.expect_waiting().await, "a");
    assert_eq!(
        call.expect_waiting().await,
        "b",
        "the wait goes on for the next"
    );
    assert!(begun.elapsed() >= millis(1500));
    // What the call will want is not kept from others as long as it waits.
    assert!(client.gets_for("c", "z", secs(5)).await);
    call.expect_timeout().await;
    assert!(begun.elapsed() >= secs(2) && begun.elapsed() < millis(2100));
    assert!(holders(&mut client, "a").await.is_empty());
    client.release("b", "y").await.unwrap();
    client.release("c", "z").await.unwrap();
    world.expect_nothing_left(&["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_woken_by_whichever_lock_it_stands_for_and_gets_all() {
    let (_world, mut near, mut far) = World::two_with_clients().await;
    near.try_acquire("a", "y", secs(60)).await.unwrap();
    near.try_acquire("b", "y", secs(60)).await.unwrap();
    let mut call = Call::start(&mut far, all(&["b", "a"], "x", secs(60))).await;
    assert_eq!(call.expect_waiting().await, "a");
    near.release("a", "y").await.unwrap();
    assert_eq!(call.expect_waiting().await, "b");
    let freed_at = Instant::now();
    near.release("b", "y").await.unwrap();
    assert_eq!(names(&call.expect_granted().await), ["a", "b"]);
    assert!(
        freed_at.elapsed() < millis(50),
        "by the message, not by a poll"
    );
    assert_eq!(holders(&mut near, "a").await, ["x=1"]);
    // A single call waits for a member as for any lock.
    let request = acquire_request("b", "z");
    let mut single = near.waits(request).await;
    released(&mut far, back(&["a", "b"], "x")).await;
    single.expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn zero_wait_tries_once() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("b", "y", secs(60)).await.unwrap();
    let begun = Instant::now();
    let mut call = Call::start(&mut client, all(&["a", "b"], "x", secs(0))).await;
    call.expect_timeout().await;
    let mut call = Call::start(&mut client, all(&["a", "c"], "x", secs(0))).await;
    assert_eq!(call.expect_granted().await.len(), 2);
    assert!(begun.elapsed() < millis(10));
}

#[tokio::test(start_paused = true)]
async fn modes_mix_and_readers_share() {
    let (world, mut client) = World::with_client().await;
    for reader in ["x", "y"] {
        let locks = ["r:read", reader];
        assert!(tried(&mut client, try_all(&locks, reader)).await.acquired);
    }
    let writer = ["r:write", "z"];
    let refused = tried(&mut client, try_all(&writer, "z")).await;
    assert_eq!((refused.acquired, refused.busy_name.as_str()), (false, "r"));
    let mut call = Call::start(&mut client, all(&writer, "z", secs(20))).await;
    assert_eq!(call.expect_waiting().await, "r");
    assert!(
        !tried(&mut client, try_all(&["r:read"], "late"))
            .await
            .acquired,
        "a writer that waits holds new readers back"
    );
    for reader in ["x", "y"] {
        released(&mut client, back(&["r:read", reader], reader)).await;
    }
    assert_eq!(names(&call.expect_granted().await), ["r", "z"]);
    assert!(!tried(&mut client, try_all(&["r:read"], "x")).await.acquired);
    assert_eq!(
        released(&mut client, back(&writer, "z")).await,
        ["r=0", "z=0"]
    );
    expect_free(&world, &["r", "x", "y", "z"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_lets_readers_in_again() {
    let (_world, mut client) = World::with_client().await;
    tried(&mut client, try_all(&["r:read"], "x")).await;
    let mut call = Call::start(&mut client, all(&["q", "r:write"], "z", millis(300))).await;
    call.expect_waiting().await;
    assert!(!tried(&mut client, try_all(&["r:read"], "y")).await.acquired);
    call.expect_timeout().await;
    let gave_up_at = Instant::now();
    eventually("readers are let in", || async {
        tried(&mut client.clone(), try_all(&["r:read"], "y"))
            .await
            .acquired
    })
    .await;
    assert!(gave_up_at.elapsed() < secs(1), "not when the mark ends");
}

#[tokio::test(start_paused = true)]
async fn what_the_owner_holds_already_counts_up_and_single_calls_go_on_working() {
    let (_world, mut client) = World::with_client().await;
    client.try_acquire("a", "x", secs(60)).await.unwrap();
    let taken = tried(&mut client, try_all(&["a", "b"], "x")).await;
    assert_eq!(names(&taken.grants), ["ax2", "b"]);
    let again = Call::start(&mut client, all(&["b", "c"], "x", secs(1)))
        .await
        .expect_granted()
        .await;
    assert_eq!(names(&again), ["bx2", "c"]);
    assert_eq!(again[0].fencing_token, taken.grants[1].fencing_token);
    assert_eq!(client.release("b", "x").await.unwrap().hold_count, 1);
    client.renew("c", "x", secs(90)).await.unwrap();
    let given = released(&mut client, back(&["a", "b", "c"], "x")).await;
    assert_eq!(given, ["a=1", "b=0", "c=0"]);
    let given = released(&mut client, back(&["a", "b"], "x")).await;
    assert_eq!(
        given,
        ["a=0", "b lost"],
        "one that is not held keeps no other"
    );
    let refused = client.api.release_all(back(&["a", "b"], "x")).await;
    assert_eq!(refusal(refused), "NOT_OWNER");
}

#[tokio::test(start_paused = true)]
async fn opposite_orders_and_many_contenders_never_deadlock_and_never_overlap() {
    let world = World::of(2);
    let inside = &[const { AtomicUsize::new(0) }; 4];
    let locks = ["a", "b", "c:read", "d:write"];
    let contenders = (0..40_usize).map(|n| {
        let world = &world;
        async move {
            let mut client = world.client(n % 2).await;
            for round in 0..4 {
                // Any two or three of the locks, in any order.
                let first = (n + round) % 4;
                let mut chosen = vec![locks[first], locks[(first + 1 + n % 3) % 4]];
                if n % 2 == 0 {
                    chosen.reverse();
                }
                let owner = format!("o{n}");
                let request = all(&chosen, &owner, secs(600));
                Call::start(&mut client, request)
                    .await
                    .expect_granted()
                    .await;
                let at = |lock: &&str| locks.iter().position(|known| known == lock).unwrap();
                for lock in chosen.iter().filter(|lock| !lock.ends_with("read")) {
                    let before = inside[at(lock)].fetch_add(1, Ordering::SeqCst);
                    assert_eq!(before, 0, "{lock} is held twice");
                }
                tokio::time::sleep(millis(20)).await;
                for lock in chosen.iter().filter(|lock| !lock.ends_with("read")) {
                    inside[at(lock)].fetch_sub(1, Ordering::SeqCst);
                }
                released(&mut client, back(&chosen, &owner)).await;
            }
        }
    });
    let begun = Instant::now();
    join_all(contenders).await;
    // 160 times 20 ms, if they had come one after the other; a deadlock would have lasted a lease.
    assert!(begun.elapsed() < secs(10), "{:?}", begun.elapsed());
    expect_free(&world, &["a", "b", "c", "d"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_repeat_gets_the_first_answer() {
    let (world, mut near, mut far) = World::two_with_clients().await;
    let with_id = |words: &[&str], owner: &str, id: &str| try_all(words, owner).with_id(id);
    for (words, id) in [(["a", "b:read"], "r1"), (["a", "b:fair"], "r2")] {
        let first = tried(&mut near, with_id(&words, "", id)).await;
        let again = tried(&mut far, with_id(&words, "", id)).await;
        assert!(first.acquired && again.acquired, "{id}");
        assert_eq!(names(&again.grants), ["a", "b"]);
        let identity = |grant: &pb::Grant| (grant.owner.clone(), grant.fencing_token);
        assert_eq!(
            first.grants.iter().map(identity).collect::<Vec<_>>(),
            again.grants.iter().map(identity).collect::<Vec<_>>()
        );
        let owner = first.grants[0].owner.clone();
        let request = back(&words, &owner).with_id(format!("{id}-back"));
        for client in [&mut near, &mut far] {
            assert_eq!(released(client, request.clone()).await, ["a=0", "b=0"]);
        }
        let over = far.try_all(with_id(&words, &owner, id)).await;
        assert_eq!(refusal(over), "NOT_OWNER");
    }
    near.try_acquire("b", "y", secs(20)).await.unwrap();
    for words in [["a", "b"], ["a", "b:fair"]] {
        let id = words[1];
        assert!(!tried(&mut near, with_id(&words, "x", id)).await.acquired);
    }
    near.release("b", "y").await.unwrap();
    for words in [["a", "b"], ["a", "b:fair"]] {
        let id = words[1];
        assert!(!tried(&mut far, with_id(&words, "x", id)).await.acquired);
    }
    let other = near.try_all(with_id(&["a", "c"], "x", "b"));
    assert_eq!(refusal(other.await), "INVALID_REQUEST_ID");
    expect_free(&world, &["a", "b", "c"]).await;
}

#[tokio::test(start_paused = true)]
async fn an_id_used_for_other_locks_is_refused_however_they_are_taken() {
    type Locks = &'static [&'static str];
    // The number of stores, the locks that the id is used for, and others.
    let rows: [(usize, Locks, &[Locks]); 4] = [
        (1, &["a", "b"], &[&["a", "c"], &["a"]]),
        (
            1,
            &["a", "b:fair"],
            &[&["a", "c:fair"], &["a:fair"], &["0", "b:fair"]],
        ),
        (1, &["a:read", "b:fair"], &[&["a:read", "c:fair"]]),
        (3, &["a", "b"], &[&["a", "c"], &["a"], &["0", "b"]]),
    ];
    for (stores, words, others) in rows {
        let world = World::over(2, stores);
        let (mut near, mut far) = (world.client(0).await, world.client(1).await);
        let request = try_all(words, "x").with_id("r");
        assert!(tried(&mut near, request.clone()).await.acquired);
        for _ in 0..2 {
            for other in others {
                let refused = far.try_all(try_all(other, "x").with_id("r")).await;
                let why = refused.map(|it| it.acquired).map_err(|it| reason(&it));
                assert_eq!(
                    why,
                    Err("INVALID_REQUEST_ID".to_owned()),
                    "{words:?} {other:?}"
                );
            }
            let alone = pb::AcquireRequest {
                mode: specs(words)[0].mode,
                ..acquire_request("a", "x").with_id("r")
            };
            let refused = far.acquire(alone).await.unwrap().end().await;
            assert_eq!(refusal(refused), "INVALID_REQUEST_ID");
            let again = tried(&mut far, request.clone()).await;
            assert_eq!(names(&again.grants), ["a", "b"]);
        }
        assert_eq!(released(&mut near, back(words, "x")).await, ["a=0", "b=0"]);
        near.take(try_request("a", "x").with_id("one")).await;
        let several = far.try_all(try_all(&["a", words[1]], "x").with_id("one"));
        assert_eq!(refusal(several.await), "INVALID_REQUEST_ID");
        near.release("a", "x").await.unwrap();
        expect_free(&world, &["0", "a", "b", "c"]).await;
    }
}

/// As after an upgrade: the earlier coordinator did not write which locks the request was for.
#[tokio::test(start_paused = true)]
async fn a_repeat_finds_the_answers_of_an_earlier_version() {
    let (world, mut client) = World::with_client().await;
    let request = try_all(&["a", "b:fair"], "x").with_id("r");
    tried(&mut client, request.clone()).await;
    for name in ["a", "b"] {
        let record = keys::record(name, "r").to_string();
        world.redis(&["HSET", &record, "attempt", "0123-4"]);
    }
    for _ in 0..2 {
        let again = tried(&mut client, request.clone()).await;
        assert_eq!(names(&again.grants), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_locks_are_taken_and_given_back_at_once() {
    let (world, mut client) = World::with_client().await;
    let words: Vec<String> = (0..1000)
        .map(|n| format!("n{n:03}{}", ["", ":read", ":write"][n % 3]))
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    client.try_acquire("n999", "y", secs(5)).await.unwrap();
    let keys = world.store.key_count();
    let refused = tried(&mut client, try_all(&words, "x")).await;
    assert_eq!(
        (refused.acquired, refused.busy_name.as_str()),
        (false, "n999")
    );
    assert_eq!(world.store.key_count(), keys, "none was taken");
    let mut call = Call::start(&mut client, all(&words, "x", secs(10))).await;
    let grants = call.expect_granted().await;
    assert_eq!(grants.len(), 1000);
    assert!(grants.is_sorted_by(|one, next| one.name < next.name));
    let request = pb::ReleaseAllRequest::default()
        .of_locks(specs(&words))
        .by("x");
    let given = released(&mut client, request).await;
    assert!(given.iter().all(|lock| lock.ends_with("=0")) && given.len() == 1000);
    expect_free(&world, &["n000", "n001", "n002"]).await;
}
