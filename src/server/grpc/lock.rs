//! `LockService`: converts each RPC, submits it to the coordinator as an operation, and answers it.

use std::sync::Arc;

use futures::stream::BoxStream;
use lockkeeper_coordinator::{Answer, Operation};
use tonic::{Request, Response, Status, Streaming};

use super::{
    Config, Peer,
    answers::Answers,
    auth,
    call::{Calls, service, within},
    convert,
    explain::explained,
    layer::BodyFate,
    lock_watch, multi,
    outbound::Outbound,
    pb, session,
    status::status,
    tickets, yields,
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

service! {
    pb::lock_service_server::LockService, LockService, |calls, account|
    own {
        type SessionStream = Outbound;
        type WatchLockStream = BoxStream<'static, Result<pb::WatchLockResponse, Status>>;

        async fn watch_lock(
            &self,
            request: Request<pb::WatchLockRequest>,
        ) -> Result<Response<Self::WatchLockStream>, Status> {
            let account = auth::account(request.extensions());
            let watched = self.calls.watch_lock(&account, request.get_ref());
            watched.map(Response::new).map_err(|error| status(&error))
        }

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
            let peer = request.extensions().get::<Peer>().cloned();
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
    }
    asks {
        try_acquire(TryAcquireRequest) -> TryAcquireResponse, |it| convert::tried(it)?;
        release(ReleaseRequest) -> ReleaseResponse, |left| convert::released(left);
        renew(RenewRequest) -> RenewResponse, |grant| convert::renewed(&grant);
        try_acquire_all(TryAcquireAllRequest) -> TryAcquireAllResponse, |it| multi::tried(it)?;
        release_all(ReleaseAllRequest) -> ReleaseAllResponse, |locks| multi::released(locks);
        describe(DescribeRequest) -> DescribeResponse,
            |seen| convert::described(seen, &calls.viewer(&account));
        explain(ExplainRequest) -> ExplainResponse,
            |seen| explained(seen, &calls.viewer(&account));
        offer(OfferRequest) -> OfferResponse, |it| tickets::offered(it);
        claim(ClaimRequest) -> ClaimResponse, |it| tickets::claimed(it)?;
        check_token(CheckTokenRequest) -> CheckTokenResponse, |it| convert::token_checked(it);
        request_yield(RequestYieldRequest) -> RequestYieldResponse,
            |it| yields::requested(it, calls, &account);
    }
    waits {
        acquire(AcquireRequest) -> AcquireStream(AcquireResponse), Acquire, acquire_response {
            Answer::Waiting(it) => Event::Waiting(convert::waiting(&it)),
            Answer::Granted(it) => Event::Granted(convert::granted(it)?),
            Answer::NotGranted(it) => Event::NotGranted(convert::not_granted(&it)),
        };
        await_free(AwaitFreeRequest) -> AwaitFreeStream(AwaitFreeResponse), AwaitFree,
        await_free_response {
            Answer::Waiting(it) => Event::Waiting(convert::waiting(&it)),
            Answer::LockFree(it) => Event::Free(lock_watch::free(it.fencing_token)),
            Answer::NotGranted(it) => Event::NotFree(convert::not_granted(&it)),
        };
        acquire_all(AcquireAllRequest) -> AcquireAllStream(AcquireAllResponse), AcquireAll,
        acquire_all_response {
            Answer::WaitingForAll(name, it) => Event::Waiting(multi::waiting(&name, &it)),
            Answer::GrantedAll(it) => Event::Granted(multi::granted(it)?),
            Answer::NotGranted(it) => Event::NotGranted(convert::not_granted(&it)),
        };
    }
}
