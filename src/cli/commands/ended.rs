//! How commands end.

use std::io;

use tonic::{Status, Streaming};

use crate::{
    exit,
    failure::{Effect, Failure},
};

/// An exit code, or a message with one.
pub(super) type Ended = Result<u8, Failure>;

/// The exit code for an expected answer: granted or not, held or not.
#[expect(clippy::unnecessary_wraps, reason = "how commands end")]
pub(super) fn code(is_done: bool) -> Ended {
    Ok(if is_done { exit::OK } else { exit::NOT_GRANTED })
}

/// Shows the events of a wait until one ends it with an exit code.
pub(super) async fn wait<Event>(
    mut events: Streaming<Event>,
    effect: Effect,
    mut show: impl FnMut(Event) -> io::Result<Option<u8>>,
) -> Ended {
    let failed = |status: Status| Failure::from_status(&status, effect);
    while let Some(event) = events.message().await.map_err(failed)? {
        if let Some(code) = show(event)? {
            return Ok(code);
        }
    }
    let code = match effect {
        Effect::Changes => exit::OUTCOME_UNKNOWN,
        Effect::Reads => exit::UNAVAILABLE,
    };
    let why = "the coordinator ended the wait without an answer";
    Err(Failure::local(code, why))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn changing(status: Status) -> Failure {
    Failure::from_status(&status, Effect::Changes)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn reading(status: Status) -> Failure {
    Failure::from_status(&status, Effect::Reads)
}
