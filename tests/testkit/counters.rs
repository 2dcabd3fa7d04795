//! Semaphores and latches, as their users would call them.

use crate::prelude::*;
use std::time::Duration;

use lockkeeper_api::pb::{
    self, acquire_permits_response::Event as PermitEvent,
    await_latch_response::Event as LatchEvent, latch_service_client::LatchServiceClient,
    semaphore_service_client::SemaphoreServiceClient, session_request::Request,
    session_response::Response,
};
use tonic::{Status, Streaming, transport::Channel};

use crate::{
    client::{Client, Session, proto},
    expect,
};

/// Calls of one semaphore.
#[derive(Clone)]
pub struct Semaphore {
    pub api: SemaphoreServiceClient<Channel>,
    name: String,
}

/// Calls of one latch.
#[derive(Clone)]
pub struct Latch {
    pub api: LatchServiceClient<Channel>,
    name: String,
}

/// A streaming acquire of permits.
pub struct PermitCall(Streaming<pb::AcquirePermitsResponse>);

/// A streaming wait for a latch.
pub struct LatchCall(Streaming<pb::AwaitLatchResponse>);

// === impl Semaphore ===

impl Semaphore {
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            api: SemaphoreServiceClient::new(client.channel()),
            name: name.to_owned(),
        }
    }

    /// Makes or resizes it.
    pub async fn set(&mut self, permits: u32) -> pb::SetPermitsResponse {
        let request = pb::SetPermitsRequest {
            name: self.name.clone(),
            permits,
            only_if_absent: false,
        };
        self.api.set_permits(request).await.unwrap().into_inner()
    }

    pub async fn try_acquire(
        &mut self,
        owner: &str,
        permits: u32,
        lease: Duration,
    ) -> Result<pb::TryAcquirePermitsResponse, Status> {
        let request = pb::TryAcquirePermitsRequest::named(self.name.clone())
            .by(owner)
            .permits(permits)
            .lasting(lease);
        Ok(self.api.try_acquire_permits(request).await?.into_inner())
    }

    /// Whether one try gets this many permits.
    pub async fn gets_for(&mut self, owner: &str, permits: u32, lease: Duration) -> bool {
        self.try_acquire(owner, permits, lease)
            .await
            .unwrap()
            .acquired
    }

    /// A wait that gets its permits.
    pub async fn granted(&mut self, request: pb::AcquirePermitsRequest) -> pb::PermitGrant {
        self.acquire(request).await.unwrap().expect_granted().await
    }

    /// Takes permits that must be free.
    pub async fn take(&mut self, owner: &str, permits: u32, lease: Duration) -> pb::PermitGrant {
        let tried = self.try_acquire(owner, permits, lease).await.unwrap();
        tried.grant.expect("as many permits are free")
    }

    /// A wait that has begun.
    pub async fn waits(&mut self, request: pb::AcquirePermitsRequest) -> PermitCall {
        let mut call = self.acquire(request).await.unwrap();
        call.expect_waiting().await;
        call
    }

    /// Waits for permits.
    pub async fn acquire(
        &mut self,
        request: pb::AcquirePermitsRequest,
    ) -> Result<PermitCall, Status> {
        let stream = self.api.acquire_permits(request).await?;
        Ok(PermitCall(stream.into_inner()))
    }

    pub fn request(&self, owner: &str, permits: u32) -> pb::AcquirePermitsRequest {
        pb::AcquirePermitsRequest::named(self.name.clone())
            .by(owner)
            .permits(permits)
    }

    pub async fn release(
        &mut self,
        owner: &str,
        permit_ids: &[String],
    ) -> Result<pb::ReleasePermitsResponse, Status> {
        let request = pb::ReleasePermitsRequest::named(self.name.clone())
            .by(owner)
            .ids(permit_ids);
        Ok(self.api.release_permits(request).await?.into_inner())
    }

    pub async fn renew(
        &mut self,
        owner: &str,
        permit_ids: &[String],
        lease: Duration,
    ) -> Result<Vec<pb::PermitGrant>, Status> {
        let request = pb::RenewPermitsRequest::named(self.name.clone())
            .by(owner)
            .ids(permit_ids)
            .lasting(lease);
        Ok(self.api.renew_permits(request).await?.into_inner().grants)
    }

    pub async fn describe(&mut self) -> pb::DescribeSemaphoreResponse {
        let request = pb::DescribeSemaphoreRequest {
            name: self.name.clone(),
        };
        let described = self.api.describe_semaphore(request).await;
        described.unwrap().into_inner()
    }

    /// Nobody holds or waits.
    pub async fn is_idle(&mut self, total: u32) -> bool {
        let seen = self.describe().await;
        (seen.total, seen.available) == (total, total.into()) && seen.waiter_count == 0
    }
}

// === impl PermitCall ===

impl PermitCall {
    pub async fn next(&mut self) -> Result<Option<PermitEvent>, Status> {
        let response = self.0.message().await?;
        Ok(response.and_then(|response| response.event))
    }

    pub async fn expect_waiting(&mut self) -> pb::WaitingForPermits {
        expect!(self.next().await, Ok(Some(PermitEvent::Waiting(waiting))) => waiting)
    }

    /// Passes over news of the wait.
    pub async fn end(&mut self) -> Result<PermitEvent, Status> {
        loop {
            match self.next().await?.expect("a last answer") {
                PermitEvent::Waiting(_) => {}
                end => {
                    assert!(self.next().await?.is_none(), "after the last answer");
                    return Ok(end);
                }
            }
        }
    }

    pub async fn expect_granted(&mut self) -> pb::PermitGrant {
        expect!(self.end().await, Ok(PermitEvent::Granted(grant)) => grant)
    }

    pub async fn expect_timeout(&mut self) -> pb::PermitsNotGranted {
        let ended = expect!(self.end().await, Ok(PermitEvent::NotGranted(ended)) => ended);
        assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
        ended
    }
}

// === impl Session ===

impl Session {
    pub fn send_acquire_permits(&mut self, name: &str, permits: u32) -> u64 {
        self.send(Request::AcquirePermits(
            pb::AcquirePermitsRequest::named(name).permits(permits),
        ))
    }

    /// Takes watched permits.
    pub async fn acquire_permits(&mut self, name: &str, permits: u32) -> pb::PermitGrant {
        let op_id = self.send_acquire_permits(name, permits);
        self.expect_permits(op_id).await
    }

    pub async fn expect_permits(&mut self, op_id: u64) -> pb::PermitGrant {
        loop {
            match self.answer(op_id).await {
                Response::WaitingForPermits(_) => {}
                Response::PermitsGranted(grant) => return grant,
                other => panic!("expected permits, got {other:?}"),
            }
        }
    }

    pub async fn release_permits(
        &mut self,
        name: &str,
        permit_ids: &[String],
    ) -> pb::ReleasePermitsResponse {
        let op_id = self.send(Request::ReleasePermits(
            pb::ReleasePermitsRequest::named(name).ids(permit_ids),
        ));
        expect!(self.answer(op_id).await, Response::PermitsReleased)
    }

    pub async fn expect_permits_lost(&mut self) -> pb::PermitsLost {
        expect!(self.notice().await, Response::PermitsLost)
    }
}

// === impl Latch ===

impl Latch {
    pub fn new(client: &Client, name: &str) -> Self {
        Self {
            api: LatchServiceClient::new(client.channel()),
            name: name.to_owned(),
        }
    }

    pub async fn set(&mut self, count: u32) -> bool {
        let request = pb::SetCountRequest::named(self.name.clone()).count(count);
        let set = self.api.set_count(request).await.unwrap();
        set.into_inner().set
    }

    pub async fn count_down(&mut self, by: u32) -> Result<u32, Status> {
        self.count_down_as(by, "").await
    }

    pub async fn count_down_as(&mut self, by: u32, request_id: &str) -> Result<u32, Status> {
        let request = pb::CountDownRequest {
            name: self.name.clone(),
            by,
            request_id: request_id.to_owned(),
        };
        Ok(self.api.count_down(request).await?.into_inner().count)
    }

    pub async fn delete(&mut self) -> bool {
        let name = self.name.clone();
        let deleted = self.api.delete_latch(pb::DeleteLatchRequest { name }).await;
        deleted.unwrap().into_inner().deleted
    }

    pub async fn describe(&mut self) -> pb::DescribeLatchResponse {
        let name = self.name.clone();
        let described = self.api.describe_latch(pb::DescribeLatchRequest { name });
        described.await.unwrap().into_inner()
    }

    pub async fn wait(&mut self, wait_timeout: Option<Duration>) -> LatchCall {
        let request = pb::AwaitLatchRequest {
            name: self.name.clone(),
            wait_timeout: wait_timeout.map(proto),
            ..Default::default()
        };
        LatchCall(self.api.await_latch(request).await.unwrap().into_inner())
    }
}

// === impl LatchCall ===

impl LatchCall {
    pub async fn next(&mut self) -> Result<Option<LatchEvent>, Status> {
        let response = self.0.message().await?;
        Ok(response.and_then(|response| response.event))
    }

    pub async fn expect_waiting(&mut self, count: u32) {
        let waiting = expect!(self.next().await, Ok(Some(LatchEvent::Waiting(it))) => it);
        assert_eq!(waiting.count, count);
    }

    /// Passes over news of the wait.
    pub async fn end(&mut self) -> LatchEvent {
        loop {
            match self.next().await.unwrap().expect("a last answer") {
                LatchEvent::Waiting(_) => {}
                end => {
                    assert!(self.next().await.unwrap().is_none(), "after the last");
                    return end;
                }
            }
        }
    }

    pub async fn expect_opened(&mut self) {
        let end = self.end().await;
        assert!(matches!(end, LatchEvent::Opened(_)), "{end:?}");
    }
}
