//! What can happen, and what must hold.

use stateright::{Model, Property};

use super::{
    breakage::Breakage,
    call::{Call, Kind, Stage},
    client, coordinator,
    state::{ACQUIRES, CLIENTS, COORDINATORS, Client, Coordinator, Data, Phase, State, Wrong},
    store,
    symmetry::{Matters, NOW, canonical},
};
use crate::times::{FAILOVER, POLL, Ticks};

/// How far the states are explored.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Ticks of time if there are failovers, and any time if there are none; a lease is four.
    pub ticks: u8,
    /// Requests under way at once. One that is never delivered is a lost one.
    pub calls: usize,
    /// Acquires of each client, one or two.
    pub acquires: u8,
    /// How often the stream of each client breaks.
    pub breaks: u8,
    /// Renewals of each client.
    pub renewals: u8,
    /// Renewals of the watchdogs.
    pub watches: u8,
    /// How often a replica takes over that lacks any suffix of the writes.
    pub failovers: u8,
    /// Nothing but a lost wake-up takes longer than a tick, so that what must happen does.
    pub is_prompt: bool,
}

/// The protocol, or a broken one.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// How far it is explored.
    pub bounds: Bounds,
    /// The rule that is not kept.
    pub broken: Option<Breakage>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// A client asks for the lock.
    Ask(u8),
    /// A client renews its grant.
    Renew(u8),
    /// A client releases its grant.
    Release(u8),
    /// A client's stream breaks, and its session is resumed at the other coordinator.
    Break(u8),
    /// A request comes one stage further.
    Deliver(usize),
    /// A waiter tries again.
    Retry(usize),
    /// A coordinator renews what it knows of a client.
    Watch(u8, u8),
    /// The replica has all writes.
    Replicate,
    /// The replica takes over.
    FailOver,
}

// === impl Protocol ===

impl Protocol {
    fn is(&self, breakage: Breakage) -> bool {
        self.broken == Some(breakage)
    }

    /// Without failovers only differences of times matter, and time needs no bound.
    fn is_timeless(&self) -> bool {
        self.bounds.failovers == 0
    }

    fn matters(&self) -> Matters {
        Matters {
            clock: !self.is_timeless(),
            waiting: self.bounds.is_prompt,
            releasing: self.is(Breakage::ReliesUntilReleased),
        }
    }

    fn of_client(&self, state: &State, client: u8, actions: &mut Vec<Action>) {
        let it = state.client(client);
        let room = state.calls.len() < self.bounds.calls;
        match it.phase {
            Phase::Idle if it.begun < self.bounds.acquires && room => {
                actions.push(Action::Ask(client));
            }
            Phase::Holding { .. } if room => {
                actions.push(Action::Release(client));
                if it.renewals > 0 {
                    actions.push(Action::Renew(client));
                }
            }
            _ => {}
        }
        if it.breaks > 0 && it.phase != Phase::Idle && room {
            actions.push(Action::Break(client));
        }
    }

    /// To try what is held changes nothing, except for when the next try is due. A prompt waiter
    /// misses every wake-up.
    fn may_retry(&self, state: &State, call: &Call) -> bool {
        let is_due = state.now >= call.asked + POLL && !self.is(Breakage::NoPoll);
        let tries = if self.bounds.is_prompt {
            is_due
        } else {
            state.holder().is_none()
        };
        tries && state.now >= state.down_until
    }

    /// Whether something has to happen before time passes.
    fn is_urgent(&self, state: &State) -> bool {
        let polls = !self.is(Breakage::NoPoll);
        let is_up = state.now >= state.down_until;
        self.bounds.is_prompt
            && state.calls.iter().any(|call| match call.stage {
                Stage::Waiting => polls && state.now >= call.asked + POLL && is_up,
                Stage::ToStore => is_up,
                _ => true,
            })
    }

    fn deliver(&self, state: &mut State, at: usize) -> Option<()> {
        let call = state.calls[at];
        match call.stage {
            Stage::Waiting => return None,
            Stage::ToStore => {
                if state.now < state.down_until {
                    return None;
                }
                let skewed = !state.is_kept(self.bounds.failovers);
                store::run(state, at, self.broken, skewed);
            }
            Stage::FromStore(answer) => {
                coordinator::hear(state, call, answer, self.broken);
                let is_watch = matches!(call.kind, Kind::Watch { .. });
                if is_watch || call.stream != state.client(call.client).stream {
                    state.calls.remove(at);
                } else {
                    state.calls[at].stage = Stage::ToClient(answer);
                }
            }
            Stage::ToClient(answer) => {
                state.calls.remove(at);
                client::hear(state, call, answer, self.broken);
            }
        }
        Some(())
    }

    /// Answers on a stream that is gone do not arrive.
    fn forget(state: &mut State) {
        let clients = state.clients;
        let arrives = |call: &Call| {
            let stream = clients[usize::from(call.client)].stream;
            !matches!(call.stage, Stage::ToClient(_)) || call.stream == stream
        };
        state.calls.retain(arrives);
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Tick => state.now += 1,
            Action::Ask(client) => {
                let number = state.client(client).begun;
                let it = state.client_mut(client);
                it.begun += 1;
                it.phase = Phase::Asking { number };
                let is_fresh = false;
                client::send(state, client, Kind::Acquire { number, is_fresh });
            }
            Action::Renew(client) => {
                let Phase::Holding { token, .. } = state.client(client).phase else {
                    return None;
                };
                state.client_mut(client).renewals -= 1;
                client::send(state, client, Kind::Renew { token });
            }
            Action::Release(client) => {
                let Phase::Holding {
                    number,
                    token,
                    until,
                } = state.client(client).phase
                else {
                    return None;
                };
                state.client_mut(client).phase = Phase::Releasing {
                    number,
                    token,
                    until,
                };
                client::send(state, client, Kind::Release { number, token });
            }
            Action::Break(client) => client::resume(state, client, self.broken),
            Action::Deliver(at) => self.deliver(state, at)?,
            Action::Retry(at) => {
                state.calls[at].stage = Stage::ToStore;
                state.calls[at].asked = state.now;
            }
            Action::Watch(coordinator, client) => watch(state, coordinator, client)?,
            Action::Replicate => state.replica = state.store,
            Action::FailOver => {
                state.failovers -= 1;
                state.store = state.replica;
                let takes = if self.is(Breakage::FailoverWithinSkew) {
                    FAILOVER - 1
                } else {
                    FAILOVER
                };
                state.down_until = state.now + takes;
            }
        }
        Some(())
    }

    fn relies(&self, state: &State, client: u8) -> bool {
        client::relies(state, client, self.broken)
    }

    /// What a client relies on, the store has given to it and to nobody else.
    fn excludes(&self, state: &State) -> bool {
        !state.is_kept(self.bounds.failovers)
            || (0..client_numbers()).all(|client| {
                let is_own = || state.holder().is_some_and(|it| it.client == client);
                !self.relies(state, client) || is_own()
            })
    }

    /// What a coordinator counts on, the store still has, unless the client gave it back.
    fn is_known(&self, state: &State) -> bool {
        let data = &state.store;
        let holds = |client: usize, (token, until): (u16, Ticks)| {
            let holder = state.holder();
            let is_held =
                holder.is_some_and(|it| it.client as usize == client && it.token == token);
            let records = data.acquired[client].iter().zip(data.released[client]);
            let mut released = records.filter(|(of, released)| **of == Some(token) && *released);
            state.now >= until || is_held || released.next().is_some()
        };
        let known = state
            .coordinators
            .iter()
            .flat_map(|it| it.grants.iter().enumerate());
        !state.is_kept(self.bounds.failovers)
            || known
                .filter_map(|(client, grant)| Some((client, (*grant)?)))
                .all(|(client, grant)| holds(client, grant))
    }

    fn is_granted_in_time(&self, state: &State) -> bool {
        let is_waited_for = state.calls.iter().any(|it| it.stage == Stage::Waiting);
        let since = state.free_since().map(|it| it.max(state.down_until));
        !self.bounds.is_prompt
            || !is_waited_for
            || since.is_none_or(|since| state.now <= since + POLL)
    }
}

fn client_numbers() -> u8 {
    u8::try_from(CLIENTS).expect("a few")
}

/// The watchdog renews what it knows, for a client whose stream it may take for open.
fn watch(state: &mut State, coordinator: u8, client: u8) -> Option<()> {
    let known = state.coordinators[usize::from(coordinator)].grants[usize::from(client)];
    let (token, _) = known?;
    state.watches -= 1;
    state.calls.push(Call {
        client,
        stream: 0,
        coordinator,
        kind: Kind::Watch { token },
        sent: state.now,
        asked: state.now,
        stage: Stage::ToStore,
    });
    Some(())
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        assert!(usize::from(self.bounds.acquires) <= ACQUIRES);
        let state = |second: u8| State {
            now: NOW,
            store: Data::default(),
            replica: Data::default(),
            down_until: 0,
            failovers: self.bounds.failovers,
            watches: self.bounds.watches,
            coordinators: [Coordinator::default(); COORDINATORS],
            clients: [0, second].map(|coordinator| Client {
                coordinator,
                stream: 0,
                phase: Phase::Idle,
                begun: 0,
                breaks: self.bounds.breaks,
                renewals: self.bounds.renewals,
            }),
            calls: Vec::new(),
            newest: 0,
            wrong: Wrong::default(),
        };
        vec![
            canonical(state(0), self.matters()),
            canonical(state(1), self.matters()),
        ]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let has_time = self.is_timeless() || state.now < NOW + self.bounds.ticks;
        if has_time && !self.is_urgent(state) {
            actions.push(Action::Tick);
        }
        for client in 0..client_numbers() {
            self.of_client(state, client, actions);
        }
        for (at, call) in state.calls.iter().enumerate() {
            match call.stage {
                Stage::Waiting => {
                    if self.may_retry(state, call) {
                        actions.push(Action::Retry(at));
                    }
                }
                Stage::ToStore if state.now < state.down_until => {}
                _ => actions.push(Action::Deliver(at)),
            }
        }
        if state.watches > 0 && state.calls.len() < self.bounds.calls {
            for coordinator in (0..).take(COORDINATORS) {
                for client in 0..client_numbers() {
                    if state.coordinators[usize::from(coordinator)].grants[usize::from(client)]
                        .is_some()
                    {
                        actions.push(Action::Watch(coordinator, client));
                    }
                }
            }
        }
        if state.failovers > 0 {
            actions.push(Action::FailOver);
            if state.replica != state.store {
                actions.push(Action::Replicate);
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.step(&mut state, action)?;
        Self::forget(&mut state);
        Some(canonical(state, self.matters()))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "the store has given to it what a client relies on",
                Self::excludes,
            ),
            Property::always("the store has what a coordinator counts on", |it, state| {
                Self::is_known(it, state)
            }),
            Property::always("tokens grow over every new grant", |_, state: &State| {
                !state.wrong.token
            }),
            Property::always(
                "one request changes state once",
                |it: &Self, state: &State| {
                    !state.wrong.twice || !state.is_kept(it.bounds.failovers)
                },
            ),
            Property::always("a free lock with a waiter is granted", |it, state| {
                Self::is_granted_in_time(it, state)
            }),
            Property::sometimes("both clients have had the lock", |_, state: &State| {
                state.store.acquired.iter().all(|it| it[0].is_some())
            }),
        ]
    }
}
