//! `SemaphoreService`.

use tonic::{Request, Response, Status};

use super::{
    call::{Calls, Events, within},
    convert_permits as convert, pb,
};
use crate::coordinator::{Answer, Operation, PermitAnswer, PermitOperation};

/// The service.
#[derive(Clone, Debug)]
pub(super) struct SemaphoreService {
    pub(super) calls: Calls,
}

#[tonic::async_trait]
impl pb::semaphore_service_server::SemaphoreService for SemaphoreService {
    type AcquirePermitsStream = Events<pb::AcquirePermitsResponse>;

    async fn acquire_permits(
        &self,
        request: Request<pb::AcquirePermitsRequest>,
    ) -> Result<Response<Self::AcquirePermitsStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let requests = self.calls.requests();
        let operation = requests.acquire_permits(request).map(|mut acquire| {
            acquire.wait = within(acquire.wait, &metadata);
            Operation::Permits(PermitOperation::Acquire(acquire))
        });
        self.calls.wait(operation, event)
    }

    async fn try_acquire_permits(
        &self,
        request: Request<pb::TryAcquirePermitsRequest>,
    ) -> Result<Response<pb::TryAcquirePermitsResponse>, Status> {
        let acquire = self.calls.requests().try_acquire_permits(request.get_ref());
        let operation = acquire.map(|it| Operation::Permits(PermitOperation::TryAcquire(it)));
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Acquired(delivery)) => Some(convert::acquired(delivery)),
            Answer::Permits(PermitAnswer::Busy { available }) => Some(Ok(convert::busy(available))),
            _ => None,
        };
        self.calls.run(operation, answer).await
    }

    async fn release_permits(
        &self,
        request: Request<pb::ReleasePermitsRequest>,
    ) -> Result<Response<pb::ReleasePermitsResponse>, Status> {
        let operation = self.calls.requests().release_permits(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Released { permits, available }) => {
                Some(Ok(convert::released(permits, available)))
            }
            _ => None,
        };
        self.calls.run(operation, answer).await
    }

    async fn renew_permits(
        &self,
        request: Request<pb::RenewPermitsRequest>,
    ) -> Result<Response<pb::RenewPermitsResponse>, Status> {
        let operation = self.calls.requests().renew_permits(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Renewed(grants)) => Some(Ok(convert::renewed(&grants))),
            _ => None,
        };
        self.calls.run(operation, answer).await
    }

    async fn set_permits(
        &self,
        request: Request<pb::SetPermitsRequest>,
    ) -> Result<Response<pb::SetPermitsResponse>, Status> {
        let operation = self.calls.requests().set_permits(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Set(set)) => Some(Ok(convert::set(set))),
            _ => None,
        };
        self.calls.run(operation, answer).await
    }

    async fn describe_semaphore(
        &self,
        request: Request<pb::DescribeSemaphoreRequest>,
    ) -> Result<Response<pb::DescribeSemaphoreResponse>, Status> {
        let operation = self.calls.requests().describe_semaphore(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Described(seen)) => Some(Ok(convert::described(seen))),
            _ => None,
        };
        self.calls.run(operation, answer).await
    }
}

fn event(answer: Answer) -> Option<Result<pb::AcquirePermitsResponse, Status>> {
    use pb::acquire_permits_response::Event;
    let event = match answer {
        Answer::Permits(PermitAnswer::Waiting(it)) => Ok(Event::Waiting(convert::waiting(it))),
        Answer::Permits(PermitAnswer::Granted(delivery)) => {
            convert::delivered(delivery).map(Event::Granted)
        }
        Answer::Permits(PermitAnswer::NotGranted(ended)) => {
            Ok(Event::NotGranted(convert::not_granted(ended)))
        }
        _ => return None,
    };
    Some(event.map(|event| pb::AcquirePermitsResponse { event: Some(event) }))
}
