//! Why something could not be done.

use std::time::Duration;

use lockkeeper_api::pb::{LostReason, NotGrantedReason};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Address, cause};

/// Why something could not be done.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An address, a file or a value cannot be used.
    #[error("{0}")]
    Misconfigured(String),
    /// No coordinator could be reached, so nothing was asked.
    #[error("no coordinator at {address}: {cause}")]
    Unreachable {
        /// The last one that was tried.
        address: Address,
        /// What went wrong there.
        cause: String,
    },
    /// The wait ended without a grant: the lock is held by another, or too few permits are free.
    #[error("{name}: not granted within the time to wait")]
    NotGranted {
        /// What was asked for.
        name: String,
        /// Why the wait ended.
        reason: NotGrantedReason,
        /// What was left of the holder's lease, of a lock that has one that ends.
        holder_remaining_lease: Option<Duration>,
        /// How many permits were free, of a semaphore.
        available: Option<u32>,
    },
    /// What was held is held no longer.
    #[error("{name}: lost, {}", why_lost(*reason, detail))]
    Lost {
        /// What was lost.
        name: String,
        /// Why. `Unspecified` if the session has ended.
        reason: LostReason,
        /// More about it, for people: what an operator said who took it away, or why the session
        /// has ended. Empty if nothing was said.
        detail: String,
    },
    /// The coordinator refused it, or the call was lost on the way.
    #[error("{}", describe(.0))]
    Refused(Box<Status>),
    /// The session is over: closed, or its coordinator could not be reached for as long as its
    /// lease. Open a new one.
    #[error("the session has ended: {0}")]
    SessionEnded(String),
}

// === impl Error ===

impl Error {
    /// Somebody else has it; asking later may succeed.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::NotGranted { .. })
    }

    /// What was held is held no longer.
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. }) || self.reason().is_some_and(|it| it == "NOT_OWNER")
    }

    /// The session cannot be used any more.
    pub fn is_session_ended(&self) -> bool {
        matches!(self, Self::SessionEnded(_))
    }

    /// The same may succeed if it is asked again later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NotGranted { .. } | Self::SessionEnded(_) => true,
            Self::Misconfigured(_) | Self::Lost { .. } => false,
            Self::Refused(status) => !is_final(status.code()),
        }
    }

    /// The coordinator's stable reason, such as `WAITERS_PER_LOCK_MAX`.
    pub fn reason(&self) -> Option<String> {
        self.status().and_then(reason)
    }

    /// What the coordinator said.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            _ => None,
        }
    }

    /// How long the coordinator asks to wait before the next try.
    pub fn retry_delay(&self) -> Option<Duration> {
        self.status()?.get_details_retry_info()?.retry_delay
    }

    /// What failed on a session's stream; always from the coordinator.
    pub(super) fn from_frame(frame: &tonic_types::Status) -> Self {
        status_of(frame).into()
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

/// What an RPC would have ended with that ended on a session's stream with this.
pub fn status_of(frame: &tonic_types::Status) -> Status {
    let code = Code::from_i32(frame.code);
    let details = frame.encode_to_vec().into();
    Status::with_details(code, frame.message.as_str(), details)
}

/// Whether the same request would be refused again.
pub(super) fn is_final(code: Code) -> bool {
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
pub(super) fn reason(status: &Status) -> Option<String> {
    status.get_details_error_info().map(|info| info.reason)
}

/// What a status says besides its reason.
pub(super) fn state(status: &Status) -> Option<String> {
    let mut info = status.get_details_error_info()?;
    info.metadata.remove("state")
}

fn describe(status: &Status) -> String {
    let message = status.message();
    match (reason(status), cause::of_status(status)) {
        (Some(reason), _) => format!("{reason}: {message}"),
        (None, Some(cause)) => format!("{:?}: {message}: {cause}", status.code()),
        (None, None) => format!("{:?}: {message}", status.code()),
    }
}

/// Why something is held no longer, in words.
pub fn why_lost(reason: LostReason, detail: &str) -> String {
    let known = [
        (LostReason::Expired, "its lease ran out"),
        (LostReason::TakenOver, "somebody else holds it"),
        (
            LostReason::StoreUnreachable,
            "the store could not be reached in time",
        ),
        (LostReason::ForceReleased, "an operator took it away"),
    ];
    let words = known.into_iter().find(|(it, _)| *it == reason);
    match (words, detail) {
        (None, "") => "no reason given".to_owned(),
        (None, detail) => detail.to_owned(),
        (Some((_, words)), "") => words.to_owned(),
        (Some((_, words)), detail) => format!("{words}: {detail}"),
    }
}
