//! A server of `LockService` that does nothing but answer: what tonic itself costs, in unary calls,
//! in frames on a session's stream, and in streams that stay idle.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use generated::lock_service_server as service;
use lockkeeper_api::pb::{
    self, session_request::Request as Asked, session_response::Response as Said,
};
use tokio::net::TcpListener;
use tokio_stream::Empty;
use tonic::{
    Request, Response, Status, Streaming,
    transport::{Server, server::TcpIncoming},
};

/// The service as tonic makes it by itself.
#[allow(
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    reason = "generated code"
)]
mod generated {
    tonic::include_proto!("lockkeeper.v1");
}

/// More streams than any measurement opens on one connection.
const STREAMS_MAX: u32 = 1_000_000;

/// As long as the ids that the real one makes, of sessions and of owners without one.
const ID: &str = "6fa459ea-ee8a-3ca4-894e-db77e160355e";

/// The owner in a session that says nothing of owners.
const DEFAULT_OWNER: &str = "0";

const LEASE: prost_types::Duration = prost_types::Duration {
    seconds: 30,
    nanos: 0,
};

#[derive(Clone, Default)]
struct Bare {
    tokens: Arc<AtomicU64>,
}

type Answer<T> = Result<Response<T>, Status>;

/// Serves until the process is killed; says where on standard output.
pub(crate) async fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    writeln!(io::stdout(), "http://{}", listener.local_addr()?)?;
    Ok(Server::builder()
        .max_concurrent_streams(Some(STREAMS_MAX))
        .add_service(service::LockServiceServer::new(Bare::default()))
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?)
}

// === impl Bare ===

impl Bare {
    /// As many fields as the real one sets.
    fn grant(&self, name: String, in_session: bool) -> pb::Grant {
        let (session_id, owner) = if in_session {
            (ID, DEFAULT_OWNER)
        } else {
            ("", ID)
        };
        pb::Grant {
            name,
            mode: pb::LockMode::Exclusive.into(),
            session_id: session_id.to_owned(),
            owner: owner.to_owned(),
            watched: in_session,
            hold_count: 1,
            fencing_token: self.tokens.fetch_add(1, Ordering::Relaxed) + 1,
            lease: Some(LEASE),
            valid_for: Some(LEASE),
            replica_acks: 0,
        }
    }

    fn tried(&self, name: String, in_session: bool) -> pb::TryAcquireResponse {
        pb::TryAcquireResponse {
            acquired: true,
            grant: Some(self.grant(name, in_session)),
            holder_remaining_lease: None,
            holder_note: None,
        }
    }

    /// Nothing if the session ends.
    fn frame(&self, asked: pb::SessionRequest) -> Option<Result<pb::SessionResponse, Status>> {
        let said = match asked.request {
            Some(Asked::Open(_)) => Said::Opened(pb::SessionOpened {
                session_id: ID.to_owned(),
                resume_token: vec![0; 32],
                lease: Some(LEASE),
                ..Default::default()
            }),
            Some(Asked::TryAcquire(request)) => Said::Tried(self.tried(request.name, true)),
            Some(Asked::Release(_)) => Said::Released(released()),
            Some(Asked::Acquire(_)) => Said::Waiting(waiting()),
            Some(Asked::Close(_)) => return None,
            _ => return Some(Err(unimplemented())),
        };
        Some(Ok(pb::SessionResponse {
            op_id: asked.op_id,
            response: Some(said),
        }))
    }
}

fn released() -> pb::ReleaseResponse {
    pb::ReleaseResponse {
        released: true,
        hold_count: 0,
    }
}

fn waiting() -> pb::Waiting {
    pb::Waiting {
        position: 1,
        holder_remaining_lease: Some(LEASE),
        holder_note: None,
    }
}

fn unimplemented() -> Status {
    Status::unimplemented("the bare server does not do this")
}

#[tonic::async_trait]
impl service::LockService for Bare {
    type SessionStream = BoxStream<'static, Result<pb::SessionResponse, Status>>;
    type AcquireStream = BoxStream<'static, Result<pb::AcquireResponse, Status>>;
    type AwaitFreeStream = Empty<Result<pb::AwaitFreeResponse, Status>>;
    type WatchLockStream = Empty<Result<pb::WatchLockResponse, Status>>;
    type AcquireAllStream = Empty<Result<pb::AcquireAllResponse, Status>>;

    async fn try_acquire(
        &self,
        request: Request<pb::TryAcquireRequest>,
    ) -> Answer<pb::TryAcquireResponse> {
        let name = request.into_inner().name;
        Ok(Response::new(self.tried(name, false)))
    }

    async fn release(&self, _: Request<pb::ReleaseRequest>) -> Answer<pb::ReleaseResponse> {
        Ok(Response::new(released()))
    }

    /// Frames are answered where they are read, so that answers that are ready together leave
    /// together.
    async fn session(
        &self,
        request: Request<Streaming<pb::SessionRequest>>,
    ) -> Answer<Self::SessionStream> {
        let bare = self.clone();
        let frames = request.into_inner();
        let answers = frames.map(move |asked| match asked {
            Ok(asked) => bare.frame(asked),
            Err(status) => Some(Err(status)),
        });
        let until_closed = answers
            .take_while(|answer| std::future::ready(answer.is_some()))
            .filter_map(std::future::ready);
        Ok(Response::new(until_closed.boxed()))
    }

    /// Says once that the call waits, which it then does for ever.
    async fn acquire(&self, _: Request<pb::AcquireRequest>) -> Answer<Self::AcquireStream> {
        let event = pb::acquire_response::Event::Waiting(waiting());
        let first = pb::AcquireResponse { event: Some(event) };
        let stream = stream::iter([Ok(first)]).chain(stream::pending());
        Ok(Response::new(stream.boxed()))
    }

    async fn acquire_all(
        &self,
        _: Request<pb::AcquireAllRequest>,
    ) -> Answer<Self::AcquireAllStream> {
        Err(unimplemented())
    }

    async fn try_acquire_all(
        &self,
        _: Request<pb::TryAcquireAllRequest>,
    ) -> Answer<pb::TryAcquireAllResponse> {
        Err(unimplemented())
    }

    async fn release_all(
        &self,
        _: Request<pb::ReleaseAllRequest>,
    ) -> Answer<pb::ReleaseAllResponse> {
        Err(unimplemented())
    }

    async fn renew(&self, _: Request<pb::RenewRequest>) -> Answer<pb::RenewResponse> {
        Err(unimplemented())
    }

    async fn describe(&self, _: Request<pb::DescribeRequest>) -> Answer<pb::DescribeResponse> {
        Err(unimplemented())
    }

    async fn check_token(
        &self,
        _: Request<pb::CheckTokenRequest>,
    ) -> Answer<pb::CheckTokenResponse> {
        Err(unimplemented())
    }

    async fn await_free(&self, _: Request<pb::AwaitFreeRequest>) -> Answer<Self::AwaitFreeStream> {
        Err(unimplemented())
    }

    async fn watch_lock(&self, _: Request<pb::WatchLockRequest>) -> Answer<Self::WatchLockStream> {
        Err(unimplemented())
    }

    async fn explain(&self, _: Request<pb::ExplainRequest>) -> Answer<pb::ExplainResponse> {
        Err(unimplemented())
    }

    async fn request_yield(
        &self,
        _: Request<pb::RequestYieldRequest>,
    ) -> Answer<pb::RequestYieldResponse> {
        Err(unimplemented())
    }

    async fn offer(&self, _: Request<pb::OfferRequest>) -> Answer<pb::OfferResponse> {
        Err(unimplemented())
    }

    async fn claim(&self, _: Request<pb::ClaimRequest>) -> Answer<pb::ClaimResponse> {
        Err(unimplemented())
    }
}
