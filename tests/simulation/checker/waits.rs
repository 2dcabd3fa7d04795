//! That each operation ends, and that nobody waits for a lock that is free.

use std::collections::BTreeMap;

use super::{
    Bounds, MARGIN, Violation,
    truth::{State, Truth},
    violation,
};
use crate::history::{Event, Kind, Millis, Name, Op, Reach, Told, What};

/// An operation from its beginning to its end.
#[derive(Clone, Copy, Debug)]
struct Span {
    op: Op,
    name: Name,
    node: usize,
    kind: Kind,
    from: Millis,
    until: Option<Millis>,
}

/// How far a coordinator can rely on its store, from a moment on.
type Reaches = BTreeMap<usize, Vec<(Millis, Reach)>>;

/// Each operation has one answer, in time.
pub(super) fn answers(events: &[Event], bounds: &Bounds) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut told: BTreeMap<Op, usize> = BTreeMap::new();
    for event in events {
        if let What::Told(op, answer) = &event.what {
            *told.entry(*op).or_default() += 1;
            if told[op] > 1 {
                violations.push(violation(event.at, format!("answers: #{op} has two")));
            }
            if *answer == Told::Nothing {
                let rule = format!("answers: #{op} ended without one");
                violations.push(violation(event.at, rule));
            }
        }
    }
    let end = events.last().map_or(0, |event| event.at);
    for span in spans(events) {
        // A turn behind another operation and a call of its own, at the beginning and once more when the time is up.
        let slack = 4 * bounds.call_timeout + bounds.round_trip + MARGIN;
        let limit = match span.kind {
            Kind::Acquire(None) => Millis::MAX,
            Kind::Acquire(Some(wait)) => span.from + wait + slack,
            Kind::Try | Kind::Release | Kind::Renew => span.from + slack,
        };
        let until = span.until.unwrap_or(end);
        if until > limit {
            let rule = format!("answers: #{} took until {until}, at most {limit}", span.op);
            violations.push(violation(limit, rule));
        }
        if span.until.is_none() {
            violations.push(violation(end, format!("answers: #{} has none", span.op)));
        }
    }
    violations
}

/// A lock that is free and waited for is granted soon.
pub(super) fn wake_ups(events: &[Event], truth: &Truth, bounds: &Bounds) -> Vec<Violation> {
    let reaches = reaches(events);
    let mut violations = Vec::new();
    for span in spans(events) {
        if !matches!(span.kind, Kind::Acquire(_)) {
            continue;
        }
        let until = span.until.unwrap_or(Millis::MAX);
        for free in truth.free(span.name) {
            let (from, until) = (free.from.max(span.from), free.until.min(until));
            if until <= from {
                continue;
            }
            let Some(limit) = limit(free, from, until, &reaches[&span.node], bounds) else {
                continue;
            };
            if until > limit {
                let rule = format!(
                    "wake-up: #{} waits for lock {}, which is free from {} to {}; it should have been granted by {limit}",
                    span.op, span.name, free.from, free.until
                );
                violations.push(violation(limit, rule));
            }
        }
    }
    violations
}

/// By when somebody who has waited from `from` on for a free lock has it at the latest; none if the store cannot be reached meanwhile.
fn limit(
    free: &State,
    from: Millis,
    until: Millis,
    reaches: &[(Millis, Reach)],
    bounds: &Bounds,
) -> Option<Millis> {
    let poll = bounds.poll_interval;
    let failing = |reach: Reach| matches!(reach, Reach::Rough | Reach::Down);
    let last = |upto: Millis| reaches.iter().take_while(move |(at, _)| *at < upto);
    // What fails while it is waited ends the duty until it works again.
    let (since, reach) = *last(until).last()?;
    if failing(reach) {
        return None;
    }
    let begin = from.max(since);
    let failed = last(until).any(|(at, reach)| {
        failing(*reach) && {
            let next = reaches.iter().find(|(next, _)| next > at);
            next.is_none_or(|(next, _)| next + bounds.settled() > begin)
        }
    });
    let deaf = last(until).any(|(at, reach)| {
        *reach != Reach::Calm && {
            let next = reaches.iter().find(|(next, _)| next > at);
            next.is_none_or(|(next, _)| next + bounds.settled() > begin)
        }
    });
    // Nothing is published when a key is deleted by hand; the end of a lease is known beforehand.
    let silent = free.by == "by hand";
    let mut limit = begin + 10 * bounds.round_trip + MARGIN;
    if failed {
        limit += bounds.settled() + poll;
    }
    if deaf || silent {
        limit += poll;
    }
    Some(limit)
}

fn reaches(events: &[Event]) -> Reaches {
    let mut reaches = Reaches::new();
    for event in events {
        if let What::Reach(node, reach) = event.what {
            reaches.entry(node).or_default().push((event.at, reach));
        }
    }
    reaches
}

fn spans(events: &[Event]) -> impl Iterator<Item = Span> {
    let mut spans: BTreeMap<Op, Span> = BTreeMap::new();
    for event in events {
        match &event.what {
            What::Invoked {
                op,
                name,
                node,
                kind,
                ..
            } => {
                let span = Span {
                    op: *op,
                    name: *name,
                    node: *node,
                    kind: *kind,
                    from: event.at,
                    until: None,
                };
                spans.insert(*op, span);
            }
            What::Told(op, _) | What::Unread(op) | What::Dropped(op) => {
                if let Some(span) = spans.get_mut(op) {
                    span.until.get_or_insert(event.at);
                }
            }
            _ => {}
        }
    }
    spans.into_values()
}
