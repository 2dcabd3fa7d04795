//! A reader that asks to write would wait for itself: it is told so, and nobody else is.

use std::collections::BTreeMap;

use lockkeeper_store::script::Mode;

use super::{Span, Waits};
use crate::{
    checker::{Violation, truth::Truth, violation},
    clients::SELF_DEADLOCK,
    history::{Kind, Op, Told, What},
};

pub(in crate::checker) fn check(waits: &Waits<'_>, truth: &Truth) -> Vec<Violation> {
    // Of several locks one may be the reason for all.
    let single = |span: &&Span| matches!(span.kind, Kind::Acquire(_) | Kind::Try);
    let writes = |span: &&Span| span.holder.mode == Mode::Write && !span.repeat && single(span);
    let writes: BTreeMap<Op, &Span> = waits
        .spans
        .iter()
        .filter(writes)
        .map(|span| (span.op, span))
        .collect();
    let mut violations = Vec::new();
    for event in waits.events {
        let What::Told(op, told) = &event.what else {
            continue;
        };
        let Some(span) = writes.get(op) else {
            continue;
        };
        let own_read = span.holder.with(Mode::Read);
        let (from, until) = (span.from, event.at);
        let wrong = match told {
            Told::Refused(SELF_DEADLOCK) => !truth.had_at_all(span.name, own_read, from, until),
            Told::Granted(_) | Told::Busy | Told::TimedOut => {
                truth.had(span.name, own_read, from, until)
                    && !truth.had_at_all(span.name, span.holder, from, until)
            }
            _ => false,
        };
        if wrong {
            let rule = format!(
                "upgrade: #{op} of {} was told {told:?} of lock {}",
                span.holder, span.name
            );
            violations.push(violation(until, rule));
        }
    }
    violations
}
