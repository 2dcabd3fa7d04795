//! The coordinator's side of a session's stream.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use lockkeeper_api::pb::{
    self, AcquireRequest, Grant, OpenSession, ResumeSession, SessionOpened, SessionRequest,
    SessionResponse, session_request::Request, session_response::Response,
};
use lockkeeper_base::tasks::spawn_detached;
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};
use tonic::{Code, Status, Streaming, metadata::MetadataMap};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    driver_process::PATIENCE,
    ledger::Ledger,
    messages::{
        LEASE, PING_INTERVAL, RENEW_INTERVAL, RESUME_TOKEN, SESSION_ID, TOKEN, frame_of, named,
        proto, status,
    },
};

/// What goes to the client; `None` ends the stream without an error.
pub(crate) type Out = mpsc::UnboundedSender<Option<Result<SessionResponse, Status>>>;

/// A session's stream.
pub(crate) struct Stream {
    pub(crate) accepted_at: Instant,
    pub(crate) metadata: MetadataMap,
    frames: mpsc::UnboundedReceiver<Received>,
    out: Out,
    habits: Arc<Habits>,
    ledger: Arc<Ledger>,
}

/// A frame, and when it was read.
pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) op_id: u64,
    pub(crate) request: Request,
}

/// What a stream does without the scenario.
#[derive(Debug)]
pub(crate) struct Habits {
    pub(crate) answers_pings: AtomicBool,
    pub(crate) renews: AtomicBool,
    pub(crate) pings: Mutex<Vec<Instant>>,
    pub(crate) renewals: Mutex<Vec<Instant>>,
    is_half_closed: AtomicBool,
    last_renewal: Mutex<(u64, pb::RenewRequest)>,
}

/// Makes a method that expects a frame of one kind.
macro_rules! expect {
    ($($method:ident: $kind:ident -> $message:ty;)*) => {
        $(pub(crate) async fn $method(&mut self) -> Result<(u64, $message)> {
            let frame = self.next(stringify!($kind)).await?;
            match frame.request {
                Request::$kind(request) => Ok((frame.op_id, request)),
                other => bail!(concat!(stringify!($kind), " expected: {:?}"), other),
            }
        })*
    };
}

/// What the coordinator may rely on to tell a client that is gone from one that has closed.
fn expect_promises(sends_pings: bool, sends_close: bool) -> Result<()> {
    ensure!(sends_pings, "sends_pings is not set");
    ensure!(sends_close, "sends_close is not set");
    Ok(())
}

// === impl Stream ===

impl Stream {
    /// Starts to read a stream. Pings and renewals are answered at once, unless the habits change.
    pub(crate) fn new(
        metadata: MetadataMap,
        mut incoming: Streaming<SessionRequest>,
        out: Out,
        ledger: Arc<Ledger>,
    ) -> Self {
        let (sender, frames) = mpsc::unbounded_channel();
        let habits = Arc::new(Habits {
            answers_pings: AtomicBool::new(true),
            renews: AtomicBool::new(true),
            pings: Mutex::default(),
            renewals: Mutex::default(),
            is_half_closed: AtomicBool::new(false),
            last_renewal: Mutex::default(),
        });
        let stream = Self {
            accepted_at: Instant::now(),
            metadata,
            frames,
            out: out.clone(),
            habits: Arc::clone(&habits),
            ledger: Arc::clone(&ledger),
        };
        spawn_detached("stream", async move {
            let end = loop {
                let frame = match incoming.message().await {
                    Ok(Some(frame)) => frame,
                    end => break end,
                };
                let (at, op_id) = (Instant::now(), frame.op_id);
                let Some(request) = frame.request else {
                    ledger.problem(format!("frame {op_id} has no request"));
                    continue;
                };
                ledger.check_request(op_id, &request);
                if habits.answer(&ledger, at, op_id, &request, &out) {
                    continue;
                }
                if sender.send(Received { at, op_id, request }).is_err() {
                    return;
                }
            };
            let is_half_closed = end.is_ok();
            habits
                .is_half_closed
                .store(is_half_closed, Ordering::Relaxed);
            drop(sender);
        });
        stream
    }

    pub(crate) fn habits(&self) -> &Habits {
        &self.habits
    }

    /// The newest renewal, and its `op_id`.
    pub(crate) fn last_renewal(&self) -> (u64, pb::RenewRequest) {
        self.habits.last_renewal.lock().clone()
    }

    /// The next frame, besides those that are answered at once.
    pub(crate) async fn next(&mut self, what: &str) -> Result<Received> {
        let frame = timeout(PATIENCE, self.frames.recv()).await;
        let frame = frame.map_err(|_| anyhow!("{what} did not come"))?;
        frame.with_context(|| format!("the stream ended instead of {what}"))
    }

    /// A frame, if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<Received> {
        self.frames.try_recv().ok()
    }

    /// Fails if a frame comes, or the stream ends, before `until`.
    pub(crate) async fn quiet_until(&mut self, until: Instant) -> Result<()> {
        tokio::select! {
            frame = self.frames.recv() => match frame {
                Some(frame) => bail!("unexpected: {:?}", frame.request),
                None => bail!("the client ended the stream"),
            },
            () = sleep_until(until) => Ok(()),
        }
    }

    /// Waits until the client half-closes the stream, with no frame before.
    pub(crate) async fn expect_half_close(&mut self) -> Result<()> {
        let end = timeout(PATIENCE, self.frames.recv()).await;
        let frame = end.map_err(|_| anyhow!("the client does not half-close the stream"))?;
        ensure!(frame.is_none(), "a frame comes after `close`");
        let is_half_closed = self.habits.is_half_closed.load(Ordering::Relaxed);
        ensure!(is_half_closed, "the client cancels the stream");
        Ok(())
    }

    /// Waits until the client closes the session.
    pub(crate) async fn expect_end(&mut self) -> Result<()> {
        let end = async {
            while let Some(frame) = self.frames.recv().await {
                if let Request::Close(_) = frame.request {
                    return Ok(());
                }
            }
            bail!("the client ends the stream without `close`")
        };
        let ended = timeout(PATIENCE, end).await;
        ended.map_err(|_| anyhow!("the client does not end the stream"))?
    }

    pub(crate) async fn expect_open(&mut self) -> Result<OpenSession> {
        match self.next("open").await?.request {
            Request::Open(open) => {
                expect_promises(open.sends_pings, open.sends_close)?;
                Ok(open)
            }
            other => bail!("open expected: {other:?}"),
        }
    }

    pub(crate) async fn expect_resume(&mut self) -> Result<ResumeSession> {
        match self.next("resume").await?.request {
            Request::Resume(resume) => {
                ensure!(resume.session_id == SESSION_ID, "another session's id");
                ensure!(resume.resume_token == RESUME_TOKEN, "another resume token");
                expect_promises(resume.sends_pings, resume.sends_close)?;
                Ok(resume)
            }
            other => bail!("resume expected: {other:?}"),
        }
    }

    expect! {
        expect_acquire: Acquire -> AcquireRequest;
        expect_try_acquire: TryAcquire -> pb::TryAcquireRequest;
        expect_acquire_all: AcquireAll -> pb::AcquireAllRequest;
        expect_release: Release -> pb::ReleaseRequest;
        expect_release_all: ReleaseAll -> pb::ReleaseAllRequest;
        expect_acquire_permits: AcquirePermits -> pb::AcquirePermitsRequest;
        expect_release_permits: ReleasePermits -> pb::ReleasePermitsRequest;
        expect_await_latch: AwaitLatch -> pb::AwaitLatchRequest;
        expect_cancel: Cancel -> pb::CancelOperation;
        expect_proclaim: Proclaim -> pb::ProclaimRequest;
        expect_close: Close -> pb::CloseSession;
        expect_offer: Offer -> pb::OfferRequest;
        expect_claim: Claim -> pb::ClaimRequest;
    }

    pub(crate) fn send(&self, op_id: u64, response: Response) {
        let response = Some(response);
        // The client may have ended the stream.
        let _ = self.out.send(Some(Ok(SessionResponse { op_id, response })));
    }

    pub(crate) fn opened(&self) {
        self.opened_with(Vec::new());
    }

    /// The session is open, and these grants are still held.
    pub(crate) fn opened_with(&self, grants: Vec<Grant>) {
        self.opened_for(LEASE, grants);
    }

    /// The same, with another lease.
    pub(crate) fn opened_for(&self, lease: Duration, grants: Vec<Grant>) {
        let known = self.ledger.grants.lock();
        let renewed = grants.into_iter().map(|named| {
            let key = (named.name.clone(), named.owner.clone());
            known.get(&key).cloned().unwrap_or(named)
        });
        let renewed = renewed.map(|grant| Grant {
            lease: proto(lease),
            valid_for: proto(lease),
            ..grant
        });
        self.send(
            0,
            Response::Opened(SessionOpened {
                session_id: SESSION_ID.to_owned(),
                resume_token: RESUME_TOKEN.to_vec(),
                lease: proto(lease),
                grants: renewed.collect(),
                permits: Vec::new(),
                ping_interval: proto(PING_INTERVAL),
                renew_interval: proto(RENEW_INTERVAL),
            }),
        );
    }

    /// Grants a lock with a token.
    pub(crate) fn grant(&self, op_id: u64, request: &AcquireRequest, token: u64) -> Grant {
        let grant = Grant {
            hold_count: 1,
            fencing_token: token,
            lease: request.lease.or(proto(LEASE)),
            valid_for: request.lease.or(proto(LEASE)),
            watched: request.lease.is_none(),
            session_id: SESSION_ID.to_owned(),
            ..named(&request.name, &request.owner, request.mode)
        };
        self.ledger.remember(&grant);
        self.send(op_id, Response::Granted(grant.clone()));
        grant
    }

    /// Grants several locks with tokens from [`TOKEN`] on.
    pub(crate) fn grant_all(&self, op_id: u64, request: &pb::AcquireAllRequest) -> Vec<Grant> {
        let grants = request
            .locks
            .iter()
            .zip(TOKEN..)
            .map(|(lock, token)| Grant {
                hold_count: 1,
                fencing_token: token,
                lease: proto(LEASE),
                valid_for: proto(LEASE),
                watched: true,
                session_id: SESSION_ID.to_owned(),
                ..named(&lock.name, &request.owner, lock.mode)
            });
        let grants: Vec<_> = grants.collect();
        for grant in &grants {
            self.ledger.remember(grant);
        }
        let all = pb::GrantedAll {
            grants: grants.clone(),
        };
        self.send(op_id, Response::GrantedAll(all));
        grants
    }

    pub(crate) fn released(&self, op_id: u64) {
        let released = pb::ReleaseResponse {
            released: true,
            hold_count: 0,
        };
        self.send(op_id, Response::Released(released));
    }

    pub(crate) fn not_granted(&self, op_id: u64, reason: pb::NotGrantedReason) {
        let ended = pb::NotGranted {
            holder_note: None,
            reason: reason.into(),
            holder_remaining_lease: proto(Duration::from_secs(1)),
        };
        self.send(op_id, Response::NotGranted(ended));
    }

    pub(crate) fn lost(&self, grant: &Grant, reason: pb::LostReason, detail: &str) {
        let notice = pb::GrantLost {
            valid_for: None,
            grant: Some(grant.clone()),
            reason: reason.into(),
            detail: detail.to_owned(),
        };
        self.send(0, Response::Lost(notice));
    }

    /// Fails an operation.
    pub(crate) fn fail(&self, op_id: u64, code: Code, reason: &str) {
        self.send(op_id, Response::Failed(frame_of(&status(code, reason))));
    }

    /// Fails a renewal or an acquire because another owner has the lock.
    pub(crate) fn fail_taken(&self, op_id: u64) {
        let state = HashMap::from([("state".to_owned(), "held_by_another".to_owned())]);
        let details = ErrorDetails::with_error_info("NOT_OWNER", "lockkeeper", state);
        let why = "another owner holds it";
        let status = Status::with_error_details(Code::FailedPrecondition, why, details);
        self.send(op_id, Response::Failed(frame_of(&status)));
    }

    /// A frame of a kind that the client does not know.
    pub(crate) fn send_empty(&self) {
        let _ = self.out.send(Some(Ok(SessionResponse::default())));
    }

    /// Grants permits with ids `1`, `2` and so on.
    pub(crate) fn grant_permits(&self, op_id: u64, request: &pb::AcquirePermitsRequest) {
        let ids = (1..=request.permits).map(|it| it.to_string());
        let grant = pb::PermitGrant {
            name: request.name.clone(),
            owner: request.owner.clone(),
            permit_ids: ids.collect(),
            lease: proto(LEASE),
            valid_for: proto(LEASE),
            watched: true,
            session_id: SESSION_ID.to_owned(),
            ..pb::PermitGrant::default()
        };
        self.send(op_id, Response::PermitsGranted(grant));
    }

    /// Ends the stream without an error, as after a close.
    pub(crate) fn finish(self) {
        let _ = self.out.send(None);
    }

    /// Ends the stream with an error, as when a coordinator dies.
    pub(crate) fn break_off(self) {
        let _ = self
            .out
            .send(Some(Err(Status::unavailable("broken on purpose"))));
    }

    /// Ends the stream because of an operation that is longer than this.
    pub(crate) fn refuse_as_too_large(self, bytes_max: usize) {
        let metadata = HashMap::from([("bytes_max".to_owned(), bytes_max.to_string())]);
        let reason = "MESSAGE_TOO_LARGE";
        let details = ErrorDetails::with_error_info(reason, "lockkeeper", metadata);
        let why = "an operation is too large";
        let status = Status::with_error_details(Code::OutOfRange, why, details);
        let _ = self.out.send(Some(Err(status)));
    }

    /// Ends the stream with a status of the coordinator.
    pub(crate) fn refuse(self, code: Code, reason: &str) {
        let _ = self.out.send(Some(Err(status(code, reason))));
    }
}

// === impl Habits ===

impl Habits {
    /// Answers a frame that the scenario does not care for.
    fn answer(
        &self,
        ledger: &Ledger,
        at: Instant,
        op_id: u64,
        request: &Request,
        out: &Out,
    ) -> bool {
        let response = match request {
            Request::Ping(_) => {
                self.pings.lock().push(at);
                if !self.answers_pings.load(Ordering::Relaxed) {
                    return true;
                }
                Response::Pong(pb::Pong {})
            }
            Request::Renew(request) => {
                self.renewals.lock().push(at);
                *self.last_renewal.lock() = (op_id, request.clone());
                if !self.renews.load(Ordering::Relaxed) {
                    return false;
                }
                let Some(grant) = ledger.renewal(request) else {
                    return false;
                };
                Response::Renewed(pb::RenewResponse { grant: Some(grant) })
            }
            _ => return false,
        };
        let response = Some(response);
        let _ = out.send(Some(Ok(SessionResponse { op_id, response })));
        true
    }
}
