//! Writers do not starve: while one waits, readers are held back for a while again and again, so
//! that those who are there can go.

use lockkeeper_store::script::Mode;

use super::{INSTANT, Span, Waits, fails};
use crate::{
    checker::{MARGIN, Violation, truth::Truth, violation},
    history::{Event, Holder, Kind, Millis, What},
};

/// What happens to a lock while a writer waits.
enum Turn {
    /// A reader came in.
    Reader,
    /// Readers need not be held back any more, until the writer asks again.
    Anew,
}

pub(in crate::checker) fn check(waits: &Waits<'_>, truth: &Truth) -> Vec<Violation> {
    let bounds = waits.bounds;
    let slack = bounds.poll_interval + 6 * bounds.round_trip + MARGIN;
    let mut violations = Vec::new();
    for span in waits.waiting() {
        let failed = || waits.was(span.node, fails, span.from, span.end());
        if span.holder.mode != Mode::Write || failed() {
            continue;
        }
        let Some(since) = waits.told_to_wait(span) else {
            continue;
        };
        let turns = waits.turns(span, since);
        if let Some((at, Turn::Reader)) = turns.first()
            && *at + INSTANT < since + bounds.hold_back
            && waits.is_first(span, since, truth)
        {
            let rule = format!(
                "writers: #{} of {} waits for lock {} since {since}, and a reader comes in",
                span.op, span.holder, span.name
            );
            violations.push(violation(*at, rule));
        }
        // Since when no reader has come in, and when such a time must have begun at the latest.
        let (mut quiet, mut due) = (since, since + bounds.hold_back + slack);
        for (at, turn) in turns {
            let long = at + INSTANT >= quiet + bounds.hold_back;
            match turn {
                Turn::Reader if !long && at > due => {
                    let rule = format!(
                        "writers: #{} of {} waits for lock {} since {since}, and readers come in \
                         all the time",
                        span.op, span.holder, span.name
                    );
                    violations.push(violation(at, rule));
                    break;
                }
                Turn::Reader if !long => {}
                _ => due = at + bounds.hold_back + slack,
            }
            quiet = at;
        }
    }
    violations
}

// === impl Waits ===

impl Waits<'_> {
    /// When the store first told a waiting call that the lock is busy.
    fn told_to_wait(&self, span: &Span) -> Option<Millis> {
        let later = self.events[span.index..].iter();
        later
            .take_while(|event| event.at <= span.end())
            .find(|event| event.what == What::Waits(span.holder, span.name))
            .map(|event| event.at)
    }

    /// Whether readers have the lock, and no other writer was told to wait before, so that they are
    /// held back from that moment on.
    fn is_first(&self, span: &Span, since: Millis, truth: &Truth) -> bool {
        let long_ago = since.saturating_sub(2 * self.bounds.hold_back + INSTANT);
        let told = |event: &Event| match event.what {
            What::Waits(holder, name) => name == span.name && holder.mode == Mode::Write,
            _ => false,
        };
        let mut before = self
            .events
            .iter()
            .filter(|event| event.at >= long_ago && event.at < since);
        // Of those that want several locks it is not known for which one they wait.
        let several = |of: &&Span| {
            matches!(of.kind, Kind::AcquireAll(_)) && of.name == span.name && of.end() >= long_ago
        };
        let mut states = truth.states(span.name);
        let state = states.find(|state| state.from < since && state.until > since);
        let read = state.is_some_and(|state| {
            let mut holders = state.holders.iter();
            !state.holders.is_empty() && holders.all(|(of, _)| of.mode == Mode::Read)
        });
        read && !before.any(told) && !self.spans.iter().any(|of| several(&of))
    }

    fn turns(&self, span: &Span, since: Millis) -> Vec<(Millis, Turn)> {
        let mut turns = Vec::new();
        let mut before = Vec::new();
        for event in self.events {
            let at = event.at;
            let meanwhile = at > since && at < span.end();
            match &event.what {
                What::Stored {
                    name, shares, by, ..
                } if *name == span.name => {
                    let holders: Vec<Holder> = shares.iter().map(|share| share.holder).collect();
                    let written = holders.iter().any(|of| of.mode == Mode::Write);
                    let is_new = |of: &Holder| !before.contains(of);
                    let came = *by == "read_acquire" && holders.iter().any(is_new);
                    if meanwhile && written {
                        turns.push((at, Turn::Anew));
                    } else if meanwhile && came {
                        turns.push((at, Turn::Reader));
                    }
                    before = holders;
                }
                What::Forced(name) if *name == span.name && meanwhile => {
                    turns.push((at, Turn::Anew));
                }
                What::Waits(_, name)
                    if *name == span.name
                        && meanwhile
                        && self.late_writers(*name).any(|late| late == at) =>
                {
                    turns.push((at, Turn::Anew));
                }
                What::Told(op, _) | What::Dropped(op) if meanwhile => {
                    let ended = self.waiting_at_all().find(|of| of.op == *op);
                    // One that was refused at once left no mark that it could take away.
                    let writes = |of: &Span| {
                        let writes = of.name == span.name && of.holder.mode == Mode::Write;
                        writes && self.told_to_wait(of).is_some()
                    };
                    if ended.is_some_and(writes) {
                        turns.push((at, Turn::Anew));
                    }
                }
                _ => {}
            }
        }
        turns
    }
}
