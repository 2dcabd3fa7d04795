//! `LockService`: converts each RPC, submits it to the coordinator as an operation, and answers it.

use std::sync::Arc;

use lockkeeper_coordinator::{Answer, Operation};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Config, Peer,
    answers::{self, Answers},
    auth,
    call::{Calls, within},
    convert,
    layer::BodyFate,
    multi,
    outbound::Outbound,
    pb, session,
    status::unexpected_answer,
};

/// Serves `LockService`.
#[derive(Clone, Debug)]
pub(super) struct LockService {
    calls: Calls,
    config: Arc<Config>,
}

// === impl LockService ===

impl LockService {
    pub(super) fn new(calls: Calls, config: Arc<Config>) -> Self {
        Self { calls, config }
    }
}

#[tonic::async_trait]
impl pb::lock_service_server::LockService for LockService {
    type SessionStream = Outbound;
    type AcquireStream = Answers<pb::AcquireResponse>;
    type AcquireAllStream = Answers<pb::AcquireAllResponse>;

    async fn session(
        &self,
        request: Request<Streaming<pb::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let fate = request
            .extensions()
            .get::<BodyFate>()
            .cloned()
            .unwrap_or_default();
        let account = auth::account(request.extensions());
        let peer = request.extensions().get::<Peer>().map(Peer::told);
        let frames = request.into_inner();
        Ok(Response::new(session::serve(
            self.calls.clone(),
            account,
            peer,
            &self.config,
            frames,
            fate,
        )))
    }

    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<Self::AcquireStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let account = auth::account(&extensions);
        let operation = self
            .calls
            .requests(&account)
            .acquire(request)
            .map(|mut acquire| {
                acquire.wait = within(acquire.wait, &metadata);
                Operation::Acquire(acquire)
            });
        self.calls.wait(account, operation, answers::acquire)
    }

    async fn try_acquire(
        &self,
        request: Request<pb::TryAcquireRequest>,
    ) -> Result<Response<pb::TryAcquireResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).try_acquire(request.get_ref());
        self.calls
            .run(
                operation.map(Operation::TryAcquire),
                |answer| match answer {
                    Answer::Tried(tried) => convert::tried(tried),
                    _ => Err(unexpected_answer()),
                },
            )
            .await
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).release(request.get_ref());
        self.calls
            .run(operation.map(Operation::Release), |answer| match answer {
                Answer::Released(hold_count) => Ok(convert::released(hold_count)),
                _ => Err(unexpected_answer()),
            })
            .await
    }

    async fn renew(
        &self,
        request: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).renew(request.get_ref());
        self.calls
            .run(operation.map(Operation::Renew), |answer| match answer {
                Answer::Renewed(grant) => Ok(pb::RenewResponse {
                    grant: Some(convert::grant(&grant)),
                }),
                _ => Err(unexpected_answer()),
            })
            .await
    }

    async fn acquire_all(
        &self,
        request: Request<pb::AcquireAllRequest>,
    ) -> Result<Response<Self::AcquireAllStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let account = auth::account(&extensions);
        let operation = self
            .calls
            .requests(&account)
            .acquire_all(request)
            .map(|mut acquire| {
                acquire.wait = within(acquire.wait, &metadata);
                Operation::AcquireAll(acquire)
            });
        self.calls.wait(account, operation, answers::acquire_all)
    }

    async fn try_acquire_all(
        &self,
        request: Request<pb::TryAcquireAllRequest>,
    ) -> Result<Response<pb::TryAcquireAllResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self
            .calls
            .requests(&account)
            .try_acquire_all(request.get_ref());
        self.calls
            .run(
                operation.map(Operation::TryAcquireAll),
                |answer| match answer {
                    Answer::TriedAll(tried) => multi::tried(tried),
                    _ => Err(unexpected_answer()),
                },
            )
            .await
    }

    async fn release_all(
        &self,
        request: Request<pb::ReleaseAllRequest>,
    ) -> Result<Response<pb::ReleaseAllResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).release_all(request.get_ref());
        self.calls
            .run(
                operation.map(Operation::ReleaseAll),
                |answer| match answer {
                    Answer::ReleasedAll(locks) => Ok(multi::released(locks)),
                    _ => Err(unexpected_answer()),
                },
            )
            .await
    }

    async fn describe(
        &self,
        request: Request<pb::DescribeRequest>,
    ) -> Result<Response<pb::DescribeResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).describe(request.get_ref());
        self.calls
            .run(operation, |answer| match answer {
                Answer::Described(seen) => {
                    Ok(convert::described(seen, &self.calls.viewer(&account)))
                }
                _ => Err(unexpected_answer()),
            })
            .await
    }

    async fn check_token(
        &self,
        request: Request<pb::CheckTokenRequest>,
    ) -> Result<Response<pb::CheckTokenResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).check_token(request.get_ref());
        self.calls
            .run(operation, |answer| match answer {
                Answer::TokenChecked(checked) => Ok(convert::token_checked(checked)),
                _ => Err(unexpected_answer()),
            })
            .await
    }
}
