//! A machine under test, with a clock that only the test moves.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use lockkeeper_api::pb::{
    self, Grant, LockMode, OpenSession, SessionOpened, SessionResponse, session_request::Request,
    session_response::Response,
};
use prost::Message as _;
use rand::{SeedableRng as _, rngs::StdRng};
use tokio::time::Instant;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    Error,
    machine::{Completion, Effect, Event, Ids, Machine, NewOperation},
    session::SessionEvent,
    validity::Validity,
};

pub(super) const LEASE: Duration = Duration::from_secs(3);
pub(super) const PING_INTERVAL: Duration = Duration::from_millis(500);
pub(super) const RENEW_INTERVAL: Duration = Duration::from_millis(900);
pub(super) const TOKEN: u64 = 7;
pub(super) const MS: Duration = Duration::from_millis(1);

/// A machine and its effects, of which tests take what they look at.
pub(super) struct Story {
    pub(super) machine: Machine,
    pub(super) now: Instant,
    pub(super) effects: Vec<Effect>,
    pub(super) ids: Ids,
}

/// What an operation acquired.
pub(super) struct Held {
    pub(super) guard: u64,
    pub(super) validities: Vec<Arc<Validity>>,
}

pub(super) fn proto(time: Duration) -> Option<prost_types::Duration> {
    time.try_into().ok()
}

pub(super) fn acquire(name: &str, owner: &str) -> Request {
    Request::Acquire(pb::AcquireRequest {
        name: name.to_owned(),
        owner: owner.to_owned(),
        ..pb::AcquireRequest::default()
    })
}

pub(super) fn acquire_all(names: &[&str], owner: &str) -> Request {
    let locks = names.iter().map(|name| pb::LockSpec {
        name: (*name).to_owned(),
        ..pb::LockSpec::default()
    });
    Request::AcquireAll(pb::AcquireAllRequest {
        owner: owner.to_owned(),
        locks: locks.collect(),
        ..pb::AcquireAllRequest::default()
    })
}

pub(super) fn acquire_permits() -> Request {
    Request::AcquirePermits(pb::AcquirePermitsRequest {
        name: "s".to_owned(),
        permits: 1,
        ..pb::AcquirePermitsRequest::default()
    })
}

pub(super) fn grant(name: &str, owner: &str) -> Grant {
    Grant {
        name: name.to_owned(),
        owner: owner.to_owned(),
        mode: LockMode::Exclusive.into(),
        hold_count: 1,
        fencing_token: TOKEN,
        lease: proto(LEASE),
        valid_for: proto(LEASE),
        watched: true,
        ..Grant::default()
    }
}

/// A failure, whose error may say that another owner holds the lock.
pub(super) fn failed(reason: &str, state: Option<&str>) -> Response {
    let state = state.map(|it| ("state".to_owned(), it.to_owned()));
    let state: HashMap<_, _> = state.into_iter().collect();
    let details = ErrorDetails::with_error_info(reason, "lockkeeper", state);
    let status = Status::with_error_details(Code::Unavailable, "scripted", details);
    Response::Failed(tonic_types::Status::decode(status.details()).unwrap())
}

/// How a coordinator ends a stream, with a reason.
pub(super) fn refusal(code: Code) -> Status {
    let reason = format!("{code:?}");
    let details = ErrorDetails::with_error_info(reason, "lockkeeper", HashMap::new());
    Status::with_error_details(code, "scripted", details)
}

/// The end of a stream that a frame was too large for.
pub(super) fn too_large(bytes_max: usize) -> Status {
    let about = HashMap::from([("bytes_max".to_owned(), bytes_max.to_string())]);
    let details = ErrorDetails::with_error_info("MESSAGE_TOO_LARGE", "lockkeeper", about);
    Status::with_error_details(Code::OutOfRange, "scripted", details)
}

pub(super) fn request_id(request: &Request) -> &str {
    match request {
        Request::Acquire(it) => &it.request_id,
        Request::AcquireAll(it) => &it.request_id,
        Request::AcquirePermits(it) => &it.request_id,
        Request::Release(it) => &it.request_id,
        other => panic!("{other:?} is not expected"),
    }
}

/// The kind of a request, such as `Acquire`.
pub(super) fn kind(request: &Request) -> String {
    let text = format!("{request:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

// === impl Story ===

impl Story {
    /// A session with two endpoints that is not open.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let addresses = ["http://one:1", "http://two:2"].map(|it| it.parse().unwrap());
        let (ids, random) = (Ids::new(), StdRng::seed_from_u64(1));
        let open = OpenSession::default();
        Self {
            machine: Machine::new(now, addresses.into(), open, ids.clone(), random),
            now,
            effects: Vec::new(),
            ids,
        }
    }

    pub(super) fn open() -> Self {
        let mut story = Self::new();
        story.after(Duration::ZERO);
        story.opened(Vec::new());
        story.effects.clear();
        story
    }

    pub(super) fn step(&mut self, event: Event) {
        self.effects.extend(self.machine.step(event, self.now));
    }

    /// Lets time pass, with all wake-ups.
    pub(super) fn after(&mut self, time: Duration) {
        let until = self.now + time;
        let mut wake_ups = 0;
        while let Some(at) = self.machine.wake_at().filter(|at| *at <= until) {
            wake_ups += 1;
            assert!(wake_ups < 1000, "it wakes up for nothing");
            self.now = at.max(self.now);
            self.step(Event::Tick);
        }
        self.now = until;
    }

    // --- the coordinator

    pub(super) fn receive(&mut self, op_id: u64, response: Response) {
        let response = Some(response);
        self.step(Event::Received(SessionResponse { op_id, response }));
    }

    pub(super) fn opened(&mut self, grants: Vec<Grant>) {
        let opened = SessionOpened {
            session_id: "id".to_owned(),
            resume_token: b"token".to_vec(),
            lease: proto(LEASE),
            grants,
            ping_interval: proto(PING_INTERVAL),
            renew_interval: proto(RENEW_INTERVAL),
            ..SessionOpened::default()
        };
        self.receive(0, Response::Opened(opened));
    }

    pub(super) fn going_away(&mut self) {
        self.receive(0, Response::GoingAway(pb::SessionGoingAway {}));
    }

    pub(super) fn stream_fails(&mut self, code: Code) {
        self.stream_ends(refusal(code));
    }

    pub(super) fn stream_ends(&mut self, status: Status) {
        self.step(Event::StreamEnded(Some(status.into())));
    }

    /// Breaks the stream, and waits for the attempt to resume the session.
    pub(super) fn broken(&mut self) {
        self.stream_fails(Code::Unavailable);
        let connects = |it: &Effect| matches!(it, Effect::Connect { .. });
        while !self.effects.iter().any(connects) {
            self.now = self.machine.wake_at().unwrap();
            self.step(Event::Tick);
        }
    }

    // --- the user

    pub(super) fn start(&mut self, request: Request) -> u64 {
        self.start_for(request, None)
    }

    pub(super) fn start_for(&mut self, request: Request, wait: Option<Duration>) -> u64 {
        let op_id = self.ids.next();
        self.step(Event::Start(NewOperation {
            op_id,
            request,
            wait_until: wait.map(|it| self.now + it),
            patience: None,
        }));
        op_id
    }

    /// A lock that the session holds.
    pub(super) fn lock(&mut self, name: &str, owner: &str) -> Held {
        let op_id = self.start(acquire(name, owner));
        self.receive(op_id, Response::Granted(grant(name, owner)));
        self.sent();
        self.held(op_id)
    }

    /// Acquires a lock whose former grant of this owner has ended.
    pub(super) fn lock_anew(&mut self, name: &str, owner: &str) -> Held {
        let op_id = self.start(acquire(name, owner));
        let newer = Grant {
            fencing_token: TOKEN + 1,
            ..grant(name, owner)
        };
        self.receive(op_id, Response::Granted(newer));
        self.sent();
        self.held(op_id)
    }

    pub(super) fn release(&mut self, guard: u64) -> u64 {
        let op_id = self.ids.next();
        let op = Some(op_id);
        self.step(Event::Release { guard, op_id: op });
        op_id
    }

    // --- effects

    fn take<T>(&mut self, take: impl Fn(Effect) -> Result<T, Effect>) -> Vec<T> {
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for effect in mem::take(&mut self.effects) {
            match take(effect) {
                Ok(it) => taken.push(it),
                Err(effect) => left.push(effect),
            }
        }
        self.effects = left;
        taken
    }

    /// Frames sent since the last call, besides pings.
    pub(super) fn sent(&mut self) -> Vec<(u64, Request)> {
        let frames = self.take(|effect| match effect {
            Effect::Send(frame) => Ok(frame),
            other => Err(other),
        });
        let frames = frames.into_iter().map(|it| (it.op_id, it.request.unwrap()));
        frames
            .filter(|(_, it)| !matches!(it, Request::Ping(_)))
            .collect()
    }

    /// The kinds of these frames.
    pub(super) fn sent_kinds(&mut self) -> Vec<String> {
        self.sent().iter().map(|(_, it)| kind(it)).collect()
    }

    /// The only frame since the last call.
    pub(super) fn sent_one(&mut self) -> (u64, Request) {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Attempts to connect since the last call: the addresses and the first frames.
    pub(super) fn connects(&mut self) -> Vec<(String, Request)> {
        self.take(|effect| match effect {
            Effect::Connect { address, first } => Ok((address.to_string(), first.request.unwrap())),
            other => Err(other),
        })
    }

    /// Lets time pass until the next attempt to connect, and returns how much.
    pub(super) fn until_connects(&mut self) -> Duration {
        let begun = self.now;
        while self.connects().is_empty() {
            assert!(self.now < begun + LEASE, "it does not connect");
            self.after(MS);
        }
        self.now - begun
    }

    /// The resume of the only attempt to connect since the last call.
    pub(super) fn resume(&mut self) -> pb::ResumeSession {
        match self.connects().pop() {
            Some((_, Request::Resume(resume))) => {
                assert!(resume.sends_pings && resume.sends_close);
                resume
            }
            other => panic!("{other:?} is not a resume"),
        }
    }

    pub(super) fn done(&mut self, wanted: u64) -> Option<Result<Completion, Error>> {
        let mut done = self.take(|effect| match effect {
            Effect::Done { op_id, result } if op_id == wanted => Ok(result),
            other => Err(other),
        });
        assert!(done.len() <= 1, "it ended twice: {done:?}");
        done.pop()
    }

    pub(super) fn failure(&mut self, op_id: u64) -> Error {
        match self.done(op_id) {
            Some(Err(failure)) => failure,
            other => panic!("{other:?} is no failure"),
        }
    }

    pub(super) fn held(&mut self, op_id: u64) -> Held {
        match self.done(op_id) {
            Some(Ok(Completion::Granted {
                guard, validities, ..
            })) => Held { guard, validities },
            other => panic!("{other:?} is no grant"),
        }
    }

    /// Guards that were lost since the last call.
    pub(super) fn lost(&mut self) -> Vec<u64> {
        self.take(|effect| match effect {
            Effect::Lost(guard) => Ok(guard),
            other => Err(other),
        })
    }

    /// Events for the user since the last call.
    pub(super) fn events(&mut self) -> Vec<SessionEvent> {
        self.take(|effect| match effect {
            Effect::Publish(event) => Ok(event),
            other => Err(other),
        })
    }

    pub(super) fn disconnects(&mut self) -> usize {
        let disconnects = self.take(|effect| match effect {
            Effect::Disconnect => Ok(()),
            other => Err(other),
        });
        disconnects.len()
    }

    pub(super) fn is_ended(&self) -> bool {
        self.machine.ended().is_some()
    }
}

// === impl Held ===

impl Held {
    pub(super) fn valid_for(&self, story: &Story) -> Duration {
        let until = self.validities.iter().map(|it| it.valid_until()).min();
        until.unwrap() - story.now
    }

    /// Why it was lost, such as `EXPIRED`.
    pub(super) fn loss(&self) -> Option<String> {
        let loss = self.validities.iter().find_map(|it| it.loss())?;
        match loss {
            Error::Lost { reason, .. } => Some(reason.as_str_name().replace("LOST_REASON_", "")),
            other => panic!("{other:?} is no loss"),
        }
    }
}
