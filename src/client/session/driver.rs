//! The task of a session: one loop over what the coordinator says, what handles want, and the
//! clock.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_api::pb::{
    CancelOperation, SessionOpened, SessionRequest, session_request::Request,
};
use tokio::{
    sync::{broadcast, mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use super::{
    SessionEvent, SessionState,
    book::Book,
    closing::Closing,
    command::{Ask, Command, Commands},
    connection::{Connection, Event},
    event::EVENTS_KEPT,
    operation::{Operation, Purpose, with_request_id},
};
use crate::{Client, Error, link::LinkEvent};

/// What is to be looked at when its time has come; what it says may be outdated by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Holding(u64),
    Operation(u64),
}

/// See the module.
pub(super) struct Driver {
    pub(super) client: Client,
    pub(super) opened: SessionOpened,
    pub(super) lease: Duration,
    pub(super) keepalive: Duration,
    /// The endpoint in use, or to be tried next.
    pub(super) endpoint: usize,
    pub(super) connection: Connection,
    pub(super) book: Book,
    pub(super) operations: BTreeMap<u64, Operation>,
    /// By the guards that had what is given back.
    pub(super) releases: HashMap<u64, Release>,
    pub(super) timers: BTreeSet<(Instant, Timer)>,
    /// The session is over if it is not resumed until then.
    pub(super) over_at: Option<Instant>,
    pub(super) closing: Option<Closing>,
    /// Why the session is over.
    pub(super) ended: Option<String>,
    pub(super) state: watch::Sender<SessionState>,
    pub(super) events: broadcast::Sender<SessionEvent>,
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    /// Not a handle: it does not keep the session alive.
    own: mpsc::WeakUnboundedSender<Command>,
    ids: Arc<AtomicU64>,
}

/// What a guard had is being given back.
pub(super) struct Release {
    pub(super) holdings: Vec<u64>,
    pub(super) answer: Option<oneshot::Sender<Result<(), Error>>>,
}

// === impl Driver ===

impl Driver {
    pub(super) fn new(
        client: Client,
        endpoint: usize,
        connection: Connection,
        opened: SessionOpened,
    ) -> (Self, Commands) {
        let (queue, commands) = mpsc::unbounded_channel();
        let own = queue.downgrade();
        let handle = Commands {
            queue,
            ids: Arc::new(1.into()),
        };
        let lease = crate::thing::to_std(opened.lease);
        let driver = Self {
            client,
            lease,
            keepalive: super::connection::keepalive(Some(lease)),
            endpoint,
            connection,
            book: Book::default(),
            operations: BTreeMap::new(),
            releases: HashMap::new(),
            timers: BTreeSet::new(),
            over_at: None,
            closing: None,
            ended: None,
            state: watch::Sender::new(SessionState::Connected),
            events: broadcast::Sender::new(EVENTS_KEPT),
            commands,
            own,
            ids: Arc::clone(&handle.ids),
            opened,
        };
        (driver, handle)
    }

    /// Runs until the session is over.
    pub(super) async fn run(mut self) {
        while self.ended.is_none() {
            let wake_at = self.wake_at();
            let tick = async {
                match wake_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                // What is lost is told before anything is asked.
                event = self.connection.next() => self.on_event(Instant::now(), event),
                command = self.commands.recv(), if self.closing.is_none() => {
                    self.on_command(Instant::now(), command);
                }
                () = tick => {}
            }
            self.meet_deadlines(Instant::now());
        }
        self.finish();
    }

    fn on_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Link(LinkEvent::Frame(frame)) => self.on_frame(now, frame),
            Event::Link(LinkEvent::Ended(failure)) => self.on_link_ended(now, failure.as_ref()),
            Event::Attempted(Ok((link, opened))) => self.on_resumed(now, link, &opened),
            Event::Attempted(Err(failure)) => self.on_attempt_failed(now, &failure),
        }
    }

    fn on_command(&mut self, now: Instant, command: Option<Command>) {
        match command {
            Some(Command::Ask(ask)) => self.begin(now, ask),
            Some(Command::Abandon(op_id)) => self.abandon(op_id),
            Some(Command::Release(guard, answer)) => self.release(now, guard, answer),
            Some(Command::Close(done)) => self.close(now, vec![done]),
            // Nobody is left who could ask for anything.
            None => self.close(now, Vec::new()),
        }
    }

    fn begin(&mut self, now: Instant, ask: Ask) {
        let mut operation = Operation::new(with_request_id(ask.request), Purpose::Caller);
        operation.wait_until = ask.wait_until;
        operation.patience = ask.patience;
        operation.answer = Some(ask.answer);
        self.add(now, ask.op_id, operation);
    }

    /// Sends an operation, now or when there is a connection.
    pub(super) fn add(&mut self, now: Instant, op_id: u64, operation: Operation) {
        self.operations.insert(op_id, operation);
        self.send(now, op_id);
    }

    pub(super) fn send(&mut self, now: Instant, op_id: u64) {
        let Connection::Up { link, .. } = &self.connection else {
            return;
        };
        let Some(operation) = self.operations.get_mut(&op_id) else {
            return;
        };
        link.send(operation.frame(op_id, now));
        if operation.is_abandoned && operation.waits() {
            link.send(frame(op_id, Request::Cancel(CancelOperation {})));
        }
    }

    fn abandon(&mut self, op_id: u64) {
        let Some(operation) = self.operations.get_mut(&op_id) else {
            return;
        };
        operation.answer = None;
        operation.is_abandoned = true;
        let is_sent = operation.sent_at.is_some();
        if !is_sent && !operation.is_in_doubt {
            self.operations.remove(&op_id);
        } else if is_sent
            && operation.waits()
            && let Connection::Up { link, .. } = &self.connection
        {
            link.send(frame(op_id, Request::Cancel(CancelOperation {})));
        }
    }

    fn wake_at(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        let closing = self.closing.as_ref().map(|it| it.until);
        let moments = [timer, closing, self.over_at, self.connection.wake_at()];
        moments.into_iter().flatten().min()
    }

    fn meet_deadlines(&mut self, now: Instant) {
        while let Some((at, timer)) = self.timers.first().copied()
            && at <= now
        {
            self.timers.pop_first();
            match timer {
                Timer::Holding(id) => self.look_after(now, id),
                Timer::Operation(op_id) => {
                    let operation = self.operations.get(&op_id);
                    if operation.is_some_and(|it| it.retry_at.is_some_and(|at| at <= now)) {
                        self.send(now, op_id);
                    }
                }
            }
        }
        self.meet_closing_deadline(now);
        if self.over_at.is_some_and(|at| at <= now) {
            self.end("no coordinator could be reached for as long as its lease");
        }
        self.meet_connection_deadlines(now);
    }

    pub(super) fn tell(&self, event: SessionEvent) {
        // Nobody may be listening.
        let _ = self.events.send(event);
    }

    /// A number that nothing else of the session has.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// For a guard. None: nobody is left to have one.
    pub(super) fn handle(&self) -> Option<Commands> {
        Some(Commands {
            queue: self.own.upgrade()?,
            ids: Arc::clone(&self.ids),
        })
    }
}

pub(super) fn frame(op_id: u64, request: Request) -> SessionRequest {
    SessionRequest {
        op_id,
        request: Some(request),
        ..SessionRequest::default()
    }
}
