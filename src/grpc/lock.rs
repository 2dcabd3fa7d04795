//! `LockService`: each RPC is converted, submitted to the coordinator as an operation, and answered.

use std::sync::Arc;

use tonic::{Request, Response, Status, Streaming};

use super::{
    Config,
    call::{Calls, Events, within},
    convert,
    layer::BodyFate,
    outbound::Outbound,
    pb, session,
    status::status,
};
use crate::coordinator::{Answer, Coordinator, Operation};

/// The service.
#[derive(Clone, Debug)]
pub(super) struct LockService {
    calls: Calls,
    config: Arc<Config>,
}

// === impl LockService ===

impl LockService {
    pub(super) fn new(coordinator: Coordinator, config: Arc<Config>) -> Self {
        let calls = Calls { coordinator };
        Self { calls, config }
    }
}

#[tonic::async_trait]
impl pb::lock_service_server::LockService for LockService {
    type SessionStream = Outbound;
    type AcquireStream = Events<pb::AcquireResponse>;

    async fn session(
        &self,
        request: Request<Streaming<pb::SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let fate = request
            .extensions()
            .get::<BodyFate>()
            .cloned()
            .unwrap_or_default();
        let frames = request.into_inner();
        Ok(Response::new(session::serve(
            self.calls.coordinator.clone(),
            &self.config,
            frames,
            fate,
        )))
    }

    async fn acquire(
        &self,
        request: Request<pb::AcquireRequest>,
    ) -> Result<Response<Self::AcquireStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let operation = self.calls.requests().acquire(request).map(|mut acquire| {
            acquire.wait = within(acquire.wait, &metadata);
            Operation::Acquire(acquire)
        });
        self.calls.wait(operation, event)
    }

    async fn try_acquire(
        &self,
        request: Request<pb::TryAcquireRequest>,
    ) -> Result<Response<pb::TryAcquireResponse>, Status> {
        let operation = self.calls.requests().try_acquire(request.get_ref());
        self.calls
            .run(
                operation.map(Operation::TryAcquire),
                |answer| match answer {
                    Answer::Tried(tried) => Some(convert::tried(tried)),
                    _ => None,
                },
            )
            .await
    }

    async fn release(
        &self,
        request: Request<pb::ReleaseRequest>,
    ) -> Result<Response<pb::ReleaseResponse>, Status> {
        let operation = self.calls.requests().release(request.get_ref());
        self.calls
            .run(operation.map(Operation::Release), |answer| match answer {
                Answer::Released(hold_count) => Some(Ok(convert::released(hold_count))),
                _ => None,
            })
            .await
    }

    async fn renew(
        &self,
        request: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let operation = self.calls.requests().renew(request.get_ref());
        self.calls
            .run(operation.map(Operation::Renew), |answer| match answer {
                Answer::Renewed(grant) => Some(Ok(pb::RenewResponse {
                    grant: Some(convert::grant(&grant)),
                })),
                _ => None,
            })
            .await
    }

    type AcquireAllStream = tokio_stream::Empty<Result<pb::AcquireAllResponse, Status>>;

    async fn acquire_all(
        &self,
        _: Request<pb::AcquireAllRequest>,
    ) -> Result<Response<Self::AcquireAllStream>, Status> {
        Err(Status::unimplemented("acquire_all"))
    }

    async fn try_acquire_all(
        &self,
        _: Request<pb::TryAcquireAllRequest>,
    ) -> Result<Response<pb::TryAcquireAllResponse>, Status> {
        Err(Status::unimplemented("try_acquire_all"))
    }

    async fn release_all(
        &self,
        _: Request<pb::ReleaseAllRequest>,
    ) -> Result<Response<pb::ReleaseAllResponse>, Status> {
        Err(Status::unimplemented("release_all"))
    }

    async fn describe(
        &self,
        request: Request<pb::DescribeRequest>,
    ) -> Result<Response<pb::DescribeResponse>, Status> {
        let operation = self.calls.requests().describe(request.get_ref());
        self.calls
            .run(operation, |answer| match answer {
                Answer::Described(seen) => Some(Ok(convert::described(seen))),
                _ => None,
            })
            .await
    }

    async fn check_token(
        &self,
        request: Request<pb::CheckTokenRequest>,
    ) -> Result<Response<pb::CheckTokenResponse>, Status> {
        let operation = self.calls.requests().check_token(request.get_ref());
        self.calls
            .run(operation, |answer| match answer {
                Answer::TokenChecked(checked) => Some(Ok(convert::token_checked(checked))),
                _ => None,
            })
            .await
    }
}

fn event(answer: Answer) -> Option<Result<pb::AcquireResponse, Status>> {
    use pb::acquire_response::Event;
    let event = match answer {
        Answer::Waiting(waiting) => Ok(Event::Waiting(convert::waiting(waiting))),
        Answer::Granted(delivery) => {
            let grant = delivery.take().map_err(|error| status(&error));
            grant.map(|grant| Event::Granted(convert::grant(&grant)))
        }
        Answer::NotGranted(ended) => Ok(Event::NotGranted(convert::not_granted(ended))),
        _ => return None,
    };
    Some(event.map(|event| pb::AcquireResponse { event: Some(event) }))
}
