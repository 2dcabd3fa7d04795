//! That nobody waits for a lock that could be had.

use lockkeeper_store::script::Mode;

use super::{Span, Waits, fails, is_not_calm};
use crate::{
    checker::{
        MARGIN, Violation,
        truth::{EXPIRY, State, Truth},
        violation,
    },
    history::{Event, Holder, Millis, Name, What},
};

/// Readers that wait at one coordinator come in one after the other, each a call after the one
/// before.
const READERS_IN_LINE: Millis = 25;
const CALLS: Millis = 10;

/// A lock that can be had and is waited for is granted soon.
pub(in crate::checker) fn check(waits: &Waits<'_>, truth: &Truth) -> Vec<Violation> {
    let mut violations = Vec::new();
    for span in waits.waiting() {
        for free in truth.free_for(span.name, span.holder.mode) {
            let (from, until) = (free.from.max(span.from), free.until.min(span.end()));
            if until <= from || (span.holder.mode == Mode::Fair && !waits.is_alone(span)) {
                continue;
            }
            let Some(limit) = waits.limit(span, &free, from, until) else {
                continue;
            };
            if until > limit {
                let rule = format!(
                    "wake-up: #{} of {} waits for lock {}, which can be had from {} to {} by {}; \
                     it should have been granted by {limit}",
                    span.op, span.holder, span.name, free.from, free.until, free.by
                );
                violations.push(violation(limit, rule));
            }
        }
    }
    violations
}

// === impl Waits ===

impl Waits<'_> {
    /// By when somebody who has waited from `from` on for a lock that can be had has it at the
    /// latest; none if the store cannot be reached meanwhile.
    fn limit(&self, span: &Span, free: &State, from: Millis, until: Millis) -> Option<Millis> {
        let bounds = self.bounds;
        let poll = bounds.poll_interval;
        let mode = span.holder.mode;
        // What fails while it is waited ends the duty until it works again.
        let reaches = self.reaches.get(&span.node)?;
        let (since, reach) = *reaches.iter().take_while(|(at, _)| *at < until).last()?;
        if fails(reach) {
            return None;
        }
        let begin = from.max(since);
        let calls = if mode == Mode::Read {
            READERS_IN_LINE
        } else {
            CALLS
        };
        let mut time = calls * bounds.round_trip + MARGIN;
        if self.was(span.node, fails, begin, until) {
            time += bounds.settled() + poll;
        }
        // Nothing is published when a key is deleted by hand, so the head of a line may still know
        // the lease of before; the end of a lease is known beforehand, but not which of several
        // ends last.
        let silent = self
            .forced(span.name, begin.saturating_sub(poll), until)
            .is_some();
        let handed_on = || self.was_handed_on(span.name, free.from);
        let unforeseen = free.by == EXPIRY && (mode == Mode::Write || handed_on());
        if silent || unforeseen || self.was(span.node, is_not_calm, begin, until) {
            time += poll;
        }
        match mode {
            Mode::Exclusive | Mode::Write => {}
            Mode::Fair => time += self.behind_others(span, free, begin, until),
            Mode::Read => return Some(self.held_back(span, begin, until, time)),
        }
        Some(begin + time)
    }

    /// Whether the newest grant before that was made by a hand-over. Nothing is published then, so
    /// the waiters of other coordinators know the lease of the grant before.
    fn was_handed_on(&self, name: Name, before: Millis) -> bool {
        let stored = self.events.iter().filter_map(|event| match &event.what {
            What::Stored {
                name: of,
                token,
                by,
                ..
            } if *of == name && event.at < before => Some((*token, *by)),
            _ => None,
        });
        let newest = stored.clone().next_back();
        let first = newest.and_then(|(token, _)| stored.clone().find(|(of, _)| *of == token));
        first.is_some_and(|(_, by)| by.ends_with("hand_on"))
    }

    /// How much longer it takes because somebody else comes first who is slow or dead, or because a
    /// place in the queue is not known yet.
    fn behind_others(&self, span: &Span, free: &State, begin: Millis, until: Millis) -> Millis {
        let bounds = self.bounds;
        let (poll, patience) = (bounds.poll_interval, bounds.patience);
        let long_ago = begin.saturating_sub(2 * patience + bounds.settled());
        let mut time = 0;
        let unforeseen = free.by == EXPIRY || self.forced(span.name, long_ago, until).is_some();
        if unforeseen || self.was_any(is_not_calm, long_ago, until) {
            time += patience / 3 + poll + bounds.round_trip;
        }
        if self.was_any(fails, long_ago, until) {
            time += patience + poll + bounds.settled();
        }
        let strangers = self.strangers_in_queue(span, until);
        time + strangers * (patience + patience / 3 + poll)
    }

    /// Those in the queue who never asked a coordinator: nobody knows whether they live.
    fn strangers_in_queue(&self, span: &Span, until: Millis) -> Millis {
        let known = |of: &Holder| self.spans.iter().any(|span| span.holder.is_same_owner(*of));
        let queues = self.events.iter().filter_map(|event| match &event.what {
            What::Stored { name, queue, .. } if *name == span.name => Some((event.at, queue)),
            _ => None,
        });
        let queues = queues.filter(|(at, _)| *at <= until);
        let strangers = queues.map(|(at, queue)| {
            let strangers = queue.iter().filter(|of| !known(of)).count();
            (at, Millis::try_from(strangers).unwrap_or(0))
        });
        let mut most = 0;
        for (at, strangers) in strangers {
            most = if at <= span.from {
                strangers
            } else {
                most.max(strangers)
            };
        }
        most
    }

    /// When keys of a lock, its queue perhaps, were first deleted by hand.
    pub(super) fn forced(&self, name: Name, after: Millis, until: Millis) -> Option<Millis> {
        let meanwhile = |event: &&Event| event.at > after && event.at <= until;
        let mut forced = self.events.iter().filter(meanwhile);
        forced
            .find(|event| event.what == What::Forced(name))
            .map(|event| event.at)
    }

    /// By when a reader is let in although writers wait: each that leaves may make room for
    /// another, whose time begins anew; a mark that is deleted does so too, and one that leaves
    /// late.
    fn held_back(&self, span: &Span, begin: Millis, until: Millis, time: Millis) -> Millis {
        let hold_back = self.bounds.hold_back;
        let writers: Vec<&Span> = self
            .waiting_at_all()
            .filter(|of| of.name == span.name && of.holder.mode == Mode::Write)
            .filter(|of| of.from <= until && of.end() + 2 * hold_back + time > begin)
            .collect();
        let mut begin = begin;
        let next_end = |begin: Millis| {
            let ends = writers.iter().filter_map(|writer| writer.until);
            let due = begin + hold_back + time;
            ends.filter(|end| *end > begin && *end <= due)
                .chain(self.forced(span.name, begin, due))
                .chain(
                    self.late_writers(span.name)
                        .filter(|at| *at > begin && *at <= due),
                )
                .min()
        };
        while let Some(end) = next_end(begin) {
            begin = end;
        }
        let left_behind = |writer: &&Span| {
            let asked = writer.from.saturating_sub(self.bounds.settled());
            self.was(writer.node, fails, asked, until)
        };
        let behind_a_writer = writers
            .iter()
            .any(|writer| writer.end() > begin || left_behind(writer));
        begin + time + if behind_a_writer { hold_back } else { 0 }
    }
}
