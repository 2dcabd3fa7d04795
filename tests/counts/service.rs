//! A coordinator in this process, and sessions of it.

use std::{net::SocketAddr, time::Duration};

use lockkeeper_api::pb::{
    self, lock_service_client::LockServiceClient, session_request::Request,
    session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_server::config::{Settings, StoreUrl};
use lockkeeper_testkit::prelude::*;
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Streaming, transport::Channel};

/// A coordinator, until the runtime ends.
pub(crate) struct Service(LockServiceClient<Channel>);

/// A session's stream.
pub(crate) struct Session {
    requests: mpsc::UnboundedSender<pb::SessionRequest>,
    responses: Streaming<pb::SessionResponse>,
}

// === impl Service ===

impl Service {
    pub(crate) async fn start(store: &str) -> Self {
        Self::start_with(store, false).await
    }

    /// The same with or without commands that are no scripts.
    pub(crate) async fn start_with(store: &str, native_commands: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: SocketAddr = listener.local_addr().unwrap();
        let mut settings = Settings::default();
        settings.store.url = StoreUrl::from(store);
        settings.store.native_commands = native_commands;
        spawn_detached("server", async move {
            lockkeeper_server::serve(settings, listener, std::future::pending())
                .await
                .unwrap();
        });
        let client = LockServiceClient::connect(format!("http://{address}"));
        Self(client.await.unwrap())
    }

    pub(crate) fn client(&self) -> LockServiceClient<Channel> {
        self.0.clone()
    }

    pub(crate) async fn session(&self) -> Session {
        self.open(pb::OpenSession::default()).await
    }

    pub(crate) async fn session_with_lease(&self, lease: Duration) -> Session {
        let lease = Some(lease.try_into().unwrap());
        self.open(pb::OpenSession {
            lease,
            ..Default::default()
        })
        .await
    }

    async fn open(&self, open: pb::OpenSession) -> Session {
        let (requests, outgoing) = mpsc::unbounded_channel();
        let outgoing = UnboundedReceiverStream::new(outgoing);
        let open = Request::Open(open);
        requests
            .send(pb::SessionRequest {
                op_id: 0,
                request: Some(open),
                ..pb::SessionRequest::default()
            })
            .unwrap();
        let responses = self.client().session(outgoing).await.unwrap().into_inner();
        let mut session = Session {
            requests,
            responses,
        };
        let opened = session.next().await.1;
        assert!(matches!(opened, Response::Opened(_)), "{opened:?}");
        session
    }
}

// === impl Session ===

impl Session {
    pub(crate) fn send(&mut self, op_id: u64, request: Request) {
        let request = Some(request);
        self.requests
            .send(pb::SessionRequest {
                op_id,
                request,
                ..pb::SessionRequest::default()
            })
            .unwrap();
    }

    pub(crate) async fn next(&mut self) -> (u64, Response) {
        let frame = self.responses.message().await.unwrap().unwrap();
        (frame.op_id, frame.response.unwrap())
    }

    pub(crate) async fn try_acquire(&mut self, name: &str) -> pb::TryAcquireResponse {
        let request = pb::TryAcquireRequest::named(name);
        self.send(1, Request::TryAcquire(request));
        match self.next().await.1 {
            Response::Tried(tried) => tried,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn release(&mut self, name: &str) -> pb::ReleaseResponse {
        let request = pb::ReleaseRequest::named(name);
        self.send(1, Request::Release(request));
        match self.next().await.1 {
            Response::Released(released) => released,
            other => panic!("{other:?}"),
        }
    }

    /// Reads on until a wait ends with the lock.
    pub(crate) async fn granted(&mut self) -> pb::Grant {
        loop {
            match self.next().await {
                (_, Response::Granted(grant)) => return grant,
                (_, Response::Waiting(_) | Response::Released(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
