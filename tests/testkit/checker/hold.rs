//! Events put together: what became of each attempt, and when its owner relied on the lock.

use std::collections::BTreeMap;

use super::{findings::Bounds, rules::Grant};
use crate::history::{At, Attempt, Event, Name, What};

/// One attempt, put together.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) attempt: Attempt,
    pub(super) name: Name,
    pub(super) asked: At,
    pub(super) granted: Option<(At, u64)>,
    /// When the attempt or the hold ended for its owner, by whatever.
    pub(super) ended: Option<At>,
    /// When it was told of a loss: by a notice, a refusal, or the end of its time.
    pub(super) told: Option<At>,
    /// When it may have relied on the lock.
    pub(super) valid: Vec<(At, At)>,
    since: Option<At>,
    /// When an announced risk comes true.
    risk: Option<At>,
    /// The holder does nothing under the lock any more.
    is_done: bool,
    /// When the release was sent, if nothing spoke against the grant by then.
    returned: Option<At>,
    /// How long after that it was refused, if nothing spoke against the grant meanwhile.
    pub(super) refused: Option<At>,
    pub(super) is_lost: bool,
}

/// All attempts.
pub(super) fn holds(events: &[Event], bounds: &Bounds) -> Vec<Hold> {
    let mut holds: BTreeMap<Attempt, Hold> = BTreeMap::new();
    for event in events {
        let hold = holds.entry(event.attempt).or_insert_with(|| Hold {
            attempt: event.attempt,
            name: event.name,
            asked: event.at,
            granted: None,
            ended: None,
            told: None,
            valid: Vec::new(),
            since: None,
            risk: None,
            is_done: false,
            returned: None,
            refused: None,
            is_lost: false,
        });
        hold.follow(event);
    }
    let mut holds: Vec<_> = holds.into_values().collect();
    for hold in &mut holds {
        hold.relies_until(bounds.end);
    }
    holds
}

// === impl Hold ===

impl Hold {
    fn follow(&mut self, event: &Event) {
        let at = event.at;
        match event.what {
            What::Asked => {}
            What::Granted { token } => {
                self.granted = Some((at, token));
                self.since = Some(at);
            }
            What::Failed => self.ended = Some(at),
            What::AtRisk(left) | What::Broke(left) => self.risk = Some(at + left),
            What::Recovered => {
                // If the time was over meanwhile the holder begins to rely on it again.
                if self.risk.is_some_and(|risk| risk < at) && self.since.is_some() {
                    self.relies_until(at);
                    self.since = Some(at);
                }
                self.risk = None;
            }
            What::Resumed if self.is_done => {}
            What::Resumed => {
                // If the time was over meanwhile the holder begins to rely on it again.
                if self.risk.is_some_and(|risk| risk < at) {
                    self.relies_until(at);
                }
                self.risk = None;
                self.since.get_or_insert(at);
            }
            What::Lost | What::Refused => {
                self.relies_until(at);
                self.is_lost |= event.what == What::Lost && !self.is_done;
                if event.what == What::Refused && self.told.is_none() && self.risk.is_none() {
                    self.refused = self.returned.map(|sent| at.saturating_sub(sent));
                }
                self.told.get_or_insert(at);
                self.ended.get_or_insert(at);
            }
            What::ReleaseSent => {
                if self.since.is_some() && self.risk.is_none() {
                    self.returned = Some(at);
                }
                self.relies_until(at);
                self.is_done = true;
            }
            What::Released => {
                self.ended.get_or_insert(at);
            }
        }
    }

    /// Ends the interval that is open.
    fn relies_until(&mut self, at: At) {
        let Some(since) = self.since.take() else {
            return;
        };
        let until = self.risk.map_or(at, |risk| risk.min(at));
        if since < until {
            self.valid.push((since, until));
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        self.granted.map(|(_, token)| token)
    }
    pub(super) fn grant(&self) -> Option<Grant<Attempt, At>> {
        self.granted.map(|(told, token)| Grant {
            token,
            holder: self.attempt,
            asked: self.asked,
            told,
        })
    }
}
