//! A client as its users would write one: plain calls, and a session that sends frames and sorts
//! what comes back.

use crate::{expect, prelude::*};
use std::{collections::VecDeque, time::Duration};

use lockkeeper_api::pb::{
    self, acquire_response::Event, lock_service_client::LockServiceClient,
    session_request::Request, session_response::Response,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};
use tonic_types::StatusExt as _;

/// A client with a connection of its own.
#[derive(Clone)]
pub struct Client {
    pub api: LockServiceClient<Caller>,
    bearer: Bearer,
    channel: Channel,
    cut: CancellationToken,
}

/// A connection whose calls show a token, if there is one.
pub type Caller = InterceptedService<Channel, Bearer>;

/// A token, as a header.
#[derive(Clone, Debug, Default)]
pub struct Bearer(Option<MetadataValue<Ascii>>);

/// A streaming acquire.
pub struct Call {
    stream: Streaming<pb::AcquireResponse>,
}

/// An open session.
pub struct Session {
    requests: Option<mpsc::UnboundedSender<pb::SessionRequest>>,
    responses: Streaming<pb::SessionResponse>,
    stash: VecDeque<pb::SessionResponse>,
    next_op: u64,
    pub opened: pb::SessionOpened,
}

/// How a stream of answers goes on: with a response, or with its end.
pub type Frame = Result<Option<pb::SessionResponse>, Status>;

// === impl Bearer ===

impl Interceptor for Bearer {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(header) = &self.0 {
            let metadata = request.metadata_mut();
            metadata.insert("authorization", header.clone());
        }
        Ok(request)
    }
}

// === impl Client ===

impl Client {
    pub fn new(channel: Channel, cut: CancellationToken) -> Self {
        let bearer = Bearer::default();
        Self {
            api: LockServiceClient::with_interceptor(channel.clone(), bearer.clone()),
            bearer,
            channel,
            cut,
        }
    }

    /// The same connection, with a token in every call.
    pub fn with_token(self, token: &str) -> Self {
        let bearer = Bearer(Some(format!("Bearer {token}").parse().unwrap()));
        Self {
            api: LockServiceClient::with_interceptor(self.channel.clone(), bearer.clone()),
            bearer,
            ..self
        }
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// The connection for clients of other services, with the token.
    pub fn caller(&self) -> Caller {
        InterceptedService::new(self.channel.clone(), self.bearer.clone())
    }

    /// The connection breaks without a word.
    pub fn cut(&self) {
        self.cut.cancel();
    }

    /// One try of a sessionless owner with a lease.
    pub async fn try_acquire(
        &mut self,
        name: &str,
        owner: &str,
        lease: Duration,
    ) -> Result<pb::TryAcquireResponse, Status> {
        let request = try_request(name, owner).lasting(lease);
        Ok(self.api.try_acquire(request).await?.into_inner())
    }

    pub async fn release(
        &mut self,
        name: &str,
        owner: &str,
    ) -> Result<pb::ReleaseResponse, Status> {
        let request = pb::ReleaseRequest::named(name).by(owner);
        Ok(self.api.release(request).await?.into_inner())
    }

    pub async fn renew(
        &mut self,
        name: &str,
        owner: &str,
        lease: Duration,
    ) -> Result<pb::Grant, Status> {
        self.renew_as(name, owner, pb::LockMode::Unspecified, lease)
            .await
    }

    pub async fn renew_as(
        &mut self,
        name: &str,
        owner: &str,
        mode: pb::LockMode,
        lease: Duration,
    ) -> Result<pb::Grant, Status> {
        let request = pb::RenewRequest::named(name)
            .by(owner)
            .lasting(lease)
            .in_mode(mode);
        Ok(self.api.renew(request).await?.into_inner().grant.unwrap())
    }

    pub async fn describe(&mut self, name: &str) -> pb::DescribeResponse {
        let request = pb::DescribeRequest {
            name: name.to_owned(),
        };
        self.api.describe(request).await.unwrap().into_inner()
    }

    pub async fn acquire(&mut self, request: pb::AcquireRequest) -> Result<Call, Status> {
        Ok(Call {
            stream: self.api.acquire(request).await?.into_inner(),
        })
    }

    pub async fn open(&mut self) -> Session {
        self.open_with(pb::OpenSession::default()).await.unwrap()
    }

    pub async fn open_with(&mut self, open: pb::OpenSession) -> Result<Session, Status> {
        self.session(Request::Open(open)).await
    }

    /// Goes on with a session that was opened elsewhere, naming the grants.
    pub async fn resume(
        &mut self,
        opened: &pb::SessionOpened,
        grants: Vec<pb::Grant>,
    ) -> Result<Session, Status> {
        let resume = pb::ResumeSession {
            session_id: opened.session_id.clone(),
            resume_token: opened.resume_token.clone(),
            grants,
            ..pb::ResumeSession::default()
        };
        self.session(Request::Resume(resume)).await
    }

    pub async fn session(&mut self, first: Request) -> Result<Session, Status> {
        let (requests, outgoing) = mpsc::unbounded_channel();
        requests
            .send(pb::SessionRequest {
                op_id: 0,
                request: Some(first),
                ..pb::SessionRequest::default()
            })
            .unwrap();
        let outgoing = UnboundedReceiverStream::new(outgoing);
        let mut responses = self.api.session(outgoing).await?.into_inner();
        let first = responses.message().await?.and_then(|frame| frame.response);
        let opened = expect!(first, Some(Response::Opened(opened)) => opened);
        let (stash, requests) = (VecDeque::new(), Some(requests));
        Ok(Session {
            requests,
            responses,
            stash,
            next_op: 1,
            opened,
        })
    }
}

// === impl Call ===

impl Call {
    pub async fn next(&mut self) -> Result<Option<Event>, Status> {
        Ok(self
            .stream
            .message()
            .await?
            .and_then(|response| response.event))
    }

    pub async fn expect_waiting(&mut self) -> pb::Waiting {
        expect!(self.next().await, Ok(Some(Event::Waiting(waiting))) => waiting)
    }

    /// Passes over news of the wait.
    pub async fn end(&mut self) -> Result<Event, Status> {
        loop {
            match self.next().await? {
                Some(Event::Waiting(_)) => {}
                Some(end) => {
                    assert!(
                        self.next().await?.is_none(),
                        "something after the last answer"
                    );
                    return Ok(end);
                }
                None => panic!("the stream ended without an answer"),
            }
        }
    }

    pub async fn expect_granted(&mut self) -> pb::Grant {
        expect!(self.end().await, Ok(Event::Granted(grant)) => grant)
    }

    pub async fn expect_timeout(&mut self) {
        let ended = expect!(self.end().await, Ok(Event::NotGranted(ended)) => ended);
        assert_eq!(ended.reason(), pb::NotGrantedReason::WaitTimeout);
    }
}

// === impl Session ===

impl Session {
    pub fn id(&self) -> String {
        self.opened.session_id.clone()
    }

    /// Sends an operation and returns its id.
    pub fn send(&mut self, request: Request) -> u64 {
        let op_id = self.next_op;
        self.next_op += 1;
        self.send_as(op_id, request);
        op_id
    }

    pub fn send_as(&mut self, op_id: u64, request: Request) {
        let frame = pb::SessionRequest {
            op_id,
            request: Some(request),
            ..pb::SessionRequest::default()
        };
        self.requests.as_ref().unwrap().send(frame).unwrap();
    }

    pub fn send_acquire(&mut self, name: &str, owner: &str) -> u64 {
        self.send(Request::Acquire(acquire_request(name, owner)))
    }

    /// The next frame of any kind.
    pub async fn next(&mut self) -> Frame {
        match self.stash.pop_front() {
            Some(frame) => Ok(Some(frame)),
            None => self.responses.message().await,
        }
    }

    /// The next answer to an operation; keeps what comes before it.
    pub async fn answer(&mut self, op_id: u64) -> Response {
        if let Some(at) = self.stash.iter().position(|frame| frame.op_id == op_id) {
            return self
                .stash
                .remove(at)
                .and_then(|frame| frame.response)
                .unwrap();
        }
        loop {
            let frame = self
                .responses
                .message()
                .await
                .unwrap()
                .expect("the stream has ended");
            if frame.op_id == op_id {
                return frame.response.unwrap();
            }
            self.stash.push_back(frame);
        }
    }

    /// The last answer to an operation.
    pub async fn end(&mut self, op_id: u64) -> Response {
        loop {
            match self.answer(op_id).await {
                Response::Waiting(_)
                | Response::WaitingForAll(_)
                | Response::WaitingForPermits(_)
                | Response::WaitingForLatch(_) => {}
                end => return end,
            }
        }
    }

    /// The next notice.
    pub async fn notice(&mut self) -> Response {
        self.answer(0).await
    }

    pub async fn expect_granted(&mut self, op_id: u64) -> pb::Grant {
        expect!(self.end(op_id).await, Response::Granted)
    }

    pub async fn expect_lost(&mut self) -> pb::GrantLost {
        expect!(self.notice().await, Response::Lost)
    }

    /// The reason of a failed operation.
    pub async fn expect_failed(&mut self, op_id: u64) -> String {
        use prost::Message as _;
        let failed = expect!(self.end(op_id).await, Response::Failed);
        let (code, bytes) = (Code::from_i32(failed.code), failed.encode_to_vec());
        reason(&Status::with_details(code, failed.message, bytes.into()))
    }

    /// Takes a watched lock.
    pub async fn acquire(&mut self, name: &str) -> pb::Grant {
        self.acquire_as(name, "").await
    }

    pub async fn acquire_as(&mut self, name: &str, owner: &str) -> pb::Grant {
        let op_id = self.send_acquire(name, owner);
        self.expect_granted(op_id).await
    }

    pub async fn try_acquire(&mut self, request: pb::TryAcquireRequest) -> pb::TryAcquireResponse {
        let op_id = self.send(Request::TryAcquire(request));
        expect!(self.end(op_id).await, Response::Tried)
    }

    pub fn send_release(&mut self, name: &str, owner: &str) -> u64 {
        self.send(Request::Release(pb::ReleaseRequest::named(name).by(owner)))
    }

    pub async fn release(&mut self, name: &str) -> pb::ReleaseResponse {
        let op_id = self.send_release(name, "");
        expect!(self.end(op_id).await, Response::Released)
    }

    /// Sends `close` and reads to the end of the stream.
    pub async fn close(mut self) -> Result<(), Status> {
        self.send(Request::Close(pb::CloseSession {}));
        self.read_to_end().await
    }

    /// Half-closes and reads to the end of the stream.
    pub async fn half_close(mut self) -> Result<(), Status> {
        self.end_requests();
        self.read_to_end().await
    }

    /// Half-closes.
    pub fn end_requests(&mut self) {
        self.requests = None;
    }

    /// Sends no more; the stream stays.
    pub async fn read_to_end(&mut self) -> Result<(), Status> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

pub fn try_request(name: &str, owner: &str) -> pb::TryAcquireRequest {
    pb::TryAcquireRequest::named(name).by(owner)
}

pub fn acquire_request(name: &str, owner: &str) -> pb::AcquireRequest {
    pb::AcquireRequest::named(name).by(owner)
}

/// The reason that a status carries.
pub fn reason(status: &Status) -> String {
    status
        .get_details_error_info()
        .map_or_else(String::new, |info| info.reason)
}

/// The reason of a refusal.
#[track_caller]
pub fn refusal<T>(answer: Result<T, Status>) -> String {
    let Err(refused) = answer else {
        panic!("it was not refused")
    };
    reason(&refused)
}

#[track_caller]
pub fn expect_refused<T>(answer: Result<T, Status>, code: Code, expected: &str) {
    let Err(refused) = answer else {
        panic!("expected {expected}, got an answer")
    };
    expect_status(&refused, code, expected);
}

#[track_caller]
pub fn expect_status(status: &Status, code: Code, expected: &str) {
    let found = (status.code(), reason(status));
    assert_eq!(found, (code, expected.to_owned()), "{status}");
}

pub fn proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap()
}

pub fn std_duration(duration: Option<prost_types::Duration>) -> Duration {
    duration
        .and_then(|duration| duration.try_into().ok())
        .unwrap_or_default()
}
