//! The audit log: one entry for each call about locks held by other callers, for each denied call,
//! and for each session and change of ordinary callers.
//!
//! Its entries have the log target `audit`, so a filter can select them: `audit=info`. Those of
//! allowed calls of ordinary callers have the level DEBUG, because there may be many.

use std::{fmt, net::SocketAddr};

use super::Identity;

/// Bytes of a name in an entry. Callers without any right choose it, too, and it may be as long as
/// a message.
const NAME_BYTES_MAX: usize = 512;

/// The same of a reason.
const REASON_BYTES_MAX: usize = 256;

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
            name = $call.name(),
            reason = $call.reason(),
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

    /// The name as entries have it.
    pub fn name(&self) -> &str {
        shortened(self.name, NAME_BYTES_MAX)
    }

    /// A file of the settings was read again. No caller chose its texts, which are not cut.
    pub(super) fn reloaded(key: &str, changed: &str) {
        tracing::info!(
            target: "audit",
            who = "coordinator",
            operation = "Reload",
            name = key,
            reason = changed,
            result = "done",
        );
    }

    /// This many calls like this one were denied.
    pub(super) fn denied_times(&self, calls: u64) {
        log!(warn, self, "denied", calls);
    }

    fn reason(&self) -> &str {
        shortened(self.reason, REASON_BYTES_MAX)
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

/// The beginning of a text, cut between two characters.
pub(super) fn shortened(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::entries::entries;

    #[test]
    fn an_entry_says_who_did_what_to_which_lock_and_how_it_ended() {
        let (web, anonymous) = (Identity::named("web"), Identity::anonymous());
        let call = Audited {
            identity: &web,
            peer: Some(SocketAddr::from(([10, 0, 0, 1], 4711))),
            operation: "ForceRelease",
            name: "build",
            reason: "stuck",
        };
        let nobody = Audited {
            identity: &anonymous,
            peer: None,
            ..call
        };
        let entries = entries(|| {
            call.done();
            call.allowed();
            call.failed(&"no store");
            nobody.denied();
            nobody.denied_times(7);
            Audited::reloaded("auth.token_file", "added: ci");
        });
        let entry = |level, result| {
            json!({
                "level": level, "target": "audit", "who": "web", "operation": "ForceRelease",
                "name": "build", "reason": "stuck", "result": result, "peer": "10.0.0.1:4711",
            })
        };
        let of_nobody = |mut entry: Value| {
            entry["who"] = "anonymous".into();
            entry.as_object_mut().unwrap().remove("peer");
            entry
        };
        let mut failed = entry("WARN", "failed");
        failed["error"] = "no store".into();
        let denied = of_nobody(entry("WARN", "denied"));
        let mut several = denied.clone();
        several["calls"] = 7.into();
        let mut reloaded = of_nobody(entry("INFO", "done"));
        for (field, value) in [
            ("who", "coordinator"),
            ("operation", "Reload"),
            ("name", "auth.token_file"),
            ("reason", "added: ci"),
        ] {
            reloaded[field] = value.into();
        }
        let wanted = [
            entry("INFO", "done"),
            entry("DEBUG", "allowed"),
            failed,
            denied,
            several,
            reloaded,
        ];
        assert_eq!(entries, wanted);
    }

    #[test]
    fn what_a_caller_chose_is_cut_between_two_characters() {
        let (web, long) = (Identity::named("web"), format!("a{}", "ä".repeat(1000)));
        let call = Audited {
            identity: &web,
            peer: None,
            operation: "EndSession",
            name: &long,
            reason: &long,
        };
        let entries = entries(|| {
            call.denied();
            Audited::reloaded("auth.token_file", &long);
        });
        let cut = |bytes_max: usize| format!("a{}", "ä".repeat((bytes_max - 1) / 2));
        assert_eq!(entries[0]["name"], cut(NAME_BYTES_MAX));
        assert_eq!(entries[0]["reason"], cut(REASON_BYTES_MAX));
        assert_eq!(entries[1]["reason"], long);
    }
}
