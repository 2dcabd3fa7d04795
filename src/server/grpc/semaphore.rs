//! `SemaphoreService`.

use lockkeeper_coordinator::{Answer, Operation, PermitAnswer, PermitOperation};
use tonic::{Request, Response, Status};

use super::{
    answers::{Answers, Said},
    auth,
    call::{Calls, within},
    convert_permits as convert, pb,
    status::{status, unexpected_answer},
};

/// Serves `SemaphoreService`.
#[derive(Clone, Debug)]
pub(super) struct SemaphoreService {
    pub(super) calls: Calls,
}

#[tonic::async_trait]
impl pb::semaphore_service_server::SemaphoreService for SemaphoreService {
    type AcquirePermitsStream = Answers<pb::AcquirePermitsResponse>;

    async fn acquire_permits(
        &self,
        request: Request<pb::AcquirePermitsRequest>,
    ) -> Result<Response<Self::AcquirePermitsStream>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let account = auth::account(&extensions);
        let requests = self.calls.requests(&account);
        let operation = requests.acquire_permits(request).map(|mut acquire| {
            acquire.wait = within(acquire.wait, &metadata);
            Operation::Permits(PermitOperation::Acquire(acquire))
        });
        self.calls.wait(account, operation, said)
    }

    async fn try_acquire_permits(
        &self,
        request: Request<pb::TryAcquirePermitsRequest>,
    ) -> Result<Response<pb::TryAcquirePermitsResponse>, Status> {
        let account = auth::account(request.extensions());
        let acquire = self
            .calls
            .requests(&account)
            .try_acquire_permits(request.get_ref());
        let operation = acquire.map(|it| Operation::Permits(PermitOperation::TryAcquire(it)));
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Acquired(delivery)) => convert::acquired(delivery),
            Answer::Permits(PermitAnswer::Busy { available }) => Ok(convert::busy(available)),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn release_permits(
        &self,
        request: Request<pb::ReleasePermitsRequest>,
    ) -> Result<Response<pb::ReleasePermitsResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self
            .calls
            .requests(&account)
            .release_permits(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Released { permits, available }) => {
                Ok(convert::released(permits, available))
            }
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn renew_permits(
        &self,
        request: Request<pb::RenewPermitsRequest>,
    ) -> Result<Response<pb::RenewPermitsResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self
            .calls
            .requests(&account)
            .renew_permits(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Renewed(grants)) => Ok(convert::renewed(&grants)),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn set_permits(
        &self,
        request: Request<pb::SetPermitsRequest>,
    ) -> Result<Response<pb::SetPermitsResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self.calls.requests(&account).set_permits(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Set(set)) => Ok(convert::set(set)),
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }

    async fn describe_semaphore(
        &self,
        request: Request<pb::DescribeSemaphoreRequest>,
    ) -> Result<Response<pb::DescribeSemaphoreResponse>, Status> {
        let account = auth::account(request.extensions());
        let operation = self
            .calls
            .requests(&account)
            .describe_semaphore(request.get_ref());
        let answer = |answer| match answer {
            Answer::Permits(PermitAnswer::Described(seen)) => {
                Ok(convert::described(seen, &self.calls.viewer(&account)))
            }
            _ => Err(unexpected_answer()),
        };
        self.calls.run(operation, answer).await
    }
}

/// An answer of `AcquirePermits`. A grant counts as delivered from here on.
fn said(answer: Answer) -> Said<pb::AcquirePermitsResponse> {
    use pb::acquire_permits_response::Event;
    let said = |event| pb::AcquirePermitsResponse { event: Some(event) };
    Said::Last(match answer {
        Answer::Permits(PermitAnswer::Waiting(waiting)) => {
            return Said::Waiting(said(Event::Waiting(convert::waiting(waiting))));
        }
        Answer::Permits(PermitAnswer::Granted(delivery)) => {
            convert::delivered(delivery).map(|grant| said(Event::Granted(grant)))
        }
        Answer::Permits(PermitAnswer::NotGranted(ended)) => {
            Ok(said(Event::NotGranted(convert::not_granted(ended))))
        }
        Answer::Failed(error) => Err(status(&error)),
        _ => Err(unexpected_answer()),
    })
}
