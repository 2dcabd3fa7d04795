//! What a command answers.

use std::borrow::Cow;

use bytes::Bytes;

use crate::host::{HostError, Value};

/// A reply. Unlike in a [`Value`], a status is not a string: a script sees it as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Nil,
    Int(i64),
    Status(&'static str),
    Bytes(Bytes),
    Array(Vec<Reply>),
}

/// An error reply: a code, a space, and text.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub(super) struct Refusal(pub(super) Cow<'static, str>);

/// The code of the error reply of a store that has no memory left.
const CODE_OUT_OF_MEMORY: &str = "OOM";

// === impl Reply ===

impl Reply {
    pub(super) const OK: Self = Self::Status("OK");

    /// A string, or nil if there is none.
    pub(super) fn maybe(bytes: Option<&Bytes>) -> Self {
        bytes.map_or(Self::Nil, |bytes| Self::Bytes(bytes.clone()))
    }

    /// A number of things.
    pub(super) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Reply {
    fn from(yes: bool) -> Self {
        Self::Int(i64::from(yes))
    }
}

impl From<Reply> for Value {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Nil => Self::Nil,
            Reply::Int(number) => Self::Int(number),
            Reply::Status(status) => Self::Bytes(Bytes::from_static(status.as_bytes())),
            Reply::Bytes(bytes) => Self::Bytes(bytes),
            Reply::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
        }
    }
}

// === impl Refusal ===

impl Refusal {
    pub(super) const WRONG_TYPE: Self =
        Self::new("WRONGTYPE Operation against a key holding the wrong kind of value");
    pub(super) const SYNTAX: Self = Self::new("ERR syntax error");
    pub(super) const NOT_AN_INTEGER: Self =
        Self::new("ERR value is not an integer or out of range");
    pub(super) const OVERFLOW: Self = Self::new("ERR increment or decrement would overflow");
    pub(super) const OUT_OF_MEMORY: Self =
        Self::new("OOM command not allowed when used memory > 'maxmemory'.");

    pub(super) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(super) fn wrong_arguments(command: &str) -> Self {
        Self(format!("ERR wrong number of arguments for '{command}' command").into())
    }

    pub(super) fn invalid_expire(command: &str) -> Self {
        Self(format!("ERR invalid expire time in '{command}' command").into())
    }
}

impl From<Refusal> for HostError {
    fn from(Refusal(text): Refusal) -> Self {
        let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
        if code == CODE_OUT_OF_MEMORY {
            return Self::OutOfMemory;
        }
        Self::Rejected {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}
