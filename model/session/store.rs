//! The store: each call is one script, which runs atomically.

use super::{
    breakage::Breakage,
    call::{Answer, Call, Kind, Stage},
    state::{Holder, State},
};
use crate::times::{DRIFT, LEASE, SKEW, Ticks, clock};

/// Runs the script of a call; none if it changes nothing, and the call goes on waiting.
pub(super) fn run(state: &mut State, at: usize, broken: Option<Breakage>, skewed: bool) {
    let call = state.calls[at];
    let mut script = Script {
        state,
        call,
        broken,
        skewed,
    };
    let answer = match call.kind {
        Kind::Acquire { number, is_fresh } => script.acquire(number, is_fresh),
        Kind::Release { number, token } => Some(script.release(number, token)),
        Kind::Renew { token } | Kind::Watch { token } => Some(script.renew(token)),
    };
    state.calls[at].stage = answer.map_or(Stage::Waiting, Stage::FromStore);
}

struct Script<'a> {
    state: &'a mut State,
    call: Call,
    broken: Option<Breakage>,
    /// A failover has brought another clock.
    skewed: bool,
}

/// When a lease that begins now ends by the store's clock.
fn expires(now: Ticks) -> Ticks {
    now + LEASE - DRIFT
}

// === impl Script ===

impl Script<'_> {
    fn is(&self, breakage: Breakage) -> bool {
        self.broken == Some(breakage)
    }

    fn acquire(&mut self, number: u8, is_fresh: bool) -> Option<Answer> {
        let client = self.call.client;
        let (row, column) = (usize::from(client), usize::from(number));
        let holder = self.state.holder();
        let recorded = self.state.store.acquired[row][column];
        if let Some(token) = recorded {
            if !is_fresh && !self.is(Breakage::NoAcquireRecord) {
                let is_held = holder.is_some_and(|it| it.client == client && it.token == token);
                return Some(if is_held {
                    self.answer(token)
                } else {
                    Answer::NotOwner
                });
            }
            self.state.wrong.twice = true;
        }
        let new = self.new_grant(client, self.next_token());
        let held = Holder::acquire(holder, new).ok()?;
        self.hold(held, holder.is_none());
        let token = held.token;
        self.state.store.acquired[row][column] = Some(token);
        Some(self.answer(token))
    }

    /// The answer to the current holder.
    fn answer(&self, token: u16) -> Answer {
        let holder = self.state.holder();
        let left = holder.map_or(0, |it| it.expires - self.state.now + DRIFT);
        let lease = if self.is(Breakage::RepeatWithFullLease) {
            LEASE
        } else {
            left
        };
        Answer::Granted { token, lease }
    }

    /// The token of the next grant.
    fn next_token(&self) -> u16 {
        let behind = if self.skewed { SKEW } else { 0 };
        let next = self.state.store.counter + 1;
        if self.is(Breakage::TokensWithoutClock) {
            next
        } else {
            next.max(clock(self.state.now, behind))
        }
    }

    fn new_grant(&self, client: u8, token: u16) -> Holder {
        Holder {
            client,
            token,
            holds: 1,
            expires: expires(self.state.now),
        }
    }

    fn hold(&mut self, held: Holder, is_new: bool) {
        let state = &mut *self.state;
        if is_new {
            state.wrong.token |= held.token <= state.newest;
            state.newest = state.newest.max(held.token);
            state.store.counter = held.token;
        }
        state.store.holder = Some(held);
    }

    fn release(&mut self, number: u8, token: u16) -> Answer {
        let client = self.call.client;
        let (row, column) = (usize::from(client), usize::from(number));
        let by_owner = self.is(Breakage::ReleasesByOwnerAlone);
        if self.state.store.released[row][column] && !by_owner {
            return Answer::Released;
        }
        // The owner's holds of another grant are not what is released.
        let holder = self.state.holder();
        let (client, token) = match holder {
            Some(it) if self.is(Breakage::AnyoneReleases) => (it.client, it.token),
            Some(it) if by_owner => (client, it.token),
            _ => (client, token),
        };
        let Ok(left) = Holder::release(holder, client, token, expires(self.state.now)) else {
            return Answer::NotOwner;
        };
        self.state.store.released[row][column] = true;
        match (left, self.waiter()) {
            (None, Some(waiter)) => self.hand_over(waiter, client, token),
            (None, None) => self.free(),
            (Some(_), _) => self.state.store.holder = left,
        }
        Answer::Released
    }

    fn free(&mut self) {
        self.state.store.holder = None;
        self.state.store.freed = self.state.now;
    }

    /// The first waiter of the coordinator that releases.
    fn waiter(&self) -> Option<usize> {
        let call = self.call;
        let is_waiter = |it: &Call| {
            it.stage == Stage::Waiting
                && it.coordinator == call.coordinator
                && it.client != call.client
        };
        self.state.calls.iter().position(is_waiter)
    }

    /// Releases and grants in one script, so that the lock is never free in between.
    fn hand_over(&mut self, waiter: usize, client: u8, token: u16) {
        let call = self.state.calls[waiter];
        let Kind::Acquire { number, .. } = call.kind else {
            return;
        };
        let (row, column) = (usize::from(call.client), usize::from(number));
        if self.state.store.acquired[row][column].is_some() {
            // A retry of what was granted before: it finds that out by itself.
            return self.free();
        }
        let newer = if self.is(Breakage::HandOverKeepsToken) {
            token
        } else {
            self.next_token()
        };
        let new = self.new_grant(call.client, newer);
        let Ok(held) = Holder::hand_over(self.state.holder(), client, token, new) else {
            return;
        };
        self.hold(held, true);
        let token = held.token;
        self.state.store.acquired[row][column] = Some(token);
        self.state.calls[waiter] = Call {
            asked: self.call.asked,
            stage: Stage::FromStore(self.answer(token)),
            ..call
        };
    }

    fn renew(&mut self, token: u16) -> Answer {
        let (client, now) = (self.call.client, self.state.now);
        if let Ok(held) = Holder::renew(self.state.holder(), client, token, expires(now)) {
            self.state.store.holder = Some(held);
            return Answer::Renewed;
        }
        if self.is(Breakage::RenewsWhatEnded) {
            return Answer::Renewed;
        }
        if self.is(Breakage::RenewalTakesOver) {
            self.state.store.holder = Some(self.new_grant(client, token));
            return Answer::Renewed;
        }
        Answer::NotOwner
    }
}
