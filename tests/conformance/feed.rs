//! Calls of scripted coordinators whose answers are streams: the scenario speaks them.

use anyhow::{Result, anyhow, bail};
use lockkeeper_api::pb::{
    self, election_service_server::ElectionService, observe_response::Event as Term,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Request, Response, Status};

use crate::{driver_process::PATIENCE, messages::status, service::Service, stage::Stage};

/// A call, and what answers it.
pub(crate) struct Feed<I, O> {
    pub(crate) request: I,
    out: mpsc::UnboundedSender<Result<O, Status>>,
}

pub(crate) type Terms = Feed<pb::ObserveRequest, pb::ObserveResponse>;
pub(crate) type Watch = Feed<pb::WatchLockRequest, pb::WatchLockResponse>;
pub(crate) type Wait = Feed<pb::AwaitFreeRequest, pb::AwaitFreeResponse>;

/// The call of a client.
pub(crate) enum Called {
    Observe(Terms),
    WatchLock(Watch),
    AwaitFree(Wait),
}

/// The answers to a client.
pub(crate) type Answers<O> = UnboundedReceiverStream<Result<O, Status>>;

// === impl Feed ===

impl<I, O> Feed<I, O> {
    /// The feed, and the answer to the call.
    pub(crate) fn new(request: Request<I>) -> (Self, Response<Answers<O>>) {
        let (out, answers) = mpsc::unbounded_channel();
        let request = request.into_inner();
        let answers = UnboundedReceiverStream::new(answers);
        (Self { request, out }, Response::new(answers))
    }

    /// Ends it as when a coordinator dies.
    pub(crate) fn break_off(self) {
        let _ = self.out.send(Err(Status::unavailable("broken on purpose")));
    }

    /// Ends it without an error, as when a peer stops in good order.
    pub(crate) fn finish(self) {
        drop(self.out);
    }

    /// Ends it with a status of the coordinator.
    pub(crate) fn refuse(self, code: Code, reason: &str) {
        let _ = self.out.send(Err(status(code, reason)));
    }

    /// Waits until the client has cancelled the call.
    pub(crate) async fn expect_cancelled(&self) -> Result<()> {
        let cancelled = timeout(PATIENCE, self.out.closed()).await;
        cancelled.map_err(|_| anyhow!("the client does not cancel the call"))
    }

    fn send(&self, answer: O) {
        // The client may have cancelled the call.
        let _ = self.out.send(Ok(answer));
    }
}

impl Terms {
    pub(crate) fn tell(&self, event: Term) {
        self.send(pb::ObserveResponse { event: Some(event) });
    }
}

impl Watch {
    pub(crate) fn tell(&self, event: pb::watch_lock_response::Event) {
        self.send(pb::WatchLockResponse { event: Some(event) });
    }
}

impl Wait {
    pub(crate) fn tell(&self, event: pb::await_free_response::Event) {
        self.send(pb::AwaitFreeResponse { event: Some(event) });
    }
}

// === impl Stage ===

/// Makes a method that expects a call of one kind, at any coordinator.
macro_rules! expect {
    ($($method:ident: $kind:ident -> $feed:ty;)*) => {
        impl Stage {
            $(pub(crate) async fn $method(&mut self) -> Result<$feed> {
                match self.call(stringify!($kind)).await? {
                    Called::$kind(feed) => Ok(feed),
                    _ => bail!(concat!(stringify!($kind), " expected")),
                }
            })*
        }
    };
}

expect! {
    expect_observe: Observe -> Terms;
    expect_watch: WatchLock -> Watch;
    expect_await_free: AwaitFree -> Wait;
}

// === impl Service ===

fn only_observers<T>() -> Result<T, Status> {
    Err(Status::unimplemented(
        "scripted coordinators have observers only",
    ))
}

#[tonic::async_trait]
impl ElectionService for Service {
    type CampaignStream = Answers<pb::CampaignResponse>;
    type ObserveStream = Answers<pb::ObserveResponse>;

    async fn observe(
        &self,
        request: Request<pb::ObserveRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        self.follow(request, Called::Observe)
    }

    async fn campaign(
        &self,
        _: Request<pb::CampaignRequest>,
    ) -> Result<Response<Self::CampaignStream>, Status> {
        only_observers()
    }

    async fn proclaim(
        &self,
        _: Request<pb::ProclaimRequest>,
    ) -> Result<Response<pb::ProclaimResponse>, Status> {
        only_observers()
    }

    async fn resign(
        &self,
        _: Request<pb::ResignRequest>,
    ) -> Result<Response<pb::ResignResponse>, Status> {
        only_observers()
    }

    async fn transfer(
        &self,
        _: Request<pb::TransferRequest>,
    ) -> Result<Response<pb::TransferResponse>, Status> {
        only_observers()
    }

    async fn leader(
        &self,
        _: Request<pb::LeaderRequest>,
    ) -> Result<Response<pb::LeaderResponse>, Status> {
        only_observers()
    }
}
