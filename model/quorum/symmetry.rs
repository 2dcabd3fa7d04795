//! Of the states that differ in nothing that matters one is kept. Attempts are alike, and so are
//! members whose clocks agree; times that are long past are alike.

use super::state::{Attempt, MEMBERS, Phase, State, Ticks, Vote};
use crate::times::LEASE;

/// When a history begins: what is a lease ago is not before all time.
pub(super) const NOW: Ticks = 2 * LEASE;

/// What matters besides the times that a holder relies on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matters {
    /// What the clocks show, which differ.
    pub(super) clocks: bool,
    /// Until when a grant is certain that is being released.
    pub(super) releasing: bool,
}

const ORDERS: [[usize; MEMBERS]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// The smallest of the states that differ in nothing that matters.
pub(super) fn canonical(mut state: State, matters: Matters) -> State {
    age(&mut state, matters);
    let orders = if matters.clocks {
        &ORDERS[..1]
    } else {
        &ORDERS
    };
    let all = orders.iter().map(|order| {
        let mut it = state.clone();
        it.members = order.map(|which| state.members[which]);
        for attempt in &mut it.attempts {
            in_order(attempt, order);
        }
        sort_attempts(&mut it);
        it
    });
    all.min().expect("an order")
}

fn in_order(attempt: &mut Attempt, order: &[usize; MEMBERS]) {
    let votes = attempt.votes;
    attempt.votes = order.map(|which| votes[which]);
    if let Phase::Raising { counted, shown, .. } = &mut attempt.phase {
        (*counted, *shown) = (order.map(|it| counted[it]), order.map(|it| shown[it]));
    }
}

/// The index identifies an attempt. Equal attempts are ordered by the votes that they hold.
fn sort_attempts(state: &mut State) {
    let held = |at: usize| {
        let at = u8::try_from(at).expect("a few");
        state
            .members
            .map(|it| it.holder.is_some_and(|(of, _)| of == at))
    };
    let mut places: Vec<usize> = (0..state.attempts.len()).collect();
    places.sort_by_key(|at| (state.attempts[*at], held(*at)));
    let attempts = places.iter().map(|at| state.attempts[*at]).collect();
    for member in &mut state.members {
        if let Some((of, _)) = &mut member.holder {
            let place = places.iter().position(|at| *at == usize::from(*of));
            *of = u8::try_from(place.expect("a place")).expect("a few");
        }
    }
    state.attempts = attempts;
}

/// Forgets what is over, and what time it is if that is of no account.
fn age(state: &mut State, matters: Matters) {
    let now = state.now;
    let back = if matters.clocks { 0 } else { now - NOW };
    for member in &mut state.members {
        let held = member.holder.filter(|(_, expires)| *expires > now);
        member.holder = held.map(|(of, expires)| (of, expires - back));
    }
    let over = |at: Ticks| if at <= now { 0 } else { at - back };
    for attempt in &mut state.attempts {
        attempt.sent = match attempt.phase {
            Phase::Voting | Phase::Raising { .. } => attempt.sent.max(now - LEASE) - back,
            Phase::Held { .. } | Phase::Over { .. } => 0,
        };
        match &mut attempt.phase {
            Phase::Voting | Phase::Raising { .. } => {}
            Phase::Held { until, .. } => *until = over(*until),
            Phase::Over { until } => *until = if matters.releasing { over(*until) } else { 0 },
        }
        let votes = &mut attempt.votes;
        if attempt.phase != Phase::Voting {
            // What was counted is part of the phase.
            for vote in votes.iter_mut() {
                if let Vote::Granted(token) = vote {
                    *token = 0;
                }
            }
        }
    }
    state.now -= back;
}
