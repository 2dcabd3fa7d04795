//! What goes in and what comes out.

use std::time::Duration;

use lockkeeper_client::{Error, SessionEvent};
use nix::sys::signal::Signal;

use super::{Granted, Wish};
use crate::failure::Failure;

/// What the user wants.
#[derive(Clone, Debug)]
pub(in crate::run) struct Plan {
    pub(in crate::run) wish: Wish,
    /// `None`: without limit.
    pub(in crate::run) wait: Option<Duration>,
    pub(in crate::run) kill_after: Option<Duration>,
    pub(in crate::run) conflict_exit_code: u8,
}

/// What happened.
#[derive(Debug)]
pub(in crate::run) enum Input {
    /// What came of [`Action::Open`]: the session's lease.
    Opened(Result<Duration, Error>),
    /// The session tells something.
    Told(SessionEvent),
    /// What came of [`Action::Acquire`].
    Acquired(Result<Granted, Error>),
    /// What came of [`Action::Confirm`].
    Confirmed(Result<(), Error>),
    /// Something of what is held is lost.
    Lost(Option<Error>),
    /// What came of [`Action::Close`].
    Closed(Result<(), Error>),
    /// This process got a signal.
    Signal(Signal),
    /// What came of [`Action::StartChild`].
    ChildStarted(Result<(), Failure>),
    /// The command ended by itself or by a signal.
    ChildExited(u8),
    /// What came of [`Action::ProbeGroup`].
    GroupIsEmpty(bool),
    /// The time of [`super::Machine::wake_at`] has come.
    Tick,
}

/// What to do. Of the first four only one is under way at a time, and takes the place of the one
/// before.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::run) enum Action {
    /// Open a session.
    Open,
    /// Wait in it for what is wished for, so long at most.
    Acquire(Option<Duration>),
    /// Renew what is held, so that it is known until when.
    Confirm,
    /// End the session, which gives back what is held.
    Close,
    /// Start the command, unless a signal has come meanwhile.
    StartChild {
        /// Of each lock, by name; that of the first goes by a variable of its own.
        fencing_tokens: Vec<(String, u64)>,
    },
    /// Signal the command's process group.
    SignalGroup(Signal),
    /// Look whether any process of the group is left.
    ProbeGroup,
    /// Tell the user.
    Say(String),
    /// End with this code.
    Exit(u8),
}
