//! A lock is refused for a reason: others hold it, stand before in its queue, or wait to write. An
//! owner that relies on a lock is not told that it does not hold it.

use lockkeeper_store::script::Mode;

use super::{INSTANT, Span, Waits, fails};
use crate::{
    checker::{
        Violation,
        holds::Denial,
        truth::{State, Truth},
        violation,
    },
    history::{Holder, Kind, Millis, Told, What},
};

/// Nothing is refused without a reason, and no wait is given up before its time.
pub(in crate::checker) fn check(waits: &Waits<'_>, truth: &Truth) -> Vec<Violation> {
    let mut violations = Vec::new();
    for event in waits.events {
        let What::Told(op, told @ (Told::Busy | Told::TimedOut)) = &event.what else {
            continue;
        };
        let Some(span) = waits.span(*op) else {
            continue;
        };
        let mut broke = |why: &str| {
            let rule = format!(
                "refusal: #{op} of {} was told {told:?} of lock {} {why}",
                span.holder, span.name
            );
            violations.push(violation(event.at, rule));
        };
        if *told == Told::TimedOut && event.at + INSTANT < span.due() {
            broke("before its time was up");
        }
        let wanted = waits.wanted_with(span);
        let is_first = wanted.first().is_some_and(|first| first.op == *op);
        if is_first && !wanted.iter().any(|it| waits.has_reason(it, truth)) {
            broke("although nothing kept it from the lock");
        }
    }
    violations
}

/// `NOT_OWNER` is answered, and a loss is reported, only if the store may have lost the hold.
pub(in crate::checker) fn denials(
    waits: &Waits<'_>,
    truth: &Truth,
    denials: &[Denial],
) -> Vec<Violation> {
    let lease = waits.bounds.lease_max;
    let wrong = denials.iter().filter(|denial| {
        let Denial {
            holder,
            name,
            from,
            until,
            kept_alive,
            ..
        } = **denial;
        // Without renewals that succeed, a coordinator gives a lock up before the store does.
        let may_be_lost = kept_alive
            && (waits.bounds.replicas || waits.was_any(fails, from.saturating_sub(lease), until));
        !may_be_lost && truth.had_until_released(name, holder, from, until)
    });
    let wrong = wrong.map(|denial| {
        let Denial {
            op, holder, name, ..
        } = denial;
        let asked = op.map_or(String::new(), |op| format!(", asked by #{op}"));
        let rule = format!("denial: {holder} was told that it does not hold lock {name}{asked}");
        violation(denial.until, rule)
    });
    wrong.collect()
}

// === impl Waits ===

impl Waits<'_> {
    /// All that was asked for in one request.
    fn wanted_with<'a>(&'a self, span: &'a Span) -> Vec<&'a Span> {
        if !span.kind.is_of_several() {
            return vec![span];
        }
        let with = |of: &&Span| of.holder.is_same_owner(span.holder) && of.kind == span.kind;
        self.spans.iter().filter(with).collect()
    }

    /// Whether anything could keep the owner from this lock while it asked for it.
    fn has_reason(&self, span: &Span, truth: &Truth) -> bool {
        let from = span.first.saturating_sub(INSTANT);
        let until = span.end().saturating_add(INSTANT);
        let keeps = |state: &State| {
            let is_other = |of: &Holder| !of.is_same_owner(span.holder);
            let mut holders = state.holders.iter().map(|(of, _)| of);
            holders.any(|of| span.is_kept_out_by(*of)) || state.queue.iter().any(is_other)
        };
        truth.around(span.name, from, until).any(keeps)
            || span.holder.mode == Mode::Read && self.is_held_back(span, from, until)
            || self.is_behind_others(span)
    }

    /// Whether new readers are held back at any time.
    fn is_held_back(&self, span: &Span, from: Millis, until: Millis) -> bool {
        self.events.iter().any(|event| match event.what {
            What::HeldBack(name, ends) => name == span.name && event.at <= until && ends >= from,
            _ => false,
        })
    }

    /// Whether a wait may have ended without an attempt: others wait at the same coordinator, and
    /// the first of them tries.
    fn is_behind_others(&self, span: &Span) -> bool {
        let waits = |of: &&Span| {
            of.op != span.op
                && (of.name, of.node) == (span.name, span.node)
                && of.from <= span.end()
                && self.cleared(of) >= span.from
        };
        span.holder.mode == Mode::Exclusive
            && matches!(span.kind, Kind::Acquire(Some(1..)) | Kind::AcquireAll(1..))
            && self.waiting_at_all().any(|of| waits(&of))
    }
}

// === impl Span ===

impl Span {
    /// When the wait is over.
    fn due(&self) -> Millis {
        match self.kind {
            Kind::Acquire(wait) => wait.map_or(Millis::MAX, |wait| self.from + wait),
            Kind::AcquireAll(wait) => self.from + wait,
            Kind::Try | Kind::TryAll | Kind::Release | Kind::Renew => 0,
        }
    }

    /// Whether a hold may keep the owner out. One of its own may be left of a grant that was
    /// reported lost; who tries several locks is new and has none.
    fn is_kept_out_by(&self, of: Holder) -> bool {
        if of.is_same_owner(self.holder) {
            let lets_in = of.mode == Mode::Write && self.holder.mode == Mode::Read;
            return !lets_in && self.kind != Kind::TryAll;
        }
        of.mode != Mode::Read || self.holder.mode != Mode::Read
    }
}
