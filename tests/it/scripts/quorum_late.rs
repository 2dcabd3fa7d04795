//! What comes late to one store of a quorum: it brings that store in line with the others, and
//! leaves alone what the owner has acquired since.

use lockkeeper_store::script::{Acquired, Attempt, Hold, Mode, Refusal, Released, Scripts, keys};

use super::quorum::{EXCLUSIVE, Quorum, attempt, takes};
use crate::support::{Faults, eventually, expect, millis, secs};

const LEASE: std::time::Duration = secs(7200);

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

/// It keeps the other hold. With a request id it knows the request, so that a repeat does not
/// release that one.
#[tokio::test(start_paused = true)]
async fn a_store_that_missed_a_release_keeps_the_holds_that_are_left() {
    for request_id in [None, Some("r1")] {
        let stores = Quorum::new(3);
        let serial = takes_twice(&stores.scripts).await;
        stores.faults[2].set_unavailable(true);
        assert_eq!(releases(&stores.scripts, serial, request_id).await, 1);
        stores.faults[2].set_unavailable(false);
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
    // Long enough for what is sent again.
    tokio::time::sleep(secs(5)).await;
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
