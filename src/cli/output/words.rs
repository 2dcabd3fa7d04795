//! What all answers share in words.

use std::{borrow::Cow, time::Duration};

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
        NotGrantedReason::WaitTimeout => "the wait timed out",
        NotGrantedReason::Cancelled => "the wait was cancelled",
        NotGrantedReason::Deadlock => "the wait was part of a deadlock",
        NotGrantedReason::Unspecified => "no reason given",
    }
}

/// A text that a client or another program chose. It is quoted if it could control the terminal, or
/// look like a line or a field of its own.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    let is_plain = |letter: char| {
        matches!(letter, '"' | '\'' | '\\') || letter.escape_debug().eq(std::iter::once(letter))
    };
    if text.chars().all(is_plain) {
        return text.into();
    }
    format!("{text:?}").into()
}

/// The line for those that are counted and not shown.
pub(super) fn more(counted: u32, shown: usize, what: &str) -> Option<String> {
    let more = (counted as usize)
        .checked_sub(shown)
        .filter(|more| *more > 0)?;
    Some(format!("  and {more} more {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_chose_is_neither_a_line_nor_a_command_of_the_terminal() {
        for plain in ["ci", "it's \"mine\"", "spiffe://prod/ü", "a\\b", ""] {
            assert_eq!(shown(plain), plain);
        }
        for (text, quoted) in [
            ("x\n  holder owner=y", r#""x\n  holder owner=y""#),
            ("\u{1b}[2J", r#""\u{1b}[2J""#),
            ("a\u{202e}b", r#""a\u{202e}b""#),
            ("a\u{200b}b", r#""a\u{200b}b""#),
        ] {
            assert_eq!(shown(text), quoted);
        }
    }
}
