//! Several locks at once: short forms of the client's calls.

use lockkeeper_api::pb::{
    self, LockMode, acquire_all_response::Event, session_request::Request,
    session_response::Response,
};
use tonic::{Status, Streaming};

use crate::{
    client::{Client, Session},
    expect,
};

/// A streaming acquire of several locks.
pub struct AllCall(Streaming<pb::AcquireAllResponse>);

pub fn spec_in(name: &str, mode: LockMode) -> pb::LockSpec {
    pb::LockSpec {
        name: name.to_owned(),
        mode: mode.into(),
    }
}

/// `a`, or `a:read`.
pub fn spec(word: &str) -> pb::LockSpec {
    let (name, mode) = word.split_once(':').unwrap_or((word, ""));
    let mode = match mode {
        "" => LockMode::Unspecified,
        "fair" => LockMode::Fair,
        "read" => LockMode::Read,
        "write" => LockMode::Write,
        _ => panic!("no such mode: {mode}"),
    };
    spec_in(name, mode)
}

pub fn specs(words: &[&str]) -> Vec<pb::LockSpec> {
    words.iter().map(|word| spec(word)).collect()
}

/// One try of a sessionless owner.
pub fn try_all(locks: Vec<pb::LockSpec>, owner: &str) -> pb::TryAcquireAllRequest {
    pb::TryAcquireAllRequest {
        locks,
        owner: owner.to_owned(),
        ..Default::default()
    }
}

/// A release by a sessionless owner.
pub fn release_all(locks: Vec<pb::LockSpec>, owner: &str) -> pb::ReleaseAllRequest {
    pb::ReleaseAllRequest {
        locks,
        owner: owner.to_owned(),
        ..Default::default()
    }
}

// === impl AllCall ===

impl AllCall {
    pub async fn start(client: &mut Client, request: pb::AcquireAllRequest) -> Self {
        Self(client.api.acquire_all(request).await.unwrap().into_inner())
    }

    pub async fn next(&mut self) -> Result<Option<Event>, Status> {
        Ok(self.0.message().await?.and_then(|answer| answer.event))
    }

    /// The name of the lock that is waited for.
    pub async fn expect_waiting(&mut self) -> String {
        let waiting = expect!(self.next().await, Ok(Some(Event::Waiting(it))) => it);
        assert!(waiting.waiting.unwrap().position > 0);
        waiting.name
    }

    /// Passes over news of the wait.
    pub async fn end(&mut self) -> Result<Event, Status> {
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

    pub async fn expect_granted(&mut self) -> Vec<pb::Grant> {
        expect!(self.end().await, Ok(Event::Granted(granted)) => granted.grants)
    }

    pub async fn expect_timeout(&mut self) {
        let ended = expect!(self.end().await, Ok(Event::NotGranted(ended)) => ended);
        assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
    }
}

// === impl Client ===

impl Client {
    pub async fn try_all(
        &mut self,
        request: pb::TryAcquireAllRequest,
    ) -> Result<pb::TryAcquireAllResponse, Status> {
        Ok(self.api.try_acquire_all(request).await?.into_inner())
    }
}

// === impl Session ===

impl Session {
    /// Takes watched locks and waits for them.
    pub async fn take_all(&mut self, locks: &[pb::LockSpec]) -> Vec<pb::Grant> {
        let op_id = self.send(Request::AcquireAll(pb::AcquireAllRequest {
            locks: locks.to_vec(),
            ..Default::default()
        }));
        self.expect_all_granted(op_id).await
    }

    pub async fn expect_all_granted(&mut self, op_id: u64) -> Vec<pb::Grant> {
        expect!(self.end_of_all(op_id).await, Response::GrantedAll(granted) => granted.grants)
    }

    /// The last answer to an operation about several locks.
    pub async fn end_of_all(&mut self, op_id: u64) -> Response {
        loop {
            match self.answer(op_id).await {
                Response::WaitingForAll(_) => {}
                end => return end,
            }
        }
    }

    pub async fn try_all(&mut self, locks: &[pb::LockSpec]) -> pb::TryAcquireAllResponse {
        let op_id = self.send(Request::TryAcquireAll(try_all(locks.to_vec(), "")));
        expect!(self.answer(op_id).await, Response::TriedAll)
    }

    /// Gives locks back; the answer says which of them were held.
    pub async fn release_all(&mut self, locks: &[pb::LockSpec]) -> pb::ReleaseAllResponse {
        let op_id = self.send(Request::ReleaseAll(release_all(locks.to_vec(), "")));
        expect!(self.answer(op_id).await, Response::ReleasedAll)
    }

    /// Gives locks back, all of which are held.
    pub async fn give_all_back(&mut self, locks: &[pb::LockSpec]) {
        let released = self.release_all(locks).await.locks;
        assert!(released.iter().all(|lock| lock.held), "{released:?}");
    }
}
