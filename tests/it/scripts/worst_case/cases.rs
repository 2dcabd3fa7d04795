//! The worst cases of each kind of name.

use lockkeeper_store::script::{Attempt, Hold, Mode, PermitId, Refusal, Scripts};
use rand::RngExt as _;

use super::super::requests::{
    attempt_all, member, members, permit_attempt, permit_renewal, renewal_of,
};
use super::{
    meter::{Stage, check},
    planting::{EXPIRED, LATER, LONG_AGO, NAME, READERS, TAKEN, permits, queue, readers},
};
use crate::support::secs;

const OWNER: &str = "8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:0";

#[tokio::test]
async fn many_readers() {
    let stage = Stage::start().await;
    let ours = readers(["1", &LATER.to_string(), "1"]);
    check(&stage, "a lock is described", &ours, async |scripts| {
        let seen = scripts.inspect(NAME, 1000).await.unwrap();
        assert_eq!(seen.holder_count, READERS as usize);
        assert!(seen.holders.len() <= 1000 && !seen.holders.is_empty());
    })
    .await;
    let what = "a lock is released by force";
    check(&stage, what, &ours, async |scripts| {
        let forced = scripts
            .force_release(NAME, "why", secs(20), None, 100)
            .await;
        assert_eq!(forced.unwrap().unwrap().holder_count, READERS as usize);
        let marks = scripts.inspect(NAME, 1).await.unwrap().holder_count;
        assert!(marks > 0 && marks <= 101, "{marks}");
        let again = scripts.force_release(NAME, "why", secs(0), None, 100).await;
        assert_eq!(again.unwrap().unwrap().holder_count, marks);
        assert_eq!(scripts.inspect(NAME, 1).await.unwrap().holder_count, 0);
    })
    .await;
    check(&stage, "one reader more", &ours, async |scripts| {
        let attempt = attempt();
        let more = scripts.acquire(hold(Mode::Read), secs(60), &attempt, Refusal::Forgotten);
        let refused = more.await.unwrap_err();
        let expected = "the limit holders_per_lock_max is reached";
        assert_eq!(refused.to_string(), expected);
    })
    .await;
    check(&stage, "a writer", &ours, async |scripts| {
        take(scripts, Mode::Write).await;
    })
    .await;
}

#[tokio::test]
async fn many_readers_whose_leases_have_ended() {
    let stage = Stage::start().await;
    let dead = ["1", &LONG_AGO.to_string(), "0"];
    let strangers = ["0", "0", "1"];
    for planted in [readers(dead), readers(strangers)] {
        for mode in [Mode::Read, Mode::Write] {
            check(&stage, &format!("{mode:?}"), &planted, async |scripts| {
                take(scripts, mode).await;
            })
            .await;
        }
        check(&stage, "the last of ours", &planted, async |scripts| {
            let hold = Hold::new(NAME, Mode::Read, "8f14e45f-ceea-467f-a8a1-0b1c2d3e4f50:7");
            let _ = scripts.release(hold, None, secs(60), None).await.unwrap();
        })
        .await;
        let all = [member(NAME, Mode::Read), member(NAME, Mode::Write)];
        check(&stage, "several", &planted, async |scripts| {
            let members = members(OWNER, &all);
            let _ = scripts.release_all(members, &[secs(60); 2], None).await;
        })
        .await;
    }
}

#[tokio::test]
async fn many_permits() {
    let stage = Stage::start().await;
    let planted = permits(TAKEN, LATER, 1000);
    let what = "a semaphore is described";
    check(&stage, what, &planted, async |scripts| {
        let seen = scripts.inspect_semaphore(NAME, u32::MAX).await.unwrap();
        assert_eq!(seen.total, TAKEN + 1000);
        assert_eq!(seen.holders.len(), 7);
    })
    .await;
    check(&stage, "more permits", &planted, async |scripts| {
        let ids = ids(1000);
        let refused = scripts
            .acquire_permits(NAME, OWNER, secs(60), permit_attempt(&ids, None, "a"), true)
            .await
            .unwrap_err();
        let expected = "the limit permits_per_name_max is reached";
        assert_eq!(refused.to_string(), expected);
    })
    .await;
    check(&stage, "all of an owner", &planted, async |scripts| {
        let released = scripts.release_permits(NAME, "o3", &[], Some("r")).await;
        let given = format!("{:?}", released.unwrap());
        assert!(
            given.contains(&format!("permits: {}", TAKEN / 7 + 1)),
            "{given}"
        );
    })
    .await;
    check(&stage, "another size", &planted, async |scripts| {
        scripts.set_permits(NAME, 7, false).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn many_permits_whose_leases_have_ended() {
    let stage = Stage::start().await;
    let planted = permits(EXPIRED, LONG_AGO, 0);
    let what = "as many permits as one call may take";
    check(&stage, what, &planted, async |scripts| {
        let ids = ids(1000);
        let attempt = permit_attempt(&ids, None, "a");
        let _ = scripts
            .acquire_permits(NAME, OWNER, secs(60), attempt, true)
            .await
            .unwrap();
        let renewal = permit_renewal(NAME, OWNER, secs(60), ids.clone());
        let renewed = scripts.renew_permits(&[renewal]).await.complete().unwrap();
        assert!(renewed[0].is_ok());
        scripts.undo_permits(NAME, attempt).await.unwrap();
        let seen = scripts.inspect_semaphore(NAME, u32::MAX).await.unwrap();
        assert_eq!((seen.total, seen.available), (EXPIRED, i64::from(EXPIRED)));
    })
    .await;
    check(&stage, "it is deleted", &planted, async |scripts| {
        scripts.set_permits(NAME, 0, false).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_long_queue() {
    let stage = Stage::start().await;
    for (ends, ours) in [
        (LATER, true),
        (LATER, false),
        (LONG_AGO, true),
        (LONG_AGO, false),
    ] {
        let planted = queue(ends, ours);
        let what = &format!("until {ends}, ours: {ours}");
        check(&stage, what, &planted, async |scripts| {
            let hold = hold(Mode::Fair);
            for refusal in [Refusal::Forgotten, Refusal::Waits] {
                let _ = scripts
                    .acquire(hold, secs(60), &attempt(), refusal)
                    .await
                    .unwrap();
            }
            let owners: Vec<String> = (1..=250).map(|i| format!("w{}", i * 390)).collect();
            let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
            scripts.fair_keepalive(NAME, &owners).await.unwrap();
            scripts.fair_first(NAME, owners[0]).await.unwrap();
            scripts.leave(hold).await.unwrap();
            let seen = scripts.inspect(NAME, 1000).await.unwrap();
            assert!(seen.queue.len() <= 1000);
        })
        .await;
    }
}

#[tokio::test]
async fn as_many_locks_as_one_call_may_take() {
    let stage = Stage::start().await;
    // The default of `limits.locks_per_request_max`.
    let names: Vec<String> = (0..250).map(|i| format!("{{n}}{i}")).collect();
    for mode in [Mode::Exclusive, Mode::Read, Mode::Write] {
        let locks: Vec<_> = names.iter().map(|name| member(name, mode)).collect();
        check(&stage, &format!("{mode:?}"), &[], async |scripts| {
            let members = members(OWNER, &locks);
            let attempt = attempt_all("a");
            let refused = Refusal::Forgotten;
            let _ = scripts
                .acquire_all(members, secs(60), attempt, refused)
                .await
                .unwrap();
            let renewals: Vec<_> = names
                .iter()
                .take(100)
                .map(|name| renewal_of(Hold::new(name.as_str(), mode, OWNER), secs(60)))
                .collect();
            scripts.renew(&renewals).await.complete().unwrap();
            let leases = vec![secs(60); locks.len()];
            scripts.release_all(members, &leases, None).await.unwrap();
        })
        .await;
    }
}

async fn take(scripts: &Scripts, mode: Mode) {
    let taken = scripts
        .acquire(hold(mode), secs(60), &attempt(), Refusal::Waits)
        .await;
    assert!(
        !matches!(&taken, Err(error) if error.is_transient()),
        "{taken:?}"
    );
}

fn hold(mode: Mode) -> Hold<'static> {
    Hold::new(NAME, mode, OWNER)
}

fn attempt() -> Attempt<'static> {
    Attempt::new("a", 1)
}

fn ids(count: usize) -> Vec<PermitId> {
    (0..count).map(|_| rand::rng().random()).collect()
}
