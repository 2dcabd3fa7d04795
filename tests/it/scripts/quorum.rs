//! Calls of a quorum one by one: how many stores have to answer, and what comes of answers that
//! differ.

use futures::future::{BoxFuture, FutureExt as _};
use lockkeeper_base::tasks::Tasks;
use lockkeeper_store::{
    host::{HostError, Value, embedded::EmbeddedStore},
    script::{
        Acquired, Attempt, CallError, Hold, Member, Members, Mode, Moved, Ownership, QuorumMember,
        Refusal, Released, Renewal, Scripts, ToHolders, WalkCursor,
    },
};

use super::story::config;
use crate::support::{Faults, FaultyHost, World, expect, secs};

/// A quorum, its stores one by one, and the faults of each.
pub(super) struct Quorum {
    pub(super) scripts: Scripts,
    pub(super) each: Vec<Scripts>,
    pub(super) stores: Vec<EmbeddedStore>,
    pub(super) faults: Vec<Faults>,
}

pub(super) fn attempt(id: &str) -> Attempt<'_> {
    Attempt {
        known_holds: Some(0),
        ..Attempt::new(id, 1)
    }
}

// === impl Quorum ===

impl Quorum {
    pub(super) fn new(count: usize) -> Self {
        let (faults, connect) = FaultyHost::connectors();
        let stores: Vec<_> = (0..count).map(|_| World::store()).collect();
        let members = stores.iter().enumerate().map(|(at, store)| QuorumMember {
            name: format!("store {at}"),
            host: connect(store).0,
        });
        let each = |store: &EmbeddedStore| Scripts::new(store.connect().0, config());
        let scripts = Scripts::on_quorum(members.collect(), config(), Tasks::new());
        let faults = faults.lock().clone();
        Self {
            scripts,
            each: stores.iter().map(each).collect(),
            stores,
            faults,
        }
    }

    /// The last of them answer, and no other.
    fn of_which_answer(count: usize, up: usize) -> Self {
        let stores = Self::new(count);
        for down in &stores.faults[..count - up] {
            down.set_unavailable(true);
        }
        stores
    }

    /// How many stores have this key.
    pub(super) fn with(&self, key: &[u8]) -> usize {
        let has = |store: &&EmbeddedStore| {
            store.command(&[b"EXISTS".as_slice(), key]).unwrap() == Value::Int(1)
        };
        self.stores.iter().filter(has).count()
    }
}

pub(super) async fn takes(scripts: &Scripts, hold: Hold<'_>) -> u64 {
    let attempt = attempt("a1");
    let acquired = scripts.acquire(hold, secs(60), &attempt, Refusal::Forgotten);
    match acquired.await.unwrap() {
        Acquired::Granted { serial, .. } => serial,
        other @ Acquired::Busy { .. } => panic!("{other:?}"),
    }
}

fn message() -> ToHolders {
    ToHolders {
        id: "request".to_owned(),
        by: "me".to_owned(),
        token: 7,
        within: secs(20),
        preempts: false,
        handed_over: false,
        name: "a".to_owned(),
        reason: "why".to_owned(),
        holders: vec!["x".to_owned(), "y".to_owned()],
    }
}

fn moved() -> Moved {
    Moved {
        session: "s".to_owned(),
        generation: 1,
        from: String::new(),
    }
}

pub(super) const EXCLUSIVE: Hold<'static> = Hold::new("a", Mode::Exclusive, "x");
pub(super) const WRITE: Hold<'static> = Hold::new("a", Mode::Write, "x");

pub(super) fn renewal() -> Renewal {
    Renewal {
        name: "a".into(),
        mode: Mode::Exclusive,
        owner: "x".into(),
        lease: secs(60),
        noted: false,
    }
}

type Asks = for<'a> fn(&'a Scripts) -> BoxFuture<'a, Result<(), CallError>>;

/// A call, how many of five stores it needs, and whether it changes something where it is answered.
const CALLS: &[(&str, usize, bool, Asks)] = &[
    ("inspect", 3, false, |it| {
        async { it.inspect("a", 10).await.map(drop) }.boxed()
    }),
    ("takes_writes", 3, false, |it| it.takes_writes("p").boxed()),
    ("force_release", 3, true, |it| {
        let forced = it.force_release("a", "why", secs(20), None, 10);
        async { forced.await.map(drop) }.boxed()
    }),
    ("forced", 3, false, |it| {
        async { it.forced("a").await.map(drop) }.boxed()
    }),
    ("acknowledge_forced", 3, false, |it| {
        async { it.acknowledge_forced(EXCLUSIVE).await.map(drop) }.boxed()
    }),
    ("acquire", 3, false, |it| {
        async {
            let attempt = attempt("a1");
            let acquired = it.acquire(EXCLUSIVE, secs(60), &attempt, Refusal::Forgotten);
            acquired.await.map(drop)
        }
        .boxed()
    }),
    ("renew", 3, false, |it| {
        async { it.renew(&[renewal()]).await.complete().map(drop) }.boxed()
    }),
    ("release", 3, true, |it| {
        let released = it.release(EXCLUSIVE, Some(1), secs(60), None);
        async { released.await.map(drop) }.boxed()
    }),
    ("undo", 3, true, |it| {
        async { it.undo(EXCLUSIVE, &attempt("a1")).await.map(drop) }.boxed()
    }),
    ("leave", 3, true, |it| it.leave(WRITE).boxed()),
    ("end_session", 3, false, |it| {
        it.end_session("s", "d", secs(60)).boxed()
    }),
    ("has_session_ended", 3, false, |it| {
        async { it.has_session_ended("s", "d").await.map(drop) }.boxed()
    }),
    ("tell_holders", 3, false, |it| {
        async { it.tell_holders("c", &message()).await.map(drop) }.boxed()
    }),
    ("holders_reached", 3, false, |it| {
        it.holders_reached("a", "request", &["x"], secs(60)).boxed()
    }),
    ("tell_moved", 1, false, |it| {
        async { it.tell_moved("c", "p", &moved()).await }.boxed()
    }),
    ("share_waits", 1, false, |it| {
        async {
            it.share_waits(("p", "d"), secs(9), Some("w"))
                .await
                .map(drop)
        }
        .boxed()
    }),
    ("shared_waits", 1, false, |it| {
        async { it.shared_waits(("p", "d")).await.map(drop) }.boxed()
    }),
    ("announce", 1, false, |it| {
        async { it.announce("p", "me", secs(9), Some("I")).await.map(drop) }.boxed()
    }),
    ("walk", 1, false, |it| {
        async { it.walk(WalkCursor::default(), "", 100).await.map(drop) }.boxed()
    }),
];

#[tokio::test(start_paused = true)]
async fn each_call_needs_its_number_of_stores() {
    const STORES: usize = 5;
    for (what, needed, changes, ask) in CALLS {
        for up in 0..=STORES {
            let stores = Quorum::of_which_answer(STORES, up);
            let outcome = ask(&stores.scripts).await;
            let said = format!("{up} of {STORES} stores answered, 3 are needed");
            match &outcome {
                Ok(()) => assert!(up >= *needed, "{what} by {up}"),
                Err(CallError::OutcomeUnknown(why)) => {
                    assert!(*changes && up > 0 && up < *needed, "{what} by {up}");
                    assert!(why.starts_with(&said), "{what}: {why}");
                }
                Err(CallError::Unavailable(why)) => {
                    assert!(up < *needed && (!changes || up == 0), "{what} by {up}");
                    assert!(*what == "walk" || why.starts_with(&said), "{what}: {why}");
                }
                Err(other) => panic!("{what} by {up}: {other:?}"),
            }
        }
    }
}

/// A store that refuses a call has not done it, and knows nothing of what was asked.
#[tokio::test(start_paused = true)]
async fn what_most_stores_refuse_is_refused() {
    let scripts = [
        ("inspect", "lock_inspect"),
        ("forced", "lock_forced"),
        ("acknowledge_forced", "lock_acknowledge"),
        ("end_session", "session_end"),
        ("has_session_ended", "session_ended"),
        ("tell_holders", "holders_tell"),
        ("holders_reached", "holders_reached"),
    ];
    for (what, script) in scripts {
        let (.., ask) = CALLS.iter().find(|(name, ..)| *name == what).unwrap();
        for refusing in [2, 3] {
            let stores = Quorum::new(5);
            let refusal = HostError::Rejected {
                code: "NOPERM".to_owned(),
                message: "no".to_owned(),
            };
            for faults in &stores.faults[..refusing] {
                faults.refuse(script, Some(refusal.clone()));
            }
            let outcome = ask(&stores.scripts).await;
            let expected = (refusing == 3).then(|| CallError::Refused("NOPERM no".to_owned()));
            assert_eq!(outcome.err(), expected, "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_most_stores_know_of_a_forced_release_counts() {
    let stores = Quorum::new(5);
    for (at, (reason, grace)) in [("new", 30), ("new", 10), ("z-old", 30)].iter().enumerate() {
        takes(&stores.each[at], EXCLUSIVE).await;
        let forced = stores.each[at].force_release("a", reason, secs(*grace), None, 10);
        assert!(forced.await.unwrap().is_some());
    }
    let known = stores.scripts.forced("a").await.unwrap().unwrap();
    assert_eq!((&*known.reason, known.grace), ("new", secs(10)));
    assert!(!known.preempted);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_forced_is_free_when_a_majority_says_so() {
    let stores = Quorum::new(5);
    takes(&stores.scripts, EXCLUSIVE).await;
    let forced = stores.scripts.force_release("a", "why", secs(20), None, 10);
    let forced = forced.await.unwrap().unwrap();
    assert_eq!((forced.holder_count, forced.grace), (1, secs(20)));
    assert!(stores.scripts.acknowledge_forced(EXCLUSIVE).await.unwrap());
    assert!(!stores.scripts.acknowledge_forced(EXCLUSIVE).await.unwrap());
    let nothing = stores.scripts.force_release("b", "why", secs(20), None, 10);
    assert_eq!(nothing.await.unwrap(), None);
    let stores = Quorum::new(3);
    takes(&stores.scripts, EXCLUSIVE).await;
    let forced = stores.each[0].force_release("a", "why", secs(20), None, 10);
    forced.await.unwrap();
    let is_free = stores.scripts.acknowledge_forced(EXCLUSIVE).await.unwrap();
    assert!(!is_free, "one store is no majority");
}

#[tokio::test(start_paused = true)]
async fn releases_without_an_id_give_one_hold_back_each() {
    let stores = Quorum::new(3);
    let serial = takes(&stores.scripts, EXCLUSIVE).await;
    let again = Attempt {
        known_holds: Some(1),
        serial: Some(serial),
        ..attempt("a2")
    };
    let acquired = stores
        .scripts
        .acquire(EXCLUSIVE, secs(60), &again, Refusal::Forgotten);
    acquired.await.unwrap();
    for left in [1, 0] {
        let released = stores.scripts.release(EXCLUSIVE, None, secs(60), None);
        let held = expect!(released.await.unwrap(), Released::Done { held, .. } => held);
        assert_eq!(held, left);
    }
}

#[tokio::test(start_paused = true)]
async fn one_store_that_knows_is_enough() {
    let stores = Quorum::new(3);
    let one = &stores.each[2];
    assert!(!stores.scripts.has_session_ended("s", "d").await.unwrap());
    one.end_session("s", "d", secs(60)).await.unwrap();
    assert!(stores.scripts.has_session_ended("s", "d").await.unwrap());
    let reached = one.holders_reached("a", "request", &["y"], secs(60));
    reached.await.unwrap();
    let told = stores.scripts.tell_holders("c", &message()).await.unwrap();
    assert_eq!(told, [false, true]);
    one.announce("p", "other", secs(60), Some("I"))
        .await
        .unwrap();
    let announced = stores.scripts.announce("p", "me", secs(60), Some("me"));
    let announced = announced.await.unwrap();
    assert!(announced.is_announced);
    assert_eq!(announced.others, [("other".into(), "I".into())]);
}

#[tokio::test(start_paused = true)]
async fn what_was_shared_last_is_read() {
    let stores = Quorum::new(3);
    let share = |at: usize, waits: &'static str| {
        let store = &stores.each[at];
        async move { store.share_waits(("p", "d"), secs(60), Some(waits)).await }
    };
    assert_eq!(stores.scripts.shared_waits(("p", "d")).await.unwrap(), None);
    for (at, waits) in [(1, "first"), (0, "second"), (2, "last")] {
        tokio::time::advance(secs(1)).await;
        share(at, waits).await.unwrap();
    }
    let read = stores.scripts.shared_waits(("p", "d")).await.unwrap();
    assert_eq!(read.unwrap().waits, "last");
}

#[tokio::test(start_paused = true)]
async fn each_name_is_listed_once_also_without_one_store() {
    for down in [None, Some(0), Some(1)] {
        let stores = Quorum::new(3);
        for (at, name) in [(0, "a"), (0, "b"), (1, "a"), (1, "c"), (2, "c"), (2, "d")] {
            takes(&stores.each[at], Hold::new(name, Mode::Exclusive, "x")).await;
        }
        if let Some(down) = down {
            stores.faults[down].set_unavailable(true);
        }
        let (mut from, mut listed, mut pages) = (Some(WalkCursor::default()), Vec::new(), 0);
        while let Some(cursor) = from {
            let (names, next) = stores.scripts.walk(cursor, "", 100).await.unwrap();
            listed.extend(names.into_iter().map(|(name, _)| name));
            (from, pages) = (next, pages + 1);
            assert!(pages <= 6, "it does not end");
        }
        listed.sort_unstable();
        let expected: &[_] = match down {
            None | Some(1) => &["a", "b", "c", "d"],
            _ => &["a", "c", "d"],
        };
        assert_eq!(listed, expected, "without {down:?}");
    }
    let stores = Quorum::new(3);
    stores.faults[2].set_unavailable(true);
    let last = stores.scripts.walk(WalkCursor::default(), "", 100).await;
    let (_, next) = last.unwrap();
    let (_, next) = stores.scripts.walk(next.unwrap(), "", 100).await.unwrap();
    assert!(stores.scripts.walk(next.unwrap(), "", 100).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn most_of_the_stores_tell_how_a_lock_is_held_and_how_long() {
    let stores = Quorum::new(3);
    for at in [0, 1] {
        takes(&stores.each[at], EXCLUSIVE).await;
    }
    takes(&stores.each[2], Hold::new("a", Mode::Write, "y")).await;
    let persist = |at: usize| {
        stores.stores[at]
            .command(&[b"PERSIST".as_slice(), b"a"])
            .unwrap()
    };
    for endless in [None, Some(0), Some(1)] {
        endless.map(persist);
        let seen = stores.scripts.inspect("a", 10).await.unwrap();
        assert_eq!(seen.mode, Some(Mode::Exclusive));
        let holder = expect!(&seen.holders[..], [holder] => holder);
        assert_eq!((&*holder.owner, holder.hold_count), (&b"x"[..], 1));
        let left = (endless != Some(1)).then_some(secs(60));
        assert_eq!(seen.remaining, left, "without a time to live: {endless:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_no_lock_is_named_if_most_stores_have_it() {
    for (with, up, is_named) in [(3, 5, true), (2, 5, false), (2, 2, false)] {
        let stores = Quorum::of_which_answer(5, up);
        for store in stores.stores.iter().rev().take(with) {
            store.command(&[b"RPUSH".as_slice(), b"a", b"1"]).unwrap();
        }
        let forced = stores.scripts.force_release("a", "why", secs(20), None, 10);
        let wrong = matches!(forced.await, Err(CallError::WrongKind));
        assert_eq!(wrong, is_named, "{with} of {up}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_given_back_one_by_one() {
    let stores = Quorum::new(3);
    let serial = takes(&stores.scripts, EXCLUSIVE).await;
    let member = |name, serial| Member {
        name,
        mode: Mode::Exclusive,
        known_holds: None,
        serial,
    };
    let locks = [member("a", Some(serial)), member("b", Some(1))];
    let members = Members {
        owner: "x",
        locks: &locks,
    };
    let leases = [secs(60), secs(60)];
    let released = stores
        .scripts
        .release_all(members, &leases, None)
        .await
        .unwrap();
    let left: Vec<_> = released.iter().map(|it| it.left).collect();
    assert_eq!(left, [Ok(0), Err(Ownership::NeverHeld)]);
    assert_eq!(stores.with(b"a"), 0);
}

#[tokio::test(start_paused = true)]
async fn who_holds_a_lock_in_another_mode_is_told_so() {
    let stores = Quorum::new(3);
    let read = Hold::new("a", Mode::Read, "x");
    let fresh_serial = attempt("a1").fresh_serial;
    assert_eq!(takes(&stores.scripts, read).await, fresh_serial);
    let released = stores.scripts.release(WRITE, Some(1), secs(60), None);
    let expected = Released::NotOwner(Ownership::HeldInAnotherMode);
    assert_eq!(released.await.unwrap(), expected);
}

#[tokio::test(start_paused = true)]
async fn answers_of_a_majority_that_do_not_agree_are_told_apart_from_too_few() {
    let stores = Quorum::of_which_answer(5, 3);
    stores.stores[4]
        .command(&[b"RPUSH".as_slice(), b"a", b"1"])
        .unwrap();
    let own = attempt("a1");
    let acquired = stores
        .scripts
        .acquire(EXCLUSIVE, secs(60), &own, Refusal::Forgotten);
    let why = expect!(acquired.await.unwrap_err(), CallError::Unavailable);
    assert_eq!(why, "no 3 of 5 stores agree");
}
