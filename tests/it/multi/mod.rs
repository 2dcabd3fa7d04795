//! Several locks at once: all or none, however the attempt ends.

mod fair;
mod input;
mod session;
mod together;
mod undone;

use std::time::Duration;

use lockkeeper_api::pb::{
    self, LockMode, acquire_all_response::Event, session_request::Request,
    session_response::Response,
};
use tonic::{Status, Streaming};

use crate::support::{
    World,
    client::{Client, Session, proto},
    eventually,
};

/// A streaming acquire of several locks.
struct Call(Streaming<pb::AcquireAllResponse>);

// === impl Call ===

impl Call {
    async fn start(client: &mut Client, request: pb::AcquireAllRequest) -> Self {
        Self(client.api.acquire_all(request).await.unwrap().into_inner())
    }

    async fn next(&mut self) -> Result<Option<Event>, Status> {
        Ok(self.0.message().await?.and_then(|answer| answer.event))
    }

    /// The name of the lock that is waited for.
    async fn expect_waiting(&mut self) -> String {
        match self.next().await {
            Ok(Some(Event::Waiting(waiting))) => {
                assert!(waiting.waiting.unwrap().position > 0);
                waiting.name
            }
            other => panic!("expected waiting, got {other:?}"),
        }
    }

    /// Passes over news of the wait.
    async fn end(&mut self) -> Result<Event, Status> {
        loop {
            match self.next().await? {
                Some(Event::Waiting(_)) => {}
                Some(end) => {
                    assert!(self.next().await?.is_none(), "more after the last answer");
                    return Ok(end);
                }
                None => panic!("the stream ended without an answer"),
            }
        }
    }

    async fn expect_granted(&mut self) -> Vec<pb::Grant> {
        match self.end().await {
            Ok(Event::Granted(granted)) => granted.grants,
            other => panic!("expected granted, got {other:?}"),
        }
    }

    async fn expect_timeout(&mut self) {
        match self.end().await {
            Ok(Event::NotGranted(ended)) => {
                assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
            }
            other => panic!("expected not_granted, got {other:?}"),
        }
    }
}

/// `a`, or `a:read`.
fn spec(word: &str) -> pb::LockSpec {
    let (name, mode) = word.split_once(':').unwrap_or((word, ""));
    let mode = match mode {
        "" => LockMode::Unspecified,
        "fair" => LockMode::Fair,
        "read" => LockMode::Read,
        "write" => LockMode::Write,
        _ => panic!("no such mode: {mode}"),
    };
    pb::LockSpec {
        name: name.to_owned(),
        mode: mode.into(),
    }
}

fn specs(words: &[&str]) -> Vec<pb::LockSpec> {
    words.iter().map(|word| spec(word)).collect()
}

fn all(words: &[&str], owner: &str, wait: Duration) -> pb::AcquireAllRequest {
    pb::AcquireAllRequest {
        locks: specs(words),
        owner: owner.to_owned(),
        wait_timeout: Some(proto(wait)),
        ..Default::default()
    }
}

fn try_all(words: &[&str], owner: &str) -> pb::TryAcquireAllRequest {
    pb::TryAcquireAllRequest {
        locks: specs(words),
        owner: owner.to_owned(),
        ..Default::default()
    }
}

fn back(words: &[&str], owner: &str) -> pb::ReleaseAllRequest {
    pb::ReleaseAllRequest {
        locks: specs(words),
        owner: owner.to_owned(),
        ..Default::default()
    }
}

async fn tried(
    client: &mut Client,
    request: pb::TryAcquireAllRequest,
) -> pb::TryAcquireAllResponse {
    client
        .api
        .try_acquire_all(request)
        .await
        .unwrap()
        .into_inner()
}

/// What became of each: `a=0`, or `a lost`.
async fn released(client: &mut Client, request: pb::ReleaseAllRequest) -> Vec<String> {
    let answer = client.api.release_all(request).await.unwrap();
    told(answer.into_inner())
}

fn told(answer: pb::ReleaseAllResponse) -> Vec<String> {
    let each = answer.locks.into_iter().map(|lock| {
        if lock.held {
            format!("{}={}", lock.name, lock.hold_count)
        } else {
            format!("{} lost", lock.name)
        }
    });
    each.collect()
}

/// The names of grants, with the holds where they are more than one.
fn names(grants: &[pb::Grant]) -> Vec<String> {
    let each = grants.iter().map(|grant| match grant.hold_count {
        1 => grant.name.clone(),
        count => format!("{}x{count}", grant.name),
    });
    each.collect()
}

/// Takes locks in a session and waits for them.
async fn take(session: &mut Session, words: &[&str]) -> Vec<pb::Grant> {
    let request = pb::AcquireAllRequest {
        locks: specs(words),
        ..Default::default()
    };
    let op = session.send(Request::AcquireAll(request));
    match last(session, op).await {
        Response::GrantedAll(granted) => granted.grants,
        other => panic!("expected granted_all, got {other:?}"),
    }
}

/// The last answer to an operation about several locks.
async fn last(session: &mut Session, op: u64) -> Response {
    loop {
        match session.answer(op).await {
            Response::WaitingForAll(_) => {}
            end => return end,
        }
    }
}

/// Who holds a lock: `y=1`, in order.
async fn holders(client: &mut Client, name: &str) -> Vec<String> {
    let seen = client.describe(name).await;
    let each = seen.holders.iter();
    each.map(|holder| format!("{}={}", holder.owner, holder.hold_count))
        .collect()
}

/// Nobody holds or waits for any of these, in the end.
async fn expect_free(world: &World, names: &[&str]) {
    let client = world.client(0).await;
    for name in names {
        eventually("free, and nobody waits", || async {
            let seen = client.clone().describe(name).await;
            seen.holders.is_empty() && seen.waiter_count == 0
        })
        .await;
    }
}
