//! What goes in and what comes out.

use std::time::Duration;

use lockkeeper_api::pb::DescribeResponse;
use lockkeeper_client::{Error, SessionEvent};
use nix::sys::signal::Signal;

use crate::{
    failure::Failure,
    run::target::{Granted, RunTarget},
};

/// What the user asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) target: RunTarget,
    /// `None`: without limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) kill_after: Option<Duration>,
    pub(crate) conflict_exit_code: u8,
    /// The signal for the command when its lock is asked for.
    pub(crate) on_yield: Option<Signal>,
    /// This process runs under the lock already, and would wait for itself.
    pub(crate) is_nested: bool,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// The result of [`Action::Open`]: the session's lease.
    Opened(Result<Duration, Error>),
    /// An event of the session.
    Event(SessionEvent),
    /// The result of [`Action::Acquire`].
    Acquired(Result<Granted, Error>),
    /// The result of [`Action::Describe`]; `None` if it failed.
    Described(Option<DescribeResponse>),
    /// The result of [`Action::Confirm`].
    Confirmed(Result<(), Error>),
    /// A grant is lost.
    Lost(Option<Error>),
    /// The result of [`Action::Close`].
    Closed(Result<(), Error>),
    /// This process got a signal.
    Signal(Signal),
    /// The result of [`Action::StartChild`].
    ChildStarted(Result<(), Failure>),
    /// The command ended by itself or by a signal.
    ChildExited(u8),
    /// The command was stopped by a signal.
    ChildStopped(Signal),
    /// It was stopped, and continues.
    ChildContinued,
    /// The result of [`Action::ProbeGroup`].
    GroupIsEmpty(bool),
    /// The time of [`Machine::wake_at`](super::Machine::wake_at) has come.
    Tick,
}

/// What to do. Only one of `Open`, `Acquire`, `Confirm` and `Close` is under way at a time; it
/// replaces the one before.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Open a session.
    Open,
    /// Wait in the session for the target, for this long at most.
    Acquire(Option<Duration>),
    /// Ask who holds a lock that is waited for.
    Describe(String),
    /// Renew the grants, which tells how long they are valid.
    Confirm,
    /// End the session, which releases its grants.
    Close,
    /// Start the command, unless a termination signal is pending.
    StartChild {
        /// Each lock's name and token; the first also has a variable of its own.
        fencing_tokens: Vec<(String, u64)>,
    },
    /// Signal the command's process group.
    SignalGroup(Signal),
    /// Check whether any process of the group is left.
    ProbeGroup,
    /// Print a message.
    Say(String),
    /// End with this code.
    Exit(u8),
}
