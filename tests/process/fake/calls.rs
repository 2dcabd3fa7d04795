//! What the fake answers to plain calls.

use std::collections::HashMap;

use futures::{StreamExt as _, stream::BoxStream};
use lockkeeper_api::pb::{
    AcquireAllRequest, AcquireAllResponse, AcquireRequest, AcquireResponse, AwaitFreeRequest,
    AwaitFreeResponse, CheckTokenRequest, CheckTokenResponse, ClaimRequest, ClaimResponse,
    DescribeRequest, DescribeResponse, ExplainRequest, ExplainResponse, GrantedAll, Holder,
    LockFree, OfferRequest, OfferResponse, ReleaseAllRequest, ReleaseAllResponse, ReleaseRequest,
    ReleaseResponse, ReleasedLock, RenewRequest, RenewResponse, RequestYieldRequest,
    RequestYieldResponse, SessionRequest, SessionResponse, TryAcquireAllRequest,
    TryAcquireAllResponse, TryAcquireRequest, TryAcquireResponse, Waiter, Waiting, WaitingForAll,
    WatchLockRequest, WatchLockResponse, acquire_all_response, acquire_response,
    await_free_response, lock_service_server::LockService,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::coordinator::{Service, TOKEN, not_granted, waiting};
use crate::prelude::*;

fn refusal(code: Code, reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "lockkeeper", HashMap::new());
    Status::with_error_details(code, "no", details)
}

#[tonic::async_trait]
impl LockService for Service {
    type SessionStream = UnboundedReceiverStream<Result<SessionResponse, Status>>;
    type AcquireStream = BoxStream<'static, Result<AcquireResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (tell, told) = mpsc::unbounded_channel();
        spawn_detached("session", self.clone().serve(request.into_inner(), tell));
        Ok(Response::new(UnboundedReceiverStream::new(told)))
    }

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<Self::AcquireStream>, Status> {
        let request = request.into_inner();
        self.saw(format!("{request:?}"));
        let last = if self.behaviour().is_busy {
            acquire_response::Event::NotGranted(not_granted())
        } else {
            acquire_response::Event::Granted(self.grant(&request.name, request.mode))
        };
        let events = [acquire_response::Event::Waiting(waiting()), last];
        let events = events.map(|event| Ok(AcquireResponse { event: Some(event) }));
        Ok(Response::new(futures::stream::iter(events).boxed()))
    }

    async fn try_acquire(
        &self,
        request: Request<TryAcquireRequest>,
    ) -> Result<Response<TryAcquireResponse>, Status> {
        let acquired = !self.behaviour().is_busy;
        let request = request.into_inner();
        self.saw_mode(request.mode());
        Ok(Response::new(TryAcquireResponse {
            acquired,
            grant: acquired.then(|| self.grant(&request.name, request.mode)),
            holder_remaining_lease: None,
            holder_note: None,
        }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        self.saw_mode(request.get_ref().mode());
        match request.get_ref().owner.as_str() {
            "0" => Ok(Response::new(ReleaseResponse {
                released: true,
                hold_count: 0,
            })),
            "unknown" => Err(refusal(Code::Unavailable, "OUTCOME_UNKNOWN")),
            "writer" => Err(refusal(Code::FailedPrecondition, "WRONG_KIND")),
            _ => Err(refusal(Code::FailedPrecondition, "NOT_OWNER")),
        }
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let request = request.into_inner();
        self.saw_mode(request.mode());
        let grant = Some(self.grant(&request.name, request.mode));
        Ok(Response::new(RenewResponse { grant }))
    }

    async fn request_yield(
        &self,
        request: Request<RequestYieldRequest>,
    ) -> Result<Response<RequestYieldResponse>, Status> {
        let request = request.into_inner();
        self.saw(format!("{request:?}"));
        let holder = Holder {
            owner: "0".to_owned(),
            hold_count: 1,
            client_name: "nightly".to_owned(),
            mode: LockMode::Exclusive.into(),
            ..Holder::default()
        };
        let is_reached = !self.behaviour().is_busy;
        Ok(Response::new(RequestYieldResponse {
            reached: is_reached.then(|| holder.clone()).into_iter().collect(),
            unreached: (!is_reached).then_some(holder).into_iter().collect(),
            holder_count: 1,
            reached_count: is_reached.into(),
        }))
    }

    async fn offer(&self, _: Request<OfferRequest>) -> Result<Response<OfferResponse>, Status> {
        Err(Status::unimplemented("no command offers"))
    }

    async fn claim(&self, _: Request<ClaimRequest>) -> Result<Response<ClaimResponse>, Status> {
        Err(Status::unimplemented("no command claims"))
    }

    type AcquireAllStream = BoxStream<'static, Result<AcquireAllResponse, Status>>;

    async fn acquire_all(
        &self,
        request: Request<AcquireAllRequest>,
    ) -> Result<Response<Self::AcquireAllStream>, Status> {
        let request = request.into_inner();
        self.saw(format!("{request:?}"));
        let last = if self.behaviour().is_busy {
            acquire_all_response::Event::NotGranted(not_granted())
        } else {
            let grants = self.grants(&request.locks);
            acquire_all_response::Event::Granted(GrantedAll { grants })
        };
        let waiting = WaitingForAll {
            name: request.locks[0].name.clone(),
            waiting: Some(waiting()),
        };
        let events = [acquire_all_response::Event::Waiting(waiting), last];
        let events = events.map(|event| Ok(AcquireAllResponse { event: Some(event) }));
        Ok(Response::new(futures::stream::iter(events).boxed()))
    }

    async fn try_acquire_all(
        &self,
        request: Request<TryAcquireAllRequest>,
    ) -> Result<Response<TryAcquireAllResponse>, Status> {
        let locks = request.into_inner().locks;
        let answer = if self.behaviour().is_busy {
            TryAcquireAllResponse {
                busy_name: locks[0].name.clone(),
                holder_remaining_lease: Duration::from_secs(12).try_into().ok(),
                ..TryAcquireAllResponse::default()
            }
        } else {
            TryAcquireAllResponse {
                acquired: true,
                grants: self.grants(&locks),
                ..TryAcquireAllResponse::default()
            }
        };
        Ok(Response::new(answer))
    }

    async fn release_all(
        &self,
        request: Request<ReleaseAllRequest>,
    ) -> Result<Response<ReleaseAllResponse>, Status> {
        let locks = request
            .into_inner()
            .locks
            .into_iter()
            .map(|lock| ReleasedLock {
                held: lock.name != "lost",
                hold_count: u32::from(lock.name == "twice"),
                name: lock.name,
                mode: lock.mode,
            });
        let locks = locks.collect();
        Ok(Response::new(ReleaseAllResponse { locks }))
    }

    type AwaitFreeStream = BoxStream<'static, Result<AwaitFreeResponse, Status>>;

    async fn await_free(
        &self,
        request: Request<AwaitFreeRequest>,
    ) -> Result<Response<Self::AwaitFreeStream>, Status> {
        self.saw(format!("{:?}", request.into_inner()));
        let last = if self.behaviour().is_busy {
            await_free_response::Event::NotFree(not_granted())
        } else {
            await_free_response::Event::Free(LockFree {
                last_fencing_token: TOKEN,
            })
        };
        let waiting = Waiting {
            position: 0,
            ..waiting()
        };
        let events = [await_free_response::Event::Waiting(waiting), last];
        let events = events.map(|event| Ok(AwaitFreeResponse { event: Some(event) }));
        Ok(Response::new(futures::stream::iter(events).boxed()))
    }

    type WatchLockStream = BoxStream<'static, Result<WatchLockResponse, Status>>;

    async fn watch_lock(
        &self,
        _: Request<WatchLockRequest>,
    ) -> Result<Response<Self::WatchLockStream>, Status> {
        Err(Status::unimplemented("its words have tests of their own"))
    }

    async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<DescribeResponse>, Status> {
        let name = request.into_inner().name;
        if name.is_empty() {
            return Err(refusal(Code::InvalidArgument, "INVALID_NAME"));
        }
        Ok(Response::new(DescribeResponse {
            name,
            mode: LockMode::Read.into(),
            holders: vec![Holder {
                session_digest: "5feceb66ffc86f38".to_owned(),
                owner: "0".to_owned(),
                hold_count: 2,
                client_name: "search".to_owned(),
                mode: LockMode::Read.into(),
                remaining_lease: Duration::from_millis(1500).try_into().ok(),
                note: None,
                held_for: None,
            }],
            remaining_lease: Duration::from_millis(1500).try_into().ok(),
            last_fencing_token: TOKEN,
            waiters: vec![Waiter {
                owner: "1".to_owned(),
                position: 1,
                mode: LockMode::Write.into(),
                waiting_for: Duration::from_secs(2).try_into().ok(),
                ..Waiter::default()
            }],
            waiter_count: 3,
            holder_count: 12,
        }))
    }

    async fn explain(
        &self,
        _: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        Err(Status::unimplemented("its words have tests of their own"))
    }

    async fn check_token(
        &self,
        request: Request<CheckTokenRequest>,
    ) -> Result<Response<CheckTokenResponse>, Status> {
        Ok(Response::new(CheckTokenResponse {
            current: request.get_ref().fencing_token == TOKEN,
            last_fencing_token: TOKEN,
            held: true,
        }))
    }
}
