//! Holds that nobody knows of: an acquire that was left, or whose answer nobody took, is undone at
//! once and not only when its lease is over.

use std::collections::BTreeMap;

use lockkeeper_store::script::Mode;

use super::{
    Bounds, MARGIN, Violation,
    intervals::Interval,
    truth::{State, Truth},
    violation,
};
use crate::history::{Event, Holder, Millis, Name, Op, Reach, Told, What};

/// Times that excuse a hold, by holder and lock.
type Excuses = BTreeMap<(Holder, Name), Vec<(Millis, Millis)>>;

/// Goes through the times in which nothing was in doubt.
pub(super) fn check(
    events: &[Event],
    truth: &Truth,
    intervals: &[Interval],
    bounds: &Bounds,
) -> Vec<Violation> {
    let grace = 6 * bounds.round_trip + MARGIN + bounds.lease_max / 50;
    let doubtful = doubtful(events, bounds);
    let mut excuses = under_way(events);
    for interval in intervals {
        let key = (interval.holder, interval.name);
        let excuse = (interval.from, interval.until);
        excuses.entry(key).or_default().push(excuse);
    }
    let history_end = events.last().map_or(0, |event| event.at);
    let mut violations = Vec::new();
    for ((holder, name), mut excuses) in excuses {
        excuses.extend(doubtful.iter().copied());
        excuses.sort_unstable();
        // A write hold lives as long as the lock, which a read hold of the same owner keeps.
        let own_read = holder.with(Mode::Read);
        let kept = |state: &State| holder.mode == Mode::Write && state.has(own_read);
        let held = |state: &&State| state.has(holder) && !kept(state);
        for state in truth.states(name).filter(held) {
            let Some(since) = unexcused(state, &excuses, grace, history_end) else {
                continue;
            };
            let rule = format!("orphan: {holder} has lock {name}, and nobody knows since {since}");
            violations.push(violation(since, rule));
        }
    }
    violations
}

/// Since when nothing excuses a state, if that is longer than the grace.
fn unexcused(
    state: &State,
    excuses: &[(Millis, Millis)],
    grace: Millis,
    history_end: Millis,
) -> Option<Millis> {
    let mut since = state.from;
    for (from, until) in excuses {
        if *from > since.saturating_add(grace) {
            break;
        }
        since = since.max(*until);
    }
    let end = excuses
        .iter()
        .map(|(from, _)| *from)
        .find(|from| *from > since)
        .map_or(state.until, |next| next.min(state.until))
        .min(history_end);
    (end > since.saturating_add(grace)).then_some(since)
}

/// From the request to the answer.
fn under_way(events: &[Event]) -> Excuses {
    let mut asked: BTreeMap<Op, (Holder, Name, Millis)> = BTreeMap::new();
    let mut excuses = Excuses::new();
    for event in events {
        match &event.what {
            What::Invoked {
                op, holder, name, ..
            } => {
                asked.insert(*op, (*holder, *name, event.at));
            }
            What::Told(op, _) | What::Dropped(op) => {
                if let Some((holder, name, from)) = asked.remove(op) {
                    let spans = excuses.entry((holder, name)).or_default();
                    spans.push((from, event.at));
                    if is_sticky(&event.what, holder) {
                        spans.push((event.at, Millis::MAX));
                    }
                }
            }
            _ => {}
        }
    }
    excuses
}

/// What is left after a release may be renewed for as long as the session lives, and so may a grant
/// with a lease of its own to which a renewed hold was added, even if that hold was undone.
fn is_sticky(what: &What, holder: Holder) -> bool {
    match what {
        What::Told(_, Told::Released(left)) => *left > 0,
        What::Told(_, Told::Granted(seen)) => holder.session.is_some() && !seen.watched,
        _ => false,
    }
}

/// Whatever fails or breaks leaves holds to their leases.
fn doubtful(events: &[Event], bounds: &Bounds) -> Vec<(Millis, Millis)> {
    let mut doubtful = Vec::new();
    let mut reaches: BTreeMap<usize, (Millis, Reach)> = BTreeMap::new();
    let mut repeats: BTreeMap<Op, bool> = BTreeMap::new();
    let lasts = bounds.lease_max + bounds.settled();
    for event in events {
        match &event.what {
            What::Invoked {
                op, repeats: first, ..
            } => {
                repeats.insert(*op, first.is_some());
            }
            What::Reach(node, reach) => {
                if let Some((from, Reach::Rough | Reach::Down)) = reaches.get(node) {
                    doubtful.push((*from, event.at + lasts));
                }
                reaches.insert(*node, (event.at, *reach));
                if *reach == Reach::Down {
                    doubtful.push((event.at, event.at + lasts));
                }
            }
            What::Broken(..)
            | What::Forgot(..)
            | What::Lost(..)
            | What::Forced(_)
            | What::Told(_, Told::Unknown | Told::Refused(_)) => {
                doubtful.push((event.at, event.at + lasts));
            }
            // The answer to a repeat is not undone, because the first answer may have arrived.
            What::Dropped(op) if repeats.get(op) == Some(&true) => {
                doubtful.push((event.at, event.at + lasts));
            }
            _ => {}
        }
    }
    let end = events.last().map_or(0, |event| event.at);
    let rough = reaches
        .into_values()
        .filter(|(_, reach)| *reach == Reach::Rough);
    doubtful.extend(rough.map(|(from, _)| (from, end)));
    doubtful
}
