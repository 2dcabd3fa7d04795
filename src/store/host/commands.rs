//! What a host does by commands of its own, without a script: Redis spends more on running a script
//! than on what is in it.

use std::{borrow::Cow, time::Duration};

/// Commands that are sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commands<'a> {
    /// Makes a hash of this one field, whose value is `1`, with a time to live, unless the key
    /// exists. Answers 1, or 0 if the key exists.
    Create {
        /// The hash.
        key: Cow<'a, [u8]>,
        /// Its field.
        field: Cow<'a, [u8]>,
        /// At least a millisecond.
        ttl: Duration,
    },
    /// Adds to a counter, and looks after that whether a hash has a field. Answers what the counter
    /// is then, and 1 or 0.
    AddAndLook {
        /// The counter.
        counter: Cow<'a, [u8]>,
        /// What is added; more than 0, so that the counter only ever grows.
        by: u64,
        /// The hash.
        key: Cow<'a, [u8]>,
        /// Its field.
        field: Cow<'a, [u8]>,
    },
    /// Removes a field of a hash, and publishes a message, with nothing in between. Answers 1, or 0
    /// if there was no such field.
    RemoveAndPublish {
        /// The hash. Without its last field it does not exist.
        key: Cow<'a, [u8]>,
        /// Its field.
        field: Cow<'a, [u8]>,
        /// The channel.
        channel: Cow<'a, [u8]>,
        /// The message.
        message: &'static str,
    },
}

/// What commands answered: one or two numbers.
pub type Numbers = [i64; 2];

// === impl Commands ===

impl Commands<'_> {
    /// For tests and traces.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create { .. } => "create",
            Self::AddAndLook { .. } => "add_and_look",
            Self::RemoveAndPublish { .. } => "remove_and_publish",
        }
    }

    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Commands<'static> {
        let own = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
        match self {
            Self::Create { key, field, ttl } => Commands::Create {
                key: own(key),
                field: own(field),
                ttl,
            },
            Self::AddAndLook {
                counter,
                by,
                key,
                field,
            } => Commands::AddAndLook {
                counter: own(counter),
                by,
                key: own(key),
                field: own(field),
            },
            Self::RemoveAndPublish {
                key,
                field,
                channel,
                message,
            } => Commands::RemoveAndPublish {
                key: own(key),
                field: own(field),
                channel: own(channel),
                message,
            },
        }
    }

    /// The hash they are about.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Create { key, .. }
            | Self::AddAndLook { key, .. }
            | Self::RemoveAndPublish { key, .. } => key,
        }
    }

    /// The field they are about.
    pub fn field(&self) -> &[u8] {
        match self {
            Self::Create { field, .. }
            | Self::AddAndLook { field, .. }
            | Self::RemoveAndPublish { field, .. } => field,
        }
    }
}
