//! `lockkeeper run`: holds a lock while a command runs. [`machine`] decides, this file does.

mod child;
mod machine;
mod messages;
mod signals;
mod timing;

use std::{collections::VecDeque, future::pending, path::Path, time::Duration};

use tokio::time::{Instant, sleep_until};

use self::{
    child::Child,
    machine::{Action, Input, Machine, Plan, Wish},
    messages::Messages,
    signals::Signals,
};
use super::{
    args::RunArgs,
    exit,
    failure::{Effect, Failure},
    output,
};
use crate::client::{Client, Link, LinkEvent};

/// For the liveness checks of a connection, until a shorter lease is asked for.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);

/// No limit of a coordinator is likely to be smaller.
const CLIENT_NAME_BYTES: usize = 100;

/// The outside world.
struct Io {
    args: RunArgs,
    client: Client,
    keepalive: Duration,
    signals: Signals,
    messages: Messages,
    link: Option<Link>,
    child: Option<Child>,
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
    // So that a dead coordinator is noticed well before the lease is over.
    let keepalive = plan.lease.unwrap_or(LEASE_DEFAULT) / 6;
    let mut io = Io {
        args,
        client,
        keepalive: keepalive.max(Duration::from_millis(100)),
        signals,
        messages: Messages::start(),
        link: None,
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
                actions.extend(machine.on(Instant::now(), input));
            }
        }
        let input = io.next(machine.wake_at()).await;
        actions.extend(machine.on(Instant::now(), input));
    }
}

fn plan(args: &RunArgs) -> Plan {
    let client_name = args.client_name.clone().unwrap_or_else(|| {
        let program = Path::new(&args.command[0]).file_name().unwrap_or_default();
        // Letters of four bytes are the worst that can come.
        program
            .to_string_lossy()
            .chars()
            .take(CLIENT_NAME_BYTES / 4)
            .collect()
    });
    Plan {
        wish: match args.permits {
            Some(permits) => Wish::Permits {
                name: args.name.clone(),
                permits,
            },
            None => Wish::Locks(args.locks()),
        },
        wait: if args.no_wait {
            Some(Duration::ZERO)
        } else {
            args.wait
        },
        lease: args.lease,
        min_replica_acks: args.min_replica_acks,
        kill_after: args.kill_after,
        client_name,
        conflict_exit_code: args.conflict_exit_code,
    }
}

// === impl Io ===

impl Io {
    /// Signals go first, so that nothing is started after one; then the command's end, then what the coordinator says.
    async fn next(&mut self, wake_at: Option<Instant>) -> Input {
        let child = async {
            match &mut self.child {
                Some(child) => child.ended().await,
                None => pending().await,
            }
        };
        let link = async {
            match &mut self.link {
                Some(link) => link.next().await,
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
            event = link => match event {
                LinkEvent::Frame(frame) => Input::Frame(frame),
                // The loss of a stream loses no answer: the session is resumed and its grants are counted again.
                LinkEvent::Ended(error) => Input::LinkEnded(
                    error.map(|error| Failure::from_error(&error, Effect::Reads)),
                ),
            },
            () = tick => Input::Tick,
        }
    }

    fn perform(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Connect(first) => {
                self.link = Some(
                    self.client
                        .link(&self.args.server.server, self.keepalive, first),
                );
            }
            Action::Send(frame) => {
                if let Some(link) = &self.link {
                    link.send(frame);
                }
            }
            Action::Disconnect => self.link = None,
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

    /// What the command is told. The session's id is not among it: whoever knows it can act as this session.
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
