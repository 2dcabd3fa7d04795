//! An entry of the grant table, and the flag by which an answer on its way recognizes it.

use lockkeeper_access::Counted;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{deadlines::Ticket, session::asked::Asked, types::Holding};

/// Marks a grant as lost, or as ended with its session, for an answer on its way. A resume that
/// confirms the grant gives it another flag.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lost(pub(crate) Arc<Marks>);

#[derive(Debug, Default)]
pub(crate) struct Marks {
    is_lost: AtomicBool,
    /// A repeat of a request was answered with the grant.
    is_repeated: AtomicBool,
}

/// Where a grant is in the table of its session, so that the watchdog finds it without a search.
/// When the grant is over, another one may get its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) usize);

#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) grant: Holding,
    /// Set when the grant is lost, for answers still on their way.
    pub(crate) lost: Lost,
    /// The lease that renewals ask for; zero if they only inspect the grant.
    pub(crate) lease: Duration,
    /// When it was granted.
    pub(crate) since: Instant,
    pub(crate) due: Ticket,
    pub(crate) place: Place,
    pub(crate) failing: bool,
    /// Set while a step of the store's clock may have ended the lease: it is lost then at the
    /// latest, unless a renewal succeeds before.
    pub(crate) in_doubt_until: Option<Instant>,
    /// A renewal is in progress.
    pub(crate) renewing: bool,
    /// A release is in progress, so a renewal that finds nothing is no loss.
    pub(crate) releasing: bool,
    /// The holder was asked to yield.
    pub(crate) asked: Option<Asked>,
    /// Its use of the quota of grants.
    pub(crate) counted: Counted,
}

// === impl Lost ===

impl Lost {
    pub(crate) fn set(&self) {
        self.0.is_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.is_lost.load(Ordering::Relaxed)
    }

    pub(crate) fn set_repeated(&self) {
        self.0.is_repeated.store(true, Ordering::Relaxed);
    }

    /// Whether an undo may have found nothing to undo because a repeat has taken the grant over.
    /// Without a repeat, an earlier run of the undo has given it back, or the grant has ended.
    pub(crate) fn is_repeated(&self) -> bool {
        self.0.is_repeated.load(Ordering::Relaxed)
    }
}

// === impl Held ===

impl Held {
    /// When the grant is lost unless it is renewed before.
    pub(crate) fn end(&self) -> Instant {
        let safe_until = self.grant.terms().safe_until;
        self.in_doubt_until
            .map_or(safe_until, |end| end.max(safe_until))
    }

    /// Extends the safe window, which never moves back.
    pub(crate) fn extend(&mut self, until: Option<Instant>) {
        let mut terms = self.grant.terms();
        terms.safe_until = until.map_or(terms.safe_until, |until| until.max(terms.safe_until));
        self.grant.set_terms(terms);
    }
}
