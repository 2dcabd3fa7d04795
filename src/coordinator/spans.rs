//! The spans of operations and of their waits, and the one log record of each operation. Owners and
//! sessions appear as digests: they are credentials.

use lockkeeper_base::spans::TARGET;
use lockkeeper_store::script::Mode;
use tracing::{Span, field::Empty, trace_span};

use crate::{
    error::Error,
    latch::LatchOperation,
    lock::outcome::Tried,
    operation::{Answer, Operation},
    semaphore::{outcome::PermitAnswer, request::PermitOperation},
    types::{LockName, Owner},
};

/// The subject of an operation.
struct About<'a> {
    name: Option<&'a LockName>,
    mode: Option<Mode>,
    owner: Option<&'a Owner>,
}

/// The span of an operation.
pub(crate) fn of(operation: &Operation) -> Span {
    let span = trace_span!(
        target: TARGET,
        "operation",
        otel.name = operation.name(),
        otel.status_code = Empty,
        error.type = Empty,
        lockkeeper.lock.name = Empty,
        lockkeeper.lock.mode = Empty,
        lockkeeper.owner.digest = Empty,
        lockkeeper.token = Empty,
        lockkeeper.result = Empty,
    );
    if !span.is_disabled() {
        let about = About::of(operation);
        about
            .name
            .map(|name| span.record("lockkeeper.lock.name", name.told()));
        about
            .mode
            .map(|mode| span.record("lockkeeper.lock.mode", mode.name()));
        about
            .owner
            .map(|owner| span.record("lockkeeper.owner.digest", owner.digest()));
    }
    span
}

/// Records how an operation ended, in its span and in the logs.
pub(crate) fn ended(operation: &Operation, ended: &Result<Answer, Error>) {
    log(operation, ended);
    if !lockkeeper_base::spans::is_traced() {
        return;
    }
    let span = Span::current();
    match ended {
        Ok(answer) => {
            span.record("lockkeeper.result", result(answer));
            if let Some(token) = token(answer) {
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
fn log(operation: &Operation, ended: &Result<Answer, Error>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let about = About::of(operation);
    let lock = about.name.map(LockName::told);
    let mode = about.mode.map(Mode::name);
    let owner = about.owner.map(Owner::digest);
    let session = about.owner.and_then(|owner| owner.session.as_ref());
    let session = session.map(super::SessionId::digest);
    let operation = operation.name();
    match ended {
        Ok(answer) => {
            let (result, token) = (result(answer), token(answer));
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
        Error::SessionNotFound | Error::SessionDetached | Error::ResumeTokenInvalid => {
            "session_not_found"
        }
        Error::LimitReached(limit) => limit.name(),
        Error::QuotaReached(quota) => quota.name(),
        Error::Draining => "draining",
        Error::Store(_) | Error::StoreOf(..) => "store",
        _ => "refused",
    }
}

fn result(answer: &Answer) -> &'static str {
    match answer {
        Answer::Granted(_)
        | Answer::GrantedAll(_)
        | Answer::Tried(Tried::Acquired(_))
        | Answer::TriedAll(super::TriedAll::Acquired(_))
        | Answer::Permits(PermitAnswer::Granted(_) | PermitAnswer::Acquired(_)) => "granted",
        Answer::Tried(Tried::Busy { .. })
        | Answer::TriedAll(super::TriedAll::Busy { .. })
        | Answer::Permits(PermitAnswer::Busy { .. }) => "busy",
        Answer::NotGranted(_) | Answer::Permits(PermitAnswer::NotGranted(_)) => "not granted",
        Answer::Released(_)
        | Answer::ReleasedAll(_)
        | Answer::Permits(PermitAnswer::Released { .. }) => "released",
        Answer::Renewed(_) | Answer::Permits(PermitAnswer::Renewed(_)) => "renewed",
        _ => "answered",
    }
}

fn token(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Granted(delivery) | Answer::Tried(Tried::Acquired(delivery)) => {
            Some(delivery.grant().fencing_token)
        }
        Answer::Renewed(grant) => Some(grant.fencing_token),
        _ => None,
    }
}

// === impl About ===

impl<'a> About<'a> {
    fn of(operation: &'a Operation) -> Self {
        let lock = |name, mode, owner| Self {
            name: Some(name),
            mode: Some(mode),
            owner: Some(owner),
        };
        let other = |name, owner| Self {
            name: Some(name),
            mode: None,
            owner,
        };
        let several = |owner| Self {
            name: None,
            mode: None,
            owner: Some(owner),
        };
        match operation {
            Operation::Acquire(it) | Operation::TryAcquire(it) => {
                lock(&it.name, it.mode, &it.owner)
            }
            Operation::Release(it) => lock(&it.name, it.mode, &it.owner),
            Operation::Renew(it) => lock(&it.name, it.mode, &it.owner),
            Operation::AcquireAll(it) | Operation::TryAcquireAll(it) => several(&it.owner),
            Operation::ReleaseAll(it) => several(&it.owner),
            Operation::Describe(name) | Operation::CheckToken(name, _) => other(name, None),
            Operation::Permits(operation) => match operation {
                PermitOperation::Acquire(it) | PermitOperation::TryAcquire(it) => {
                    other(&it.name, Some(&it.owner))
                }
                PermitOperation::Release(it) => other(&it.name, Some(&it.owner)),
                PermitOperation::Renew(it) => other(&it.name, Some(&it.owner)),
                PermitOperation::Set(it) => other(&it.name, None),
                PermitOperation::Describe(name) => other(name, None),
            },
            Operation::Latch(operation) => match operation {
                LatchOperation::Set(it) => other(&it.name, None),
                LatchOperation::CountDown(it) => other(&it.name, None),
                LatchOperation::Await(it) => other(&it.name, None),
                LatchOperation::Describe(name) | LatchOperation::Delete(name) => other(name, None),
            },
        }
    }
}
