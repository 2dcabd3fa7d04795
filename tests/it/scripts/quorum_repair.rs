//! Stores of a quorum that miss calls, or stop answering: what is made up for, and what is not.

use lockkeeper_store::{
    host::{Value, embedded::EmbeddedStore},
    script::{Acquired, Attempt, CallError, Hold, Member, Members, Mode, Refusal, Released, keys},
};
use tokio::time::Instant;

use super::quorum::{EXCLUSIVE, Quorum, attempt, renewal, takes};
use crate::support::{Faults, eventually, expect, millis, secs};

/// What one store has missed is made up for when it answers again.
#[tokio::test(start_paused = true)]
async fn a_store_that_missed_a_release_or_an_undo_is_sent_it_later() {
    for what in ["release of a grant", "release", "undo"] {
        let stores = Quorum::new(3);
        let serial = takes(&stores.scripts, EXCLUSIVE).await;
        assert_eq!(stores.with(b"a"), 3);
        stores.faults[2].set_unavailable(true);
        if what == "undo" {
            let own = Attempt {
                request_id: Some("a1"),
                ..attempt("a1")
            };
            assert!(stores.scripts.undo(EXCLUSIVE, &own).await.unwrap());
        } else {
            let serial = (what == "release of a grant").then_some(serial);
            let released = stores.scripts.release(EXCLUSIVE, serial, secs(60), None);
            let released = released.await.unwrap();
            assert!(
                matches!(released, Released::Done { held: 0, .. }),
                "{released:?}"
            );
        }
        assert_eq!(stores.with(b"a"), 1, "{what}");
        stores.faults[2].set_unavailable(false);
        let heals = Instant::now();
        eventually(what, || async { stores.with(b"a") == 0 }).await;
        assert!(heals.elapsed() < secs(30), "{what}: its lease ended there");
        // Each release is one of its own.
        let again = attempt("a2");
        let acquired = stores
            .scripts
            .acquire(EXCLUSIVE, secs(60), &again, Refusal::Forgotten);
        assert!(matches!(acquired.await, Ok(Acquired::Granted { .. })));
        let released = stores.scripts.release(EXCLUSIVE, None, secs(60), None);
        released.await.unwrap();
        assert_eq!(stores.with(b"a"), 0);
    }
}

/// A release is of use as long as the lease: until then the store would keep the lock from others.
#[tokio::test(start_paused = true)]
async fn a_release_is_sent_until_the_lease_is_over() {
    for request_id in [None, Some("r1")] {
        let stores = Quorum::new(3);
        let lease = secs(7200);
        let first = attempt("a1");
        let acquired = stores
            .scripts
            .acquire(EXCLUSIVE, lease, &first, Refusal::Forgotten);
        let serial = expect!(acquired.await.unwrap(), Acquired::Granted { serial, .. } => serial);
        stores.faults[2].set_unavailable(true);
        let release = || {
            let scripts = &stores.scripts;
            scripts.release(EXCLUSIVE, Some(serial), lease, request_id)
        };
        release().await.unwrap();
        if request_id.is_some() {
            let again = release().await.unwrap();
            assert!(
                matches!(again, Released::Done { hold_count: 0, .. }),
                "{again:?}"
            );
        }
        tokio::time::sleep(secs(3600)).await;
        stores.faults[2].set_unavailable(false);
        eventually("it is repaired", || async { stores.with(b"a") == 0 }).await;
    }
}

/// The same of an undo, by its record or by the serial.
#[tokio::test(start_paused = true)]
async fn an_undo_is_sent_until_the_lease_is_over() {
    for (request_id, is_lowered) in [(None, true), (None, false), (Some("r1"), false)] {
        let stores = Quorum::new(3);
        let lease = secs(7200);
        let first = Attempt {
            request_id,
            ..attempt("a1")
        };
        let acquired = stores
            .scripts
            .acquire(EXCLUSIVE, lease, &first, Refusal::Forgotten);
        let serial = expect!(acquired.await.unwrap(), Acquired::Granted { serial, .. } => serial);
        stores.faults[2].set_unavailable(true);
        let undone = if is_lowered {
            stores.scripts.lower(EXCLUSIVE, serial, 0, lease).await
        } else {
            let own = Attempt {
                request_id: request_id.or(Some("a1")),
                known_holds: Some(0),
                serial: Some(serial),
                lease,
                ..attempt("a1")
            };
            stores.scripts.undo(EXCLUSIVE, &own).await
        };
        assert_eq!(undone, Ok(true));
        tokio::time::sleep(secs(3600)).await;
        stores.faults[2].set_unavailable(false);
        eventually("it is repaired", || async { stores.with(b"a") == 0 }).await;
    }
}

/// A store that is away for long is called for few of the releases that it has missed, and when it
/// is back, the calls do not come all at once.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_sent_what_it_missed_when_it_is_back() {
    for is_silent in [true, false] {
        let stores = Quorum::new(3);
        let names: Vec<_> = (0..500).map(|n| format!("name {n}")).collect();
        let mut serials = Vec::new();
        for name in &names {
            let hold = Hold::new(name, Mode::Exclusive, "owner");
            serials.push(takes(&stores.scripts, hold).await);
        }
        let away = &stores.faults[2];
        if is_silent {
            away.freeze();
        } else {
            away.set_unavailable(true);
        }
        for (name, serial) in names.iter().zip(serials) {
            let hold = Hold::new(name, Mode::Exclusive, "owner");
            let released = stores.scripts.release(hold, Some(serial), secs(60), None);
            released.await.unwrap();
        }
        let before = away.calls("lock_undo");
        // Four pauses of the longest kind, and the shorter ones before.
        tokio::time::sleep(secs(5)).await;
        let calls = away.calls("lock_undo") - before;
        assert!(calls <= 16 * 10, "{is_silent}: {calls}");
        away.thaw();
        away.set_unavailable(false);
        eventually("all is repaired", || async {
            names.iter().all(|name| stores.with(name.as_bytes()) == 0)
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_of_what_never_ran_changes_nothing() {
    let stores = Quorum::new(3);
    let own = Attempt {
        request_id: Some("a1"),
        ..attempt("a1")
    };
    assert!(!stores.scripts.undo(EXCLUSIVE, &own).await.unwrap());
}

/// A hold that only a minority has is taken back there, before the caller hears that it has lost.
#[tokio::test(start_paused = true)]
async fn who_has_no_majority_gives_back_what_it_got() {
    let stores = Quorum::new(3);
    for other in &stores.each[..2] {
        takes(other, Hold::new("a", Mode::Exclusive, "other")).await;
    }
    let other = attempt("a2");
    let tried = stores
        .scripts
        .acquire(EXCLUSIVE, secs(60), &other, Refusal::Forgotten);
    let remaining = expect!(tried.await.unwrap(), Acquired::Busy { remaining, .. } => remaining);
    assert_eq!(remaining, Some(secs(60)));
    assert_eq!(stores.with(b"a"), 2);
    tokio::time::sleep(secs(1)).await;
    let asked = stores.faults.iter().map(|it| it.calls("lock_undo"));
    assert_eq!(asked.collect::<Vec<_>>(), [0, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_back_from_who_refused() {
    let stores = Quorum::new(3);
    let other = Hold::new("a", Mode::Exclusive, "other");
    takes(&stores.each[0], other).await;
    takes(&stores.scripts, EXCLUSIVE).await;
    tokio::time::sleep(secs(1)).await;
    assert!(stores.faults.iter().all(|it| it.calls("lock_undo") == 0));
}

#[tokio::test(start_paused = true)]
async fn stores_whose_counters_agree_are_asked_once() {
    let stores = Quorum::new(3);
    takes(&stores.scripts, EXCLUSIVE).await;
    assert!(stores.faults.iter().all(|it| it.calls("lock_raise") == 0));
}

#[tokio::test(start_paused = true)]
async fn locks_that_were_given_back_before_the_stores_went_away_leave_the_rest_unknown() {
    let locks = ["a", "b"].map(|name| Member {
        name,
        mode: Mode::Exclusive,
        known_holds: None,
        serial: None,
    });
    let members = Members {
        owner: "x",
        locks: &locks,
    };
    for first_is_answered in [true, false] {
        let stores = Quorum::new(3);
        for name in ["a", "b"] {
            takes(&stores.scripts, Hold::new(name, Mode::Exclusive, "x")).await;
        }
        let goes_away = async {
            if first_is_answered {
                tokio::time::sleep(secs(1)).await;
            }
            stores.faults.iter().for_each(|it| it.set_unavailable(true));
        };
        for faults in &stores.faults {
            faults.set_answer_delay(secs(2));
        }
        let leases = [secs(60), secs(60)];
        let released = stores.scripts.release_all(members, &leases, None);
        let released = if first_is_answered {
            futures::future::join(released, goes_away).await.0
        } else {
            goes_away.await;
            released.await
        };
        let error = released.unwrap_err();
        let is_unknown = matches!(error, CallError::OutcomeUnknown(_));
        assert_eq!(is_unknown, first_is_answered, "{error:?}");
    }
}

/// Where a store did not answer a vote, it must not keep a hold that nobody renews.
#[tokio::test(start_paused = true)]
async fn a_vote_that_was_not_heard_is_withdrawn() {
    let stores = Quorum::new(3);
    stores.faults[0].lose_answers("lock_acquire", 1);
    takes(&stores.scripts, EXCLUSIVE).await;
    let granted = Instant::now();
    eventually("it is withdrawn", || async { stores.with(b"a") == 2 }).await;
    assert!(granted.elapsed() < secs(30));
}

/// An owner without a session would add a hold to it, and keep that when it releases the lock.
#[tokio::test(start_paused = true)]
async fn what_frozen_stores_grant_after_the_lease_is_withdrawn() {
    let stores = Quorum::new(3);
    let acquire = async |attempt| {
        let attempt = Attempt::new(attempt, 1);
        let scripts = &stores.scripts;
        scripts
            .acquire(EXCLUSIVE, secs(1), &attempt, Refusal::Forgotten)
            .await
    };
    stores.faults.iter().for_each(Faults::freeze);
    expect!(acquire("a1").await, Err(CallError::Unavailable(_)) => ());
    tokio::time::sleep(secs(5)).await;
    stores.faults.iter().for_each(Faults::thaw);
    // They do what they were sent meanwhile.
    tokio::time::sleep(millis(1)).await;
    let granted = acquire("a2").await.unwrap();
    assert_eq!(
        expect!(granted, Acquired::Granted { hold_count, .. } => hold_count),
        1
    );
    assert_eq!(stores.with(b"a"), 3);
}

/// A majority of the stores has the token of a grant before the caller gets it.
#[tokio::test(start_paused = true)]
async fn a_majority_shows_the_token_of_a_grant() {
    let stores = Quorum::new(3);
    let counter = keys::counter("a").to_bytes();
    let ahead = b"4000000000000000";
    stores.stores[1]
        .command(&[b"SET".as_slice(), &counter, ahead])
        .unwrap();
    let token = takes(&stores.scripts, EXCLUSIVE).await;
    assert!(token > 4_000_000_000_000_000);
    let shown = |store: &&EmbeddedStore| {
        let value = store.command(&[b"GET".as_slice(), &counter]).unwrap();
        value == Value::Bytes(token.to_string().into())
    };
    assert!(stores.stores.iter().filter(shown).count() >= 2);
    for (unheard, is_granted) in [(&[0][..], true), (&[0, 2], false)] {
        let stores = Quorum::new(3);
        let set = [b"SET".as_slice(), &counter, ahead];
        stores.stores[1].command(&set).unwrap();
        for at in unheard {
            stores.faults[*at].lose_requests("lock_raise", 1);
        }
        let own = attempt("a1");
        let acquired = stores
            .scripts
            .acquire(EXCLUSIVE, secs(60), &own, Refusal::Forgotten);
        assert_eq!(acquired.await.is_ok(), is_granted, "{unheard:?}");
    }
}

/// Nothing is sent for longer than a grant that it is about could last.
#[tokio::test(start_paused = true)]
async fn what_a_store_missed_is_not_sent_for_ever() {
    let stores = Quorum::new(3);
    let down = &stores.faults[2];
    down.lose_answers("lock_acquire", 1);
    down.lose_requests("lock_undo", usize::MAX);
    takes(&stores.scripts, EXCLUSIVE).await;
    let sent = || down.calls("lock_undo");
    tokio::time::sleep(secs(30)).await;
    let halfway = sent();
    assert!(halfway > 1, "{halfway}");
    tokio::time::sleep(secs(90)).await;
    let all = sent();
    assert!(all > halfway, "{all}");
    tokio::time::sleep(secs(90)).await;
    assert_eq!(sent(), all);
}

/// No call waits for a store that has stopped answering, as long as a majority does answer.
#[tokio::test(start_paused = true)]
async fn a_silent_store_is_passed_over_until_it_answers() {
    let stores = Quorum::new(3);
    let (silent, asked) = (&stores.faults[2], "lock_inspect");
    let looks = async || {
        let begun = Instant::now();
        stores.scripts.inspect("a", 1).await.unwrap();
        begun.elapsed()
    };
    takes(&stores.scripts, EXCLUSIVE).await;
    silent.freeze();
    assert!(!looks().await.is_zero());
    // It is asked now and then whether it answers again.
    tokio::time::sleep(millis(5_100)).await;
    let before = silent.calls(asked);
    assert!(looks().await.is_zero());
    assert_eq!(silent.calls(asked), before);
    // But what it holds should not end.
    let renewals = silent.calls("lock_renew");
    let renewed = stores.scripts.renew(&[renewal()]).await;
    assert!(renewed.error.is_none());
    tokio::time::sleep(millis(1)).await;
    assert!(silent.calls("lock_renew") > renewals);
    silent.thaw();
    eventually("it is asked again", || async {
        looks().await;
        silent.calls(asked) > before
    })
    .await;
}

/// Otherwise one server could be a majority.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_two_stores_has_one_vote() {
    let stores = Quorum::new(3);
    for (faults, server) in stores.faults.iter().zip(["one", "two", "one"]) {
        faults.identify(server);
    }
    takes(&stores.scripts, EXCLUSIVE).await;
    assert_eq!(stores.with(b"a"), 2);
    stores.faults[1].set_unavailable(true);
    let refused = stores.scripts.inspect("a", 1).await.unwrap_err();
    let why = expect!(refused, CallError::Unavailable);
    assert!(why.starts_with("1 of 3 stores answered"), "{why}");
}

/// Which server it is may be known only when it has answered.
#[tokio::test(start_paused = true)]
async fn a_server_that_turns_out_to_be_two_stores_has_one_vote() {
    let stores = Quorum::new(3);
    stores.faults[1].set_unavailable(true);
    let identify = async {
        tokio::time::sleep(millis(5)).await;
        for which in [0, 2] {
            stores.faults[which].identify("one");
        }
    };
    for faults in &stores.faults {
        faults.set_answer_delay(millis(10));
    }
    let attempt = attempt("a1");
    let scripts = &stores.scripts;
    let acquire = scripts.acquire(EXCLUSIVE, secs(10), &attempt, Refusal::Forgotten);
    let (acquired, ()) = tokio::join!(acquire, identify);
    let why = expect!(acquired, Err(CallError::Unavailable(why)) => why);
    assert!(why.starts_with("1 of 3 stores answered"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_silent_once_is_asked_again() {
    let stores = Quorum::new(3);
    stores.faults[2].freeze();
    let look = async || stores.scripts.inspect("a", 1).await.map(drop);
    look().await.unwrap();
    stores.faults[2].thaw();
    let before = stores.faults[2].calls("lock_inspect");
    eventually("it is asked again", || async {
        look().await.unwrap();
        stores.faults[2].calls("lock_inspect") > before
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_silent_stores_are_waited_for() {
    let stores = Quorum::new(3);
    stores.faults[1].freeze();
    stores.faults[2].freeze();
    for _ in 0..2 {
        let before = stores.faults[2].calls("lock_inspect");
        assert!(stores.scripts.inspect("a", 1).await.is_err());
        assert_eq!(stores.faults[2].calls("lock_inspect"), before + 1);
    }
}
