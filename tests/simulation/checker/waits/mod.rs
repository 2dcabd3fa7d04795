//! Operations from their beginning to their end: that each has one answer, and what waits may
//! expect meanwhile.

pub(super) mod failures;
pub(super) mod order;
pub(super) mod refusals;
pub(super) mod upgrades;
pub(super) mod wake_ups;
pub(super) mod writers;

use std::collections::BTreeMap;

use lockkeeper_store::script::Mode;

use super::{Bounds, MARGIN, Violation, violation};
use crate::history::{Event, Holder, Kind, Millis, Name, Op, Reach, Told, What};

/// A rounding.
const INSTANT: Millis = 2;

/// An operation from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    op: Op,
    holder: Holder,
    name: Name,
    node: usize,
    kind: Kind,
    repeat: bool,
    /// When it was asked for first, if this is a repeat.
    first: Millis,
    /// Its place among the events.
    index: usize,
    from: Millis,
    until: Option<Millis>,
    /// It ended without an answer that says what came of it.
    in_doubt: bool,
}

/// All operations of a history, and how far the coordinators could rely on the store.
pub(super) struct Waits<'a> {
    bounds: &'a Bounds,
    events: &'a [Event],
    /// In the order of their numbers.
    spans: Vec<Span>,
    late_writers: Vec<(Name, Millis)>,
    reaches: BTreeMap<usize, Vec<(Millis, Reach)>>,
}

// === impl Waits ===

impl<'a> Waits<'a> {
    pub(super) fn of(events: &'a [Event], bounds: &'a Bounds) -> Self {
        let mut spans: BTreeMap<Op, Span> = BTreeMap::new();
        let mut reaches: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (index, event) in events.iter().enumerate() {
            match &event.what {
                What::Invoked {
                    op,
                    holder,
                    name,
                    node,
                    kind,
                    repeats,
                } => {
                    let before = repeats.and_then(|first| spans.get(&first));
                    let span = Span {
                        first: before.map_or(event.at, |before| before.from),
                        op: *op,
                        holder: *holder,
                        name: *name,
                        node: *node,
                        kind: *kind,
                        repeat: repeats.is_some(),
                        index,
                        from: event.at,
                        until: None,
                        in_doubt: false,
                    };
                    spans.insert(*op, span);
                }
                What::Told(op, _) | What::Unread(op) | What::Dropped(op) => {
                    if let Some(span) = spans.get_mut(op) {
                        span.until.get_or_insert(event.at);
                        span.in_doubt = !matches!(
                            &event.what,
                            What::Told(_, told) if *told != Told::Unknown
                        );
                    }
                }
                What::Reach(node, reach) => {
                    reaches.entry(*node).or_default().push((event.at, *reach));
                }
                _ => {}
            }
        }
        let spans: Vec<Span> = spans.into_values().collect();
        Self {
            late_writers: late_writers(events, &spans),
            bounds,
            events,
            spans,
            reaches,
        }
    }

    /// Each operation has one answer, in time.
    pub(super) fn answers(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        let mut told: BTreeMap<Op, usize> = BTreeMap::new();
        for event in self.events {
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
        let end = self.events.last().map_or(0, |event| event.at);
        for span in &self.spans {
            // A turn behind another operation and a call of its own, at the beginning and once more
            // when the time is up.
            let slack = 4 * self.bounds.call_timeout + self.bounds.round_trip + MARGIN;
            let limit = match span.kind {
                Kind::Acquire(None) => Millis::MAX,
                Kind::Acquire(Some(wait)) => span.from + wait + slack,
                // What was taken of several locks is given back before the answer.
                Kind::AcquireAll(wait) => span.from + wait + 3 * slack,
                Kind::TryAll => span.from + 3 * slack,
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

    fn span(&self, op: Op) -> Option<&Span> {
        let place = self.spans.binary_search_by_key(&op, |span| span.op).ok()?;
        Some(&self.spans[place])
    }

    /// Those that wait for a single lock. One of several may be free, and that is not enough.
    fn waiting(&self) -> impl Iterator<Item = &Span> {
        self.waiting_at_all()
            .filter(|span| matches!(span.kind, Kind::Acquire(_)))
    }

    fn waiting_at_all(&self) -> impl Iterator<Item = &Span> {
        let waits = |span: &&Span| matches!(span.kind, Kind::Acquire(_) | Kind::AcquireAll(_));
        self.spans.iter().filter(waits)
    }

    /// When writers were told to wait for a lock that did not wait any more: their calls were
    /// carried out late, and their marks go again.
    fn late_writers(&self, name: Name) -> impl Iterator<Item = Millis> {
        let late = self.late_writers.iter().filter(move |(of, _)| *of == name);
        late.map(|(_, at)| *at)
    }

    /// Whether the owner had nothing else under way that could take the lock for it, or its place
    /// in the queue away.
    fn is_alone(&self, span: &Span) -> bool {
        let other = |of: &&Span| {
            of.op != span.op
                && of.holder.is_same_owner(span.holder)
                && of.name == span.name
                && of.from <= span.end()
                && self.cleared(of) >= span.from
        };
        !self.spans.iter().any(|of| other(&of))
    }

    /// By when an operation's coordinator has taken back what came of it, and left the queue.
    fn cleared(&self, span: &Span) -> Millis {
        let reaches = self.reaches.get(&span.node).map_or(&[][..], Vec::as_slice);
        let failing = reaches
            .iter()
            .enumerate()
            .filter_map(|(place, (at, reach))| {
                let ended = reaches
                    .get(place + 1)
                    .map_or(Millis::MAX, |(next, _)| *next);
                (fails(*reach) && *at <= span.end() && ended >= span.end()).then_some(ended)
            });
        match failing.max() {
            Some(ended) => ended.saturating_add(self.bounds.settled()),
            None if span.in_doubt => span.end().saturating_add(self.bounds.settled()),
            None => span.end(),
        }
    }

    /// Whether a node was not as good as this all the time, or what was wrong has not been cleared
    /// up by then.
    fn was(&self, node: usize, bad: impl Fn(Reach) -> bool, from: Millis, until: Millis) -> bool {
        let reaches = self.reaches.get(&node).map_or(&[][..], Vec::as_slice);
        let mut known = reaches.iter().enumerate();
        known.any(|(place, (at, reach))| {
            let ended = reaches.get(place + 1).map(|(next, _)| *next);
            bad(*reach)
                && *at < until
                && ended.is_none_or(|ended| ended + self.bounds.settled() > from)
        })
    }

    fn was_any(&self, bad: impl Fn(Reach) -> bool, from: Millis, until: Millis) -> bool {
        self.reaches
            .keys()
            .any(|node| self.was(*node, &bad, from, until))
    }
}

/// See [`Waits::late_writers`].
fn late_writers(events: &[Event], spans: &[Span]) -> Vec<(Name, Millis)> {
    let late = events.iter().filter_map(|event| {
        let What::Waits(holder, name) = event.what else {
            return None;
        };
        let waits = |of: &Span| {
            let is_its = of.holder == holder && of.name == name;
            is_its && of.from <= event.at && of.end() >= event.at
        };
        let is_late = holder.mode == Mode::Write && !spans.iter().any(waits);
        is_late.then_some((name, event.at))
    });
    late.collect()
}

fn fails(reach: Reach) -> bool {
    matches!(reach, Reach::Rough | Reach::Down)
}

fn is_not_calm(reach: Reach) -> bool {
    reach != Reach::Calm
}

// === impl Span ===

impl Span {
    fn end(&self) -> Millis {
        self.until.unwrap_or(Millis::MAX)
    }
}
