//! A script, one evaluation of it, and what it returned.

use std::sync::OnceLock;

use bytes::Bytes;
use sha1::{Digest as _, Sha1};

use super::words::Words;

/// One evaluation of a script.
#[derive(Clone, Debug)]
pub struct Call {
    /// What to run.
    pub script: &'static Script,
    /// `KEYS`; all of one call share a slot on hosts that have slots.
    pub keys: Words,
    /// `ARGV`.
    pub args: Words,
}

/// A Lua script with the name it has in logs and its SHA-1, by which Redis knows it.
#[derive(Debug)]
pub struct Script {
    /// For logs and errors.
    pub name: &'static str,
    helpers: &'static str,
    inline: &'static str,
    body: &'static str,
    own: OnceLock<String>,
    source: OnceLock<String>,
    sha1: OnceLock<String>,
}

/// What a script returned, as Redis converts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `nil` or `false`.
    Nil,
    /// A number, truncated, or `true` as 1.
    Int(i64),
    /// A string, or a status such as `OK`.
    Bytes(Bytes),
    /// A table up to its first `nil`.
    Array(Vec<Value>),
}

/// The line of a script above which nothing needs its helpers.
const HELPERS_HERE: &str = "-- The helpers come here.\n";

/// The lines of scripts where a text comes that is in a file of its own: one that others share, or
/// what nothing is to be made for before.
const INLINE_HERE: [&str; 2] = [
    "-- The next token comes here.\n",
    "-- The most frequent case comes here.\n",
];

// === impl Script ===

impl Script {
    /// A script; `body` must not depend on anything but `KEYS`, `ARGV` and `redis`.
    pub const fn new(name: &'static str, body: &'static str) -> Self {
        Self::with_helpers(name, "", body)
    }

    /// A script and its helpers, which only make local functions and constants that are the same in
    /// every run. They come first, or where `body` says so: a host that makes them anew in each run
    /// need not if the run ends before.
    pub const fn with_helpers(
        name: &'static str,
        helpers: &'static str,
        body: &'static str,
    ) -> Self {
        Self {
            name,
            helpers,
            inline: "",
            body,
            own: OnceLock::new(),
            source: OnceLock::new(),
            sha1: OnceLock::new(),
        }
    }

    /// The same with a text where `body` says so: what several scripts have in common, and what a
    /// function would make slower.
    #[must_use]
    pub const fn with_inline(mut self, text: &'static str) -> Self {
        self.inline = text;
        self
    }

    /// The helpers and the rest: what is needed once, and what each run does.
    pub fn parts(&self) -> (&'static str, &str) {
        let [token, case] = INLINE_HERE;
        let inlined = || self.body.replace(token, self.inline);
        let own = self
            .own
            .get_or_init(|| inlined().replace(case, self.inline));
        (self.helpers, own)
    }

    /// The text as a whole.
    pub fn source(&self) -> &str {
        self.source.get_or_init(|| {
            let (helpers, body) = self.parts();
            let (before, after) = body.split_once(HELPERS_HERE).unwrap_or(("", body));
            [before, helpers, after].concat()
        })
    }

    /// The SHA-1 of the source in lower-case hexadecimal digits.
    pub fn sha1(&self) -> &str {
        self.sha1
            .get_or_init(|| hex::encode(Sha1::digest(self.source())))
    }
}
