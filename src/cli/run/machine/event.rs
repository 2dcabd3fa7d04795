//! What goes in and what comes out.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::Wish;
use crate::{
    cli::failure::Failure,
    grpc::pb::{SessionRequest, SessionResponse},
};

/// What the user wants.
#[derive(Clone, Debug)]
pub(in crate::cli::run) struct Plan {
    pub(in crate::cli::run) wish: Wish,
    /// `None`: without limit.
    pub(in crate::cli::run) wait: Option<Duration>,
    /// `None`: the coordinator's.
    pub(in crate::cli::run) lease: Option<Duration>,
    /// Replicas that must know of what is held.
    pub(in crate::cli::run) min_replica_acks: u32,
    pub(in crate::cli::run) kill_after: Option<Duration>,
    pub(in crate::cli::run) client_name: String,
    pub(in crate::cli::run) conflict_exit_code: u8,
}

/// What happened.
#[derive(Debug)]
pub(in crate::cli::run) enum Input {
    /// The link said something.
    Frame(SessionResponse),
    /// The link ended; `None`: as it should.
    LinkEnded(Option<Failure>),
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

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli::run) enum Action {
    /// Open a link, in place of the one there is, with this frame first.
    Connect(SessionRequest),
    /// Send a frame.
    Send(SessionRequest),
    /// Drop the link.
    Disconnect,
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
