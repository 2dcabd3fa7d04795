//! What is held, and until when that is known for sure.

use tokio::time::Instant;

use super::{Thing, Timing, Validity};
use crate::grpc::pb::{Grant, PermitGrant};

/// Everything that was granted.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) items: Vec<Item>,
    /// By the shortest of the leases.
    pub(super) timing: Timing,
}

/// One grant of it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) thing: Thing,
    /// `None` until a renewal was answered.
    pub(super) validity: Option<Validity>,
    /// The renewal under way: its operation, and an instant before it was sent.
    pub(super) renewing: Option<(u64, Instant)>,
    pub(super) renew_at: Instant,
}

// === impl Held ===

impl Held {
    /// To be renewed at once, because how long ago the answer was made is not known.
    pub(super) fn new(things: Vec<Thing>, timing: Timing, now: Instant) -> Self {
        let items = things.into_iter().map(|thing| Item {
            thing,
            validity: None,
            renewing: None,
            renew_at: now,
        });
        Self {
            items: items.collect(),
            timing,
        }
    }

    /// That of whatever ends first; `None` until a renewal of everything was answered.
    pub(super) fn validity(&self) -> Option<Validity> {
        let first = self
            .items
            .iter()
            .min_by_key(|item| item.validity.map(|it| it.until));
        first.and_then(|item| item.validity)
    }

    /// When the next renewal is due that is not under way.
    pub(super) fn renew_at(&self) -> Option<Instant> {
        let idle = self.items.iter().filter(|item| item.renewing.is_none());
        idle.map(|item| item.renew_at).min()
    }

    /// The item whose renewal this operation is, and when that was sent; it is under way no longer.
    pub(super) fn take_renewal(&mut self, op_id: u64) -> Option<(&mut Item, Instant)> {
        let is_it = |item: &&mut Item| item.renewing.is_some_and(|(ours, _)| ours == op_id);
        let item = self.items.iter_mut().find(is_it)?;
        let (_, sent_at) = item.renewing.take()?;
        Some((item, sent_at))
    }

    /// The locks, as a resume names them.
    pub(super) fn grants(&self) -> Vec<Grant> {
        let locks = self.items.iter().filter_map(|item| item.thing.lock());
        locks.cloned().collect()
    }

    /// The permits, as a resume names them.
    pub(super) fn permits(&self) -> Vec<PermitGrant> {
        let permits = self.items.iter().filter_map(|item| item.thing.permits());
        permits.cloned().collect()
    }

    /// What is held of this grant.
    pub(super) fn find(&self, thing: &Thing) -> Option<&Item> {
        self.items.iter().find(|item| item.thing.is(thing))
    }
}

// === impl Item ===

impl Item {
    /// It was renewed after `sent_at`, as this says.
    pub(super) fn renewed(&mut self, timing: &Timing, sent_at: Instant, thing: &Thing) {
        let validity = timing.validity(sent_at, thing.valid_for());
        // Answers to a renewal and to a resume may overtake each other.
        if self
            .validity
            .is_none_or(|known| known.until < validity.until)
        {
            self.validity = Some(validity);
        }
        self.renew_at = sent_at + timing.renew_interval();
    }
}
