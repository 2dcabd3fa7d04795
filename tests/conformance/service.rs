//! The service of a scripted coordinator: sessions, and calls that are answered by a stream, go to
//! the scenario. All other calls are refused.

use std::{pin::Pin, sync::Arc};

use lockkeeper_api::pb::{self, SessionRequest, SessionResponse, lock_service_server::LockService};
use tokio::sync::mpsc;
use tokio_stream::{Stream as Frames, StreamExt as _, wrappers::UnboundedReceiverStream};
use tonic::{Request, Response, Status, Streaming};

use crate::{
    feed::{Answers, Called, Feed},
    ledger::Ledger,
    stream::Stream,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Service {
    accepted: mpsc::UnboundedSender<Stream>,
    called: mpsc::UnboundedSender<Called>,
    ledger: Arc<Ledger>,
}

// === impl Service ===

impl Service {
    pub(crate) fn new(
        accepted: mpsc::UnboundedSender<Stream>,
        called: mpsc::UnboundedSender<Called>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            accepted,
            called,
            ledger,
        }
    }

    /// Hands a call over to the scenario.
    pub(crate) fn follow<I, O>(
        &self,
        request: Request<I>,
        called: impl FnOnce(Feed<I, O>) -> Called,
    ) -> Result<Response<Answers<O>>, Status> {
        let (feed, answers) = Feed::new(request);
        self.called
            .send(called(feed))
            .map_err(|_| Status::unavailable("the scenario is over"))?;
        Ok(answers)
    }

    /// Hands the stream over to the scenario.
    fn accept(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Responses>, Status> {
        let (out, responses) = mpsc::unbounded_channel();
        let metadata = request.metadata().clone();
        let ledger = Arc::clone(&self.ledger);
        let stream = Stream::new(metadata, request.into_inner(), out, ledger);
        self.accepted
            .send(stream)
            .map_err(|_| Status::unavailable("the scenario is over"))?;
        let responses = UnboundedReceiverStream::new(responses).map_while(|it| it);
        Ok(Response::new(Box::pin(responses)))
    }
}

/// The frames to a client.
type Responses = Pin<Box<dyn Frames<Item = Result<SessionResponse, Status>> + Send>>;

/// A stream of messages that never come.
type Nothing<T> = tokio_stream::Pending<Result<T, Status>>;

/// `LockService` with sessions only. The macro makes the whole impl, because `async_trait` has to
/// see all methods.
macro_rules! service {
    ($($method:ident: $request:ident => $response:ty;)*) => {
        #[tonic::async_trait]
        impl LockService for Service {
            type SessionStream = Responses;
            type AcquireStream = Nothing<pb::AcquireResponse>;
            type AwaitFreeStream = Answers<pb::AwaitFreeResponse>;
            type WatchLockStream = Answers<pb::WatchLockResponse>;
            type AcquireAllStream = Nothing<pb::AcquireAllResponse>;

            async fn session(
                &self,
                request: Request<Streaming<SessionRequest>>,
            ) -> Result<Response<Self::SessionStream>, Status> {
                self.accept(request)
            }

            async fn await_free(
                &self,
                request: Request<pb::AwaitFreeRequest>,
            ) -> Result<Response<Self::AwaitFreeStream>, Status> {
                self.follow(request, Called::AwaitFree)
            }

            async fn watch_lock(
                &self,
                request: Request<pb::WatchLockRequest>,
            ) -> Result<Response<Self::WatchLockStream>, Status> {
                self.follow(request, Called::WatchLock)
            }

            $(async fn $method(
                &self,
                _: Request<pb::$request>,
            ) -> Result<Response<$response>, Status> {
                Err(Status::unimplemented("scripted coordinators have sessions only"))
            })*
        }
    };
}

service! {
    acquire: AcquireRequest => Self::AcquireStream;
    try_acquire: TryAcquireRequest => pb::TryAcquireResponse;
    release: ReleaseRequest => pb::ReleaseResponse;
    renew: RenewRequest => pb::RenewResponse;
    acquire_all: AcquireAllRequest => Self::AcquireAllStream;
    try_acquire_all: TryAcquireAllRequest => pb::TryAcquireAllResponse;
    release_all: ReleaseAllRequest => pb::ReleaseAllResponse;
    describe: DescribeRequest => pb::DescribeResponse;
    check_token: CheckTokenRequest => pb::CheckTokenResponse;
    explain: ExplainRequest => pb::ExplainResponse;
    request_yield: RequestYieldRequest => pb::RequestYieldResponse;
    offer: OfferRequest => pb::OfferResponse;
    claim: ClaimRequest => pb::ClaimResponse;
}
