//! A grant of a session, and what an answer on its way knows it by.

use lockkeeper_access::Counted;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{deadlines::Ticket, types::Holding};

/// What an answer on its way knows its grant by: whether it has been lost, or has ended with its
/// session; a resume that confirmed the grant gives it another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost(pub(crate) Arc<AtomicBool>);

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) grant: Holding,
    /// Set when the grant is lost, for those who are still to be told of it.
    pub(crate) lost: Lost,
    /// What renewals ask for; zero if they are only to look at it.
    pub(crate) lease: Duration,
    /// When it was granted.
    pub(crate) since: Instant,
    pub(crate) due: Ticket,
    pub(crate) failing: bool,
    /// A renewal is under way.
    pub(crate) renewing: bool,
    /// A release is under way, so that a renewal that finds nothing is no loss.
    pub(crate) releasing: bool,
    pub(crate) _counted: Counted,
}

// === impl Lost ===

impl Lost {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

// === impl Held ===

impl Held {
    /// The safe window never moves back.
    pub(crate) fn extend(&mut self, until: Option<Instant>) {
        let mut terms = self.grant.terms();
        terms.safe_until = until.map_or(terms.safe_until, |until| until.max(terms.safe_until));
        self.grant.set_terms(terms);
    }
}
