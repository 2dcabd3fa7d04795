//! A coordinator: it passes requests on, and knows until when each grant is certain.

use super::{
    breakage::Breakage,
    call::{Answer, Call, Kind},
    state::State,
};
use crate::times::{LEASE, relied};

/// Takes the store's answer in.
pub(super) fn hear(state: &mut State, call: Call, answer: Answer, broken: Option<Breakage>) {
    let from = if broken == Some(Breakage::CoordinatorCountsFromAnswer) {
        state.now
    } else {
        call.asked
    };
    let lease = match answer {
        Answer::Granted { lease, .. } => lease,
        Answer::Renewed | Answer::Released | Answer::NotOwner => LEASE,
    };
    let until = from + relied(lease);
    let coordinator = &mut state.coordinators[usize::from(call.coordinator)];
    let grant = &mut coordinator.grants[usize::from(call.client)];
    let known = *grant;
    *grant = match (call.kind, answer) {
        (_, Answer::Granted { token, .. }) => {
            let same = known.filter(|it| it.0 == token);
            Some((token, same.map_or(until, |it| it.1.max(until))))
        }
        (Kind::Renew { token } | Kind::Watch { token }, Answer::Renewed) => match known {
            Some((of, _)) if of != token => known,
            Some((_, before)) => Some((token, before.max(until))),
            // A resumed session names its grants.
            None => Some((token, until)),
        },
        (Kind::Release { token, .. } | Kind::Renew { token } | Kind::Watch { token }, _) => {
            known.filter(|it| it.0 != token)
        }
        (Kind::Acquire { .. }, _) => known,
    };
}
