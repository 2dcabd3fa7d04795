//! Failures of commands: a line for people, an exit code for scripts.

use std::fmt::Write as _;

use lockkeeper_client::{Error, why_broken};
use nix::sys::signal::Signal;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::exit;

pub use lockkeeper_client::status_of;

/// Whether a call changes anything, which decides what a missing answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The change may have happened.
    Changes,
    /// Nothing was changed.
    Reads,
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: u8,
    /// The stable reason of the API, or the name of the gRPC code.
    pub reason: String,
    /// One line.
    pub message: String,
}

// === impl Failure ===

impl Failure {
    /// The coordinator is unreachable, so nothing was sent.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self {
            exit: exit::UNAVAILABLE,
            reason: "UNAVAILABLE".to_owned(),
            message: message.into(),
        }
    }

    /// A failure of this process.
    pub fn local(exit: u8, message: impl Into<String>) -> Self {
        Self {
            exit,
            reason: String::new(),
            message: message.into(),
        }
    }

    /// Whether the coordinator refuses new waits because it is about to end, or ends connections
    /// that are too old. Another one goes on, or the same after its restart.
    pub(crate) fn is_going_away(&self) -> bool {
        ["DRAINING", "CONNECTION_AGE_MAX"].contains(&self.reason.as_str())
    }

    /// Whether a coordinator that answered before may just be away. A refusal has another reason.
    pub(crate) fn may_pass(&self) -> bool {
        ["UNAVAILABLE", "UNKNOWN", "CANCELLED"].contains(&self.reason.as_str())
    }

    /// The same of a request that grants something: the same request finds out an outcome that is
    /// not known.
    #[must_use]
    pub(crate) fn of_request(mut self, owner: &str, request_id: &str) -> Self {
        if self.exit == exit::OUTCOME_UNKNOWN {
            let _ = write!(self.message, "; retry with --request-id {request_id}");
            if !owner.is_empty() {
                let _ = write!(self.message, " --owner {owner}");
            }
        }
        self
    }

    /// The failure for scripts.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let Self {
            exit,
            reason,
            message,
        } = self;
        serde_json::json!({ "error": { "exit": exit, "reason": reason, "message": message } })
    }

    /// A failed RPC.
    pub fn from_status(status: &Status, effect: Effect) -> Self {
        let info = status.get_details_error_info();
        let reason = info
            .as_ref()
            .map_or_else(|| code_name(status.code()), |info| info.reason.clone());
        let mut message = format!("{reason}: {}", status.message());
        if let (None, Some(cause)) = (&info, why_broken(status)) {
            let _ = write!(message, ": {cause}");
        }
        if let Some(info) = &info
            && !info.metadata.is_empty()
        {
            let mut facts: Vec<_> = info
                .metadata
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect();
            facts.sort();
            let _ = write!(message, " ({})", facts.join(", "));
        }
        if let Some(delay) = status
            .get_details_retry_info()
            .and_then(|retry| retry.retry_delay)
        {
            let _ = write!(
                message,
                "; try again in {}",
                humantime::format_duration(delay)
            );
        }
        if let Some(hint) = hint(&reason) {
            let _ = write!(message, "; {hint}");
        }
        Self {
            exit: exit_code(
                status.code(),
                info.as_ref().map(|info| info.reason.as_str()),
                effect,
            ),
            reason,
            message: message.replace('\n', " "),
        }
    }

    /// An error of the client library.
    pub fn from_error(error: &Error, effect: Effect) -> Self {
        match error {
            // One that answers is not to be started.
            Error::Unreachable { cause, .. }
                if [
                    "the server ",
                    "invalid peer certificate",
                    "received fatal alert",
                ]
                .iter()
                .any(|it| cause.starts_with(it)) =>
            {
                Self::unavailable(error.to_string())
            }
            Error::Unreachable { .. } => Self::unavailable(format!(
                "{error}; `lockkeeper serve` starts one, \
                 --server or LOCKKEEPER_SERVER names another"
            )),
            Error::Refused(status) => Self::from_status(status, effect),
            Error::Misconfigured(_) => Self::local(exit::USAGE, error.to_string()),
            _ => Self::unavailable(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    /// A reader that has read enough closes the pipe: then the command ends like `cat`, without a
    /// message.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Self::local(exit::by_signal(Signal::SIGPIPE as i32), "");
        }
        Self::local(exit::INTERNAL, error.to_string())
    }
}

/// What to do, where the coordinator cannot know which command was used.
fn hint(reason: &str) -> Option<&'static str> {
    match reason {
        "WRONG_KIND" => Some(
            "`lockkeeper list --prefix NAME` shows its kind; `run --permits NUMBER` is for \
             semaphores",
        ),
        "UNAUTHENTICATED" => {
            Some("--token-file or LOCKKEEPER_TOKEN_FILE names the file with the bearer token")
        }
        "UNIMPLEMENTED" => Some("an older coordinator answers so, and a proxy without a route"),
        "SEMAPHORE_NOT_FOUND" => Some("`lockkeeper semaphore set NAME PERMITS` creates it"),
        _ => None,
    }
}

fn exit_code(code: Code, reason: Option<&str>, effect: Effect) -> u8 {
    match (code, reason, effect) {
        (_, Some("NOT_OWNER"), _) => exit::NOT_GRANTED,
        // A coordinator's refusals have a reason. Without one, the call or its answer was lost; a
        // proxy that loses its coordinator says INTERNAL.
        (_, Some("OUTCOME_UNKNOWN"), _)
        | (
            Code::Unavailable
            | Code::Unknown
            | Code::Internal
            | Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted,
            None,
            Effect::Changes,
        ) => exit::OUTCOME_UNKNOWN,
        (Code::InvalidArgument | Code::FailedPrecondition | Code::NotFound, ..)
        | (Code::Unimplemented, Some(_), _) => exit::USAGE,
        (Code::PermissionDenied | Code::Unauthenticated, ..) => exit::DENIED,
        (
            Code::Unavailable | Code::ResourceExhausted | Code::DeadlineExceeded | Code::Cancelled,
            ..,
        )
        | (Code::Unknown | Code::Internal | Code::Unimplemented, None, _) => exit::UNAVAILABLE,
        _ => exit::INTERNAL,
    }
}

/// `InvalidArgument` as the API's documentation writes it: `INVALID_ARGUMENT`.
fn code_name(code: Code) -> String {
    let mut name = String::new();
    for letter in format!("{code:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, time::Duration};

    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    fn status(code: Code, reason: &str) -> Status {
        let details = ErrorDetails::with_error_info(reason, "lockkeeper", HashMap::new());
        Status::with_error_details(code, "no", details)
    }

    #[test]
    fn each_cause_has_its_code() {
        for (code, reason, expected) in [
            (Code::InvalidArgument, "INVALID_NAME", exit::USAGE),
            (Code::FailedPrecondition, "NOT_OWNER", exit::NOT_GRANTED),
            (Code::FailedPrecondition, "WRONG_KIND", exit::USAGE),
            (Code::FailedPrecondition, "SELF_DEADLOCK", exit::USAGE),
            (Code::FailedPrecondition, "COUNT_EXCEEDED", exit::USAGE),
            (Code::NotFound, "SEMAPHORE_NOT_FOUND", exit::USAGE),
            (Code::Unimplemented, "UNSUPPORTED_BY_STORE", exit::USAGE),
            (Code::ResourceExhausted, "WAITERS_MAX", exit::UNAVAILABLE),
            (Code::Unavailable, "STORE_UNAVAILABLE", exit::UNAVAILABLE),
            (Code::Unavailable, "OUTCOME_UNKNOWN", exit::OUTCOME_UNKNOWN),
            (Code::Unavailable, "DRAINING", exit::UNAVAILABLE),
            (Code::PermissionDenied, "DENIED", exit::DENIED),
            (Code::Internal, "INTERNAL", exit::INTERNAL),
        ] {
            let failure = Failure::from_status(&status(code, reason), Effect::Changes);
            assert_eq!(failure.exit, expected, "{reason}");
            assert!(failure.message.starts_with(&format!("{reason}: no")));
        }
    }

    #[test]
    fn a_lost_answer_is_an_unknown_outcome_only_of_a_change() {
        // tonic has no code of its own for a connection that breaks during a call.
        for lost in [
            Status::unavailable("connection reset"),
            Status::unknown("transport error"),
            Status::internal("h2 protocol error"),
        ] {
            let exit = |effect| Failure::from_status(&lost, effect).exit;
            assert_eq!(exit(Effect::Changes), exit::OUTCOME_UNKNOWN);
            assert_eq!(exit(Effect::Reads), exit::UNAVAILABLE);
        }
        // A proxy without a route has not passed it on.
        for effect in [Effect::Changes, Effect::Reads] {
            let failure = Failure::from_status(&Status::unimplemented(""), effect);
            assert_eq!(failure.exit, exit::UNAVAILABLE);
            assert!(failure.message.ends_with("a proxy without a route"));
        }
    }

    #[test]
    fn a_closed_pipe_ends_a_command_like_cat() {
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!((failure.exit, failure.message.as_str()), (141, ""));
        let failure = Failure::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
        assert_eq!(failure.exit, exit::INTERNAL);
    }

    #[test]
    fn an_unknown_outcome_comes_with_what_a_retry_needs() {
        let lost = || Failure::from_status(&Status::unavailable("reset"), Effect::Changes);
        let message = lost().of_request("me", "r-1").message;
        assert_eq!(
            message,
            "UNAVAILABLE: reset; retry with --request-id r-1 --owner me"
        );
        assert!(
            lost()
                .of_request("", "r-1")
                .message
                .ends_with("--request-id r-1")
        );
        let refused = Failure::from_status(&status(Code::InvalidArgument, "X"), Effect::Changes);
        assert_eq!(refused.clone().of_request("me", "r-1"), refused);
    }

    #[test]
    fn the_line_has_the_facts_and_the_next_step() {
        let mut details = ErrorDetails::with_error_info(
            "STORE_UNAVAILABLE",
            "lockkeeper",
            HashMap::from([
                ("b".to_owned(), "2".to_owned()),
                ("a".to_owned(), "1".to_owned()),
            ]),
        );
        details.set_retry_info(Some(Duration::from_secs(1)));
        let status = Status::with_error_details(Code::Unavailable, "store\nis down", details);
        assert_eq!(
            Failure::from_status(&status, Effect::Reads).message,
            "STORE_UNAVAILABLE: store is down (a=1, b=2); try again in 1s"
        );
        assert_eq!(
            Failure::from_status(&Status::invalid_argument("x"), Effect::Reads).message,
            "INVALID_ARGUMENT: x"
        );
    }
}
