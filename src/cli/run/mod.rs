//! `lockkeeper run`: holds a lock while a command runs. The session is the client's; [`machine`]
//! decides what it means for the command; this file does it.

mod child;
mod hold;
mod machine;
mod messages;
mod signals;
mod timing;

use std::{collections::VecDeque, future::pending, path::Path, sync::Arc, time::Duration};

use futures::future::{FutureExt as _, LocalBoxFuture};
use lockkeeper_client::{Client, Error, Session, SessionEvents};
use tokio::time::{Instant, sleep_until};

use self::{
    child::Child,
    hold::Hold,
    machine::{Action, Input, Machine, Plan, Wish},
    messages::Messages,
    signals::Signals,
};
use super::{args::RunArgs, exit, output};

/// No limit of a coordinator is likely to be smaller.
const CLIENT_NAME_BYTES: usize = 100;

/// The outside world.
struct Io {
    args: RunArgs,
    client: Client,
    signals: Signals,
    messages: Messages,
    /// What is asked of the coordinator. Dropping it asks no more.
    asked: Option<LocalBoxFuture<'static, Answer>>,
    session: Option<Session>,
    events: Option<SessionEvents>,
    hold: Option<Arc<Hold>>,
    has_told_loss: bool,
    child: Option<Child>,
}

/// What came of what was asked.
enum Answer {
    Opened(Result<Session, Error>),
    Acquired(Result<Hold, Error>),
    Confirmed(Result<(), Error>),
    Closed(Result<(), Error>),
}

/// Returns the exit code of the process.
pub(super) async fn run(args: RunArgs) -> u8 {
    let signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            output::say(&format!("signals cannot be handled: {error}"));
            return exit::INTERNAL;
        }
    };
    let client = match args.server.client() {
        Ok(client) => client,
        Err(error) => {
            output::say(&error.to_string());
            return exit::USAGE;
        }
    };
    let plan = plan(&args);
    let mut io = Io {
        args,
        client,
        signals,
        messages: Messages::start(),
        asked: None,
        session: None,
        events: None,
        hold: None,
        has_told_loss: false,
        child: None,
    };
    let (mut machine, actions) = Machine::new(plan, Instant::now());
    let mut actions = VecDeque::from(actions);
    loop {
        while let Some(action) = actions.pop_front() {
            if let Action::Exit(code) = action {
                io.messages.flush().await;
                return code;
            }
            if let Some(input) = io.perform(action) {
                actions.extend(machine.on(Instant::now(), io.valid_until(), input));
            }
        }
        let input = io.next(machine.wake_at()).await;
        actions.extend(machine.on(Instant::now(), io.valid_until(), input));
    }
}

fn plan(args: &RunArgs) -> Plan {
    Plan {
        wish: wish(args),
        wait: if args.no_wait {
            Some(Duration::ZERO)
        } else {
            args.wait
        },
        kill_after: args.kill_after,
        conflict_exit_code: args.conflict_exit_code,
    }
}

fn wish(args: &RunArgs) -> Wish {
    match args.permits {
        Some(permits) => Wish::Permits {
            name: args.name.clone(),
            permits,
        },
        None => Wish::Locks(args.locks()),
    }
}

fn client_name(args: &RunArgs) -> String {
    args.client_name.clone().unwrap_or_else(|| {
        let program = Path::new(&args.command[0]).file_name().unwrap_or_default();
        // Letters of four bytes are the worst that can come.
        program
            .to_string_lossy()
            .chars()
            .take(CLIENT_NAME_BYTES / 4)
            .collect()
    })
}

// === impl Io ===

impl Io {
    /// Signals go first, so that nothing is started after one; then the command's end, then what
    /// the session tells.
    async fn next(&mut self, wake_at: Option<Instant>) -> Input {
        let child = async {
            match &mut self.child {
                Some(child) => child.ended().await,
                None => pending().await,
            }
        };
        let lost = async {
            match &self.hold {
                Some(hold) if !self.has_told_loss => hold.lost().cancelled().await,
                _ => pending().await,
            }
        };
        let told = async {
            let told = match &mut self.events {
                Some(events) => events.next().await,
                None => None,
            };
            match told {
                Some(event) => event,
                None => pending().await,
            }
        };
        let answered = async {
            match &mut self.asked {
                Some(asked) => asked.await,
                None => pending().await,
            }
        };
        let tick = async {
            match wake_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            signal = self.signals.next() => Input::Signal(signal),
            code = child => Input::ChildExited(code),
            event = told => Input::Told(event),
            () = lost => {
                self.has_told_loss = true;
                Input::Lost(self.hold.as_ref().and_then(|hold| hold.loss()))
            }
            answer = answered => self.on_answer(answer),
            () = tick => Input::Tick,
        }
    }

    fn on_answer(&mut self, answer: Answer) -> Input {
        self.asked = None;
        match answer {
            Answer::Opened(opened) => Input::Opened(opened.map(|session| {
                let lease = session.lease();
                self.events = Some(session.events());
                self.session = Some(session);
                lease
            })),
            Answer::Acquired(acquired) => Input::Acquired(acquired.map(|hold| {
                let granted = hold.granted();
                self.hold = Some(Arc::new(hold));
                granted
            })),
            Answer::Confirmed(confirmed) => Input::Confirmed(confirmed),
            Answer::Closed(closed) => Input::Closed(closed),
        }
    }

    /// Until when what is held is ours for sure.
    fn valid_until(&self) -> Option<Instant> {
        self.hold.as_ref().map(|hold| hold.valid_until())
    }

    fn perform(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Open => self.open(),
            Action::Acquire(wait) => {
                let session = self.session.clone()?;
                let min_replica_acks = self.args.min_replica_acks;
                let acquired = wish(&self.args).acquire(session, wait, min_replica_acks);
                self.asked = Some(acquired.map(Answer::Acquired).boxed_local());
            }
            Action::Confirm => {
                let hold = Arc::clone(self.hold.as_ref()?);
                let confirmed = async move { Answer::Confirmed(hold.renew().await) };
                self.asked = Some(confirmed.boxed_local());
            }
            Action::Close => {
                // First, because the end of a wait is told before that of the session.
                self.asked = None;
                let closed = self.session.take()?.close();
                self.asked = Some(closed.map(Answer::Closed).boxed_local());
            }
            Action::StartChild { fencing_tokens } => return Some(self.start(&fencing_tokens)),
            Action::SignalGroup(signal) => {
                if let Some(child) = &self.child {
                    child.signal(signal);
                }
            }
            Action::ProbeGroup => {
                let is_empty = self.child.as_ref().is_none_or(Child::is_group_empty);
                return Some(Input::GroupIsEmpty(is_empty));
            }
            Action::Say(message) => self.messages.say(message),
            Action::Exit(_) => {}
        }
        None
    }

    fn open(&mut self) {
        let session = self.client.session().client_name(client_name(&self.args));
        let session = match self.args.lease {
            Some(lease) => session.lease(lease),
            None => session,
        };
        self.asked = Some(session.open().map(Answer::Opened).boxed_local());
    }

    fn start(&mut self, fencing_tokens: &[(String, u64)]) -> Input {
        // Others than these had nobody to go to while the lock was waited for.
        while let Some(signal) = self.signals.pending() {
            if signals::is_termination(signal) {
                return Input::Signal(signal);
            }
        }
        let environment = self.environment(fencing_tokens);
        Input::ChildStarted(Child::start(&self.args.command, environment).map(|child| {
            self.child = Some(child);
        }))
    }

    /// What the command is told. The session's id is not among it: whoever knows it can act as this
    /// session.
    fn environment(&self, fencing_tokens: &[(String, u64)]) -> Vec<(&'static str, String)> {
        let name = self.args.name.clone();
        let mut environment = self.args.server.environment();
        if let Some(permits) = self.args.permits {
            environment.push(("LOCKKEEPER_SEMAPHORE", name));
            environment.push(("LOCKKEEPER_PERMITS", permits.to_string()));
            return environment;
        }
        let first = fencing_tokens.first().map_or(0, |(_, token)| *token);
        let lines = fencing_tokens
            .iter()
            .map(|(name, token)| format!("{token} {name}"));
        let lines: Vec<String> = lines.collect();
        environment.push(("LOCKKEEPER_LOCK", name));
        environment.push(("LOCKKEEPER_FENCING_TOKEN", first.to_string()));
        environment.push(("LOCKKEEPER_FENCING_TOKENS", lines.join("\n")));
        environment
    }
}
