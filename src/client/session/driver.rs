//! The task of a session: it owns the machine, the stream and the clock, and turns the machine's
//! effects into frames, replies and wake-ups.

use std::{collections::HashMap, future::pending, mem, time::Duration};

use lockkeeper_api::pb::{OpenSession, SessionOpened};
use rand::{SeedableRng as _, rngs::StdRng};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    command::{Answer, Command, Commands, Held, Reply, WeakCommands},
    event::{Publisher, SessionEvent},
    handle::Session,
};
use crate::{
    Connector, Error,
    clock::Clock,
    duration::to_std,
    endpoints::Endpoints,
    link::{Link, LinkEvent},
    machine::{Completion, Effect, Event, Machine},
};

/// How late it is noticed that the machine slept, while something is held: timers stood still.
const SLEEP_UNNOTICED_MAX: Duration = Duration::from_secs(1);

/// The task of a session. See the module.
pub(super) struct Driver {
    machine: Machine,
    connector: Connector,
    clock: Clock,
    link: Option<Link>,
    publisher: Publisher,
    commands: mpsc::UnboundedReceiver<Command>,
    own: WeakCommands,
    /// Callers that wait, by operation.
    replies: HashMap<u64, Reply<Answer>>,
    /// Guards that are not released.
    guards: HashMap<u64, CancellationToken>,
    opened: Option<Result<SessionOpened, Error>>,
    /// Callers that wait for the end.
    closing: Vec<Reply<()>>,
}

// === impl Driver ===

impl Driver {
    /// Opens a session. Returns its task and its first handle.
    pub(super) async fn open(
        endpoints: Endpoints,
        open: OpenSession,
    ) -> Result<(Self, Session), Error> {
        let clock = endpoints.clock;
        let (handle, commands) = Commands::new(clock.clone());
        let own = handle.downgrade();
        let random = StdRng::from_rng(&mut rand::rng());
        let addresses = endpoints.addresses;
        let mut driver = Self {
            machine: Machine::new(clock.now(), addresses, open, own.ids.clone(), random),
            connector: endpoints.connector,
            clock,
            link: None,
            publisher: Publisher::new(),
            commands,
            own,
            replies: HashMap::new(),
            guards: HashMap::new(),
            opened: None,
            closing: Vec::new(),
        };
        let opened = loop {
            match driver.opened.take() {
                Some(opened) => break opened?,
                None => driver.turn().await,
            }
        };
        let session = Session {
            commands: handle,
            id: opened.session_id,
            lease: to_std(opened.lease),
            state: driver.publisher.state.subscribe(),
            events: driver.publisher.events.downgrade(),
        };
        Ok((driver, session))
    }

    /// Runs until the session has ended.
    pub(super) async fn run(mut self) {
        let closed = loop {
            match self.machine.ended() {
                Some(closed) => break closed,
                None => self.turn().await,
            }
        };
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            let event = self.event(command);
            self.step(event);
        }
        for reply in mem::take(&mut self.closing) {
            let _ = reply.send(closed.clone());
        }
    }

    async fn turn(&mut self) {
        let wake_at = self.wake_at();
        let tick = async {
            match wake_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        let event = tokio::select! {
            biased;
            // Losses come before commands.
            event = next(&mut self.link) => match event {
                LinkEvent::Frame(frame) => Event::Received(frame),
                LinkEvent::Ended(failure) => Event::StreamEnded(failure),
            },
            command = self.commands.recv(), if !self.machine.is_closing() => match command {
                Some(command) => self.event(command),
                // All handles and guards are dropped.
                None => Event::Close,
            },
            () = tick => Event::Tick,
        };
        self.step(event);
    }

    /// When the machine has to be told the time, by tokio's clock.
    fn wake_at(&self) -> Option<Instant> {
        let at = self.machine.wake_at().map(|at| self.clock.to_tokio(at));
        if self.machine.holds() && self.clock.is_watched() {
            let look_at = Instant::now() + SLEEP_UNNOTICED_MAX;
            return Some(at.map_or(look_at, |at| at.min(look_at)));
        }
        at
    }

    fn event(&mut self, command: Command) -> Event {
        match command {
            Command::Start(mut new, reply) => {
                new.wait_until = new.wait_until.and_then(|at| self.clock.of_tokio(at));
                self.replies.insert(new.op_id, reply);
                Event::Start(*new)
            }
            Command::Abandon(op_id) => {
                self.replies.remove(&op_id);
                Event::Abandon(op_id)
            }
            Command::Release(guard, caller) => {
                self.guards.remove(&guard);
                let op_id = caller.map(|(op_id, reply)| {
                    self.replies.insert(op_id, reply);
                    op_id
                });
                Event::Release { guard, op_id }
            }
            Command::Close(reply) => {
                self.closing.push(reply);
                Event::Close
            }
        }
    }

    fn step(&mut self, event: Event) {
        let effects = self.machine.step(event, self.clock.now());
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Connect { address, first } => {
                    let keepalive = keepalive(self.machine.lease());
                    let link = Link::open(&self.connector, &address, keepalive, first);
                    self.link = Some(link);
                }
                Effect::Disconnect => self.link = None,
                Effect::Send(frame) => {
                    if let Some(link) = &self.link {
                        link.send(frame);
                    }
                }
                Effect::Opened(opened) => self.opened = Some(opened),
                Effect::Done { op_id, result } => self.reply(op_id, result),
                Effect::Lost(guard) => {
                    if let Some(lost) = self.guards.remove(&guard) {
                        lost.cancel();
                    }
                }
                Effect::Publish(SessionEvent::YieldRequested(request)) => {
                    let request = request.in_tokio(&self.clock);
                    self.publisher
                        .publish(SessionEvent::YieldRequested(request));
                }
                Effect::Publish(event) => self.publisher.publish(event),
            }
        }
    }

    /// Answers a caller. If it is gone, dropping what it acquired releases that.
    fn reply(&mut self, op_id: u64, result: Result<Completion, Error>) {
        let answer = match result {
            Err(error) => Err(error),
            Ok(Completion::Other(response)) => Ok(Answer::Other(response)),
            Ok(Completion::Granted {
                guard,
                holdings,
                validities,
            }) => {
                let Some(commands) = self.own.upgrade() else {
                    return;
                };
                let held = Held::new(commands, guard, validities);
                self.guards.insert(guard, held.lost.clone());
                Ok(Answer::Granted(held, holdings))
            }
        };
        if let Some(reply) = self.replies.remove(&op_id) {
            let _ = reply.send(answer);
        }
    }
}

impl Drop for Driver {
    /// Nothing renews or reports any more if the task did not come to its end. Guards learn it.
    fn drop(&mut self) {
        let effects = self.machine.abort(self.clock.now());
        self.carry_out(effects);
    }
}

async fn next(link: &mut Option<Link>) -> LinkEvent {
    match link {
        Some(link) => link.next().await,
        None => pending().await,
    }
}

/// Notices a dead coordinator well before the lease ends.
fn keepalive(lease: Duration) -> Duration {
    (lease / 6).max(Duration::from_millis(100))
}
