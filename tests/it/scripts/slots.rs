//! The rule of the braces, cross-checked with a Redis that has slots.

use lockkeeper_store::script::{
    Acquired, AcquiredAll, Attempt, CallError, CountedDown, Hold, Mode, PermitsAcquired,
    PermitsReleased, Refusal, Released, Scripts,
};

use super::requests::{attempt_all, member, members, permit_attempt, permit_renewal, renewal_of};
use super::story::config;
use crate::support::prelude::*;
use crate::{
    cluster::{Cluster, SLOTS, add_slots},
    redis_server::{RedisServer, eventually},
    support::hosts::{Store, connect_to},
};

const REQUEST_IDS: [&str; 3] = ["r1", "}{", "{r}"];

/// Names that may be used.
const GOOD: [&str; 10] = [
    "build",
    "a:b",
    "with space",
    "ünïcödé",
    "x{a}y",
    "{a}{b}",
    "{a{b}}",
    "a{b}c{}",
    "0",
    "a/{tenant-1}/b",
];

/// Names whose keys would fall into different slots, which is why they are refused.
const TORN: [&str; 5] = ["a}b", "{a", "{}a", "a{}{b}", "}{"];

async fn slot(server: &Store, key: &str) -> Value {
    server.command(&["CLUSTER", "KEYSLOT", key]).await
}

/// The lock and all that belongs to it.
fn all_keys(name: &str) -> Vec<String> {
    let text = |key: bytes::Bytes| String::from_utf8(key.to_vec()).unwrap();
    let mut all = vec![
        text(keys::lock(name).to_bytes()),
        keys::channel(name),
        text(keys::counter(name).to_bytes()),
    ];
    all.extend([
        keys::rw_channel(name),
        keys::fair_channel(name, "}{"),
        text(keys::queue(name).to_bytes()),
        text(keys::queue_deadlines(name).to_bytes()),
        text(keys::vouched_waiters(name).to_bytes()),
        text(keys::read_holds(name, "}{").to_bytes()),
        text(keys::readers(name).to_bytes()),
        text(keys::writer_waiting(name).to_bytes()),
    ]);
    all.extend(
        [
            keys::permit_leases(name).to_bytes(),
            keys::permit_owners(name).to_bytes(),
            keys::kind(name).to_bytes(),
        ]
        .map(text),
    );
    all.push(keys::permit_channel(name));
    all.extend(REQUEST_IDS.map(|id| text(keys::record(name, id).to_bytes())));
    all
}

#[tokio::test]
async fn mission_11_a_lock_its_channel_its_counter_and_its_records_share_a_hash_slot() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]).await;
    let server = Store::on(server).await;
    for name in GOOD {
        assert_eq!(keys::refuse(name), None, "{name}");
        let expected = slot(&server, name).await;
        for key in all_keys(name) {
            assert_eq!(slot(&server, &key).await, expected, "{name}: {key}");
        }
    }
    for name in TORN {
        assert!(keys::refuse(name).is_some(), "{name}");
        let expected = slot(&server, name).await;
        let mut torn = false;
        for key in all_keys(name) {
            torn |= slot(&server, &key).await != expected;
        }
        assert!(torn, "{name} would have been good");
    }
}

/// A cluster refuses a script whose keys do not share a slot, whatever their slots are.
#[tokio::test]
async fn every_script_runs_on_a_cluster() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]).await;
    let server = Store::on(server).await;
    let add = add_slots(0..SLOTS.into());
    let add: Vec<_> = add.iter().map(String::as_str).collect();
    server.command(&add).await;
    eventually("the cluster of one takes calls", || async {
        let set = server.try_command(&[b"SET", b"probe", b"1"]).await;
        set.is_ok()
    })
    .await;
    let (client, _wakes) = server.connect();
    let scripts = Scripts::new(client, config());
    for name in GOOD {
        for id in REQUEST_IDS {
            for mode in [Mode::Exclusive, Mode::Fair, Mode::Read, Mode::Write] {
                once_around(
                    &scripts,
                    Hold::new(name, mode, id),
                    &format!("{id}-{mode:?}"),
                )
                .await;
            }
            counters(&scripts, &format!("{name}-counter"), id).await;
        }
    }
    several_around(&scripts).await;
    let torn = scripts.inspect(TORN[0], 1).await;
    assert!(
        matches!(&torn, Err(CallError::Refused(why)) if why.starts_with("CROSSSLOT")),
        "{torn:?}"
    );
}

/// Channels and the beginnings of keys are no keys, or a cluster would look for them in vain.
#[tokio::test]
async fn while_a_slot_moves_holds_are_renewed_and_given_back() {
    const NAME: &str = "moved";
    const HOLDS: [Hold<'_>; 3] = [
        Hold::new("{moved}1", Mode::Exclusive, "o"),
        Hold::new("{moved}2", Mode::Write, "o"),
        Hold::new("{moved}3", Mode::Read, "o"),
    ];
    let store = Cluster::start_without_replicas().await;
    let (client, _wakes) = connect_to(store.url());
    let scripts = Scripts::new(client, config());
    let mut serials = Vec::new();
    for hold in HOLDS {
        let attempt = Attempt::new("a", 7);
        let taken = scripts.acquire(hold, secs(60), &attempt, Refusal::Forgotten);
        match taken.await.unwrap() {
            Acquired::Granted { serial, .. } => serials.push(serial),
            Acquired::Busy { .. } => panic!("{} is free", hold.name),
        }
    }
    let slot = store.slot(NAME).await;
    let from = store.master_of_slot(slot).await.unwrap();
    let to = store.other_master(from).await;
    store.begin_migration(slot, to).await;
    let renewals = HOLDS.map(|hold| renewal_of(hold, secs(100)));
    let extended = scripts.extend(&renewals).await.complete();
    assert!(extended.unwrap().iter().all(Result::is_ok));
    for (hold, serial) in HOLDS.into_iter().zip(serials).take(2) {
        let released = scripts.release(hold, Some(serial), secs(60), None).await;
        let is_free = matches!(released, Ok(Released::Done { hold_count: 0, .. }));
        assert!(is_free, "{hold:?}: {released:?}");
    }
}

/// The same for semaphores and latches.
async fn counters(scripts: &Scripts, name: &str, id: &str) {
    let ids = [[7; 16], [8; 16]];
    let attempt = permit_attempt(&ids, Some(id), "a");
    let lease = secs(100);
    assert!(scripts.set_permits(name, 2, true).await.unwrap().created);
    let taken = scripts
        .acquire_permits(name, id, lease, attempt, true)
        .await;
    assert!(
        matches!(taken, Ok(PermitsAcquired::Granted { .. })),
        "{name}: {taken:?}"
    );
    let renewal = permit_renewal(name, id, lease, ids);
    let renewed = scripts.renew_permits(&[renewal]).await.complete();
    assert!(renewed.unwrap()[0].is_ok(), "{name}");
    assert_eq!(
        scripts
            .inspect_semaphore(name, u32::MAX)
            .await
            .unwrap()
            .available,
        0
    );
    assert_eq!(scripts.undo_permits(name, attempt).await, Ok(true));
    let released = scripts.release_permits(name, id, &[], Some(id)).await;
    assert!(
        matches!(released, Ok(PermitsReleased::NotOwner(_))),
        "{name}: {released:?}"
    );
    assert_eq!(scripts.set_permits(name, 0, false).await.unwrap().total, 0);
    let other = format!("{id}-3");
    let set = scripts
        .set_count(name, 1, None, Some(&other))
        .await
        .unwrap();
    assert!(set.set, "{name}");
    assert_eq!(scripts.inspect_latch(name).await.unwrap().count, 1);
    let other = format!("{id}-4");
    let counted = scripts.count_down(name, 1, Some(&other)).await;
    assert_eq!(counted, Ok(CountedDown::Left(0)), "{name}");
    assert_eq!(scripts.delete_latch(name).await, Ok(false), "{name}");
}

async fn once_around(scripts: &Scripts, hold: Hold<'_>, id: &str) {
    let name = hold.name;
    let lease = Duration::from_secs(100);
    let attempt = Attempt {
        request_id: Some(id),
        ..Attempt::new("a", 1)
    };
    for _ in 0..2 {
        let acquired = scripts
            .acquire(hold, lease, &attempt, Refusal::Recorded)
            .await;
        assert!(
            matches!(acquired, Ok(Acquired::Granted { hold_count: 1, .. })),
            "{name}: {acquired:?}"
        );
    }
    let renewal = renewal_of(Hold::new(name, hold.mode, hold.owner), lease);
    let renewed = scripts.renew(&[renewal]).await.complete();
    assert!(renewed.unwrap()[0].is_ok(), "{name}");
    assert_eq!(scripts.inspect(name, 9).await.unwrap().holders.len(), 1);
    // A repeat was told of the grant, so it stays.
    assert_eq!(scripts.undo(hold, &attempt).await, Ok(false), "{name}");
    let other = format!("{id}-2");
    let released = scripts.release(hold, None, lease, Some(&other)).await;
    scripts.leave(hold).await.unwrap();
    scripts.fair_first(name, hold.owner).await.unwrap();
    scripts.fair_keepalive(name, &[hold.owner]).await.unwrap();
    assert!(
        matches!(released, Ok(Released::Done { hold_count: 0, .. })),
        "{name}: {released:?}"
    );
}

/// Several locks in one call must share a slot.
async fn several_around(scripts: &Scripts) {
    let modes = [Mode::Exclusive, Mode::Read, Mode::Write];
    let names = ["{a}b", "{a}c", "x{a}"];
    let locks = [0, 1, 2].map(|at| member(names[at], modes[at]));
    let all = members("o", &locks);
    let attempt = attempt_all("}{r");
    let lease = secs(100);
    let leases = [lease; 3];
    for undo in [true, false] {
        let acquired = scripts.acquire_all(all, lease, attempt, Refusal::Waits);
        let acquired = acquired.await.unwrap();
        let is_first = matches!(acquired, AcquiredAll::Granted { repeated, .. } if !repeated);
        assert!(is_first, "{acquired:?}");
        if undo {
            assert_eq!(scripts.undo_all(all, attempt, |_| true).await, Ok(true));
        } else {
            let released = scripts.release_all(all, &leases, Some("r2"));
            let released = released.await.unwrap();
            assert!(released.iter().all(|member| member.left == Ok(0)));
        }
    }
    let torn = [locks[0], member("b", modes[0])];
    let torn = members("o", &torn);
    let refused = scripts.acquire_all(torn, lease, attempt, Refusal::Waits);
    let refused = refused.await;
    assert!(
        matches!(&refused, Err(CallError::Refused(why)) if why.starts_with("CROSSSLOT")),
        "{refused:?}"
    );
}
