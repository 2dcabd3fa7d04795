//! A server that answers at once: what tonic itself costs.

use std::net::SocketAddr;

use lockkeeper_api::pb::{self, lock_service_server as service};
use lockkeeper_base::tasks::spawn_detached;
use tokio::net::TcpListener;
use tokio_stream::{Empty, wrappers::TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

struct Bare;

type Answer<T> = Result<Response<T>, Status>;

/// Starts it on a free port.
pub(crate) async fn serve() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    spawn_detached("bare", async move {
        Server::builder()
            .tcp_nodelay(true)
            .add_service(service::LockServiceServer::new(Bare))
            .serve_with_incoming(TcpListenerStream::new(listener))
            .await
            .unwrap();
    });
    address
}

#[tonic::async_trait]
impl service::LockService for Bare {
    type SessionStream = Empty<Result<pb::SessionResponse, Status>>;
    type AcquireStream = Empty<Result<pb::AcquireResponse, Status>>;
    type AwaitFreeStream = Empty<Result<pb::AwaitFreeResponse, Status>>;
    type WatchLockStream = Empty<Result<pb::WatchLockResponse, Status>>;
    type AcquireAllStream = Empty<Result<pb::AcquireAllResponse, Status>>;

    /// Answers with as many fields as the real one.
    async fn try_acquire(
        &self,
        request: Request<pb::TryAcquireRequest>,
    ) -> Answer<pb::TryAcquireResponse> {
        let lease = prost_types::Duration {
            seconds: 30,
            nanos: 0,
        };
        let grant = pb::Grant {
            name: request.into_inner().name,
            mode: pb::LockMode::Exclusive.into(),
            owner: "6fa459ea-ee8a-3ca4-894e-db77e160355e".to_owned(),
            hold_count: 1,
            fencing_token: 1_700_000_000_000_000,
            lease: Some(lease),
            valid_for: Some(lease),
            ..Default::default()
        };
        Ok(Response::new(pb::TryAcquireResponse {
            acquired: true,
            grant: Some(grant),
            holder_remaining_lease: None,
            holder_note: None,
        }))
    }

    async fn release(&self, _: Request<pb::ReleaseRequest>) -> Answer<pb::ReleaseResponse> {
        Ok(Response::new(pb::ReleaseResponse {
            released: true,
            hold_count: 0,
        }))
    }

    async fn session(
        &self,
        _: Request<Streaming<pb::SessionRequest>>,
    ) -> Answer<Self::SessionStream> {
        Err(Status::unimplemented("not called"))
    }

    async fn acquire(&self, _: Request<pb::AcquireRequest>) -> Answer<Self::AcquireStream> {
        Err(Status::unimplemented("not called"))
    }

    async fn acquire_all(
        &self,
        _: Request<pb::AcquireAllRequest>,
    ) -> Answer<Self::AcquireAllStream> {
        Err(Status::unimplemented("not called"))
    }

    async fn try_acquire_all(
        &self,
        _: Request<pb::TryAcquireAllRequest>,
    ) -> Answer<pb::TryAcquireAllResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn release_all(
        &self,
        _: Request<pb::ReleaseAllRequest>,
    ) -> Answer<pb::ReleaseAllResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn renew(&self, _: Request<pb::RenewRequest>) -> Answer<pb::RenewResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn describe(&self, _: Request<pb::DescribeRequest>) -> Answer<pb::DescribeResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn check_token(
        &self,
        _: Request<pb::CheckTokenRequest>,
    ) -> Answer<pb::CheckTokenResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn await_free(&self, _: Request<pb::AwaitFreeRequest>) -> Answer<Self::AwaitFreeStream> {
        Err(Status::unimplemented("not called"))
    }

    async fn watch_lock(&self, _: Request<pb::WatchLockRequest>) -> Answer<Self::WatchLockStream> {
        Err(Status::unimplemented("not called"))
    }

    async fn explain(&self, _: Request<pb::ExplainRequest>) -> Answer<pb::ExplainResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn request_yield(
        &self,
        _: Request<pb::RequestYieldRequest>,
    ) -> Answer<pb::RequestYieldResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn offer(&self, _: Request<pb::OfferRequest>) -> Answer<pb::OfferResponse> {
        Err(Status::unimplemented("not called"))
    }

    async fn claim(&self, _: Request<pb::ClaimRequest>) -> Answer<pb::ClaimResponse> {
        Err(Status::unimplemented("not called"))
    }
}
