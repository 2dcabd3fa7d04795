//! A coordinator that says what a test wants, on a port of its own and on threads of its own.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use lockkeeper_api::pb::{
    AcquireAllRequest, AcquireAllResponse, AcquireRequest, AcquireResponse, CheckTokenRequest,
    CheckTokenResponse, DescribeRequest, DescribeResponse, Grant, GrantLost, GrantedAll, Holder,
    LockMode, LockSpec, LostReason, NotGranted, NotGrantedReason, ReleaseAllRequest,
    ReleaseAllResponse, ReleaseRequest, ReleaseResponse, ReleasedLock, RenewRequest, RenewResponse,
    SessionOpened, SessionRequest, SessionResponse, TryAcquireAllRequest, TryAcquireAllResponse,
    TryAcquireRequest, TryAcquireResponse, Waiter, Waiting, WaitingForAll, acquire_all_response,
    acquire_response,
    lock_service_server::{LockService, LockServiceServer},
    session_request::Request as Asked,
    session_response::Response as Said,
};
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpSocket},
    runtime::Runtime,
    sync::mpsc,
    time::Instant,
};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};
use tonic_types::{ErrorDetails, StatusExt as _};

pub(crate) const TOKEN: u64 = 1_700_000_000_000_007;

/// What a grant is valid for, less than its lease.
const VALID_FOR: f64 = 0.98;

/// What it does.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    /// Somebody else holds every lock.
    pub(crate) is_busy: bool,
    /// Each grant has a token of its own, though it is told while others hold the lock.
    pub(crate) tokens_grow: bool,
    /// Sessions get no answer.
    pub(crate) is_frozen: bool,
    /// The lease of sessions.
    pub(crate) lease: Duration,
}

#[derive(Debug)]
struct State {
    behaviour: Behaviour,
    seen: Vec<String>,
    stream: Option<mpsc::UnboundedSender<Result<SessionResponse, Status>>>,
    promised_until: Option<Instant>,
    /// The token of the newest grant.
    token: u64,
}

#[derive(Clone, Debug)]
struct Service(Arc<Mutex<State>>);

/// A running fake; it ends with this value.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    service: Service,
    runtime: Option<Runtime>,
    /// Holds the port after a crash, without listening, so that no other test's server is taken for
    /// this one.
    crashed: Option<TcpSocket>,
}

// === impl Fake ===

impl Fake {
    pub(crate) fn start(lease: Duration) -> Self {
        let behaviour = Behaviour {
            is_busy: false,
            tokens_grow: false,
            is_frozen: false,
            lease,
        };
        let state = State {
            behaviour,
            seen: Vec::new(),
            stream: None,
            promised_until: None,
            token: TOKEN,
        };
        let service = Service(Arc::new(Mutex::new(state)));
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server::builder()
            .add_service(LockServiceServer::new(service.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let entered = runtime.enter();
        spawn_detached("fake", server);
        drop(entered);
        Self {
            address,
            service,
            runtime: Some(runtime),
            crashed: None,
        }
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.service.0.lock().behaviour);
    }

    /// What clients have asked so far, sessions' frames included, and how streams ended.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.service.0.lock().seen.clone()
    }

    pub(crate) fn has_seen(&self, word: &str) -> bool {
        self.seen().iter().any(|seen| seen == word)
    }

    /// No grant that was told is valid after this.
    pub(crate) fn promised_until(&self) -> Instant {
        self.service.0.lock().promised_until.unwrap()
    }

    pub(crate) fn tell_lost(&self) {
        let grant = self.service.grant("orders", LockMode::Exclusive.into());
        let reason = LostReason::TakenOver.into();
        self.tell(Ok(Said::Lost(GrantLost {
            grant: Some(grant),
            reason,
            detail: String::new(),
        })));
    }

    pub(crate) fn break_stream(&self) {
        self.tell(Err(Status::unavailable("broken by the test")));
    }

    /// Closes all connections, and the port.
    pub(crate) fn crash(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(Duration::from_secs(1));
        }
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        // Somebody may have been quicker.
        self.crashed = socket.bind(self.address).is_ok().then_some(socket);
    }

    /// Whether nobody else can answer at its address since it crashed.
    pub(crate) fn keeps_address(&self) -> bool {
        self.crashed.is_some()
    }

    fn tell(&self, said: Result<Said, Status>) {
        let said = said.map(|response| SessionResponse {
            op_id: 0,
            response: Some(response),
        });
        let stream = self.service.0.lock().stream.clone();
        stream.expect("no session").send(said).unwrap();
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.crash();
    }
}

// === impl Service ===

impl Service {
    fn saw(&self, word: impl Into<String>) {
        self.0.lock().seen.push(word.into());
    }

    /// Exclusive is what most tests ask for, and says nothing.
    fn saw_mode(&self, mode: LockMode) {
        if !matches!(mode, LockMode::Unspecified | LockMode::Exclusive) {
            self.saw(mode.as_str_name());
        }
    }

    fn behaviour(&self) -> Behaviour {
        self.0.lock().behaviour.clone()
    }

    fn grant(&self, name: &str, mode: i32) -> Grant {
        let lease = self.behaviour().lease;
        let fencing_token = {
            let mut state = self.0.lock();
            state.token += u64::from(state.behaviour.tokens_grow);
            state.token
        };
        Grant {
            name: name.to_owned(),
            mode,
            session_id: String::new(),
            owner: "0".to_owned(),
            hold_count: 1,
            fencing_token,
            lease: lease.try_into().ok(),
            valid_for: lease.mul_f64(VALID_FOR).try_into().ok(),
            watched: false,
            replica_acks: 0,
        }
    }

    fn grants(&self, locks: &[LockSpec]) -> Vec<Grant> {
        let grant = |lock: &LockSpec| self.grant(&lock.name, lock.mode);
        locks.iter().map(grant).collect()
    }

    /// In a session it is renewed.
    fn watched(&self, name: &str, mode: i32) -> Grant {
        Grant {
            watched: true,
            ..self.grant(name, mode)
        }
    }

    fn promise(&self, name: &str, mode: i32) -> Grant {
        let grant = self.watched(name, mode);
        let mut state = self.0.lock();
        state.promised_until = Some(Instant::now() + state.behaviour.lease.mul_f64(VALID_FOR));
        grant
    }

    fn opened(&self, grants: Vec<Grant>) -> Said {
        Said::Opened(SessionOpened {
            session_id: "session".to_owned(),
            resume_token: b"token".to_vec(),
            lease: self.behaviour().lease.try_into().ok(),
            grants,
            permits: Vec::new(),
        })
    }

    fn answer(&self, asked: Asked) -> Option<Said> {
        let (word, answer) = match asked {
            Asked::Open(_) => ("open", Some(self.opened(Vec::new()))),
            Asked::Resume(resume) => {
                let grants = resume
                    .grants
                    .iter()
                    .map(|grant| self.promise(&grant.name, grant.mode))
                    .collect();
                ("resume", Some(self.opened(grants)))
            }
            Asked::Acquire(asked) => {
                self.saw_mode(asked.mode());
                ("acquire", Some(self.answer_acquire(&asked)))
            }
            Asked::TryAcquire(asked) => {
                let tried = TryAcquireResponse {
                    acquired: true,
                    grant: Some(self.watched(&asked.name, asked.mode)),
                    holder_remaining_lease: None,
                };
                ("try_acquire", Some(Said::Tried(tried)))
            }
            Asked::Release(_) => {
                let released = ReleaseResponse {
                    released: true,
                    hold_count: 0,
                };
                ("release", Some(Said::Released(released)))
            }
            Asked::AcquireAll(asked) => {
                let grants = asked.locks.iter();
                let grants = grants.map(|it| self.watched(&it.name, it.mode)).collect();
                ("acquire_all", Some(Said::GrantedAll(GrantedAll { grants })))
            }
            Asked::Renew(asked) => {
                self.saw_mode(asked.mode());
                let grant = Some(self.promise(&asked.name, asked.mode));
                ("renew", Some(Said::Renewed(RenewResponse { grant })))
            }
            Asked::Cancel(_) => ("cancel", None),
            Asked::Close(_) => ("close", None),
            _ => ("other", None),
        };
        self.saw(word);
        answer.filter(|_| !self.behaviour().is_frozen)
    }

    fn answer_acquire(&self, asked: &AcquireRequest) -> Said {
        let waits = asked.wait_timeout.is_none_or(|wait| wait.seconds > 0);
        match (self.behaviour().is_busy, waits) {
            (false, _) => Said::Granted(self.watched(&asked.name, asked.mode)),
            (true, true) => Said::Waiting(waiting()),
            (true, false) => Said::NotGranted(not_granted()),
        }
    }

    async fn serve(
        self,
        mut frames: Streaming<SessionRequest>,
        tell: mpsc::UnboundedSender<Result<SessionResponse, Status>>,
    ) {
        self.0.lock().stream = Some(tell.clone());
        loop {
            let frame = match frames.message().await {
                Ok(Some(frame)) => frame,
                // Ends a session, which a client that wants to resume it must never say.
                Ok(None) => return self.saw("half-close"),
                Err(_) => return self.saw("broken"),
            };
            let asked = frame.request.unwrap();
            let is_close = matches!(asked, Asked::Close(_));
            if let Some(response) = self.answer(asked) {
                let op_id = frame.op_id;
                let _ = tell.send(Ok(SessionResponse {
                    op_id,
                    response: Some(response),
                }));
            }
            if is_close {
                self.0.lock().stream = None;
                return;
            }
        }
    }
}

fn waiting() -> Waiting {
    let holder_remaining_lease = Duration::from_secs(12).try_into().ok();
    Waiting {
        position: 1,
        holder_remaining_lease,
    }
}

fn not_granted() -> NotGranted {
    NotGranted {
        reason: NotGrantedReason::WaitTimeout.into(),
        holder_remaining_lease: Duration::from_secs(12).try_into().ok(),
    }
}

fn refusal(code: Code, reason: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "lockkeeper", HashMap::new());
    Status::with_error_details(code, "no", details)
}

#[tonic::async_trait]
impl LockService for Service {
    type SessionStream = UnboundedReceiverStream<Result<SessionResponse, Status>>;
    type AcquireStream = BoxStream<'static, Result<AcquireResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<SessionRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (tell, told) = mpsc::unbounded_channel();
        spawn_detached("session", self.clone().serve(request.into_inner(), tell));
        Ok(Response::new(UnboundedReceiverStream::new(told)))
    }

    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<Self::AcquireStream>, Status> {
        let request = request.into_inner();
        self.saw(format!("{request:?}"));
        let last = if self.behaviour().is_busy {
            acquire_response::Event::NotGranted(not_granted())
        } else {
            acquire_response::Event::Granted(self.grant(&request.name, request.mode))
        };
        let events = [acquire_response::Event::Waiting(waiting()), last];
        let events = events.map(|event| Ok(AcquireResponse { event: Some(event) }));
        Ok(Response::new(futures::stream::iter(events).boxed()))
    }

    async fn try_acquire(
        &self,
        request: Request<TryAcquireRequest>,
    ) -> Result<Response<TryAcquireResponse>, Status> {
        let acquired = !self.behaviour().is_busy;
        let request = request.into_inner();
        self.saw_mode(request.mode());
        Ok(Response::new(TryAcquireResponse {
            acquired,
            grant: acquired.then(|| self.grant(&request.name, request.mode)),
            holder_remaining_lease: None,
        }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        self.saw_mode(request.get_ref().mode());
        match request.get_ref().owner.as_str() {
            "0" => Ok(Response::new(ReleaseResponse {
                released: true,
                hold_count: 0,
            })),
            "unknown" => Err(refusal(Code::Unavailable, "OUTCOME_UNKNOWN")),
            "writer" => Err(refusal(Code::FailedPrecondition, "WRONG_KIND")),
            _ => Err(refusal(Code::FailedPrecondition, "NOT_OWNER")),
        }
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        let request = request.into_inner();
        self.saw_mode(request.mode());
        let grant = Some(self.grant(&request.name, request.mode));
        Ok(Response::new(RenewResponse { grant }))
    }

    type AcquireAllStream = BoxStream<'static, Result<AcquireAllResponse, Status>>;

    async fn acquire_all(
        &self,
        request: Request<AcquireAllRequest>,
    ) -> Result<Response<Self::AcquireAllStream>, Status> {
        let request = request.into_inner();
        self.saw(format!("{request:?}"));
        let last = if self.behaviour().is_busy {
            acquire_all_response::Event::NotGranted(not_granted())
        } else {
            let grants = self.grants(&request.locks);
            acquire_all_response::Event::Granted(GrantedAll { grants })
        };
        let waiting = WaitingForAll {
            name: request.locks[0].name.clone(),
            waiting: Some(waiting()),
        };
        let events = [acquire_all_response::Event::Waiting(waiting), last];
        let events = events.map(|event| Ok(AcquireAllResponse { event: Some(event) }));
        Ok(Response::new(futures::stream::iter(events).boxed()))
    }

    async fn try_acquire_all(
        &self,
        request: Request<TryAcquireAllRequest>,
    ) -> Result<Response<TryAcquireAllResponse>, Status> {
        let locks = request.into_inner().locks;
        let answer = if self.behaviour().is_busy {
            TryAcquireAllResponse {
                busy_name: locks[0].name.clone(),
                holder_remaining_lease: Duration::from_secs(12).try_into().ok(),
                ..TryAcquireAllResponse::default()
            }
        } else {
            TryAcquireAllResponse {
                acquired: true,
                grants: self.grants(&locks),
                ..TryAcquireAllResponse::default()
            }
        };
        Ok(Response::new(answer))
    }

    async fn release_all(
        &self,
        request: Request<ReleaseAllRequest>,
    ) -> Result<Response<ReleaseAllResponse>, Status> {
        let locks = request
            .into_inner()
            .locks
            .into_iter()
            .map(|lock| ReleasedLock {
                held: lock.name != "lost",
                hold_count: u32::from(lock.name == "twice"),
                name: lock.name,
                mode: lock.mode,
            });
        let locks = locks.collect();
        Ok(Response::new(ReleaseAllResponse { locks }))
    }

    async fn describe(
        &self,
        request: Request<DescribeRequest>,
    ) -> Result<Response<DescribeResponse>, Status> {
        let name = request.into_inner().name;
        if name.is_empty() {
            return Err(refusal(Code::InvalidArgument, "INVALID_NAME"));
        }
        Ok(Response::new(DescribeResponse {
            name,
            mode: LockMode::Read.into(),
            holders: vec![Holder {
                session_digest: "5feceb66ffc86f38".to_owned(),
                owner: "0".to_owned(),
                hold_count: 2,
                client_name: "search".to_owned(),
                mode: LockMode::Read.into(),
                remaining_lease: Duration::from_millis(1500).try_into().ok(),
            }],
            remaining_lease: Duration::from_millis(1500).try_into().ok(),
            last_fencing_token: TOKEN,
            waiters: vec![Waiter {
                owner: "1".to_owned(),
                position: 1,
                mode: LockMode::Write.into(),
                waiting_for: Duration::from_secs(2).try_into().ok(),
                ..Waiter::default()
            }],
            waiter_count: 3,
            holder_count: 12,
        }))
    }

    async fn check_token(
        &self,
        request: Request<CheckTokenRequest>,
    ) -> Result<Response<CheckTokenResponse>, Status> {
        Ok(Response::new(CheckTokenResponse {
            current: request.get_ref().fencing_token == TOKEN,
            last_fencing_token: TOKEN,
            held: true,
        }))
    }
}
