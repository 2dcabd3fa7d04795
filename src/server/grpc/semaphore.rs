//! `SemaphoreService`.

use lockkeeper_coordinator::{Answer, Operation};

use super::{
    answers::Answers,
    auth,
    call::{Calls, service, within},
    convert_permits as convert, pb,
    status::status,
};

/// Serves `SemaphoreService`.
#[derive(Clone, Debug)]
pub(super) struct SemaphoreService {
    pub(super) calls: Calls,
}

service! {
    pb::semaphore_service_server::SemaphoreService, SemaphoreService, |calls, account|
    own {}
    asks {
        try_acquire_permits(TryAcquirePermitsRequest) -> TryAcquirePermitsResponse,
            |it| convert::tried(it)?;
        release_permits(ReleasePermitsRequest) -> ReleasePermitsResponse,
            |it| convert::released(it);
        renew_permits(RenewPermitsRequest) -> RenewPermitsResponse,
            |grants| convert::renewed(&grants);
        set_permits(SetPermitsRequest) -> SetPermitsResponse, |it| convert::set(it);
        describe_semaphore(DescribeSemaphoreRequest) -> DescribeSemaphoreResponse,
            |seen| convert::described(seen, &calls.viewer(&account));
    }
    waits {
        acquire_permits(AcquirePermitsRequest) -> AcquirePermitsStream(AcquirePermitsResponse),
        AcquirePermits, acquire_permits_response {
            Answer::WaitingForPermits(it) => Event::Waiting(convert::waiting(it)),
            Answer::PermitsGranted(it) => Event::Granted(convert::granted(it)?),
            Answer::PermitsNotGranted(it) => Event::NotGranted(convert::not_granted(it)),
        };
    }
}
