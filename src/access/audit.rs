//! The audit log: one line for each call that concerns what is others', and for each call that was
//! denied.
//!
//! Its lines are log lines of the target `audit`, so they go where the logs go, in the same form,
//! and a filter can set them apart: `audit=info`.

use std::{fmt, net::SocketAddr};

use super::Identity;

/// Who asked for what.
#[derive(Clone, Copy, Debug)]
pub struct Audited<'a> {
    /// Who.
    pub identity: &'a Identity,
    /// From where, if that is an address.
    pub peer: Option<SocketAddr>,
    /// What, as the API calls it.
    pub operation: &'a str,
    /// The name that it is about, or what the names begin with.
    pub name: &'a str,
    /// The reason that was given, if one was.
    pub reason: &'a str,
}

// === impl Audited ===

impl Audited<'_> {
    /// It was done, or begun if it goes on.
    pub fn done(&self) {
        self.log("done");
    }

    /// It was allowed, but could not be done.
    pub fn failed(&self, error: &dyn fmt::Display) {
        let Self {
            operation, name, ..
        } = *self;
        tracing::warn!(target: "audit", who = self.who(), operation, name, reason = self.reason, result = "failed", peer = self.peer(), %error);
    }

    /// It was not allowed.
    pub fn denied(&self) {
        let Self {
            operation, name, ..
        } = *self;
        tracing::warn!(target: "audit", who = self.who(), operation, name, reason = self.reason, result = "denied", peer = self.peer());
    }

    fn log(&self, result: &str) {
        let Self {
            operation, name, ..
        } = *self;
        tracing::info!(target: "audit", who = self.who(), operation, name, reason = self.reason, result, peer = self.peer());
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
