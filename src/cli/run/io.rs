//! Performs the actions of the machine and collects its inputs.

use std::{future::pending, path::Path, sync::Arc};

use futures::future::{FutureExt as _, LocalBoxFuture};
use lockkeeper_api::pb::DescribeResponse;
use lockkeeper_client::{Client, Error, LostReason, Session, SessionEvents};
use tokio::time::{Instant, sleep_until};

use super::{
    child::{Change, Child},
    hold::{Hold, Request, acquire},
    machine::{Action, Input},
    messages::Messages,
    signals::{Signals, is_termination},
    target::RunTarget,
};
use crate::args::RunArgs;

/// No coordinator is likely to have a smaller limit.
const CLIENT_NAME_BYTES: usize = 100;

/// The session, the process and the clock of one run.
pub(super) struct Io {
    args: RunArgs,
    client: Client,
    signals: Signals,
    messages: Messages,
    /// The operation under way. Dropping it cancels it.
    operation: Option<LocalBoxFuture<'static, Outcome>>,
    /// A question about the lock that is waited for.
    description: Option<LocalBoxFuture<'static, Option<DescribeResponse>>>,
    session: Option<Session>,
    events: Option<SessionEvents>,
    hold: Option<Arc<Hold>>,
    /// See [`Io::valid_until`].
    valid_until: Option<Instant>,
    has_reported_loss: bool,
    child: Option<Child>,
}

/// The outcome of an operation.
enum Outcome {
    Opened(Result<Session, Error>),
    Acquired(Result<Hold, Error>),
    Confirmed(Result<(), Error>),
    Closed(Result<(), Error>),
}

// === impl Io ===

impl Io {
    pub(super) fn new(args: RunArgs, client: Client, signals: Signals) -> Self {
        Self {
            args,
            client,
            signals,
            messages: Messages::start(),
            operation: None,
            description: None,
            session: None,
            events: None,
            hold: None,
            valid_until: None,
            has_reported_loss: false,
            child: None,
        }
    }

    /// The next input. Signals go first, so that nothing is started after one; then the command's
    /// end; then a loss, so that its reason is known when the validity ends; then events of the
    /// session.
    pub(super) async fn next(&mut self, wake_at: Option<Instant>) -> Input {
        let child = async {
            match &mut self.child {
                Some(child) => child.changed().await,
                None => pending().await,
            }
        };
        let lost = async {
            match &self.hold {
                Some(hold) if !self.has_reported_loss => hold.lost().cancelled().await,
                _ => pending().await,
            }
        };
        let event = async {
            let event = match &mut self.events {
                Some(events) => events.next().await,
                None => None,
            };
            match event {
                Some(event) => event,
                None => pending().await,
            }
        };
        let outcome = async {
            match &mut self.operation {
                Some(operation) => operation.await,
                None => pending().await,
            }
        };
        let description = async {
            match &mut self.description {
                Some(description) => description.await,
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
            change = child => match change {
                Change::Exited(code) => Input::ChildExited(code),
                Change::Stopped(signal) => Input::ChildStopped(signal),
                Change::Continued => Input::ChildContinued,
            },
            () = lost => {
                self.has_reported_loss = true;
                Input::Lost(self.hold.as_ref().and_then(|hold| hold.loss()))
            }
            event = event => Input::Event(event),
            outcome = outcome => self.on_outcome(outcome),
            described = description => {
                self.description = None;
                Input::Described(described)
            }
            () = tick => Input::Tick,
        }
    }

    fn on_outcome(&mut self, outcome: Outcome) -> Input {
        self.operation = None;
        match outcome {
            Outcome::Opened(opened) => Input::Opened(opened.map(|session| {
                let lease = session.lease();
                self.events = Some(session.events());
                self.session = Some(session);
                lease
            })),
            Outcome::Acquired(acquired) => Input::Acquired(acquired.map(|hold| {
                let granted = hold.granted();
                self.hold = Some(Arc::new(hold));
                granted
            })),
            Outcome::Confirmed(confirmed) => Input::Confirmed(confirmed),
            Outcome::Closed(closed) => Input::Closed(closed),
        }
    }

    /// Until when all grants are surely valid. One that is lost is valid no more, but the command
    /// may end in the time that it had, or in the grace period if there is one.
    pub(super) fn valid_until(&mut self) -> Option<Instant> {
        let hold = self.hold.as_ref()?;
        // Read before the loss, which changes it.
        let until = hold.valid_until();
        let has_grace = |it| matches!(it, LostReason::ForceReleased | LostReason::Preempted);
        if !matches!(hold.loss(), Some(Error::Lost { reason, .. }) if !has_grace(reason)) {
            self.valid_until = Some(until);
        }
        self.valid_until
    }

    /// Waits until the messages are written, for a limited time.
    pub(super) async fn flush(self) {
        self.messages.flush().await;
    }

    /// Performs an action; some have an input at once.
    pub(super) fn perform(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Open => self.open(),
            Action::Acquire(wait) => {
                let session = self.session.clone()?;
                let acquired = acquire(Request {
                    target: RunTarget::new(&self.args),
                    wait,
                    min_replica_acks: self.args.how.min_replica_acks,
                    note: self.args.how.note.to_proto(),
                    hold_at_least: self.args.hold_at_least,
                    lock_delay: self.args.lock_delay,
                    owner: self.args.owner.clone(),
                    value: self.args.value.clone(),
                    preferred: self.args.preferred,
                    session,
                });
                self.operation = Some(acquired.map(Outcome::Acquired).boxed_local());
            }
            Action::Describe(name) => {
                let session = self.session.clone()?;
                let described = async move { session.describe(name).await.ok() };
                self.description = Some(described.boxed_local());
            }
            Action::Confirm => {
                let hold = Arc::clone(self.hold.as_ref()?);
                let confirmed = async move { Outcome::Confirmed(hold.renew().await) };
                self.operation = Some(confirmed.boxed_local());
            }
            Action::Close => {
                // First, because a wait must end before its session.
                (self.operation, self.description) = (None, None);
                let session = self.session.take()?;
                let lost = self.hold.take_if(|hold| hold.loss().is_some());
                let closed = async move {
                    // A forced release waits for this. Its error says that the lock is lost.
                    if let Some(lost) = lost {
                        let _ = lost.release().await;
                    }
                    Outcome::Closed(session.close().await)
                };
                self.operation = Some(closed.boxed_local());
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
        let session = match self.args.how.lease {
            Some(lease) => session.lease(lease),
            None => session,
        };
        self.operation = Some(session.open().map(Outcome::Opened).boxed_local());
    }

    fn start(&mut self, fencing_tokens: &[(String, u64)]) -> Input {
        // Other signals had no command to go to while the lock was waited for.
        while let Some(signal) = self.signals.pending() {
            if is_termination(signal) {
                return Input::Signal(signal);
            }
        }
        let environment = self.environment(fencing_tokens);
        Input::ChildStarted(
            Child::start(&self.args.how.command, environment).map(|child| {
                self.child = Some(child);
            }),
        )
    }

    /// The command's environment. The session's id is not in it: it is a credential.
    fn environment(&self, fencing_tokens: &[(String, u64)]) -> Vec<(&'static str, String)> {
        let name = self.args.name.clone();
        // The client was made of the same.
        let mut environment = self.args.how.server.environment().unwrap_or_default();
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
        if self.args.value.is_some() {
            environment.push(("LOCKKEEPER_TERM", first.to_string()));
        }
        environment.push(("LOCKKEEPER_FENCING_TOKEN", first.to_string()));
        environment.push(("LOCKKEEPER_FENCING_TOKENS", lines.join("\n")));
        environment
    }
}

fn client_name(args: &RunArgs) -> String {
    args.how.client_name.clone().unwrap_or_else(|| {
        let program = Path::new(&args.how.command[0])
            .file_name()
            .unwrap_or_default();
        // A letter has four bytes at most.
        program
            .to_string_lossy()
            .chars()
            .take(CLIENT_NAME_BYTES / 4)
            .collect()
    })
}
