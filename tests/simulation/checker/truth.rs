//! How the locks really stood in the store, and whether anybody relied on one that it did not have.

use std::collections::BTreeMap;

use lockkeeper_store::script::Mode;

use super::{Violation, intervals::Interval, violation};
use crate::history::{Event, Holder, Millis, Name, Share, What};

/// The states of all locks, in order of time.
#[derive(Debug, Default)]
pub(super) struct Truth {
    states: BTreeMap<Name, Vec<State>>,
}

/// How a lock stood from one moment to another, which is not part of it.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) from: Millis,
    pub(super) until: Millis,
    pub(super) holders: Vec<(Holder, i64)>,
    /// Who stands in its queue, if it is fair.
    pub(super) queue: Vec<Holder>,
    /// What brought it about.
    pub(super) by: &'static str,
}

/// A lock as it was looked at.
struct Stored<'a> {
    from: Millis,
    shares: &'a [Share],
    queue: &'a [Holder],
    by: &'static str,
}

/// What ends a hold that nobody gave back.
pub(super) const EXPIRY: &str = "expiry";

/// What the names of the scripts end in that give a hold back.
const RELEASES: [&str; 3] = ["_release", "_hand_on", "remove_and_publish"];

// === impl Truth ===

impl Truth {
    pub(super) fn of(events: &[Event]) -> Self {
        let mut truth = Self::default();
        let mut last: BTreeMap<Name, Stored<'_>> = BTreeMap::new();
        for event in events {
            let What::Stored {
                name,
                shares,
                queue,
                by,
                ..
            } = &event.what
            else {
                continue;
            };
            let stored = Stored {
                from: event.at,
                shares,
                queue,
                by,
            };
            if let Some(before) = last.insert(*name, stored) {
                truth.follow(*name, &before, event.at);
            }
        }
        for (name, stored) in last {
            truth.follow(name, &stored, Millis::MAX);
        }
        truth
    }

    /// Adds the states from one look at a lock until the next: each time a hold runs out there is
    /// another.
    fn follow(&mut self, name: Name, stored: &Stored<'_>, end: Millis) {
        let states = self.states.entry(name).or_default();
        let Stored {
            mut from,
            shares,
            queue,
            mut by,
        } = *stored;
        loop {
            let live = |share: &&Share| share.until.is_none_or(|until| until > from);
            let live: Vec<&Share> = shares.iter().filter(live).collect();
            let next = live.iter().filter_map(|share| share.until).min();
            let until = next.map_or(end, |next| next.min(end));
            states.push(State {
                from,
                until,
                holders: live
                    .iter()
                    .map(|share| (share.holder, share.count))
                    .collect(),
                queue: queue.to_vec(),
                by,
            });
            if until >= end {
                return;
            }
            (from, by) = (until, EXPIRY);
        }
    }

    pub(super) fn states(&self, name: Name) -> impl Iterator<Item = &State> {
        self.states.get(&name).into_iter().flatten()
    }

    /// Times at which a lock could be had by somebody who waits for it in this way, and what began
    /// them.
    pub(super) fn free_for(&self, name: Name, mode: Mode) -> Vec<State> {
        let mut times: Vec<State> = Vec::new();
        for state in self.states(name) {
            let mut modes = state.holders.iter().map(|(of, _)| of.mode);
            let open = match mode {
                Mode::Read => modes.all(|mode| mode == Mode::Read),
                Mode::Exclusive | Mode::Fair | Mode::Write => modes.next().is_none(),
            };
            match times.last_mut().filter(|last| last.until == state.from) {
                _ if !open => {}
                Some(last) => last.until = state.until,
                None => times.push(state.clone()),
            }
        }
        times
    }

    /// Whether a holder had a lock all the time, and the instants before and after.
    pub(super) fn had(&self, name: Name, holder: Holder, from: Millis, until: Millis) -> bool {
        let mut states = self.around(name, from, until).peekable();
        states.peek().is_some_and(|first| first.from < from)
            && states.all(|state| state.has(holder))
    }

    /// Whether a holder had a lock all the time, or until a release took it.
    pub(super) fn had_until_released(
        &self,
        name: Name,
        holder: Holder,
        from: Millis,
        until: Millis,
    ) -> bool {
        let mut states = self.around(name, from, until);
        let is_there = states.next().is_some_and(|first| first.has(holder));
        let gone = states.find(|state| !state.has(holder));
        is_there && gone.is_none_or(|state| RELEASES.iter().any(|by| state.by.ends_with(by)))
    }

    /// Whether a holder had a lock at any time.
    pub(super) fn had_at_all(
        &self,
        name: Name,
        holder: Holder,
        from: Millis,
        until: Millis,
    ) -> bool {
        self.around(name, from, until)
            .any(|state| state.has(holder))
    }

    /// The states of a lock in this time, and those of the instants before and after.
    pub(super) fn around(
        &self,
        name: Name,
        from: Millis,
        until: Millis,
    ) -> impl Iterator<Item = &State> {
        self.states(name)
            .filter(move |state| state.until >= from && state.from <= until)
    }

    /// Whoever relies on a lock must have it.
    pub(super) fn contradictions(&self, intervals: &[Interval]) -> Vec<Violation> {
        let mut violations = Vec::new();
        // What was told when its time was over leaves nothing to rely on.
        for interval in intervals.iter().filter(|of| of.from < of.until) {
            let Interval {
                name,
                holder,
                from,
                until,
                ..
            } = *interval;
            let mut overlapping = self
                .states(name)
                .filter(|state| state.from < until && state.until > from);
            let wrong = overlapping.find(|state| {
                // What changes within one millisecond cannot be told apart.
                let time = state.until.min(until).saturating_sub(state.from.max(from));
                time > 0 && !state.has(holder)
            });
            if let Some(state) = wrong {
                let at = state.from.max(from);
                let rule = format!(
                    "truth: {holder} relies on lock {name} from {from} to {until}, but the store \
                     has {:?} at {at} by {}",
                    state.holders, state.by
                );
                violations.push(violation(at, rule));
            }
        }
        violations
    }
}

// === impl State ===

impl State {
    pub(super) fn has(&self, holder: Holder) -> bool {
        self.holders
            .iter()
            .any(|(of, count)| *of == holder && *count > 0)
    }
}
