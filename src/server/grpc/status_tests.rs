//! Tests of the statuses.

use std::time::Duration;

use lockkeeper_access::{Quota, QuotaReached};
use lockkeeper_coordinator::{Error, Invalid, Limit, TicketRefused};
use lockkeeper_store::script::{CallError, Ownership, Unsupported};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::status::*;

fn not_replicated() -> Error {
    let why = CallError::NotReplicated {
        acknowledged: 1,
        required: 2,
        problem: None,
    };
    why.into()
}

fn of_session() -> impl Iterator<Item = (Error, Code, &'static str)> {
    let errors = [
        Error::SessionNotFound,
        Error::SessionDetached,
        Error::SessionEnded,
        Error::ResumeTokenInvalid,
        Error::ResumeTokenExpired,
    ];
    let errors = errors.into_iter();
    let refused = TicketRefused::Over.into();
    let nobody = Error::CandidateNotWaiting;
    errors
        .map(|error| (error, Code::NotFound, "SESSION_NOT_FOUND"))
        .chain([
            (refused, Code::FailedPrecondition, "TICKET_REFUSED"),
            (nobody, Code::FailedPrecondition, "CANDIDATE_NOT_WAITING"),
        ])
}

fn cases() -> impl Iterator<Item = (Error, Code, &'static str)> {
    use Code::{
        FailedPrecondition, Internal, InvalidArgument, NotFound, ResourceExhausted, Unavailable,
        Unimplemented,
    };
    let text = String::new;
    let ours = [
        (
            Invalid::new("name", "x").into(),
            InvalidArgument,
            "INVALID_NAME",
        ),
        (
            Error::NotOwner(Ownership::Expired),
            FailedPrecondition,
            "NOT_OWNER",
        ),
        (
            Error::LimitReached(Limit::Waiters),
            ResourceExhausted,
            "WAITERS_MAX",
        ),
        (Error::SemaphoreNotFound, NotFound, "SEMAPHORE_NOT_FOUND"),
        (
            Error::PermitsExceeded { total: 1 },
            FailedPrecondition,
            "PERMITS_EXCEEDED",
        ),
        (
            Error::CountExceeded { count: 1 },
            FailedPrecondition,
            "COUNT_EXCEEDED",
        ),
        (Error::Draining, Unavailable, "DRAINING"),
        (not_replicated(), Unavailable, "NOT_REPLICATED"),
    ];
    let no_fair = CallError::Unsupported(Unsupported::FairLocks);
    let of_store = [
        (
            CallError::Unavailable(text()),
            Unavailable,
            "STORE_UNAVAILABLE",
        ),
        (
            CallError::OutcomeUnknown(text()),
            Unavailable,
            "OUTCOME_UNKNOWN",
        ),
        (
            CallError::OutOfMemory,
            ResourceExhausted,
            "STORE_OUT_OF_MEMORY",
        ),
        (CallError::SelfDeadlock, FailedPrecondition, "SELF_DEADLOCK"),
        (no_fair, Unimplemented, "UNSUPPORTED_BY_STORE"),
        (CallError::WrongKind, FailedPrecondition, "WRONG_KIND"),
        (
            CallError::RequestIdReused,
            InvalidArgument,
            "INVALID_REQUEST_ID",
        ),
        (CallError::RequestOver, FailedPrecondition, "NOT_OWNER"),
        (CallError::Refused(text()), Internal, "STORE_REFUSED"),
    ];
    let of_store = of_store.map(|(error, code, reason)| (error.into(), code, reason));
    ours.into_iter().chain(of_store).chain(of_session())
}

#[test]
fn every_status_names_a_reason_in_our_domain() {
    for (error, code, reason) in cases() {
        let status = status(&error);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), (code, reason));
        assert_eq!(info.domain, DOMAIN);
        let unavailable = code == Code::Unavailable;
        assert!(!unavailable || details.retry_info().is_some(), "{reason}");
        let invalid = code == Code::InvalidArgument;
        assert_eq!(invalid, details.bad_request().is_some(), "{reason}");
        assert_eq!(message(&status).code, i32::from(code));
    }
}

#[test]
fn a_quota_is_named_and_says_when_to_ask_again() {
    let after = Duration::from_millis(1);
    for (reached, reason) in [
        (QuotaReached::Full(Quota::Sessions), "QUOTA_SESSIONS"),
        (QuotaReached::TooOften(after), "QUOTA_REQUESTS_PER_SECOND"),
    ] {
        let status = status(&reached.into());
        assert_eq!(status.code(), Code::ResourceExhausted);
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, reason);
        let retry = details.retry_info().and_then(|it| it.retry_delay);
        assert_eq!(retry == Some(after), reason.ends_with("SECOND"));
    }
}
