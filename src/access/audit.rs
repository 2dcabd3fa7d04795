//! The audit log: one entry for each call about locks held by other callers, for each denied call,
//! and for each session and change of ordinary callers.
//!
//! Its entries have the log target `audit`, so a filter can select them: `audit=info`. Those of
//! allowed calls of ordinary callers have the level DEBUG, because there may be many.

use std::{fmt, net::SocketAddr};

use super::Identity;

/// A call to be logged.
#[derive(Clone, Copy, Debug)]
pub struct Audited<'a> {
    /// The caller.
    pub identity: &'a Identity,
    /// Its address, if it has one.
    pub peer: Option<SocketAddr>,
    /// The operation's name in the API.
    pub operation: &'a str,
    /// The name of the lock, or a prefix of names.
    pub name: &'a str,
    /// The caller's reason; empty: none.
    pub reason: &'a str,
}

/// Writes one log entry.
macro_rules! log {
    ($level:ident, $call:expr, $result:literal $(, $($more:tt)+)?) => {
        tracing::$level!(
            target: "audit",
            who = $call.who(),
            operation = $call.operation,
            name = $call.name,
            reason = $call.reason,
            result = $result,
            peer = $call.peer(),
            $($($more)+)?
        )
    };
}

// === impl Audited ===

impl Audited<'_> {
    /// The call succeeded, or a stream began.
    pub fn done(&self) {
        log!(info, self, "done");
    }

    /// A call of an ordinary caller was allowed, and changes something.
    pub fn allowed(&self) {
        log!(debug, self, "allowed");
    }

    /// The call was allowed and failed.
    pub fn failed(&self, error: &dyn fmt::Display) {
        log!(warn, self, "failed", %error);
    }

    /// The call was denied.
    pub fn denied(&self) {
        log!(warn, self, "denied");
    }

    /// A file of the settings was read again.
    pub(super) fn reloaded(key: &str, changed: &str) {
        let reload = Audited {
            identity: &Identity::named("coordinator"),
            peer: None,
            operation: "Reload",
            name: key,
            reason: changed,
        };
        reload.done();
    }

    /// This many calls like this one were denied.
    pub(super) fn denied_times(&self, calls: u64) {
        log!(warn, self, "denied", calls);
    }

    fn who(&self) -> &str {
        match self.identity.as_str() {
            "" => "anonymous",
            who => who,
        }
    }

    fn peer(&self) -> Option<String> {
        self.peer.map(|peer| peer.to_string())
    }
}
