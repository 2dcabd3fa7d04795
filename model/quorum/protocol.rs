//! What can happen, and what must hold.

use lockkeeper_store::script::modelling;
use stateright::{Model, Property};

use super::symmetry::{Matters, NOW, canonical};
use super::{
    breakage::Breakage,
    state::{Attempt, MEMBERS, Member, Phase, State, Ticks, Vote},
};
use crate::times::{DRIFT, LEASE, clock, relied};

/// How far the states are explored.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Ticks of time if the clocks of the members differ; none: any time, and equal clocks. A lease
    /// is four.
    pub ticks: Option<u8>,
    /// Attempts, all of different owners.
    pub attempts: usize,
    /// Members that lose their data.
    pub losses: u8,
}

/// The protocol, or a broken one.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// How far it is explored.
    pub bounds: Bounds,
    /// The rule that is not kept.
    pub broken: Option<Breakage>,
}

/// A step, by the attempt and the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// An attempt calls all members.
    Start,
    /// A member votes. An answer that is lost is one that comes after the count.
    Vote(usize, usize),
    /// The votes that have arrived are counted.
    Count(usize),
    /// A member's counter is raised.
    Raise(usize, usize),
    /// It is counted how many show the token.
    Confirm(usize),
    /// The grant is released.
    Release(usize),
    /// A member undoes an attempt.
    Withdraw(usize, usize),
    /// A member loses its data.
    Lose(usize),
}

/// By how much each member's clock is behind.
const BEHIND: [Ticks; MEMBERS] = [2, 0, 1];

const MAJORITY: usize = MEMBERS / 2 + 1;

// === impl Protocol ===

impl Protocol {
    fn is(&self, breakage: Breakage) -> bool {
        self.broken == Some(breakage)
    }

    /// By how much a member's clock is behind.
    fn behind(&self, which: usize) -> Ticks {
        if self.bounds.ticks.is_some() {
            BEHIND[which]
        } else {
            0
        }
    }

    fn vote(&self, state: &mut State, at: usize, which: usize) {
        let behind = self.behind(which);
        let (now, member) = (state.now, &mut state.members[which]);
        let owner = u8::try_from(at).expect("a few");
        let vote = if member.holder(now).is_some() {
            Vote::Busy
        } else {
            let token = (member.counter + 1).max(clock(now, behind));
            member.counter = token;
            member.holder = Some((owner, now + LEASE - DRIFT));
            Vote::Granted(token)
        };
        state.attempts[at].votes[which] = vote;
    }

    /// Who has won, by the function that the coordinator uses.
    fn count(&self, attempt: &Attempt) -> Phase {
        let granted = attempt.votes.map(|vote| match vote {
            Vote::Granted(token) => Some(token),
            _ => None,
        });
        let elected = if self.is(Breakage::OneVote) {
            let at = granted.iter().position(Option::is_some);
            at.map(|at| (vec![at], granted[at].unwrap_or_default()))
        } else {
            modelling::elected(&granted)
        };
        let Some((counted, largest)) = elected else {
            return Phase::Over { until: 0 };
        };
        let smallest = counted.iter().filter_map(|at| granted[*at]).min();
        let token = if self.is(Breakage::SmallestToken) {
            smallest.unwrap_or_default()
        } else {
            largest
        };
        let mut is_counted = [false; MEMBERS];
        for at in &counted {
            is_counted[*at] = true;
        }
        let all_shown = self.is(Breakage::NoRaise) || self.is(Breakage::OneVote);
        let shown = |at: usize| is_counted[at] && granted[at].is_some_and(|it| it >= token);
        Phase::Raising {
            token,
            counted: is_counted,
            shown: [0, 1, 2].map(|at| shown(at) || is_counted[at] && all_shown),
        }
    }

    /// Whether a majority shows the token, by the function that the coordinator uses.
    fn confirm(&self, state: &mut State, at: usize) -> Option<()> {
        let attempt = state.attempts[at];
        let Phase::Raising {
            token,
            counted,
            shown,
        } = attempt.phase
        else {
            return None;
        };
        let counters = shown.iter().filter(|shown| **shown).map(|_| token);
        let needed = if self.is(Breakage::OneVote) {
            1
        } else {
            MAJORITY
        };
        let from = if self.is(Breakage::ValidFromLastVote) {
            state.now
        } else {
            attempt.sent
        };
        let until = from + relied(LEASE);
        state.attempts[at].phase = match modelling::shown_by(counters, needed) {
            Some(token) if state.now < until => {
                state.shrunk |= token <= state.newest;
                state.newest = state.newest.max(token);
                let votes = counted.iter().filter(|it| **it).count();
                Phase::Held {
                    until,
                    votes: u8::try_from(votes).expect("a few"),
                }
            }
            _ => Phase::Over { until: 0 },
        };
        Some(())
    }

    fn raise(state: &mut State, at: usize, which: usize) -> Option<()> {
        let now = state.now;
        let Phase::Raising {
            token,
            counted,
            mut shown,
        } = state.attempts[at].phase
        else {
            return None;
        };
        let member = &mut state.members[which];
        let holds = member.holder(now) == u8::try_from(at).ok();
        if holds {
            member.counter = member.counter.max(token);
            shown[which] = member.counter == token;
        }
        state.attempts[at].phase = Phase::Raising {
            token,
            counted,
            shown,
        };
        Some(())
    }

    fn matters(&self) -> Matters {
        Matters {
            clocks: self.bounds.ticks.is_some(),
            releasing: self.is(Breakage::ReliesUntilReleased),
        }
    }

    fn of_attempt(state: &State, at: usize, actions: &mut Vec<Action>) {
        let attempt = &state.attempts[at];
        for which in 0..MEMBERS {
            if attempt.votes[which] == Vote::Sent {
                actions.push(Action::Vote(at, which));
            }
        }
        match attempt.phase {
            Phase::Voting => actions.push(Action::Count(at)),
            Phase::Raising { counted, shown, .. } => {
                let lower = (0..MEMBERS).filter(|which| counted[*which] && !shown[*which]);
                actions.extend(lower.map(|which| Action::Raise(at, which)));
                actions.push(Action::Confirm(at));
            }
            Phase::Held { .. } => actions.push(Action::Release(at)),
            Phase::Over { .. } => {
                let left =
                    |which: &usize| !matches!(attempt.votes[*which], Vote::Withdrawn | Vote::Busy);
                let left = (0..MEMBERS).filter(left);
                actions.extend(left.map(|which| Action::Withdraw(at, which)));
            }
        }
    }

    fn relied_on<'a>(&self, state: &'a State) -> impl Iterator<Item = (&'a Attempt, u8)> {
        let now = state.now;
        let longer = self.is(Breakage::ReliesUntilReleased);
        state.attempts.iter().filter_map(move |it| match it.phase {
            Phase::Held { until, votes } if now < until => Some((it, votes)),
            Phase::Over { until } if longer && now < until => Some((it, 0)),
            _ => None,
        })
    }

    fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Tick => state.now += 1,
            Action::Start => state.attempts.push(Attempt {
                sent: state.now,
                votes: [Vote::Sent; MEMBERS],
                phase: Phase::Voting,
            }),
            Action::Vote(at, which) => self.vote(state, at, which),
            Action::Count(at) => state.attempts[at].phase = self.count(&state.attempts[at]),
            Action::Raise(at, which) => Self::raise(state, at, which)?,
            Action::Confirm(at) => self.confirm(state, at)?,
            Action::Release(at) => {
                let Phase::Held { until, .. } = state.attempts[at].phase else {
                    return None;
                };
                state.attempts[at].phase = Phase::Over { until };
            }
            Action::Withdraw(at, which) => {
                let member = &mut state.members[which];
                let is_own = |(of, _): &(u8, Ticks)| usize::from(*of) == at;
                member.holder = member.holder.filter(|it| !is_own(it));
                state.attempts[at].votes[which] = Vote::Withdrawn;
            }
            Action::Lose(which) => {
                state.losses -= 1;
                state.members[which] = Member::default();
            }
        }
        Some(())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            now: NOW,
            members: [Member::default(); MEMBERS],
            attempts: Vec::new(),
            losses: self.bounds.losses,
            newest: 0,
            shrunk: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self
            .bounds
            .ticks
            .is_none_or(|ticks| state.now < NOW + ticks)
        {
            actions.push(Action::Tick);
        }
        if state.attempts.len() < self.bounds.attempts {
            actions.push(Action::Start);
        }
        for at in 0..state.attempts.len() {
            Self::of_attempt(state, at, actions);
        }
        if state.losses > 0 {
            actions.extend((0..MEMBERS).map(Action::Lose));
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        self.step(&mut state, action)?;
        Some(canonical(state, self.matters()))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(
                "two majorities meet in a member that refuses",
                |it, state| {
                    let it: &Self = it;
                    let state: &State = state;
                    let lost = state.losses < it.bounds.losses;
                    lost || it.relied_on(state).count() < 2
                },
            ),
            Property::always("lost data cost one vote", |it, state| {
                let it: &Self = it;
                let with_all = it
                    .relied_on(state)
                    .any(|(_, votes)| usize::from(votes) == MEMBERS);
                !with_all || it.relied_on(state).count() < 2
            }),
            Property::always(
                "tokens grow over every grant",
                |it: &Self, state: &State| {
                    let lost = state.losses < it.bounds.losses;
                    lost || !state.shrunk
                },
            ),
            Property::sometimes("a second grant follows a first", |_, state: &State| {
                let held = |it: &&Attempt| matches!(it.phase, Phase::Held { .. });
                state.attempts.len() > 1 && state.attempts.iter().skip(1).any(|it| held(&it))
            }),
        ]
    }
}
