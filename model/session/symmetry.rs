//! Of the states that differ in nothing that matters one is kept. Clients are alike, and so are
//! coordinators. Times that are long past are alike, and without a clock that shows the time, only
//! differences of times matter.

use super::{
    call::{Call, Kind, Stage},
    state::{Holder, Phase, State},
};
use crate::times::{LEASE, Ticks};

/// When a history begins: what is a lease ago is not before all time.
pub(super) const NOW: Ticks = 2 * LEASE;

/// Which times matter besides those that a client or a coordinator relies on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matters {
    /// What the store's clock shows.
    pub(super) clock: bool,
    /// Since when the lock is free, and when waiters tried.
    pub(super) waiting: bool,
    /// Until when a grant is certain that is being released.
    pub(super) releasing: bool,
}

/// The smallest of the states that differ in nothing that matters.
pub(super) fn canonical(mut state: State, matters: Matters) -> State {
    age(&mut state, matters);
    state.calls.sort_unstable();
    let coordinators = swap_coordinators(&state);
    let clients = swap_clients(&state);
    let both = swap_clients(&coordinators);
    let others = [coordinators, clients, both];
    others.into_iter().fold(state, Ord::min)
}

/// Forgets how long ago it is what is long ago, and what time it is if that is of no account.
fn age(state: &mut State, matters: Matters) {
    let now = state.now;
    let back = if matters.clock { 0 } else { now - NOW };
    let long_ago = now - LEASE;
    let aged = |at: Ticks| at.max(long_ago) - back;
    for data in [&mut state.store, &mut state.replica] {
        if let Some(holder) = data.holder.as_mut() {
            if holder.expires <= now {
                data.freed = data.freed.max(holder.expires);
                data.holder = None;
            } else {
                holder.expires -= back;
            }
        }
        data.freed = if matters.waiting { aged(data.freed) } else { 0 };
    }
    let watches = state.watches > 0;
    let over = |at: Ticks| if at <= now { 0 } else { at - back };
    for coordinator in &mut state.coordinators {
        for grant in &mut coordinator.grants {
            let known = grant.map(|(token, until)| (token, over(until)));
            *grant = known.filter(|(_, until)| watches || *until > 0);
        }
    }
    for client in &mut state.clients {
        match &mut client.phase {
            Phase::Holding { until, .. } => *until = over(*until),
            Phase::Releasing { until, .. } if matters.releasing => *until = over(*until),
            Phase::Releasing { until, .. } => *until = 0,
            Phase::Idle | Phase::Asking { .. } | Phase::Confirming { .. } => {}
        }
    }
    for call in &mut state.calls {
        let is_release = matches!(call.kind, Kind::Release { .. });
        let is_watch = matches!(call.kind, Kind::Watch { .. });
        call.sent = if is_release || is_watch {
            0
        } else {
            aged(call.sent)
        };
        let is_asked = match call.stage {
            Stage::ToStore | Stage::FromStore(_) => !is_release || matters.waiting,
            Stage::Waiting => matters.waiting,
            Stage::ToClient(_) => false,
        };
        call.asked = if is_asked { aged(call.asked) } else { 0 };
    }
    state.now -= back;
}

fn swap_coordinators(state: &State) -> State {
    let mut it = state.clone();
    it.coordinators.reverse();
    for client in &mut it.clients {
        client.coordinator = 1 - client.coordinator;
    }
    for call in &mut it.calls {
        call.coordinator = 1 - call.coordinator;
    }
    it.calls.sort_unstable();
    it
}

fn swap_clients(state: &State) -> State {
    let mut it = state.clone();
    it.clients.reverse();
    for coordinator in &mut it.coordinators {
        coordinator.grants.reverse();
    }
    for data in [&mut it.store, &mut it.replica] {
        data.acquired.reverse();
        data.released.reverse();
        data.holder = data.holder.map(|holder| Holder {
            client: 1 - holder.client,
            ..holder
        });
    }
    let calls = it.calls.iter().map(|call| Call {
        client: 1 - call.client,
        ..*call
    });
    it.calls = calls.collect();
    it.calls.sort_unstable();
    it
}
