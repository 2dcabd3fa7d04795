//! Domain errors as gRPC statuses: a code, a stable reason, and details that clients can act on. No
//! other file makes statuses of them.

use std::{collections::HashMap, time::Duration};

use lockkeeper_access::{QuotaReached, Unauthenticated};
use lockkeeper_coordinator::{Error, Limit};
use lockkeeper_store::script::{CallError, Ownership, Unsupported};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

/// The domain of all reasons.
pub(super) const DOMAIN: &str = "lockkeeper";

/// Retry delays: for an unreachable store, for a draining coordinator, and for a reached limit.
const STORE_RETRY: Duration = Duration::from_millis(500);
const DRAIN_RETRY: Duration = Duration::from_millis(100);
const LIMIT_RETRY: Duration = Duration::from_secs(1);

/// The status of an error.
#[deny(clippy::wildcard_enum_match_arm)]
pub(super) fn status(error: &Error) -> Status {
    let text = error.to_string();
    match error {
        Error::Invalid(invalid) => {
            let reason = format!("INVALID_{}", invalid.field.replace('.', "_").to_uppercase());
            let mut details = info(&reason, &[("field", invalid.field)]);
            details.add_bad_request_violation(invalid.field, &invalid.why);
            Status::with_error_details(Code::InvalidArgument, text, details)
        }
        Error::NotOwner(ownership) => {
            let state = match ownership {
                Ownership::HeldByAnother => "held_by_another",
                Ownership::Expired => "expired",
                Ownership::NeverHeld => "never_held",
                Ownership::HeldInAnotherMode => "held_in_another_mode",
            };
            failed(text, "NOT_OWNER", ("state", state))
        }
        Error::SessionNotFound => plain(Code::NotFound, text, "SESSION_NOT_FOUND", &[]),
        Error::SessionDetached => no_session(text, "detached"),
        Error::ResumeTokenInvalid => no_session(text, "resume_token_invalid"),
        Error::ResumeTokenExpired => no_session(text, "resume_token_expired"),
        Error::SessionEnded => no_session(text, "ended"),
        Error::SessionEndedByForce(reason) => session_ended(reason),
        Error::SessionSuperseded => superseded(),
        Error::LimitReached(limit) => {
            let mut details = info(&limit.name().to_uppercase(), &[("limit", limit.name())]);
            details.add_quota_failure_violation(limit_subject(*limit), limit.name());
            details.set_retry_info(Some(LIMIT_RETRY));
            Status::with_error_details(Code::ResourceExhausted, text, details)
        }
        Error::QuotaReached(reached) => quota(*reached),
        Error::Forbidden { right, name } => plain(
            Code::PermissionDenied,
            text,
            "PERMISSION_DENIED",
            &[("right", right.name()), ("name", name.public())],
        ),
        Error::TicketRefused(why) => failed(text, "TICKET_REFUSED", ("state", why.name())),
        Error::CandidateNotWaiting => {
            plain(Code::FailedPrecondition, text, "CANDIDATE_NOT_WAITING", &[])
        }
        Error::SemaphoreNotFound => plain(Code::NotFound, text, "SEMAPHORE_NOT_FOUND", &[]),
        Error::PermitsExceeded { total } => {
            failed(text, "PERMITS_EXCEEDED", ("total", &total.to_string()))
        }
        Error::CountExceeded { count } => {
            failed(text, "COUNT_EXCEEDED", ("count", &count.to_string()))
        }
        Error::Draining => retry(Code::Unavailable, text, "DRAINING", &[], DRAIN_RETRY),
        Error::Store(error) | Error::StoreOf(_, error) => store_status(error, text),
    }
}

/// A caller without the admin right to all names of the sessions.
pub(super) fn not_admin_of_sessions() -> Status {
    let text = "no rule allows the caller to end these sessions".to_owned();
    let about = [("right", "admin"), ("name", "")];
    plain(Code::PermissionDenied, text, "PERMISSION_DENIED", &about)
}

/// A caller without the admin right.
pub(super) fn not_admin(name: &str) -> Status {
    let text = if name.is_empty() {
        "no rule gives the caller the right `admin` for all names".to_owned()
    } else {
        format!("no rule gives the caller the right `admin` for names that begin with {name}")
    };
    let about = [("right", "admin"), ("name", name)];
    plain(Code::PermissionDenied, text, "PERMISSION_DENIED", &about)
}

/// A caller that no rule allows anything.
pub(super) fn no_right() -> Status {
    let text = "no rule gives the caller any right".to_owned();
    plain(Code::PermissionDenied, text, "PERMISSION_DENIED", &[])
}

/// A caller whose credentials are missing or invalid.
pub(super) fn unauthenticated(why: &Unauthenticated) -> Status {
    plain(
        Code::Unauthenticated,
        why.to_string(),
        "UNAUTHENTICATED",
        &[],
    )
}

/// The connection is to be closed: its client goes on with another.
pub(super) fn connection_aged() -> Status {
    let text = "the connection has reached server.connection_age_max".to_owned();
    retry(
        Code::Unavailable,
        text,
        "CONNECTION_AGE_MAX",
        &[],
        DRAIN_RETRY,
    )
}

/// A caller that has reached a quota of its identity.
pub(super) fn quota(reached: QuotaReached) -> Status {
    let reason = format!("QUOTA_{}", reached.name().to_uppercase());
    let mut details = info(&reason, &[("quota", reached.name())]);
    details.add_quota_failure_violation("identity", reached.name());
    details.set_retry_info(Some(match reached {
        QuotaReached::TooOften(after) => after,
        QuotaReached::Full(_) | QuotaReached::WaitersPerLock => LIMIT_RETRY,
    }));
    Status::with_error_details(Code::ResourceExhausted, reached.to_string(), details)
}

/// A budget is used up that callers without rights share; see `budgets.rs`.
pub(super) fn exhausted(budget: &'static str) -> Status {
    let reason = format!("BUDGET_{}", budget.to_uppercase());
    let mut details = info(&reason, &[("budget", budget)]);
    details.add_quota_failure_violation("coordinator", budget);
    details.set_retry_info(Some(LIMIT_RETRY));
    let text = format!("too many at once: {}", budget.replace('_', " "));
    Status::with_error_details(Code::ResourceExhausted, text, details)
}

/// A page of another site.
pub(super) fn another_site() -> Status {
    let text = "the call comes from another site; see server.allowed_hosts".to_owned();
    plain(Code::PermissionDenied, text, "ANOTHER_SITE", &[])
}

/// A message that is larger than the limit of its method.
pub(super) fn too_large(bytes: usize, max: usize) -> Status {
    let text = format!("the message has {bytes} bytes, the limit is {max}");
    let (bytes, max) = (bytes.to_string(), max.to_string());
    let about = [("bytes", bytes.as_str()), ("bytes_max", max.as_str())];
    plain(Code::OutOfRange, text, "MESSAGE_TOO_LARGE", &about)
}

/// A message that has begun and was not completed within the time limit.
pub(super) fn incomplete(within: Duration) -> Status {
    let text = format!("the message must be complete within {} s", within.as_secs());
    plain(Code::DeadlineExceeded, text, "MESSAGE_INCOMPLETE", &[])
}

/// A frame that is invalid at this point of the stream.
pub(super) fn invalid_frame(field: &'static str, why: &str) -> Status {
    status(&lockkeeper_coordinator::Invalid::new(field, why).into())
}

/// A client that exceeded a time limit of the session's protocol.
pub(super) fn session_timed_out(why: &str) -> Status {
    plain(
        Code::DeadlineExceeded,
        why.to_owned(),
        "SESSION_TIMED_OUT",
        &[],
    )
}

/// The session continues on another stream.
pub(super) fn superseded() -> Status {
    let text = "the session was resumed on another stream, or has ended".to_owned();
    plain(Code::Aborted, text, "SESSION_SUPERSEDED", &[])
}

/// The stream ended as if the client had closed the session, which it does otherwise.
pub(super) fn half_closed() -> Status {
    let text = "the stream was half-closed without `close`; resume the session".to_owned();
    plain(Code::Aborted, text, "STREAM_HALF_CLOSED", &[])
}

/// An operator has ended the session.
pub(super) fn session_ended(reason: &str) -> Status {
    let text = format!("the session was ended: {reason}");
    plain(Code::Aborted, text, "SESSION_ENDED", &[])
}

/// An answer of the wrong kind; a fault of this program.
pub(super) fn unexpected_answer() -> Status {
    plain(
        Code::Internal,
        "unexpected answer".to_owned(),
        "INTERNAL",
        &[],
    )
}

/// JSON that is no message of this method. Names the field, if it is one.
pub(super) fn invalid_json(field: &str, why: &str) -> Status {
    let mut details = info("INVALID_JSON", &[("field", field)]);
    details.add_bad_request_violation(field, why);
    let text = match field {
        "" => why.to_owned(),
        field => format!("{field}: {why}"),
    };
    Status::with_error_details(Code::InvalidArgument, text, details)
}

/// A header of HTTP with a value that is not accepted.
pub(super) fn invalid_header(name: &str, why: &str) -> Status {
    let mut details = info("INVALID_HEADER", &[("header", name)]);
    details.add_bad_request_violation(name, why);
    Status::with_error_details(Code::InvalidArgument, format!("{name}: {why}"), details)
}

/// A path that is no method's.
pub(super) fn no_such_method(path: &str) -> Status {
    let text = if path.starts_with("/terraform/") {
        "locks for Terraform are not served here: facades.terraform is off".to_owned()
    } else {
        format!("unknown method {path}; example: /lockkeeper.v1.LockService/TryAcquire")
    };
    plain(Code::Unimplemented, text, "NO_SUCH_METHOD", &[])
}

/// A request with another method of HTTP than POST.
pub(super) fn not_post(method: &http::Method) -> Status {
    let text = format!("{method} is not accepted: send POST");
    plain(Code::Unimplemented, text, "NOT_POST", &[])
}

/// A request for a state of Terraform.
pub(super) fn no_state(method: &http::Method) -> Status {
    let text = format!(
        "{method} is not accepted: this is the lock_address and unlock_address of Terraform's http \
         backend, by LOCK and UNLOCK; the state itself is kept elsewhere"
    );
    plain(Code::Unimplemented, text, "STATE_NOT_KEPT", &[])
}

/// A path of HTTP that names no lock.
pub(super) fn invalid_path(name: &str) -> Status {
    let text = format!("{name:?} is not UTF-8 in percent-encoding");
    plain(
        Code::InvalidArgument,
        text,
        "INVALID_NAME",
        &[("field", "name")],
    )
}

/// A call of gRPC over HTTP/1.1.
pub(super) fn not_over_http1() -> Status {
    let text = "gRPC needs HTTP/2, and gRPC-Web is off (server.grpc_web)".to_owned();
    plain(Code::Unimplemented, text, "NOT_OVER_HTTP1", &[])
}

/// A message in a stream of Connect whose flags are not accepted.
pub(super) fn bad_envelope(flags: u8) -> Status {
    let text = format!("a message has the flags {flags:#x}: compression is not supported");
    plain(Code::InvalidArgument, text, "INVALID_ENVELOPE", &[])
}

/// A stream of Connect that ended within a message.
pub(super) fn cut_envelope() -> Status {
    let text = "the body ends inside a message, or a message has no length prefix".to_owned();
    plain(Code::InvalidArgument, text, "INVALID_ENVELOPE", &[])
}

/// An answer that JSON cannot carry.
pub(super) fn not_json(why: &str) -> Status {
    let text = format!("the answer cannot be written as JSON: {why}");
    plain(Code::Internal, text, "INTERNAL", &[])
}

/// A call that was not answered within its timeout.
pub(super) fn deadline_exceeded() -> Status {
    let text = "the call was not answered within Connect-Timeout-Ms".to_owned();
    plain(Code::DeadlineExceeded, text, "DEADLINE_EXCEEDED", &[])
}

/// The same as a message, for frames.
pub(super) fn message(status: &Status) -> tonic_types::Status {
    tonic_types::Status::decode(status.details()).unwrap_or_else(|_| tonic_types::Status {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Vec::new(),
    })
}

#[deny(clippy::wildcard_enum_match_arm)]
fn store_status(error: &CallError, text: String) -> Status {
    match error {
        CallError::Unavailable(_) => unavailable(text, "STORE_UNAVAILABLE", &[]),
        CallError::OutcomeUnknown(_) => {
            let safe = [("safe_with", "request_id")];
            unavailable(text, "OUTCOME_UNKNOWN", &safe)
        }
        CallError::NotReplicated {
            acknowledged,
            required,
            problem: _,
        } => {
            let (acknowledged, required) = (acknowledged.to_string(), required.to_string());
            let counts = [
                ("acknowledged", acknowledged.as_str()),
                ("required", required.as_str()),
            ];
            unavailable(text, "NOT_REPLICATED", &counts)
        }
        CallError::OutOfMemory => retry(
            Code::ResourceExhausted,
            text,
            "STORE_OUT_OF_MEMORY",
            &[],
            LIMIT_RETRY,
        ),
        CallError::SelfDeadlock => plain(Code::FailedPrecondition, text, "SELF_DEADLOCK", &[]),
        CallError::WrongKind => plain(Code::FailedPrecondition, text, "WRONG_KIND", &[]),
        CallError::CounterOutOfRange => {
            plain(Code::FailedPrecondition, text, "COUNTER_OUT_OF_RANGE", &[])
        }
        CallError::LimitReached(limit) => {
            let reason = limit.name().to_uppercase();
            let about = [("limit", limit.name())];
            retry(Code::ResourceExhausted, text, &reason, &about, LIMIT_RETRY)
        }
        CallError::RequestIdReused => {
            let mut details = info("INVALID_REQUEST_ID", &[("field", "request_id")]);
            details.add_bad_request_violation("request_id", &text);
            Status::with_error_details(Code::InvalidArgument, text, details)
        }
        CallError::RequestOver => failed(text, "NOT_OWNER", ("state", "expired")),
        CallError::Unsupported(what) => {
            let kind = match what {
                Unsupported::FairLocks => ("mode", "FAIR"),
                Unsupported::Semaphores => ("kind", "semaphore"),
                Unsupported::Latches => ("kind", "latch"),
                Unsupported::HoldAtLeast => ("field", "hold_at_least"),
                Unsupported::LockDelay => ("field", "lock_delay"),
                Unsupported::Tickets => ("kind", "ticket"),
                Unsupported::SeveralAtOnce => ("kind", "several"),
                Unsupported::Notes => ("field", "note"),
                Unsupported::Elections => ("kind", "election"),
            };
            let metadata = [kind, ("store", "quorum")];
            plain(Code::Unimplemented, text, "UNSUPPORTED_BY_STORE", &metadata)
        }
        CallError::Refused(why) => {
            // The store's own words name scripts and lines; they are for operators.
            tracing::error!(why, "the store refused a script");
            let text = "the store refused the call; the coordinator's log says why".to_owned();
            plain(Code::Internal, text, "STORE_REFUSED", &[])
        }
    }
}

fn limit_subject(limit: Limit) -> &'static str {
    match limit {
        Limit::WaitersPerLock | Limit::HoldersPerLock => "lock",
        Limit::PermitsPerName => "semaphore",
        Limit::Waiters | Limit::Yields | Limit::Sessions | Limit::Watchers => "coordinator",
        Limit::WaitsPerSession | Limit::GrantsPerSession => "session",
    }
}

fn no_session(text: String, state: &str) -> Status {
    let state = [("state", state)];
    plain(Code::NotFound, text, "SESSION_NOT_FOUND", &state)
}

fn failed(text: String, reason: &str, metadata: (&str, &str)) -> Status {
    plain(Code::FailedPrecondition, text, reason, &[metadata])
}

/// The store has not done what was asked, or nobody knows.
fn unavailable(text: String, reason: &str, metadata: &[(&str, &str)]) -> Status {
    retry(Code::Unavailable, text, reason, metadata, STORE_RETRY)
}

fn plain(code: Code, text: String, reason: &str, metadata: &[(&str, &str)]) -> Status {
    Status::with_error_details(code, text, info(reason, metadata))
}

fn retry(
    code: Code,
    text: String,
    reason: &str,
    metadata: &[(&str, &str)],
    after: Duration,
) -> Status {
    let mut details = info(reason, metadata);
    details.set_retry_info(Some(after));
    Status::with_error_details(code, text, details)
}

fn info(reason: &str, metadata: &[(&str, &str)]) -> ErrorDetails {
    let metadata: HashMap<String, String> = metadata
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    ErrorDetails::with_error_info(reason, DOMAIN, metadata)
}
