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
        let token = match holder {
            Some(it) if it.client == client => {
                let held = self.state.store.holder.as_mut().expect("it is held");
                held.holds += 1;
                it.token
            }
            Some(_) => return None,
            None => self.grant(client),
        };
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

    /// A new grant.
    fn grant(&mut self, client: u8) -> u16 {
        let state = &mut *self.state;
        let behind = if self.skewed { SKEW } else { 0 };
        let next = state.store.counter + 1;
        let token = if self.broken == Some(Breakage::TokensWithoutClock) {
            next
        } else {
            next.max(clock(state.now, behind))
        };
        self.granted(client, token)
    }

    fn granted(&mut self, client: u8, token: u16) -> u16 {
        let state = &mut *self.state;
        state.wrong.token |= token <= state.newest;
        state.newest = state.newest.max(token);
        state.store.counter = token;
        state.store.holder = Some(Holder {
            client,
            token,
            holds: 1,
            expires: expires(state.now),
        });
        token
    }

    fn release(&mut self, number: u8, token: u16) -> Answer {
        let client = self.call.client;
        let (row, column) = (usize::from(client), usize::from(number));
        let by_owner = self.is(Breakage::ReleasesByOwnerAlone);
        if self.state.store.released[row][column] && !by_owner {
            return Answer::Released;
        }
        // The owner's holds of another grant are not what is released.
        let anyone = self.is(Breakage::AnyoneReleases);
        let is_meant =
            |it: &Holder| anyone || it.client == client && (by_owner || it.token == token);
        let Some(mut holder) = self.state.holder().filter(is_meant) else {
            return Answer::NotOwner;
        };
        self.state.store.released[row][column] = true;
        holder.holds -= 1;
        if holder.holds > 0 {
            self.state.store.holder = Some(holder);
        } else if let Some(waiter) = self.waiter() {
            self.hand_over(waiter, holder.token);
        } else {
            self.free();
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
    fn hand_over(&mut self, waiter: usize, token: u16) {
        let call = self.state.calls[waiter];
        let Kind::Acquire { number, .. } = call.kind else {
            return;
        };
        let (row, column) = (usize::from(call.client), usize::from(number));
        if self.state.store.acquired[row][column].is_some() {
            // A retry of what was granted before: it finds that out by itself.
            return self.free();
        }
        let token = if self.is(Breakage::HandOverKeepsToken) {
            self.granted(call.client, token)
        } else {
            self.grant(call.client)
        };
        self.state.store.acquired[row][column] = Some(token);
        self.state.calls[waiter] = Call {
            asked: self.call.asked,
            stage: Stage::FromStore(self.answer(token)),
            ..call
        };
    }

    fn renew(&mut self, token: u16) -> Answer {
        let (client, now) = (self.call.client, self.state.now);
        let is_own = |it: &Holder| it.client == client && it.token == token;
        if self.state.holder().is_some_and(|it| is_own(&it)) {
            let held = self.state.store.holder.as_mut().expect("it is held");
            held.expires = held.expires.max(expires(now));
            return Answer::Renewed;
        }
        if self.is(Breakage::RenewsWhatEnded) {
            return Answer::Renewed;
        }
        if self.is(Breakage::RenewalTakesOver) {
            self.state.store.holder = Some(Holder {
                client,
                token,
                holds: 1,
                expires: expires(now),
            });
            return Answer::Renewed;
        }
        Answer::NotOwner
    }
}
