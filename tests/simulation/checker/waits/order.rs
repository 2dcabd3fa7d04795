//! Fair locks: first come, first served. Waiters come in the order in which the store first told
//! them that the lock is busy.

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_store::script::Mode;

use super::{Span, Waits, fails};
use crate::{
    checker::{Violation, violation},
    history::{Holder, Kind, Millis, Name, Op, What},
};

/// Nobody gets a fair lock while somebody who came earlier still waits for it at a coordinator that
/// lives.
pub(in crate::checker) fn check(waits: &Waits<'_>) -> Vec<Violation> {
    let fair = |span: &&Span| span.holder.mode == Mode::Fair;
    let spans: Vec<&Span> = waits.waiting_at_all().filter(fair).collect();
    let mut violations = Vec::new();
    let mut arrived: BTreeMap<Op, usize> = BTreeMap::new();
    let mut unknown: BTreeSet<Op> = BTreeSet::new();
    let mut holders: BTreeMap<Name, Vec<Holder>> = BTreeMap::new();
    for (index, event) in waits.events.iter().enumerate() {
        let open = |holder: Holder, name: Name, late: Millis| {
            spans.iter().copied().filter(move |span| {
                span.holder == holder
                    && span.name == name
                    && span.index < index
                    && span.end().saturating_add(late) >= event.at
            })
        };
        match &event.what {
            What::Waits(holder, name) => {
                for span in open(*holder, *name, 0) {
                    arrived.entry(span.op).or_insert(index);
                }
            }
            // Whoever was in the queue may have to queue up again.
            What::Forced(name) => {
                let before = spans.iter().filter(|span| span.index < index);
                unknown.extend(before.filter(|span| span.name == *name).map(|span| span.op));
            }
            What::Stored {
                name, shares, by, ..
            } => {
                let now: Vec<Holder> = shares.iter().map(|share| share.holder).collect();
                let before = holders.insert(*name, now.clone()).unwrap_or_default();
                let new = now.iter().find(|of| !before.contains(of));
                let by_queue = matches!(*by, "fair_acquire" | "lock_hand_on");
                let Some(granted) = new.filter(|_| by_queue) else {
                    continue;
                };
                // Its last try may have been under way when it was no longer wanted.
                let own = with_those_before(open(*granted, *name, waits.bounds.settled()), &spans);
                let is_unknown = own.iter().any(|span| unknown.contains(&span.op));
                if is_unknown || !waits.is_asked_for(*granted, *name, index) {
                    continue;
                }
                let came = own.iter().filter_map(|span| arrived.get(&span.op));
                let came = came.min().copied().unwrap_or(index);
                let earlier = spans.iter().find(|span| {
                    span.name == *name
                        && span.holder != *granted
                        && matches!(span.kind, Kind::Acquire(_))
                        && span.end() > event.at + 1
                        && arrived.get(&span.op).is_some_and(|at| *at < came)
                        && !unknown.contains(&span.op)
                        && waits.is_alone(span)
                        && !waits.was(span.node, fails, span.from, event.at)
                });
                // It is out of the queue, even if its answer is lost and the grant is undone.
                unknown.extend(own.iter().map(|span| span.op));
                if let Some(earlier) = earlier {
                    let rule = format!(
                        "order: {granted} got lock {name} before #{} of {}, who came earlier",
                        earlier.op, earlier.holder
                    );
                    violations.push(violation(event.at, rule));
                }
            }
            _ => {}
        }
    }
    violations
}

// === impl Waits ===

impl Waits<'_> {
    /// Whether an operation of the holder is under way or has just ended. A call of one that ended
    /// long ago, which is carried out late, has the place in the queue that it had then.
    fn is_asked_for(&self, holder: Holder, name: Name, index: usize) -> bool {
        let at = self.events[index].at;
        self.spans.iter().any(|span| {
            let until = span.end().saturating_add(self.bounds.settled());
            span.holder == holder && span.name == name && span.index < index && until >= at
        })
    }
}

/// Waits of one owner, and those whose place in the queue they have kept.
fn with_those_before<'a>(
    waits: impl Iterator<Item = &'a Span>,
    spans: &[&'a Span],
) -> Vec<&'a Span> {
    let mut own: Vec<&Span> = waits.collect();
    let mut next = 0;
    while let Some(later) = own.get(next).copied() {
        let before = spans.iter().filter(|span| {
            span.holder == later.holder
                && span.name == later.name
                && span.from <= later.from
                && span.end() >= later.from
                && !own.iter().any(|known| known.op == span.op)
        });
        let before: Vec<&Span> = before.copied().collect();
        own.extend(before);
        next += 1;
    }
    own
}
