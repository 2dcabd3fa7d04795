//! An operation that failed, or whose outcome is unknown, has a reason: the store was out of reach,
//! the coordinator was to stop, the session had no stream there.

use super::{INSTANT, Span, Waits, fails};
use crate::{
    checker::{
        Violation,
        truth::{State, Truth},
        violation,
    },
    history::{Millis, Reach, SessionNo, Told, What},
};

pub(in crate::checker) fn check(waits: &Waits<'_>, truth: &Truth) -> Vec<Violation> {
    let mut violations = Vec::new();
    for event in waits.events {
        let What::Told(op, told) = &event.what else {
            continue;
        };
        let Some(span) = waits.span(*op) else {
            continue;
        };
        if !waits.is_explained(span, told, event.at, truth) {
            let rule = format!("failure: #{op} of {} was told {told:?}", span.holder);
            violations.push(violation(event.at, rule));
        }
    }
    violations
}

// === impl Waits ===

impl Waits<'_> {
    /// Whether there was a reason for this answer, if it needs one.
    fn is_explained(&self, span: &Span, told: &Told, until: Millis, truth: &Truth) -> bool {
        let (node, from) = (span.node, span.from);
        let failed = || self.was(node, fails, from, until + 1);
        let went_down = || self.was(node, |reach| reach == Reach::Down, from, until + 1);
        let has_left = || {
            let is_attached = |session| self.is_attached(span, session, until);
            went_down() || span.holder.session.is_some_and(|it| !is_attached(it))
        };
        match told {
            Told::Unknown => {
                failed() || self.bounds.replicas || self.was_too_late(span, until, truth)
            }
            Told::Refused("unavailable") => {
                // Its turn did not come, because of other operations of the owner.
                let waited = until - from >= self.bounds.call_timeout;
                failed() || waited && !self.is_alone(span)
            }
            Told::Refused("draining") => went_down(),
            Told::Refused(
                "session not found"
                | "session detached"
                | "session superseded"
                | "session ended by force",
            ) => has_left(),
            Told::Refused("request over") => span.repeat,
            Told::NotOwner if span.kind.takes() => {
                let is_forced = self.forced(span.name, from.saturating_sub(1), until);
                failed() || has_left() || is_forced.is_some() || !self.is_alone(span)
            }
            Told::Cancelled => {
                let mut events = self.events.iter();
                events.any(|event| event.what == What::Cancelled(span.op))
            }
            _ => true,
        }
    }

    /// Whether the owner's earlier grant may have ended before the answer came: it was reported
    /// lost, or a repeat found what little was left of its lease.
    fn was_too_late(&self, span: &Span, until: Millis, truth: &Truth) -> bool {
        let (holder, name, from) = (span.holder, span.name, span.from);
        let mut losses = self.events.iter().filter(|event| match event.what {
            What::Lost(of, lock, _) => (of, lock) == (holder, name),
            _ => false,
        });
        // The lease that the owner knows of ends a little before that of the store.
        let over = from..=until + self.bounds.lease_max / 50 + INSTANT;
        let ends = |state: &State| state.has(holder) && over.contains(&state.until);
        losses.any(|event| (from..=until).contains(&event.at))
            || span.repeat && truth.states(name).any(ends)
    }

    /// Whether the coordinator that was asked served the session all the time.
    fn is_attached(&self, span: &Span, session: SessionNo, until: Millis) -> bool {
        let streams = self.events.iter().filter_map(|event| match event.what {
            What::Attached(of, node) if of == session => Some((event.at, Some(node))),
            What::Broken(of, _) | What::Closing(of) if of == session => Some((event.at, None)),
            _ => None,
        });
        let known = streams.take_while(|(at, _)| *at <= until);
        let last = known.last();
        last.is_some_and(|(at, node)| at < span.from && node == Some(span.node))
    }
}
