//! The handed-on releases of one lock, and the limits that keep other coordinators from starving.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, Mode, Released};
use tokio::{sync::oneshot, time::Instant};

use crate::types::{Goal, Owner};

/// Maximum of consecutive releases handed on here. The next one is only published, so that waiters
/// elsewhere get the lock.
const IN_A_ROW_MAX: u32 = 16;

/// How long a lock that is handed on need not be free in between. Waiters elsewhere hear nothing
/// meanwhile, so it is too short for them to notice. Yet it is longer than `IN_A_ROW_MAX` quick
/// releases take.
const IN_ONE_CALL_FOR: Duration = Duration::from_millis(5);

/// A message that has not arrived by then is no longer expected.
const MESSAGE_WITHIN: Duration = Duration::from_secs(1);

/// The releases of one channel that were handed on here.
#[derive(Debug, Default)]
pub(crate) struct OwnReleases {
    /// Releases whose messages have not arrived yet.
    unannounced: u32,
    /// When the last of them was sent.
    sent_at: Option<Instant>,
    in_a_row: u32,
    /// When the first of the consecutive releases was handed on.
    in_a_row_since: Option<Instant>,
    /// The last release was not handed on: its message, or the first to arrive, must be followed.
    is_announced_only: bool,
    /// The release to be made, unless the head takes it over.
    pub(crate) offer: Option<Offer>,
}

/// The last hold of a lock, about to be released.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The line to whose head it is offered. Others on the channel may try meanwhile.
    pub(crate) to: Goal,
    pub(crate) mode: Mode,
    pub(crate) owner: Owner,
    /// The field that names the grant, if one does.
    pub(crate) field: Option<Arc<str>>,
    pub(crate) serial: Option<u64>,
    pub(crate) handed_over: oneshot::Sender<HandedOver>,
}

/// The outcome of a release that the head made together with its acquire.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) released: Result<Released, CallError>,
    /// Dropped when the releaser has the outcome: its part precedes the head's.
    pub(crate) _heard: oneshot::Sender<()>,
}

// === impl OwnReleases ===

impl OwnReleases {
    /// Whether the next release may be offered: not if others are due to hear of one, or another
    /// offer is open.
    pub(crate) fn may_be_offered(&self) -> bool {
        let is_early = |since: Instant| since.elapsed() < IN_ONE_CALL_FOR;
        let others_can_wait =
            self.in_a_row < IN_A_ROW_MAX && self.in_a_row_since.is_none_or(is_early);
        others_can_wait && self.offer.is_none()
    }

    /// Takes the release that is offered to the head of this line.
    pub(crate) fn take_offer(&mut self, line: Goal) -> Option<Offer> {
        let offer = self.offer.take_if(|offer| offer.to == line)?;
        self.one_more();
        Some(offer)
    }

    /// Records a release on its way; its message will arrive if the channel is subscribed. False if
    /// the release must not be handed on.
    pub(crate) fn sent(&mut self, is_heard: bool) -> bool {
        self.is_announced_only = self.in_a_row >= IN_A_ROW_MAX;
        if self.is_announced_only {
            self.turn_of_others();
            return false;
        }
        self.one_more();
        if is_heard {
            self.unannounced += 1;
            self.sent_at = Some(Instant::now());
        }
        true
    }

    pub(crate) fn turn_of_others(&mut self) {
        (self.in_a_row, self.in_a_row_since) = (0, None);
    }

    fn one_more(&mut self) {
        self.in_a_row += 1;
        self.in_a_row_since.get_or_insert_with(Instant::now);
    }

    /// The release turned out to publish no message.
    pub(crate) fn unsent(&mut self) {
        self.unannounced = self.unannounced.saturating_sub(1);
    }

    /// A message arrived. True if it is that of a release that was handed on.
    pub(crate) fn announced(&mut self) -> bool {
        let is_expected = self.sent_at.is_some_and(|at| at.elapsed() < MESSAGE_WITHIN);
        if self.is_announced_only || !is_expected || self.unannounced == 0 {
            self.forget();
            return false;
        }
        self.unannounced -= 1;
        true
    }

    /// Messages may have been missed.
    pub(crate) fn forget(&mut self) {
        self.unannounced = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_message_of_each_release_is_passed_over_once() {
        let mut own = OwnReleases::default();
        assert!(own.sent(true) && own.sent(true));
        own.unsent();
        assert!(own.announced());
        assert!(!own.announced(), "another owner has released");
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_missed_is_not_waited_for() {
        let mut own = OwnReleases::default();
        assert!(own.sent(true));
        own.forget();
        assert!(!own.announced());
        assert!(own.sent(true));
        tokio::time::advance(MESSAGE_WITHIN).await;
        assert!(!own.announced());
    }

    #[tokio::test(start_paused = true)]
    async fn messages_that_were_not_heard_do_not_stand_for_others() {
        let mut own = OwnReleases::default();
        assert!(own.sent(false));
        assert!(!own.announced(), "another owner has released");
        // One is lost on the way.
        assert!((0..IN_A_ROW_MAX - 1).all(|_| own.sent(true)));
        assert!((1..IN_A_ROW_MAX - 1).all(|_| own.announced()));
        assert!(!own.sent(true));
        assert!(!own.announced(), "nobody else follows it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_is_offered_for_a_few_moments_and_then_free_in_between() {
        let mut own = OwnReleases::default();
        assert!(own.may_be_offered());
        assert!(own.sent(true) && own.may_be_offered());
        tokio::time::advance(Duration::from_millis(4)).await;
        assert!(own.may_be_offered());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!own.may_be_offered());
        own.turn_of_others();
        assert!(own.may_be_offered());
    }

    #[tokio::test(start_paused = true)]
    async fn others_have_their_turn() {
        let mut own = OwnReleases::default();
        for _ in 0..3 {
            assert!((0..IN_A_ROW_MAX).all(|_| own.sent(true)));
            assert!(!own.sent(true));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_in_a_row_are_offered_and_then_one_is_for_others() {
        let mut own = OwnReleases::default();
        for _ in 0..IN_A_ROW_MAX {
            assert!(own.may_be_offered());
            assert!(own.sent(true));
        }
        assert!(!own.may_be_offered());
    }
}
