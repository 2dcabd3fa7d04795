//! An older coordinator and the current one on one Redis: what one began the other goes on with,
//! both ways. `make mixed-versions` builds the older one.

use crate::prelude::*;
use crate::{modes::MODES, steps::expect_only_records};

const POLL_INTERVAL: &str = "60s";

/// The coordinator that a client comes from, and the one that it goes to.
struct Pair {
    redis: RedisServer,
    from: Coordinator,
    to: Coordinator,
    near: Client,
    far: Client,
}

/// Old and new, then new and old, each on a Redis of its own.
async fn both_ways() -> [Pair; 2] {
    let old = std::env::var_os("LOCKKEEPER_OLD_BINARY").expect("make mixed-versions sets it");
    [Pair::start(&old).await, Pair::start(&old).await.turned()]
}

// === impl Pair ===

impl Pair {
    async fn start(old: &std::ffi::OsStr) -> Self {
        let redis = RedisServer::start().await;
        let new = settings_on(&redis.url())
            .with("session.lease", "5s")
            .with("store.poll_interval", POLL_INTERVAL);
        let old = new.clone().of_binary(old);
        let (from, to) = tokio::join!(Coordinator::start(&old), Coordinator::start(&new));
        let (near, far) = (from.client().await, to.client().await);
        Self {
            redis,
            from,
            to,
            near,
            far,
        }
    }

    fn turned(self) -> Self {
        Self {
            from: self.to,
            to: self.from,
            near: self.far,
            far: self.near,
            ..self
        }
    }
}

#[tokio::test]
#[ignore = "make mixed-versions runs it"]
async fn a_session_of_a_killed_coordinator_is_resumed_with_its_locks_and_permits() {
    for Pair {
        from,
        mut near,
        mut far,
        ..
    } in both_ways().await
    {
        Semaphore::new(&far, "pool").set(2).await;
        let mut holder = near.open().await;
        let mut grants = Vec::new();
        for mode in MODES {
            grants.push(holder.take_in(&format!("{mode:?}"), mode).await);
        }
        let permits = holder.acquire_permits("pool", 2).await;
        let waiter = timed_wait(&mut far, "Exclusive").await;
        from.kill();
        let resume = Request::Resume(pb::ResumeSession {
            session_id: holder.id(),
            resume_token: holder.opened.resume_token.clone(),
            grants: grants.clone(),
            permits: vec![permits.clone()],
            ..Default::default()
        });
        let mut resumed = far.session(resume).await.unwrap();
        let tokens = |grants: &[pb::Grant]| {
            let mut tokens: Vec<_> = grants.iter().map(|it| it.fencing_token).collect();
            tokens.sort_unstable();
            tokens
        };
        assert_eq!(tokens(&resumed.opened.grants), tokens(&grants));
        assert_eq!(resumed.opened.permits.len(), 1);
        // Without the resume the leases would end.
        tokio::time::sleep(secs(7)).await;
        assert!(!waiter.is_finished());
        for mode in MODES {
            assert!(
                resumed
                    .release_in(&format!("{mode:?}"), mode)
                    .await
                    .released
            );
        }
        let (_, (granted, _session)) = waiter.await.unwrap();
        assert!(granted.fencing_token > grants[0].fencing_token);
        let released = resumed.release_permits("pool", &permits.permit_ids).await;
        assert_eq!((released.released, released.available), (2, 2));
    }
}

#[tokio::test]
#[ignore = "make mixed-versions runs it"]
async fn a_session_of_a_coordinator_that_drains_goes_on_at_the_other() {
    for Pair {
        from,
        mut near,
        mut far,
        ..
    } in both_ways().await
    {
        let mut holder = near.open().await;
        let held = holder.acquire("build").await;
        from.signal(Signal::SIGTERM);
        assert!(matches!(holder.notice().await, Response::GoingAway(_)));
        assert_eq!(refusal(holder.read_to_end().await), "DRAINING");
        let mut resumed = far
            .resume(&holder.opened, vec![held.clone()])
            .await
            .unwrap();
        assert_eq!(resumed.opened.grants[0].fencing_token, held.fencing_token);
        assert!(resumed.release("build").await.released);
    }
}

#[tokio::test]
#[ignore = "make mixed-versions runs it"]
async fn locks_permits_and_latches_are_handed_over_by_messages() {
    for Pair {
        redis,
        mut near,
        mut far,
        from,
        to,
    } in both_ways().await
    {
        for mode in MODES {
            let name = format!("{mode:?}");
            // A reader keeps writers out, anything else all.
            let (first, second) = match mode {
                LockMode::Read => (LockMode::Read, LockMode::Write),
                mode => (mode, mode),
            };
            let (mut holder, mut waiter) = (near.open().await, far.open().await);
            let held = holder.take_in(&name, first).await;
            let (op_id, _) = waiter.wait_in(&name, second).await;
            holder.release_in(&name, first).await;
            let granted = waiter.expect_granted(op_id).await;
            assert!(granted.fencing_token >= held.fencing_token, "{name}");
            let mut third = near.open().await;
            let (op_id, _) = third.wait_in(&name, second).await;
            waiter.release_in(&name, second).await;
            let last = third.expect_granted(op_id).await;
            assert!(last.fencing_token > granted.fencing_token, "{name}");
            third.release_in(&name, second).await;
        }
        let (mut ours, mut theirs) = (Semaphore::new(&near, "pool"), Semaphore::new(&far, "pool"));
        ours.set(1).await;
        let taken = ours.take("x", 1, secs(30)).await;
        let mut waiting = theirs.waits(theirs.request("y", 1)).await;
        ours.release("x", &taken.permit_ids).await.unwrap();
        let taken = waiting.expect_granted().await;
        theirs.release("y", &taken.permit_ids).await.unwrap();
        let (mut ours, mut theirs) = (Latch::new(&near, "start"), Latch::new(&far, "start"));
        assert!(ours.set(1).await);
        let mut waiting = theirs.wait(None).await;
        waiting.expect_waiting(1).await;
        let opened = timed(async move { waiting.expect_opened().await });
        assert_eq!(ours.count_down(1).await.unwrap(), 0);
        opened.await.unwrap();
        from.assert_alive();
        to.assert_alive();
        drop(redis);
    }
}

#[tokio::test]
#[ignore = "make mixed-versions runs it"]
async fn a_request_that_is_repeated_at_the_other_is_done_once() {
    for Pair {
        redis,
        mut near,
        mut far,
        ..
    } in both_ways().await
    {
        let take = || try_request("build", "x").lasting(secs(60)).with_id("take");
        let first = near.take(take()).await;
        let again = far.take(take()).await;
        assert_eq!(
            (again.fencing_token, again.hold_count),
            (first.fencing_token, 1)
        );
        let mut waiting = far.waits(acquire_request("build", "w")).await;
        let give = || pb::ReleaseRequest::named("build").by("x").with_id("give");
        assert!(near.release_with(give()).await.unwrap().released);
        let granted = waiting.expect_granted().await;
        assert!(
            far.release_with(give()).await.unwrap().released,
            "the first answer"
        );
        until_waiting(&far, "build", 0).await;
        let seen = near.describe("build").await;
        assert_eq!(seen.last_fencing_token, granted.fencing_token);
        assert_eq!(seen.holders[0].owner, "w");
        far.release("build", "w").await.unwrap();
        expect_only_records(&redis).await;
    }
}
