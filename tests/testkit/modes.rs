//! Locks, also in a mode: short forms of the client's calls.

use crate::prelude::*;
use std::time::Duration;

use lockkeeper_api::pb::{self, LockMode, session_request::Request, session_response::Response};
use tonic::Status;

use crate::{
    client::{Call, Client, Session, acquire_request, try_request},
    expect,
};

/// All of them.
pub const MODES: [LockMode; 4] = [
    LockMode::Exclusive,
    LockMode::Fair,
    LockMode::Read,
    LockMode::Write,
];

const LEASE: Duration = Duration::from_secs(60);

/// A wait in some mode, with a lease of a minute.
pub fn wait(name: &str, owner: &str, mode: LockMode) -> pb::AcquireRequest {
    acquire_request(name, owner).in_mode(mode).lasting(LEASE)
}

/// A release of one hold in some mode.
pub fn release(name: &str, owner: &str, mode: LockMode) -> pb::ReleaseRequest {
    pb::ReleaseRequest::named(name).by(owner).in_mode(mode)
}

impl Client {
    pub async fn try_with(
        &mut self,
        request: pb::TryAcquireRequest,
    ) -> Result<pb::TryAcquireResponse, Status> {
        Ok(self.api.try_acquire(request).await?.into_inner())
    }

    /// Whether a try gets the lock.
    pub async fn tries(&mut self, request: pb::TryAcquireRequest) -> bool {
        self.try_with(request).await.unwrap().acquired
    }

    /// A try that gets the lock.
    pub async fn take(&mut self, request: pb::TryAcquireRequest) -> pb::Grant {
        self.try_with(request).await.unwrap().grant.unwrap()
    }

    /// The same of a sessionless owner with a lease.
    pub async fn take_for(&mut self, name: &str, owner: &str, lease: Duration) -> pb::Grant {
        self.try_acquire(name, owner, lease)
            .await
            .unwrap()
            .grant
            .unwrap()
    }

    /// Whether one try of a sessionless owner gets the lock.
    pub async fn gets_for(&mut self, name: &str, owner: &str, lease: Duration) -> bool {
        self.try_acquire(name, owner, lease).await.unwrap().acquired
    }

    /// A wait that has begun.
    pub async fn waits(&mut self, request: pb::AcquireRequest) -> Call {
        let mut call = self.acquire(request).await.unwrap();
        call.expect_waiting().await;
        call
    }

    /// A wait that gets the lock.
    pub async fn granted(&mut self, request: pb::AcquireRequest) -> pb::Grant {
        self.acquire(request).await.unwrap().expect_granted().await
    }

    /// A wait that ends with its time limit.
    pub async fn times_out(&mut self, request: pb::AcquireRequest) {
        self.acquire(request).await.unwrap().expect_timeout().await;
    }

    pub async fn release_with(
        &mut self,
        request: pb::ReleaseRequest,
    ) -> Result<pb::ReleaseResponse, Status> {
        Ok(self.api.release(request).await?.into_inner())
    }

    /// One try in some mode.
    pub async fn try_in(
        &mut self,
        name: &str,
        owner: &str,
        mode: LockMode,
        lease: Duration,
    ) -> Result<pb::TryAcquireResponse, Status> {
        let request = try_request(name, owner).in_mode(mode).lasting(lease);
        self.try_with(request).await
    }

    /// Whether one try in some mode gets the lock, for a minute.
    pub async fn gets(&mut self, name: &str, owner: &str, mode: LockMode) -> bool {
        let tried = self.try_in(name, owner, mode, LEASE).await;
        tried.unwrap().acquired
    }

    /// Gives one hold in some mode back; another may be left.
    pub async fn give_back(&mut self, name: &str, owner: &str, mode: LockMode) {
        self.api.release(release(name, owner, mode)).await.unwrap();
    }

    /// Whether a fencing token is the newest of a lock, and that is held.
    pub async fn check_token(&mut self, name: &str, token: u64) -> pb::CheckTokenResponse {
        let request = pb::CheckTokenRequest {
            name: name.to_owned(),
            fencing_token: token,
        };
        self.api.check_token(request).await.unwrap().into_inner()
    }

    /// The owners that hold a lock, in order.
    pub async fn holders(&mut self, name: &str) -> Vec<String> {
        let holders = self.describe(name).await.holders.into_iter();
        holders.map(|holder| holder.owner).collect()
    }
}

impl Session {
    /// A wait that gets the lock.
    pub async fn granted(&mut self, request: pb::AcquireRequest) -> pb::Grant {
        let op_id = self.send(Request::Acquire(request));
        self.expect_granted(op_id).await
    }

    /// Asks for a watched lock, which is held by another.
    pub async fn waits_for(&mut self, name: &str, owner: &str) -> u64 {
        let op_id = self.send_acquire(name, owner);
        expect!(self.answer(op_id).await, Response::Waiting(_) => op_id)
    }

    /// Asks for a watched lock in some mode.
    pub fn send_in(&mut self, name: &str, mode: LockMode) -> u64 {
        self.send(Request::Acquire(acquire_request(name, "").in_mode(mode)))
    }

    /// Takes a watched lock in some mode.
    pub async fn take_in(&mut self, name: &str, mode: LockMode) -> pb::Grant {
        let op_id = self.send_in(name, mode);
        self.expect_granted(op_id).await
    }

    /// Asks for a lock, which is held by another.
    pub async fn wait_in(&mut self, name: &str, mode: LockMode) -> (u64, pb::Waiting) {
        let op_id = self.send_in(name, mode);
        expect!(self.answer(op_id).await, Response::Waiting(waiting) => (op_id, waiting))
    }

    pub fn send_release_in(&mut self, name: &str, mode: LockMode) -> u64 {
        self.send(Request::Release(release(name, "", mode)))
    }

    pub async fn release_in(&mut self, name: &str, mode: LockMode) -> pb::ReleaseResponse {
        let op_id = self.send_release_in(name, mode);
        expect!(self.end(op_id).await, Response::Released)
    }
}
