//! The fake's port, what it is told to do, and its sessions.

use std::net::SocketAddr;

use lockkeeper_api::pb::{
    AcquireRequest, Grant, GrantLost, GrantedAll, LockSpec, NotGranted, NotGrantedReason,
    ReleaseResponse, RenewResponse, SessionOpened, SessionRequest, SessionResponse,
    TryAcquireResponse, Waiting, lock_service_server::LockServiceServer,
    session_request::Request as Asked, session_response::Response as Said,
};
use parking_lot::Mutex;
use tokio::{net::TcpSocket, runtime::Runtime, sync::mpsc};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Status, Streaming, transport::Server};

use crate::prelude::*;

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
pub(super) struct Service(Arc<Mutex<State>>);

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
        let reason = LostReason::Expired.into();
        self.tell(Ok(Said::Lost(GrantLost {
            valid_for: None,
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
    pub(super) fn saw(&self, word: impl Into<String>) {
        self.0.lock().seen.push(word.into());
    }

    /// Exclusive is what most tests ask for, and says nothing.
    pub(super) fn saw_mode(&self, mode: LockMode) {
        if !matches!(mode, LockMode::Unspecified | LockMode::Exclusive) {
            self.saw(mode.as_str_name());
        }
    }

    pub(super) fn behaviour(&self) -> Behaviour {
        self.0.lock().behaviour.clone()
    }

    pub(super) fn grant(&self, name: &str, mode: i32) -> Grant {
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

    pub(super) fn grants(&self, locks: &[LockSpec]) -> Vec<Grant> {
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
            ..SessionOpened::default()
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
                    holder_note: None,
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
            Asked::Describe(_) => ("describe", None),
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

    pub(super) async fn serve(
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

pub(super) fn waiting() -> Waiting {
    let holder_remaining_lease = Duration::from_secs(12).try_into().ok();
    Waiting {
        position: 1,
        holder_remaining_lease,
        holder_note: None,
    }
}

pub(super) fn not_granted() -> NotGranted {
    NotGranted {
        reason: NotGrantedReason::WaitTimeout.into(),
        holder_remaining_lease: Duration::from_secs(12).try_into().ok(),
        holder_note: None,
    }
}
