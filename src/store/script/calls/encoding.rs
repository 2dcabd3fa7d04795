//! How arguments are written and replies are read. The numbers that scripts return have their
//! meaning here and nowhere else.

use std::time::Duration;

use crate::{
    host::{HostError, Script, Value},
    script::{CallError, StoreLimit},
};

/// Wakes one waiter in every process that listens. Redisson reads messages as numbers.
pub(crate) const WAKE_ONE: &str = "0";
/// Wakes all waiters: a writer has gone, and any number of readers may come.
pub(crate) const WAKE_ALL: &str = "1";
/// Wakes no waiter: a vote was taken back that had not decided anything. No other message says
/// this.
pub(crate) const WAKE_NOBODY: &str = "-1";
pub(crate) const NOT_DONE: i64 = 0;
pub(crate) const DONE: i64 = 1;
pub(crate) const REQUEST_OVER: i64 = 2;
pub(crate) const REQUEST_ID_REUSED: i64 = 3;
pub(crate) const WRONG_KIND: i64 = 4;
pub(crate) const REPEATED: i64 = 5;
pub(crate) const SELF_DEADLOCK: i64 = 6;
pub(crate) const NO_SEMAPHORE: i64 = 7;
pub(crate) const TOO_MANY_PERMITS: i64 = 8;
pub(crate) const COUNTER_OUT_OF_RANGE: i64 = 9;
pub(crate) const LIMIT_REACHED: i64 = 10;

/// Whether a message is a reason to look again.
pub fn wakes(message: &[u8]) -> bool {
    message != WAKE_NOBODY.as_bytes()
}

/// The error of a reply that is no outcome.
pub(crate) fn refusal(script: &Script, reply: &[i64]) -> CallError {
    match reply {
        [REQUEST_OVER] => CallError::RequestOver,
        [REQUEST_ID_REUSED] => CallError::RequestIdReused,
        [WRONG_KIND] => CallError::WrongKind,
        [SELF_DEADLOCK] => CallError::SelfDeadlock,
        [COUNTER_OUT_OF_RANGE] => CallError::CounterOutOfRange,
        [LIMIT_REACHED] => CallError::LimitReached(StoreLimit::HoldersPerLock),
        _ => malformed(script, &reply),
    }
}

pub(crate) fn malformed(script: &Script, reply: &impl std::fmt::Debug) -> CallError {
    CallError::from(HostError::Rejected {
        code: "MALFORMED".to_owned(),
        message: format!("reply of {}: {reply:?}", script.name),
    })
}

pub(crate) fn flag(set: bool) -> &'static str {
    if set { "1" } else { "0" }
}

/// Milliseconds, rounded down, as Redis counts leases.
pub(crate) fn millis(value: Duration) -> u64 {
    u64::try_from(value.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn duration(millis: i64) -> Duration {
    Duration::from_millis(unsigned(millis))
}

pub(crate) fn time_to_live(pttl: i64) -> Option<Duration> {
    u64::try_from(pttl).ok().map(Duration::from_millis)
}

pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A hold count; Redisson owners may have inflated ones, so a huge number is shown as the largest.
pub(crate) fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}

/// A number, which scripts may return as text: that is faster.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Bytes(digits) => str::from_utf8(digits).ok()?.parse().ok(),
        Value::Nil | Value::Array(_) => None,
    }
}

/// A reply of numbers only; one that is a single number is the short form of the script.
pub(crate) fn numbers(script: &Script, reply: &Value) -> Result<Vec<i64>, CallError> {
    let numbers = match reply {
        Value::Array(values) => values.iter().map(integer).collect::<Option<_>>(),
        single => integer(single).map(|number| vec![number]),
    };
    numbers.ok_or_else(|| malformed(script, reply))
}
