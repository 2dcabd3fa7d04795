//! The spans of operations and of their waits, and the one log record of each operation. Owners and
//! sessions appear as digests: they are credentials.

use lockkeeper_base::spans::TARGET;
use lockkeeper_store::script::Mode;
use tracing::{Span, field::Empty, trace_span};

use crate::{
    error::Error,
    summary::{Subject, Summary},
    types::{LockName, Owner, SessionId},
};

/// The span of an operation.
pub(crate) fn of(operation: &'static str, subject: Subject<'_>) -> Span {
    let span = trace_span!(
        target: TARGET,
        "operation",
        otel.name = operation,
        otel.status_code = Empty,
        error.type = Empty,
        lockkeeper.lock.name = Empty,
        lockkeeper.lock.mode = Empty,
        lockkeeper.owner.digest = Empty,
        lockkeeper.token = Empty,
        lockkeeper.result = Empty,
    );
    if !span.is_disabled() {
        let Subject {
            name, mode, owner, ..
        } = subject;
        name.map(|name| span.record("lockkeeper.lock.name", name.public()));
        mode.map(|mode| span.record("lockkeeper.lock.mode", mode.name()));
        owner.map(|owner| span.record("lockkeeper.owner.digest", owner.digest()));
    }
    span
}

/// Records how an operation ended, in its span and in the logs.
pub(crate) fn ended(operation: &'static str, subject: Subject<'_>, ended: Result<Summary, &Error>) {
    log(operation, subject, ended);
    if !lockkeeper_base::spans::is_traced() {
        return;
    }
    let span = Span::current();
    match ended {
        Ok(summary) => {
            span.record("lockkeeper.result", summary.result());
            if let Some(token) = summary.token() {
                span.record("lockkeeper.token", token);
            }
        }
        Err(error) => {
            span.record("lockkeeper.result", "failed");
            span.record("error.type", kind(error));
            if matches!(error, Error::Store(_) | Error::StoreOf(..)) {
                span.record("otel.status_code", "ERROR");
            }
        }
    }
}

/// One record per change, for readers who want every change.
fn log(operation: &'static str, subject: Subject<'_>, ended: Result<Summary, &Error>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let lock = subject.name.map(LockName::public);
    let mode = subject.mode.map(Mode::name);
    let owner = subject.owner.map(Owner::digest);
    let session = subject.owner.and_then(|owner| owner.session.as_ref());
    let session = session.map(SessionId::digest);
    match ended {
        Ok(summary) => {
            let (result, token) = (summary.result(), summary.token());
            tracing::debug!(lock, mode, owner, session, token, operation, "{result}");
        }
        Err(error) => {
            tracing::debug!(lock, mode, owner, session, operation, %error, "refused");
        }
    }
}

/// Few values, so that traces can be grouped by them.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Invalid(_) => "invalid",
        Error::NotOwner(_) => "not_owner",
        Error::SessionNotFound
        | Error::SessionDetached
        | Error::SessionEnded
        | Error::SessionEndedByForce(_)
        | Error::SessionSuperseded
        | Error::ResumeTokenExpired
        | Error::ResumeTokenInvalid => "session_not_found",
        Error::LimitReached(limit) => limit.name(),
        Error::QuotaReached(quota) => quota.name(),
        Error::Draining => "draining",
        Error::Store(_) | Error::StoreOf(..) => "store",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_access::{Quota, QuotaReached};
    use lockkeeper_store::script::{CallError, Ownership};

    use super::*;
    use crate::{
        error::Limit,
        lock::ticket::TicketRefused,
        types::{Invalid, tests::limits},
    };

    /// Dashboards of traces group by these words.
    #[test]
    fn errors_are_of_few_kinds() {
        let name = LockName::parse("a", &limits()).unwrap();
        let (full, silent) = (Limit::Waiters, CallError::Unavailable(String::new()));
        let rows = [
            (Error::Invalid(Invalid::new("name", "why")), "invalid"),
            (Error::NotOwner(Ownership::Expired), "not_owner"),
            (Error::SessionNotFound, "session_not_found"),
            (Error::SessionDetached, "session_not_found"),
            (Error::SessionEnded, "session_not_found"),
            (Error::SessionSuperseded, "session_not_found"),
            (Error::SessionEndedByForce("".into()), "session_not_found"),
            (Error::ResumeTokenExpired, "session_not_found"),
            (Error::ResumeTokenInvalid, "session_not_found"),
            (Error::LimitReached(full), full.name()),
            (
                Error::QuotaReached(QuotaReached::Full(Quota::Grants)),
                "grants",
            ),
            (Error::Draining, "draining"),
            (Error::Store(silent.clone()), "store"),
            (Error::StoreOf(name, silent), "store"),
            (Error::CandidateNotWaiting, "refused"),
            (Error::TicketRefused(TicketRefused::Over), "refused"),
        ];
        for (error, expected) in rows {
            assert_eq!(kind(&error), expected, "{error:?}");
        }
    }
}
