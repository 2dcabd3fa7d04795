//! What stores answer: every call of a script gets it, and makes an outcome or an error of it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{executor::block_on, join};
use lockkeeper_store::{
    host::{self, Call, HostError, ScriptHost, Value},
    script::{
        Asked, Attempt, AttemptAll, Hold, Member, Members, Mode, PermitAttempt, PermitRenewal,
        Refusal, Renewal, Scripts, WalkCursor,
    },
};

const LEASE: Duration = Duration::from_secs(30);

/// A store that has one answer.
#[derive(Debug)]
struct Oracle(Result<Value, HostError>);

/// Bytes that Redis has sent.
pub fn redis_reply(bytes: &[u8]) {
    if let Some(answer) = host::redis::fuzzing::reply(bytes) {
        take(answer);
    }
}

/// What a script has returned in the embedded store.
pub fn lua_reply(bytes: &[u8]) {
    take(host::embedded::fuzzing::reply(bytes));
}

fn take(answer: Result<Value, HostError>) {
    let config = super::settings().scripts.clone();
    let scripts = Scripts::new(Arc::new(Oracle(answer)), config);
    block_on(async {
        for mode in [Mode::Exclusive, Mode::Fair, Mode::Read, Mode::Write] {
            locks(&scripts, mode).await;
        }
        several(&scripts).await;
        permits(&scripts).await;
        elections(&scripts).await;
        coordinators(&scripts).await;
        let _ = join!(
            scripts.renew(&[]),
            scripts.inspect("a", 10),
            scripts.fair_keepalive("a", &["o", "p"]),
            scripts.set_count("a", 3, Some(LEASE), Some("r")),
            scripts.count_down("a", 1, Some("r")),
            scripts.inspect_latch("a"),
            scripts.delete_latch("a"),
            scripts.forced("a"),
        );
    });
}

async fn locks(scripts: &Scripts, mode: Mode) {
    let hold = Hold::new("a", mode, "o");
    let attempt = Attempt {
        request_id: Some("r"),
        ..Attempt::new("t", 1)
    };
    let renewal = Renewal {
        name: "a".into(),
        mode,
        owner: "o".into(),
        lease: LEASE,
        noted: false,
    };
    let renewals = vec![renewal; 3];
    let holders = ["o".to_owned()];
    let asked = Asked {
        token: 1,
        holders: &holders,
    };
    let _ = join!(
        scripts.acquire(hold, LEASE, &attempt, Refusal::Waits),
        scripts.release(hold, Some(1), LEASE, Some("r")),
        scripts.release_last(hold, Some(1), LEASE),
        scripts.hand_over(hold, Some(1), ("p", LEASE), &attempt),
        scripts.undo(hold, &attempt),
        scripts.leave(hold),
        scripts.fair_first("a", "o"),
        scripts.renew(&renewals),
        scripts.extend(&renewals),
        scripts.force_release("a", "why", LEASE, Some(asked), 10),
        scripts.acknowledge_forced(hold),
    );
}

async fn several(scripts: &Scripts) {
    let member = |name| Member {
        name,
        mode: Mode::Exclusive,
        known_holds: None,
        serial: None,
    };
    let locks = [member("a"), member("b")];
    let members = Members {
        owner: "o",
        locks: &locks,
    };
    let attempt = AttemptAll {
        record: "r",
        attempt: "t",
        fresh_serial: 1,
        note: None,
    };
    let _ = join!(
        scripts.acquire_all(members, LEASE, attempt, Refusal::Recorded),
        scripts.release_all(members, &[LEASE, LEASE], Some("r")),
        scripts.undo_all(members, attempt, |_| true),
    );
}

async fn permits(scripts: &Scripts) {
    let ids = [[1; 16], [2; 16]];
    let attempt = PermitAttempt {
        request_id: Some("r"),
        attempt: "t",
        ids: &ids,
    };
    let renewal = PermitRenewal {
        name: "a".into(),
        owner: "o".into(),
        lease: LEASE,
        ids: ids.into(),
    };
    let renewals = vec![renewal; 2];
    let _ = join!(
        scripts.acquire_permits("a", "o", LEASE, attempt, true),
        scripts.release_permits("a", "o", &ids, Some("r")),
        scripts.undo_permits("a", attempt),
        scripts.renew_permits(&renewals),
        scripts.set_permits("a", 3, true),
        scripts.inspect_semaphore("a", u32::MAX),
    );
}

async fn elections(scripts: &Scripts) {
    let _ = join!(
        scripts.proclaim("a", "o", 1, "c", "v"),
        scripts.inspect_election("a", None),
        scripts.inspect_election("a", Some(1)),
    );
}

/// What coordinators ask about all names, sessions and each other.
async fn coordinators(scripts: &Scripts) {
    let _ = join!(
        scripts.walk(WalkCursor::default(), "a", 10),
        scripts.takes_writes("p"),
        scripts.announce("p", "i", LEASE, Some("here")),
        scripts.share_waits(("p", "d"), LEASE, Some("a")),
        scripts.shared_waits(("p", "d")),
        scripts.end_session("p", "d", LEASE),
        scripts.has_session_ended("p", "d"),
    );
}

// === impl Oracle ===

#[async_trait]
impl ScriptHost for Oracle {
    async fn eval(&self, _call: Call) -> Result<Value, HostError> {
        self.0.clone()
    }

    async fn subscribe(&self, _channel: &str) -> Result<(), HostError> {
        Ok(())
    }

    fn unsubscribe(&self, _channel: &str) {}
}
