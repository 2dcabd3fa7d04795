//! The commands that are one call each.

mod admin;
mod all;
mod latch;
mod lock;
mod semaphore;

pub(super) use self::{
    admin::{force_release, list, sessions, watch},
    all::{acquire_all, release_all, try_acquire_all},
    latch::latch,
    lock::{acquire, check_token, describe, release, renew, try_acquire},
    semaphore::semaphore,
};

use lockkeeper_api::pb::{NotGranted, NotGrantedReason};
use tonic::Status;

use super::{
    exit,
    failure::{Effect, Failure},
    json,
    output::{self, Format},
};

/// How a command ends: with an exit code, or with a message and an exit code.
type Ended = Result<u8, Failure>;

/// Tells of a wait that ended without a grant.
fn refusal(format: Format, what: &str, refusal: &NotGranted) -> Ended {
    let why = match refusal.reason() {
        NotGrantedReason::WaitTimeout => "the wait ran out",
        NotGrantedReason::Cancelled => "the wait was cancelled",
        NotGrantedReason::Unspecified => "no reason given",
    };
    let holder = output::holder(refusal.holder_remaining_lease.as_ref());
    let text = format!("not granted {what}: {why}, {holder}");
    format.data(&text, &json::not_granted(refusal))?;
    Ok(exit::NOT_GRANTED)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn changing(status: Status) -> Failure {
    Failure::from_status(&status, Effect::Changes)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn reading(status: Status) -> Failure {
    Failure::from_status(&status, Effect::Reads)
}
