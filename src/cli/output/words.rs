//! What all answers share in words.

use std::time::Duration;

use lockkeeper_api::pb::{LockMode, NotGrantedReason};

/// A duration in words, `?` if it is unset.
pub(crate) fn duration(given: Option<&prost_types::Duration>) -> String {
    let Some(given) = given.and_then(|given| Duration::try_from(*given).ok()) else {
        return "?".to_owned();
    };
    let milliseconds = u64::try_from(given.as_millis()).unwrap_or(u64::MAX);
    humantime::format_duration(Duration::from_millis(milliseconds))
        .to_string()
        .replace(' ', "")
}

/// A mode as the flags have it.
pub(super) fn mode(mode: LockMode) -> &'static str {
    match mode {
        LockMode::Unspecified | LockMode::Exclusive => "exclusive",
        LockMode::Fair => "fair",
        LockMode::Read => "read",
        LockMode::Write => "write",
    }
}

/// Why a wait ended without a grant.
pub(crate) fn wait_ended(reason: NotGrantedReason) -> &'static str {
    match reason {
        NotGrantedReason::WaitTimeout => "the wait ran out",
        NotGrantedReason::Cancelled => "the wait was cancelled",
        NotGrantedReason::Unspecified => "no reason given",
    }
}

/// The line for those that are counted and not shown.
pub(super) fn more(counted: u32, shown: usize, what: &str) -> Option<String> {
    let more = (counted as usize)
        .checked_sub(shown)
        .filter(|more| *more > 0)?;
    Some(format!("  and {more} more {what}"))
}
