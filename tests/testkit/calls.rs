//! Calls that are made by hand, so that their bodies can be wrong, endless or half.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request, header::AUTHORIZATION};
use lockkeeper_base::tasks::spawn_detached;
use tokio::{net::TcpStream, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use tonic::Code;

/// The health service, which asks for no credentials.
pub const CHECK: &str = "/grpc.health.v1.Health/Check";
pub const WATCH: &str = "/grpc.health.v1.Health/Watch";

/// A call of the lock service.
pub const TRY: &str = "/lockkeeper.v1.LockService/TryAcquire";

/// One connection, whose calls are made by hand.
pub struct Connection {
    client: SendRequest<Bytes>,
    _driver: AbortOnDropHandle<()>,
}

/// A message as gRPC frames it.
pub fn framed(is_compressed: bool, length: u32, message: &[u8]) -> Bytes {
    let mut framed = vec![u8::from(is_compressed)];
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed.into()
}

// === impl Connection ===

impl Connection {
    pub async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await;
        let (client, driver) = h2::client::Builder::new()
            .initial_max_send_streams(100_000)
            .handshake(stream.unwrap())
            .await
            .unwrap();
        let driver = spawn_detached("connection", async { drop(driver.await) });
        Self {
            client,
            _driver: AbortOnDropHandle::new(driver),
        }
    }

    /// A call whose body has these bytes, and ends or is left open. None: it has not been answered
    /// in this time. The status of an answer that has begun and goes on is `Ok`, that of a
    /// connection that was closed `Unavailable`.
    pub async fn call(
        &self,
        path: &str,
        token: Option<&str>,
        body: Bytes,
        ends: bool,
        patience: Duration,
    ) -> Option<Code> {
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let Ok(mut client) = self.client.clone().ready().await else {
            return Some(Code::Unavailable);
        };
        let request = request.body(()).unwrap();
        let Ok((answer, mut sending)) = client.send_request(request, false) else {
            return Some(Code::Unavailable);
        };
        let _ = sending.send_data(body, ends);
        let status = async {
            let Ok(answer) = answer.await else {
                // Refused by the protocol, or the connection was closed.
                return Code::Unavailable;
            };
            let mut headers: HeaderMap = answer.headers().clone();
            if !headers.contains_key("grpc-status") && ends && path == WATCH {
                // The stream goes on for as long as it is not dropped.
                std::mem::forget(answer);
                return Code::Ok;
            }
            let mut body = answer.into_body();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
            }
            headers.extend(body.trailers().await.ok().flatten().unwrap_or_default());
            let Some(code) = headers.get("grpc-status") else {
                return Code::Unavailable;
            };
            Code::from_i32(code.to_str().unwrap().parse().unwrap())
        };
        timeout(patience, status).await.ok()
    }
}
