//! Errors of the client.

use std::time::Duration;

use lockkeeper_api::pb::{LostReason, NotGrantedReason, Note};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::{Address, InvalidAddress, transport_error};

/// An error of the client.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address, a file or a value cannot be used; nothing was sent.
    #[error("{0}")]
    Misconfigured(String),
    /// No coordinator could be reached: a session was not opened, or an acquire's time to wait has
    /// passed without a stream. Nothing is held; what is granted nevertheless is released.
    #[error("no coordinator at {address}: {cause}")]
    Unreachable {
        /// The last address that was tried.
        address: Address,
        /// Why it could not be reached.
        cause: String,
    },
    /// The wait ended without a grant: the lock has another holder, or too few permits are free.
    #[error("{name}: {}", why_not_granted(*reason))]
    NotGranted {
        /// The lock, semaphore or latch; several locks are separated by commas.
        name: String,
        /// Why the wait ended.
        reason: NotGrantedReason,
        /// The rest of the holder's lease, for a lock whose holder has a lease that ends.
        holder_remaining_lease: Option<Duration>,
        /// The holder's note: why it holds the lock, and its labels.
        holder_note: Option<Box<Note>>,
        /// The number of free permits, for a semaphore.
        available: Option<u32>,
    },
    /// The lock or the permits were lost.
    #[error("{name}: lost, {}", why_lost(*reason, detail))]
    Lost {
        /// The lock or semaphore.
        name: String,
        /// Why it was lost; `Unspecified` if the session has ended.
        reason: LostReason,
        /// Details for people: the operator's reason for a forced release, or why the session has
        /// ended. May be empty.
        detail: String,
    },
    /// The coordinator refused the call, or the call was lost on the way. [`Error::reason`] tells
    /// both apart.
    #[error("{}", describe(.0))]
    Refused(Box<Status>),
    /// The session was closed, or no coordinator could be reached for as long as its lease. Nothing
    /// is held any more; open a new session.
    #[error("the session has ended: {0}")]
    SessionEnded(String),
}

// === impl Error ===

impl Error {
    /// Whether there is another holder, or too few permits are free; a later try may succeed.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::NotGranted { .. })
    }

    /// Whether the lock or the permits are no longer held.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. }) || self.reason().is_some_and(|it| it == "NOT_OWNER")
    }

    /// Whether the session has ended and a new one is needed.
    pub fn is_session_ended(&self) -> bool {
        matches!(self, Self::SessionEnded(_))
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotGranted { .. } | Self::SessionEnded(_) => true,
            Self::Misconfigured(_) | Self::Lost { .. } => false,
            Self::Refused(status) => !is_final(status.code()),
        }
    }

    /// The coordinator's stable reason, such as `WAITERS_PER_LOCK_MAX`. `None` for errors of the
    /// client and for calls that were lost on the way.
    pub fn reason(&self) -> Option<String> {
        self.status().and_then(reason)
    }

    /// The gRPC status, of [`Error::Refused`].
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// How long to wait before the next try, if the coordinator says so.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.status()?.get_details_retry_info()?.retry_delay
    }

    /// The limit, if a message was too large.
    pub(crate) fn message_bytes_max(&self) -> Option<usize> {
        let info = self.status()?.get_details_error_info()?;
        let max = info.metadata.get("bytes_max")?;
        let is_too_large = info.reason == "MESSAGE_TOO_LARGE";
        max.parse().ok().filter(|_| is_too_large)
    }

    /// The failure of an operation on a session's stream.
    pub(crate) fn from_frame(frame: &tonic_types::Status) -> Self {
        status_of(frame).into()
    }
}

impl From<InvalidAddress> for Error {
    fn from(invalid: InvalidAddress) -> Self {
        Self::Misconfigured(invalid.to_string())
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// The gRPC status of an operation that failed on a session's stream.
pub fn status_of(frame: &tonic_types::Status) -> Status {
    let code = Code::from_i32(frame.code);
    let details = frame.encode_to_vec().into();
    Status::with_details(code, frame.message.as_str(), details)
}

/// Whether the same request would be refused again.
pub(crate) fn is_final(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
    )
}

/// The stable reason of a status of the coordinator.
pub(crate) fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

/// The state of the lock that a status reports besides its reason.
pub(crate) fn state(status: &Status) -> Option<String> {
    let mut info = status.get_details_error_info()?;
    info.metadata.remove("state")
}

fn describe(status: &Status) -> String {
    let message = status.message();
    match (reason(status), transport_error::of_status(status)) {
        (Some(reason), _) => format!("{reason}: {message}"),
        (None, Some(cause)) => format!("{:?}: {message}: {cause}", status.code()),
        (None, None) => format!("{:?}: {message}", status.code()),
    }
}

fn why_not_granted(reason: NotGrantedReason) -> &'static str {
    match reason {
        NotGrantedReason::Deadlock => "not granted, the wait was part of a deadlock",
        _ => "not granted within the time to wait",
    }
}

/// The reason of a loss for people, such as `its lease ended`, followed by the detail.
pub fn why_lost(reason: LostReason, detail: &str) -> String {
    let known = [
        (LostReason::Expired, "its lease ended"),
        (LostReason::TakenOver, "another owner holds it"),
        (
            LostReason::StoreUnreachable,
            "the store could not be reached in time",
        ),
        (LostReason::ForceReleased, "an operator force-released it"),
        (LostReason::Preempted, "it was preempted"),
        (
            LostReason::ClockStepped,
            "the store's clock stepped and ended its lease",
        ),
        (
            LostReason::HandedOver,
            "it was offered, and another session has claimed it",
        ),
    ];
    let words = known.into_iter().find(|(it, _)| *it == reason);
    match (words, detail) {
        (None, "") => "no reason given".to_owned(),
        (None, detail) => detail.to_owned(),
        (Some((_, words)), "") => words.to_owned(),
        (Some((_, words)), detail) => format!("{words}: {detail}"),
    }
}
