//! How commands end.

use std::io;

use prost::Message;
use tonic::Status;

use crate::{
    exit,
    failure::{Effect, Failure},
    output::Format,
};

/// An exit code, or a message with one.
pub(super) type Ended = Result<u8, Failure>;

/// The exit code for an expected answer: granted or not, held or not.
#[expect(clippy::unnecessary_wraps, reason = "how commands end")]
pub(super) fn code(is_done: bool) -> Ended {
    Ok(if is_done { exit::OK } else { exit::NOT_GRANTED })
}

/// Prints the answer to a change. If that fails, a script does not know of the change: the failure
/// says what was done, and so names the owner of a grant.
pub(super) fn changed(
    format: Format,
    text: &str,
    (message, answer): (&str, &impl Message),
) -> Result<(), Failure> {
    let printed = format.answer(text, message, answer);
    printed.map_err(|error| unprinted(text, &error))
}

fn unprinted(text: &str, error: &io::Error) -> Failure {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let message = format!(
        "{}; but stdout cannot be written: {error}",
        lines.join("; ")
    );
    Failure::local(exit::OUTCOME_UNKNOWN, message)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn changing(status: Status) -> Failure {
    Failure::from_status(&status, Effect::Changes)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn reading(status: Status) -> Failure {
    Failure::from_status(&status, Effect::Reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_whose_answer_cannot_be_printed_is_in_the_failure() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let failure = unprinted("granted a owner=me\n  granted b owner=me", &full);
        assert_eq!(failure.exit, exit::OUTCOME_UNKNOWN);
        let expected = "granted a owner=me; granted b owner=me; but stdout cannot be written: ";
        assert!(failure.message.starts_with(expected), "{}", failure.message);
    }
}
