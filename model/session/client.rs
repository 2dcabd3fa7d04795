//! A client: what it relies on, and what it does with answers and broken streams. These are the
//! rules of `clients/session-machine.md`.

use super::{
    breakage::Breakage,
    call::{Answer, Call, Kind, Stage},
    state::{Phase, State},
};
use crate::times::{LEASE, Ticks, relied};

/// A request that a client sends now.
pub(super) fn send(state: &mut State, client: u8, kind: Kind) {
    let it = state.client(client);
    state.calls.push(Call {
        client,
        stream: it.stream,
        coordinator: it.coordinator,
        kind,
        sent: state.now,
        asked: state.now,
        stage: Stage::ToStore,
    });
}

/// Whether a client relies on the lock now.
pub(super) fn relies(state: &State, client: u8, broken: Option<Breakage>) -> bool {
    match state.client(client).phase {
        Phase::Holding { until, .. } => {
            state.now < until || broken == Some(Breakage::ReliesUntilNotice)
        }
        Phase::Releasing { until, .. } => {
            broken == Some(Breakage::ReliesUntilReleased) && state.now < until
        }
        Phase::Idle | Phase::Asking { .. } | Phase::Confirming { .. } => false,
    }
}

/// Takes an answer in that came on the current stream.
pub(super) fn hear(state: &mut State, call: Call, answer: Answer, broken: Option<Breakage>) {
    let now = state.now;
    let until = until(call.sent, now, answer, broken);
    let phase = state.client(call.client).phase;
    let next = match (phase, call.kind, answer) {
        (
            Phase::Asking { number },
            Kind::Acquire { number: of, .. },
            Answer::Granted { token, .. },
        ) if number == of => {
            if now - call.sent > relied(LEASE) / 3 && broken != Some(Breakage::ValidFromAnswer) {
                send(state, call.client, Kind::Renew { token });
                Phase::Confirming { number, token }
            } else {
                Phase::Holding {
                    number,
                    token,
                    until,
                }
            }
        }
        (Phase::Confirming { number, token }, Kind::Renew { token: of }, Answer::Renewed)
            if token == of =>
        {
            Phase::Holding {
                number,
                token,
                until,
            }
        }
        (
            Phase::Holding {
                number,
                token,
                until: before,
            },
            Kind::Renew { token: of },
            Answer::Renewed,
        ) if token == of => Phase::Holding {
            number,
            token,
            until: before.max(until),
        },
        (
            Phase::Holding { token, .. } | Phase::Confirming { token, .. },
            Kind::Renew { token: of },
            Answer::NotOwner,
        ) if token == of => Phase::Idle,
        (Phase::Asking { number }, Kind::Acquire { number: of, .. }, Answer::NotOwner)
            if number == of =>
        {
            Phase::Idle
        }
        (Phase::Releasing { number, .. }, Kind::Release { number: of, .. }, _) if number == of => {
            Phase::Idle
        }
        _ => phase,
    };
    state.client_mut(call.client).phase = next;
}

fn until(sent: Ticks, now: Ticks, answer: Answer, broken: Option<Breakage>) -> Ticks {
    let lease = match answer {
        Answer::Granted { lease, .. } => lease,
        Answer::Renewed | Answer::Released | Answer::NotOwner => LEASE,
    };
    match broken {
        Some(Breakage::ValidFromAnswer) => now + relied(lease),
        Some(Breakage::NoDriftMargin) => sent + lease,
        _ => sent + relied(lease),
    }
}

/// The stream breaks: the session is resumed at the other coordinator, and what has no answer is
/// sent again with its request id.
pub(super) fn resume(state: &mut State, client: u8, broken: Option<Breakage>) {
    let it = state.client_mut(client);
    it.breaks -= 1;
    it.stream += 1;
    it.coordinator = 1 - it.coordinator;
    let kind = match it.phase {
        Phase::Idle => return,
        Phase::Asking { number } => Kind::Acquire {
            number,
            is_fresh: broken == Some(Breakage::NewRequestId),
        },
        Phase::Confirming { token, .. } | Phase::Holding { token, .. } => Kind::Renew { token },
        Phase::Releasing { number, token, .. } => Kind::Release { number, token },
    };
    send(state, client, kind);
}
