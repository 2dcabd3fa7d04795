//! Everything that coordinators offer, on a cluster: every kind of lock in the slots of its name,
//! several locks across slots, Redisson's messages of either kind, and slots that move while their
//! locks are fought for.

use std::sync::atomic::{AtomicUsize, Ordering};

use lockkeeper_store::script::keys;

use crate::prelude::*;
use crate::{
    cluster::{Cluster, MASTERS},
    modes::MODES,
    several::{release_all, spec_in},
};

/// No poll comes before the test is over, so whatever is prompt was woken.
fn settings(store: &Cluster) -> Settings {
    Settings::on(&store.url())
        .with("session.secret", "a secret of all the coordinators here")
        .with("store.poll_interval", "60s")
}

async fn deployment() -> (Cluster, Coordinator, Client) {
    let store = Cluster::start().await;
    let coordinator = Coordinator::start(&settings(&store)).await;
    expect_serving(&coordinator).await;
    let client = coordinator.client().await;
    (store, coordinator, client)
}

/// The subscription is confirmed and the attempt after it is over: from here on only a message
/// wakes the waiter.
async fn until_listening(store: &Cluster, name: &str, channel: &str) {
    eventually("both kinds of messages are listened to", || async {
        let plain = store.text_on(name, &["PUBLISH", channel, "7"]).await;
        let sharded = store.text_on(name, &["SPUBLISH", channel, "7"]).await;
        plain == "1" && sharded == "1"
    })
    .await;
    tokio::time::sleep(millis(200)).await;
}

#[tokio::test]
async fn mission_11_every_kind_of_lock_works_in_the_slots_of_its_name_on_every_master() {
    judged_by_time(async || {
        let (store, coordinator, client) = deployment().await;
        for name in store.name_on_each_master("build").await {
            for mode in MODES {
                let lock = format!("{{{name}}}:{mode:?}");
                let mut holder = client.clone().open().await;
                // A reader keeps writers out, anything else all.
                let (first, second) = match mode {
                    LockMode::Read => (LockMode::Read, LockMode::Write),
                    mode => (mode, mode),
                };
                let held = holder.take_in(&lock, first).await;
                let mut waiter = client.clone().open().await;
                let (op_id, _) = waiter.wait_in(&lock, second).await;
                let waiting = timed(async move { (waiter.expect_granted(op_id).await, waiter) });
                tokio::time::sleep(millis(300)).await;
                assert!(!waiting.is_finished(), "{lock}");
                let released = Instant::now();
                assert!(holder.release_in(&lock, first).await.released);
                let (granted_at, (granted, _waiter)) = waiting.await.unwrap();
                between(released, granted_at).must_be_below(PROMPT, &lock);
                assert!(granted.fencing_token >= held.fencing_token, "{lock}");
            }
            let mut semaphore = Semaphore::new(&client, &format!("{name}-permits"));
            semaphore.set(1).await;
            let taken = semaphore.take("x", 1, secs(30)).await;
            let mut waiting = semaphore.waits(semaphore.request("y", 1)).await;
            let woken = timed(async move { waiting.expect_granted().await });
            tokio::time::sleep(millis(300)).await;
            let released = Instant::now();
            semaphore.release("x", &taken.permit_ids).await.unwrap();
            let (granted_at, _) = woken.await.unwrap();
            between(released, granted_at).must_be_below(PROMPT, "woken by permits given back");

            // The second one's channel is in another slot: Redisson adds braces to its name.
            for latch in [format!("{name}-latch"), format!("{{{name}}}-latch")] {
                let mut latch = Latch::new(&client, &latch);
                assert!(latch.set(1).await);
                let mut waiting = latch.wait(None).await;
                waiting.expect_waiting(1).await;
                let opened = timed(async move { waiting.expect_opened().await });
                tokio::time::sleep(millis(300)).await;
                let counted = Instant::now();
                assert_eq!(latch.count_down(1).await.unwrap(), 0);
                let (opened_at, ()) = opened.await.unwrap();
                between(counted, opened_at).must_be_below(PROMPT, "woken by the last count");
            }
        }
        coordinator.assert_alive();
    })
    .await;
}

#[tokio::test]
async fn mission_19_locks_in_several_slots_are_held_all_or_none() {
    const CONTENDERS: usize = 12;
    let store = Cluster::start().await;
    let settings = settings(&store);
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    let names = store.name_on_each_master("part").await;

    // One is taken, so a try gets none.
    let mut client = a.client().await;
    let mut holder = client.open().await;
    holder.acquire(&names[2]).await;
    let mut session = client.open().await;
    let locks = [0, 1, 2].map(|at| spec_in(&names[at], MODES[[0, 3, 1][at]]));
    assert!(!session.try_all(&locks).await.acquired);
    eventually("none is left behind", || async {
        store.text_on(&names[0], &["EXISTS", &names[0]]).await == "0"
            && store.text_on(&names[1], &["EXISTS", &names[1]]).await == "0"
    })
    .await;
    assert!(holder.release(&names[2]).await.released);
    assert_eq!(session.take_all(&locks).await.len(), 3);
    let request = release_all(locks.to_vec(), "").with_id("once");
    let op_id = session.send(Request::ReleaseAll(request));
    let Response::ReleasedAll(released) = session.answer(op_id).await else {
        panic!("expected released_all");
    };
    assert!(released.locks.iter().all(|lock| lock.held), "{released:?}");
    for name in &names {
        assert_eq!(store.text_on(name, &["EXISTS", name]).await, "0");
    }

    let inside = [const { AtomicUsize::new(0) }; MASTERS];
    let begun = Instant::now();
    let contenders = (0..CONTENDERS).map(|number| {
        let (coordinator, inside, names) = ([&a, &b][number % 2], &inside, &names);
        async move {
            let mut session = coordinator.client().await.open().await;
            let chosen = [number % 3, (number + 1) % 3];
            let locks = chosen.map(|at| spec_in(&names[at], LockMode::Exclusive));
            for _ in 0..3 {
                session.take_all(&locks).await;
                for at in chosen {
                    assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "held twice");
                }
                tokio::time::sleep(millis(2)).await;
                for at in chosen {
                    inside[at].fetch_sub(1, Ordering::SeqCst);
                }
                session.give_all_back(&locks).await;
            }
            session.close().await.unwrap();
        }
    });
    join_all(contenders).await;
    measured(
        "locks in several slots, 12 contenders, 3 rounds each",
        begun.elapsed(),
    );
}

#[tokio::test]
async fn redisson_clients_of_either_kind_of_messages_are_understood() {
    judged_by_time(async || {
        let (store, _coordinator, mut client) = deployment().await;
        for name in store.name_on_each_master("build").await {
            let channel = keys::channel(&name);
            let owner = format!("{}:1", uuid::Uuid::new_v4());
            for command in ["SPUBLISH", "PUBLISH"] {
                store.command_on(&name, &["HSET", &name, &owner, "1"]).await;
                store.command_on(&name, &["PEXPIRE", &name, "60000"]).await;
                let waiting = timed_wait(&mut client, &name).await;
                until_listening(&store, &name, &channel).await;
                assert!(!waiting.is_finished());
                store.command_on(&name, &["DEL", &name]).await;
                let freed = Instant::now();
                assert_eq!(store.text_on(&name, &[command, &channel, "0"]).await, "1");
                let (granted_at, (_, mut session)) = waiting.await.unwrap();
                between(freed, granted_at).must_be_below(PROMPT, command);

                let master = store.master_of(&name).await.unwrap();
                let monitor = store.node(master).monitor().await;
                assert!(session.release(&name).await.released);
                let seen = monitor.lines(store.node(master)).await;
                for sent in ["spublish", "publish"] {
                    let sent = format!("lua] \"{sent}\" \"{channel}\" \"0\"");
                    let times = seen.iter().filter(|line| line.contains(&sent)).count();
                    assert_eq!(times, 1, "{sent}: {seen:?}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_waiter_is_woken_after_its_slot_has_moved() {
    judged_by_time(async || {
        let (store, _coordinator, mut client) = deployment().await;
        let [name, _, _] = store.name_on_each_master("build").await;
        let mut holder = client.open().await;
        let held = holder.acquire(&name).await;
        let waiting = timed_wait(&mut client, &name).await;
        until_listening(&store, &name, &keys::channel(&name)).await;
        store.migrate(store.slot(&name).await, 1).await;
        until_listening(&store, &name, &keys::channel(&name)).await;
        assert!(!waiting.is_finished());
        let (span, (granted, _session)) = released_to(&mut holder, &name, waiting).await;
        span.must_be_below(PROMPT, "woken after the slot has moved");
        assert!(granted.fencing_token > held.fencing_token);
    })
    .await;
}

/// Scripts look for notes, whose keys they do not name. A cluster refuses to look for a key that
/// may be at the other node.
#[tokio::test]
async fn a_lock_in_a_slot_that_moves_is_taken_again_and_others_are_refused() {
    let (store, _coordinator, mut client) = deployment().await;
    let [name, _, _] = store.name_on_each_master("build").await;
    let mut holder = client.open().await;
    let held = holder.acquire(&name).await;
    let slot = store.slot(&name).await;
    let from = store.begin_migration(slot, 1).await;
    let mut other = client.open().await;
    let wanted = || pb::TryAcquireRequest::named(&name);
    assert!(!other.try_acquire(wanted()).await.acquired);
    let again = holder.acquire(&name).await;
    assert_eq!(
        (again.hold_count, again.fencing_token),
        (2, held.fencing_token)
    );
    store.move_keys(slot, from, 1).await;
    store.end_migration(slot, from, 1).await;
    assert!(!holder.release(&name).await.released);
    assert!(holder.release(&name).await.released);
    assert!(other.try_acquire(wanted()).await.acquired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_under_contention_fails_nobody_and_keeps_the_exclusion() {
    const CONTENDERS: usize = 12;
    const MOVES: usize = 6;
    let store = Cluster::start().await;
    let settings = settings(&store).with("store.poll_interval", "1s");
    let (a, b) = tokio::join!(Coordinator::start(&settings), Coordinator::start(&settings));
    let [name, _, _] = store.name_on_each_master("hot").await;
    let slot = store.slot(&name).await;
    let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let last_token = parking_lot::Mutex::new(0);
    let moved = std::sync::atomic::AtomicBool::new(false);
    let contenders = join_all((0..CONTENDERS).map(|number| {
        let coordinator = [&a, &b][number % 2];
        let (inside, done, last_token) = (&inside, &done, &last_token);
        let (name, moved) = (&name, &moved);
        async move {
            let mut session = coordinator.client().await.open().await;
            while !moved.load(Ordering::SeqCst) {
                let grant = session.acquire(name).await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "held twice");
                let before = std::mem::replace(&mut *last_token.lock(), grant.fencing_token);
                assert!(grant.fencing_token > before, "tokens grow");
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(session.release(name).await.released);
                done.fetch_add(1, Ordering::SeqCst);
            }
            session.close().await.unwrap();
        }
    }));
    let moving = async {
        for round in 0..MOVES {
            let before = done.load(Ordering::SeqCst);
            eventually("it is fought for", || async {
                done.load(Ordering::SeqCst) > before + CONTENDERS
            })
            .await;
            let began = Instant::now();
            store.migrate(slot, (round + 1) % 2).await;
            measured("moving the slot took", began.elapsed());
        }
        moved.store(true, Ordering::SeqCst);
    };
    let both = futures::future::join(contenders, moving);
    let patience: Duration = secs(60);
    tokio::time::timeout(patience, both)
        .await
        .expect("no wait hangs");
    measured(
        &format!(
            "{} grants while the slot moved {MOVES} times",
            done.into_inner()
        ),
        Duration::ZERO,
    );
}
