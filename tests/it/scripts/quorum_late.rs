//! What comes late to one store of a quorum: it brings that store in line with the others, and
//! leaves alone what the owner has acquired since.

use lockkeeper_store::script::{
    Acquired, Attempt, CallError, Hold, Holder, Mode, Refusal, Released, Scripts, keys,
};
use tokio::time::{Instant, timeout};

use super::quorum::{EXCLUSIVE, Quorum, WRITE, attempt, takes};
use crate::support::{Faults, eventually, expect, millis, secs};

const LEASE: std::time::Duration = secs(7200);
/// Longer than any pause before something is sent again: what was to come has come.
const PAUSES: std::time::Duration = secs(5);

/// Two holds of one grant; its serial.
async fn takes_twice(scripts: &Scripts) -> u64 {
    let first = attempt("a1");
    let acquired = scripts.acquire(EXCLUSIVE, LEASE, &first, Refusal::Forgotten);
    let serial = expect!(acquired.await.unwrap(), Acquired::Granted { serial, .. } => serial);
    let again = Attempt {
        known_holds: Some(1),
        serial: Some(serial),
        ..Attempt::new("a2", 2)
    };
    let acquired = scripts.acquire(EXCLUSIVE, LEASE, &again, Refusal::Forgotten);
    let holds =
        expect!(acquired.await.unwrap(), Acquired::Granted { hold_count, .. } => hold_count);
    assert_eq!(holds, 2);
    serial
}

/// The holds that one store has.
async fn holds(store: &Scripts) -> u32 {
    let seen = store.inspect("a", 1).await.unwrap();
    seen.holders.iter().map(|it| it.hold_count).sum()
}

/// Gives one hold of the grant back. Returns how many are left.
async fn releases(scripts: &Scripts, serial: u64, request_id: Option<&str>) -> u32 {
    let released = scripts.release(EXCLUSIVE, Some(serial), LEASE, request_id);
    expect!(released.await.unwrap(), Released::Done { hold_count, .. } => hold_count)
}

/// An undo whose caller knows neither a record nor a serial.
#[tokio::test(start_paused = true)]
async fn an_undo_that_comes_late_leaves_a_newer_grant_alone() {
    let stores = Quorum::new(3);
    let away = &stores.faults[2];
    away.set_unavailable(true);
    takes(&stores.scripts, EXCLUSIVE).await;
    let undone = stores.scripts.undo(EXCLUSIVE, &attempt("a1")).await;
    assert_eq!(undone, Ok(true));
    eventually("the undo is sent again", || async {
        away.calls("lock_undo") == 2
    })
    .await;
    away.set_unavailable(false);
    let newer = attempt("a2");
    let acquired = stores
        .scripts
        .acquire(EXCLUSIVE, LEASE, &newer, Refusal::Forgotten);
    assert!(matches!(acquired.await, Ok(Acquired::Granted { .. })));
    let before = away.calls("lock_undo");
    eventually("the undo has come", || async {
        away.calls("lock_undo") > before
    })
    .await;
    assert_eq!(stores.with(b"a"), 3);
}

/// A quorum with one of two holds released, which the last store missed, and their serial.
async fn missed_one_of_two(request_id: Option<&str>) -> (Quorum, u64) {
    let stores = Quorum::new(3);
    let serial = takes_twice(&stores.scripts).await;
    stores.faults[2].set_unavailable(true);
    assert_eq!(releases(&stores.scripts, serial, request_id).await, 1);
    stores.faults[2].set_unavailable(false);
    (stores, serial)
}

/// It keeps the other hold. With a request id it knows the request, so that a repeat does not
/// release that one.
#[tokio::test(start_paused = true)]
async fn a_store_that_missed_a_release_keeps_the_holds_that_are_left() {
    for request_id in [None, Some("r1")] {
        let (stores, serial) = missed_one_of_two(request_id).await;
        let store = &stores.each[2];
        eventually("it is repaired", || async { holds(store).await != 2 }).await;
        assert_eq!(holds(store).await, 1, "{request_id:?}");
        if request_id.is_some() {
            assert_eq!(releases(&stores.scripts, serial, request_id).await, 1);
            assert_eq!(holds(store).await, 1);
        }
    }
}

/// Otherwise it would keep the lock from others until the lease ends.
#[tokio::test(start_paused = true)]
async fn a_store_that_missed_a_release_for_too_long_has_no_hold_left_after_the_last() {
    let stores = Quorum::new(3);
    let serial = takes_twice(&stores.scripts).await;
    stores.faults[2].set_unavailable(true);
    assert_eq!(releases(&stores.scripts, serial, Some("r1")).await, 1);
    tokio::time::sleep(secs(3600)).await;
    stores.faults[2].set_unavailable(false);
    assert_eq!(
        holds(&stores.each[2]).await,
        2,
        "it is not repaired any more"
    );
    assert_eq!(releases(&stores.scripts, serial, Some("r2")).await, 0);
    eventually("it is free there too", || async { stores.with(b"a") == 0 }).await;
}

/// The same of a grant whose serial is not known, unless its owner has acquired the lock again.
#[tokio::test(start_paused = true)]
async fn a_store_that_missed_releases_of_an_unknown_grant_has_no_hold_left_after_the_last() {
    for acquires_again in [false, true] {
        let stores = Quorum::new(3);
        let acquire = async |attempt| {
            let own = Attempt::new(attempt, 1);
            let scripts = &stores.scripts;
            let acquired = scripts.acquire(EXCLUSIVE, LEASE, &own, Refusal::Forgotten);
            expect!(acquired.await.unwrap(), Acquired::Granted { hold_count, .. } => hold_count)
        };
        let release = async || {
            let released = stores.scripts.release(EXCLUSIVE, None, LEASE, None);
            expect!(released.await.unwrap(), Released::Done { hold_count, .. } => hold_count)
        };
        for (attempt, expected) in [("a1", 1), ("a2", 2), ("a3", 3)] {
            assert_eq!(acquire(attempt).await, expected);
        }
        stores.faults[2].set_unavailable(true);
        assert_eq!((release().await, release().await), (2, 1));
        tokio::time::sleep(secs(3600)).await;
        stores.faults[2].set_unavailable(false);
        assert_eq!(release().await, 0);
        if acquires_again {
            assert_eq!(acquire("a4").await, 1);
            tokio::time::sleep(PAUSES).await;
            assert_eq!(stores.with(b"a"), 3);
            assert_eq!(release().await, 0);
        }
        eventually("it is free there too", || async { stores.with(b"a") == 0 }).await;
    }
}

/// A vote that decided nothing is taken back, also where that is not heard at first.
#[tokio::test(start_paused = true)]
async fn a_vote_is_taken_back_until_the_store_answers() {
    let stores = Quorum::new(3);
    for other in &stores.each[..2] {
        takes(other, Hold::new("a", Mode::Exclusive, "other")).await;
    }
    stores.faults[2].lose_requests("lock_undo", 1);
    let own = attempt("a1");
    let tried = stores
        .scripts
        .acquire(EXCLUSIVE, secs(60), &own, Refusal::Forgotten);
    assert!(matches!(tried.await, Ok(Acquired::Busy { .. })));
    assert_eq!(stores.with(b"a"), 3);
    eventually("it is taken back", || async { stores.with(b"a") == 2 }).await;
}

/// Otherwise it would stay as long as the holds that it was added to, and a release would not free
/// the lock there.
#[tokio::test(start_paused = true)]
async fn a_hold_with_a_short_lease_is_withdrawn_after_a_longer_absence_of_the_stores() {
    let exclusive = (Mode::Exclusive, "lock_acquire", "lock_undo");
    for ((mode, acquire, undo), known_holds, request_id) in [
        (exclusive, Some(1), None),
        (exclusive, None, None),
        (exclusive, Some(1), Some("r1")),
        ((Mode::Read, "read_acquire", "read_undo"), Some(1), None),
        ((Mode::Write, "write_acquire", "write_undo"), Some(1), None),
    ] {
        let stores = Quorum::new(3);
        let hold = Hold::new("a", mode, "x");
        let serial = takes(&stores.scripts, hold).await;
        let short = Attempt {
            known_holds,
            serial: known_holds.map(|_| serial),
            request_id,
            ..Attempt::new("a2", 2)
        };
        for faults in &stores.faults[1..] {
            faults.lose_answers(acquire, 1);
            faults.lose_requests(undo, 7);
        }
        let acquired = stores
            .scripts
            .acquire(hold, secs(1), &short, Refusal::Forgotten);
        expect!(acquired.await, Err(CallError::Unavailable(_)) => ());
        let begun = Instant::now();
        eventually("it is withdrawn", || async {
            let mut left = Vec::new();
            for store in &stores.each {
                left.push(holds(store).await);
            }
            left == [1; 3]
        })
        .await;
        let took = begun.elapsed();
        assert!(secs(1) < took && took < secs(30), "{mode:?}: {took:?}");
    }
}

/// What it would do has been done at the other one.
#[tokio::test(start_paused = true)]
async fn nothing_is_sent_later_to_a_store_that_is_another_one() {
    let stores = Quorum::new(3);
    for (faults, server) in stores.faults.iter().zip(["one", "two", "one"]) {
        faults.identify(server);
    }
    let serial = takes_twice(&stores.scripts).await;
    for left in [1, 0] {
        assert_eq!(releases(&stores.scripts, serial, None).await, left);
        let undone = stores.scripts.lower(EXCLUSIVE, serial, left, LEASE).await;
        assert_eq!(undone, Ok(false));
    }
    tokio::time::sleep(PAUSES).await;
    let sent = |faults: &Faults| ["lock_release", "lock_undo"].map(|it| faults.calls(it));
    assert_eq!(sent(&stores.faults[0]), [2, 2]);
    assert_eq!(sent(&stores.faults[2]), [0, 0]);
}

/// A counter that another program has raised since the vote does not show the token of the grant.
#[tokio::test(start_paused = true)]
async fn a_counter_that_was_raised_meanwhile_does_not_confirm_a_grant() {
    let counter = keys::counter("a").to_bytes();
    for (raised, is_granted) in [(&[0][..], true), (&[0, 2], false)] {
        let stores = Quorum::new(3);
        let set = |at: usize, value: &[u8]| {
            let set = [b"SET".as_slice(), &counter, value];
            stores.stores[at].command(&set).unwrap();
        };
        set(1, b"4000000000000000");
        for faults in &stores.faults {
            faults.set_answer_delay(millis(10));
        }
        let own = attempt("a1");
        let acquired = stores
            .scripts
            .acquire(EXCLUSIVE, secs(60), &own, Refusal::Forgotten);
        let raise = async {
            tokio::time::sleep(millis(5)).await;
            for at in raised {
                set(*at, b"5000000000000000");
            }
        };
        let (acquired, ()) = tokio::join!(acquired, raise);
        match acquired.unwrap() {
            Acquired::Granted { token, .. } => {
                assert!(is_granted && token < 5_000_000_000_000_000, "{token}");
            }
            Acquired::Busy { .. } => assert!(!is_granted),
        }
    }
}

/// What an owner without a known grant has on a lock, that of one store being a release late.
struct Late {
    stores: Quorum,
    hold: Hold<'static>,
    /// Its acquires so far.
    acquires: u64,
}

impl Late {
    /// The store is away while the owner releases the lock, and forgets what it had.
    async fn release(mode: Mode) -> Self {
        let mut late = Self {
            stores: Quorum::new(3),
            hold: Hold::new("a", mode, "x"),
            acquires: 0,
        };
        assert!(late.is_granted().await);
        late.stores.faults[2].set_unavailable(true);
        let scripts = &late.stores.scripts;
        let released = scripts.release(late.hold, None, LEASE, None).await;
        assert!(matches!(released, Ok(Released::Done { held: 0, .. })));
        late.stores.stores[2]
            .command(&[b"DEL".as_slice(), b"a"])
            .unwrap();
        eventually("it is sent again", || async { late.sent() >= 2 }).await;
        late.stores.faults[2].set_unavailable(false);
        late
    }

    async fn is_granted(&mut self) -> bool {
        self.acquires += 1;
        let id = format!("a{}", self.acquires);
        let own = Attempt::new(&id, self.acquires);
        let scripts = &self.stores.scripts;
        let acquired = scripts.acquire(self.hold, LEASE, &own, Refusal::Forgotten);
        matches!(acquired.await, Ok(Acquired::Granted { .. }))
    }

    /// How often the store was sent the release.
    fn sent(&self) -> usize {
        let scripts = ["lock_release", "read_release", "write_release"];
        scripts
            .map(|it| self.stores.faults[2].calls(it))
            .iter()
            .sum()
    }
}

/// The same of a release whose caller knows no serial.
#[tokio::test(start_paused = true)]
async fn a_release_that_comes_late_leaves_a_newer_grant_alone() {
    for mode in [Mode::Exclusive, Mode::Read, Mode::Write] {
        let mut late = Late::release(mode).await;
        assert!(late.is_granted().await);
        let before = late.sent();
        tokio::time::sleep(PAUSES).await;
        assert_eq!(late.stores.with(b"a"), 3, "{mode:?}");
        assert_eq!(late.sent(), before);
    }
}

/// One store votes at once, and the others are slow.
#[tokio::test(start_paused = true)]
async fn nothing_that_is_late_is_sent_during_an_acquire() {
    for is_granted in [true, false] {
        let mut late = Late::release(Mode::Exclusive).await;
        for faults in &late.stores.faults[..2] {
            faults.set_answer_delay(secs(5));
        }
        if !is_granted {
            let other = Hold::new("a", Mode::Exclusive, "other");
            for store in &late.stores.each[..2] {
                takes(store, other).await;
            }
        }
        assert_eq!(late.is_granted().await, is_granted);
        assert_eq!(late.stores.with(b"a"), if is_granted { 3 } else { 2 });
        let before = late.sent();
        tokio::time::sleep(PAUSES).await;
        assert_eq!(late.sent() > before, !is_granted);
    }
}

/// Otherwise the store would keep an older hold until its lease ends.
#[tokio::test(start_paused = true)]
async fn what_is_late_comes_in_spite_of_acquires_that_do_not_supersede_it() {
    for what in ["refused", "dropped", "other owner", "other lock", "read"] {
        let stores = Quorum::new(3);
        takes(&stores.scripts, WRITE).await;
        stores.faults[2].set_unavailable(true);
        let released = stores.scripts.release(WRITE, None, LEASE, None).await;
        assert!(matches!(released, Ok(Released::Done { held: 0, .. })));
        stores.faults[2].set_unavailable(false);
        let own = attempt("a2");
        let hold = match what {
            "other owner" => Hold::new("a", Mode::Write, "other"),
            "other lock" => Hold::new("b", Mode::Write, "x"),
            "read" => Hold::new("a", Mode::Read, "x"),
            _ => WRITE,
        };
        if what == "refused" {
            for store in &stores.each[..2] {
                takes(store, Hold::new("a", Mode::Write, "other")).await;
            }
        }
        if what == "dropped" {
            stores.faults[0].set_answer_delay(secs(60));
        }
        let acquired = stores
            .scripts
            .acquire(hold, LEASE, &own, Refusal::Forgotten);
        match timeout(secs(1), acquired).await {
            Ok(acquired) => {
                let is_granted = matches!(acquired, Ok(Acquired::Granted { .. }));
                assert_eq!(is_granted, what != "refused", "{what}");
            }
            Err(_elapsed) => assert_eq!(what, "dropped"),
        }
        let (store, begun) = (&stores.each[2], Instant::now());
        eventually(what, || async {
            let seen = store.inspect("a", 9).await.unwrap();
            let left = |it: &Holder| it.mode == Mode::Write && *it.owner == *b"x";
            !seen.holders.iter().any(left)
        })
        .await;
        assert!(begun.elapsed() < secs(30), "{what}: its lease ended there");
    }
}

/// A store that missed the release of one of two holds has as many as the others after the next
/// acquire.
#[tokio::test(start_paused = true)]
async fn what_lowers_the_holds_late_leaves_one_that_was_added_since() {
    for request_id in [None, Some("r1")] {
        let (stores, serial) = missed_one_of_two(request_id).await;
        let again = Attempt {
            known_holds: Some(1),
            serial: Some(serial),
            ..Attempt::new("a3", 3)
        };
        let acquired = stores
            .scripts
            .acquire(EXCLUSIVE, LEASE, &again, Refusal::Forgotten);
        assert!(matches!(
            acquired.await,
            Ok(Acquired::Granted { hold_count: 2, .. })
        ));
        tokio::time::sleep(PAUSES).await;
        for store in &stores.each {
            assert_eq!(holds(store).await, 2, "{request_id:?}");
        }
        // What is late after that is sent again.
        stores.faults[2].set_unavailable(true);
        assert_eq!(
            releases(&stores.scripts, serial, request_id.map(|_| "r2")).await,
            1
        );
        stores.faults[2].set_unavailable(false);
        let store = &stores.each[2];
        eventually("it is repaired", || async { holds(store).await == 1 }).await;
    }
}
