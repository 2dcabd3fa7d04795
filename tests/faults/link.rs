//! A contender's session: frames out and in, and what to do when the stream breaks. It never
//! panics, because faults are what it is for.

use std::net::SocketAddr;

use lockkeeper_api::pb::{
    self, lock_service_client::LockServiceClient, session_request::Request,
    session_response::Response,
};
use tokio::{
    sync::mpsc,
    time::{Duration, timeout},
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{
    Streaming,
    transport::{Channel, Endpoint},
};

/// How long a coordinator may take to open a session. It is dead or frozen after that, and there
/// may be another.
const OPEN_MAX: Duration = Duration::from_secs(2);

/// An open stream.
pub(crate) struct Link {
    requests: mpsc::UnboundedSender<pb::SessionRequest>,
    responses: Streaming<pb::SessionResponse>,
    op_id: u64,
    pub(crate) opened: pb::SessionOpened,
}

/// Something that came.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub(crate) enum Came {
    /// An answer to this operation, or a notice if it is 0.
    Frame(u64, Response),
    /// The stream broke.
    Broke,
}

// === impl Link ===

impl Link {
    /// Opens or resumes a session; none if that cannot be done there now, and an error if the
    /// session is not resumed by anybody.
    pub(crate) async fn open(at: SocketAddr, first: Request) -> Result<Option<Self>, ()> {
        match timeout(OPEN_MAX, Self::try_open(at, first)).await {
            Ok(opened) => opened,
            Err(_) => Ok(None),
        }
    }

    async fn try_open(at: SocketAddr, first: Request) -> Result<Option<Self>, ()> {
        let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
        let endpoint = endpoint
            .tcp_nodelay(true)
            // A coordinator that is frozen is found out well before a lease is over.
            .http2_keep_alive_interval(Duration::from_secs(1))
            .keep_alive_timeout(Duration::from_secs(1))
            .keep_alive_while_idle(true);
        let Ok(channel) = endpoint.connect().await else {
            return Ok(None);
        };
        let mut api: LockServiceClient<Channel> = LockServiceClient::new(channel);
        let (requests, outgoing) = mpsc::unbounded_channel();
        let is_resume = matches!(first, Request::Resume(_));
        let _ = requests.send(pb::SessionRequest {
            op_id: 0,
            request: Some(first),
            ..pb::SessionRequest::default()
        });
        let refused = |status: &tonic::Status| match status.code() {
            // Anything else than that it is away, or draining, is for good.
            tonic::Code::Unavailable | tonic::Code::Unknown | tonic::Code::Cancelled => Ok(None),
            _ if is_resume => Err(()),
            _ => Ok(None),
        };
        let mut responses = match api.session(UnboundedReceiverStream::new(outgoing)).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return refused(&status),
        };
        match responses.message().await {
            Ok(Some(pb::SessionResponse {
                response: Some(Response::Opened(opened)),
                ..
            })) => Ok(Some(Self {
                requests,
                responses,
                op_id: 1,
                opened,
            })),
            Ok(_) => Ok(None),
            Err(status) => refused(&status),
        }
    }

    /// Sends an operation, and says which it is. If the stream is broken, the next read shows it.
    pub(crate) fn send(&mut self, request: Request) -> u64 {
        let op_id = self.op_id;
        self.op_id += 1;
        let _ = self.requests.send(pb::SessionRequest {
            op_id,
            request: Some(request),
            ..pb::SessionRequest::default()
        });
        op_id
    }

    pub(crate) async fn next(&mut self) -> Came {
        match self.responses.message().await {
            Ok(Some(pb::SessionResponse {
                op_id,
                response: Some(response),
            })) => Came::Frame(op_id, response),
            _ => Came::Broke,
        }
    }
}
