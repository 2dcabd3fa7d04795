//! What a hand-over costs, however many wait: one call, or a release and an attempt.

use crate::support::prelude::*;
use crate::support::{
    client::Call,
    modes::{release, wait},
};

const WAITERS: usize = 100;
const HAND_OVERS: usize = 50;

/// A store to which calls and answers take their time, as they do over a network.
fn distant() -> (Faults, World) {
    let (faults, world) = World::faulty();
    faults.set_answer_delay(millis(1));
    (faults, world)
}

/// The scripts that hand-overs are made of: in one call, a release, an attempt.
const PLAIN: [&str; 3] = ["lock_hand_on", "lock_release", "lock_acquire"];
const FAIR: [&str; 3] = ["lock_hand_on", "fair_release", "fair_acquire"];
const WRITE: [&str; 3] = ["lock_hand_on", "write_release", "write_acquire"];
const TO_A_WRITER: [&str; 3] = ["read_hand_on", "read_release", "write_acquire"];

/// Counts calls of these scripts from now on.
fn made(faults: &Faults, scripts: [&'static str; 3]) -> impl Fn() -> [usize; 3] {
    let before = scripts.map(|script| faults.calls(script));
    move || [0, 1, 2].map(|at| faults.calls(scripts[at]) - before[at])
}

/// Calls by an owner that is made for it, by an owner of its own, and with a request id, by turns.
fn asking(number: usize, request: pb::AcquireRequest) -> pb::AcquireRequest {
    match number % 3 {
        0 => request,
        1 => request.by(format!("owner-{number}")),
        _ => request.with_id(format!("request-{number}")),
    }
}

/// Calls that wait behind a holder, in the order in which they came.
async fn line_up(
    world: &World,
    client: &mut Client,
    asking: fn(usize, pb::AcquireRequest) -> pb::AcquireRequest,
) -> Vec<Call> {
    client.try_acquire("a", "holder", secs(3600)).await.unwrap();
    let mut calls = Vec::new();
    for number in 0..WAITERS {
        let request = asking(number, acquire_request("a", ""));
        calls.push(client.waits(request).await);
    }
    world.until_waiting(0, WAITERS).await;
    calls
}

/// Releases, and hears the next of them.
async fn hand_over(client: &mut Client, owner: &str, next: &mut Call) -> pb::Grant {
    client.release("a", owner).await.unwrap();
    next.expect_granted().await
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_behind_others_stands_in_line_without_asking_the_store() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let _calls = line_up(&world, &mut client, |_, request| request).await;
    // The holder, the first who waits, and that one again when it is subscribed.
    assert!(faults.calls("lock_acquire") <= 3, "{faults:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_is_one_call_however_many_wait_and_now_and_then_the_turn_of_others() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client, asking).await;
    // The attempt of the first, which it makes when it is subscribed, may still be under way.
    let first = hand_over(&mut client, "holder", &mut calls[0]).await;
    // From here on it takes no time; and after a turn of others.
    faults.set_answer_delay(Duration::ZERO);
    tokio::time::advance(millis(10)).await;
    let second = hand_over(&mut client, &first.owner, &mut calls[1]).await;
    let made = made(&faults, PLAIN);
    let (mut owner, mut token) = (second.owner, second.fencing_token);
    for next in calls.iter_mut().skip(2).take(HAND_OVERS) {
        let grant = hand_over(&mut client, &owner, next).await;
        assert!(grant.fencing_token > token, "{grant:?}");
        (owner, token) = (grant.owner, grant.fencing_token);
    }
    // Each 17th is a release that is published, and an attempt.
    let published = HAND_OVERS / 17;
    let expected = [HAND_OVERS - published, published, published];
    assert_eq!(made(), expected);
}

/// Those who wait elsewhere hear of it by then.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_held_for_longer_is_free_in_between_most_of_the_time() {
    const HELD_FOR: Duration = millis(10);
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client, asking).await;
    let mut owner = hand_over(&mut client, "holder", &mut calls[0]).await.owner;
    let made = made(&faults, PLAIN);
    for next in calls.iter_mut().skip(1).take(HAND_OVERS) {
        tokio::time::advance(HELD_FOR).await;
        owner = hand_over(&mut client, &owner, next).await.owner;
    }
    // The first after each turn of others.
    let in_one_call = HAND_OVERS / 17;
    let each = HAND_OVERS - in_one_call;
    let expected = [in_one_call, each, each];
    assert_eq!(made(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_gives_nothing_back_leaves_those_who_wait_as_they_were() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client, asking).await;
    for _ in 0..3 {
        client.release("a", "somebody").await.unwrap_err();
    }
    let attempts = || faults.calls("lock_acquire") + faults.calls("lock_hand_on");
    let before = attempts();
    let grant = hand_over(&mut client, "holder", &mut calls[0]).await;
    hand_over(&mut client, &grant.owner, &mut calls[1]).await;
    assert_eq!(attempts() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_is_lost_hands_the_lock_on_at_once() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client, |_, request| request).await;
    faults.lose_answers("lock_release", 1);
    let begun = tokio::time::Instant::now();
    client.release("a", "holder").await.unwrap_err();
    calls[0].expect_granted().await;
    assert!(begun.elapsed() < millis(100), "not by a poll");
}

/// The next one may have the lock and not know it, so what it may have is taken back, and the lock
/// goes to whoever stands behind it or to itself.
#[tokio::test(start_paused = true)]
async fn a_hand_over_whose_answer_is_lost_is_undone_and_nobody_waits_for_a_poll() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client, asking).await;
    let first = hand_over(&mut client, "holder", &mut calls[0]).await;
    faults.lose_answers("lock_hand_on", 1);
    let begun = tokio::time::Instant::now();
    client.release("a", &first.owner).await.unwrap_err();
    let second = calls[1].expect_granted().await;
    assert!(begun.elapsed() < millis(100), "{:?}", begun.elapsed());
    assert!(second.fencing_token > first.fencing_token);
    hand_over(&mut client, &second.owner, &mut calls[2]).await;
}

/// Neither has changed anything: the holder still has it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_that_does_not_reach_the_store_leaves_the_lock_with_its_holder() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up(&world, &mut client, asking).await;
    let first = hand_over(&mut client, "holder", &mut calls[0]).await;
    faults.set_unavailable(true);
    let refused = client.release("a", &first.owner).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    faults.set_unavailable(false);
    let holders = client.describe("a").await.holders;
    assert_eq!(holders[0].owner, first.owner);
    hand_over(&mut client, &first.owner, &mut calls[1]).await;
}

/// The queue decides who comes next, so nobody else has a turn.
#[tokio::test(start_paused = true)]
async fn a_fair_lock_is_handed_on_in_one_call_however_many_wait_and_however_long_it_is_held() {
    const HELD_FOR: Duration = millis(10);
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up_fairly(&world, &mut [&mut client]).await;
    faults.set_answer_delay(Duration::ZERO);
    let made = made(&faults, FAIR);
    let mut owner = "holder".to_owned();
    for next in &mut calls {
        tokio::time::advance(HELD_FOR).await;
        client.give_back("a", &owner, LockMode::Fair).await;
        owner = next.expect_granted().await.owner;
    }
    assert_eq!(made(), [WAITERS, 0, 0]);
    client.give_back("a", &owner, LockMode::Fair).await;
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_fair_lock_whose_next_owner_waits_elsewhere_is_released_and_seldom_offered() {
    let (faults, world) = World::faulty_with(&Options::with(|it| it.coordinators = 2));
    let (mut client, mut elsewhere) = (world.client(0).await, world.client(1).await);
    let mut calls = line_up_fairly(&world, &mut [&mut client, &mut elsewhere]).await;
    let made = made(&faults, FAIR);
    let mut owner = "holder".to_owned();
    for (at, next) in calls.iter_mut().enumerate() {
        let holder = if at % 2 == 1 {
            &mut client
        } else {
            &mut elsewhere
        };
        holder.give_back("a", &owner, LockMode::Fair).await;
        owner = next.expect_granted().await.owner;
    }
    let [offered, released, _] = made();
    assert_eq!(released, WAITERS);
    assert!(offered > 0 && offered <= WAITERS / 16 + 2, "{offered}");
}

#[tokio::test(start_paused = true)]
async fn a_fair_hand_over_whose_answer_is_lost_is_undone_and_the_next_one_gets_it() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up_fairly(&world, &mut [&mut client]).await;
    faults.lose_answers("lock_hand_on", 1);
    let released = client.release_with(release("a", "holder", LockMode::Fair));
    released.await.unwrap_err();
    let second = calls[1].expect_granted().await;
    client.give_back("a", &second.owner, LockMode::Fair).await;
    let third = calls[2].expect_granted().await;
    assert!(third.fencing_token > second.fencing_token);
}

/// Calls that wait in the queue behind a holder, by turns at these clients.
async fn line_up_fairly(world: &World, clients: &mut [&mut Client]) -> Vec<Call> {
    let first = try_request("a", "holder").in_mode(LockMode::Fair);
    assert!(clients[0].tries(first).await);
    let mut calls = Vec::new();
    for at in 0..WAITERS {
        let of = at % clients.len();
        let request = asking(at, wait("a", "", LockMode::Fair));
        calls.push(clients[of].waits(request).await);
        world.until_waiting(of, at / clients.len() + 1).await;
    }
    // Their attempts, which they make when they are subscribed, are over.
    tokio::time::sleep(millis(10)).await;
    calls
}

/// Calls in these modes that wait behind a writer, in this order.
async fn line_up_behind_a_writer(
    world: &World,
    client: &mut Client,
    modes: &[LockMode],
) -> Vec<Call> {
    let first = try_request("a", "holder").in_mode(LockMode::Write);
    assert!(client.tries(first).await);
    line_up_in(world, client, modes).await
}

/// Calls in these modes that wait, in this order.
async fn line_up_in(world: &World, client: &mut Client, modes: &[LockMode]) -> Vec<Call> {
    let mut calls = Vec::new();
    for (at, mode) in modes.iter().enumerate() {
        calls.push(client.waits(asking(at, wait("a", "", *mode))).await);
        world.until_waiting(0, at + 1).await;
    }
    // Their attempts, which they make when they are subscribed, are over.
    tokio::time::sleep(millis(10)).await;
    calls
}

#[tokio::test(start_paused = true)]
async fn a_write_lock_is_handed_on_in_one_call_and_now_and_then_it_is_the_turn_of_others() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up_behind_a_writer(&world, &mut client, &[LockMode::Write; 40]).await;
    faults.set_answer_delay(Duration::ZERO);
    let made = made(&faults, WRITE);
    let (mut owner, mut token) = ("holder".to_owned(), 0);
    for next in calls.iter_mut().take(34) {
        client.give_back("a", &owner, LockMode::Write).await;
        let grant = next.expect_granted().await;
        assert!(grant.fencing_token > token, "{grant:?}");
        (owner, token) = (grant.owner, grant.fencing_token);
    }
    // Each 17th is a release that is published, and an attempt.
    assert_eq!(made(), [32, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_came_before_the_next_writer_gets_its_turn() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let modes = [LockMode::Read, LockMode::Write, LockMode::Read];
    let mut calls = line_up_behind_a_writer(&world, &mut client, &modes).await;
    client.give_back("a", "holder", LockMode::Write).await;
    let first = calls[0].expect_granted().await;
    client.give_back("a", &first.owner, LockMode::Read).await;
    let writer = calls[1].expect_granted().await;
    assert_eq!(faults.calls("lock_hand_on"), 0);
    client.give_back("a", &writer.owner, LockMode::Write).await;
    calls[2].expect_granted().await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_a_write_lock_whose_answer_is_lost_is_undone_and_the_next_one_gets_it() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let mut calls = line_up_behind_a_writer(&world, &mut client, &[LockMode::Write; 3]).await;
    faults.lose_answers("lock_hand_on", 1);
    let released = client.release_with(release("a", "holder", LockMode::Write));
    released.await.unwrap_err();
    let second = calls[1].expect_granted().await;
    client.give_back("a", &second.owner, LockMode::Write).await;
    let third = calls[2].expect_granted().await;
    assert!(third.fencing_token > second.fencing_token);
}

/// The owners that read.
async fn read(client: &mut Client, readers: usize) -> Vec<String> {
    let owners: Vec<_> = (0..readers).map(|reader| format!("r{reader}")).collect();
    for owner in &owners {
        let request = try_request("a", owner).in_mode(LockMode::Read);
        assert!(client.tries(request).await);
    }
    owners
}

#[tokio::test(start_paused = true)]
async fn the_last_of_many_readers_gives_the_lock_to_a_writer_in_one_call() {
    const READERS: usize = 20;
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    for turn in 0..3 {
        let readers = read(&mut client, READERS).await;
        let mut writers = line_up_in(&world, &mut client, &[LockMode::Write; 2]).await;
        faults.set_answer_delay(Duration::ZERO);
        let made = made(&faults, TO_A_WRITER);
        for reader in &readers {
            client.give_back("a", reader, LockMode::Read).await;
        }
        let first = writers[0].expect_granted().await;
        // The first release asks who else reads, and the last one gives the lock.
        let expected = [2, READERS - 1, 0];
        assert_eq!(made(), expected, "{turn}");
        client.give_back("a", &first.owner, LockMode::Write).await;
        let second = writers[1].expect_granted().await;
        assert!(second.fencing_token > first.fencing_token);
        client.give_back("a", &second.owner, LockMode::Write).await;
        faults.set_answer_delay(millis(1));
    }
    world.expect_nothing_left(&["a"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_the_last_reader_whose_answer_is_lost_is_undone_and_the_next_one_gets_it() {
    let (faults, world) = distant();
    let mut client = world.client(0).await;
    let readers = read(&mut client, 1).await;
    let mut writers = line_up_in(&world, &mut client, &[LockMode::Write; 2]).await;
    faults.lose_answers("read_hand_on", 1);
    let released = client.release_with(release("a", &readers[0], LockMode::Read));
    released.await.unwrap_err();
    let second = writers[1].expect_granted().await;
    client.give_back("a", &second.owner, LockMode::Write).await;
    world.expect_nothing_left(&["a"]).await;
}
