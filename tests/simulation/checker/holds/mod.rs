//! From when until when each owner may rely on what it was told. An owner relies on a grant from
//! the answer until it asks to give it back, ends its session, or is told of the loss; and, if
//! nobody renews it or its session has no stream, no longer than the validity it was told.

mod told;

use std::collections::{BTreeMap, BTreeSet};

use lockkeeper_store::script::Mode;

use super::{
    Bounds, Violation,
    account::{Account, Belief},
    intervals::Interval,
    violation,
};
use crate::history::{Event, Holder, Kind, Millis, Name, Op, SessionNo, What};

/// What the owners could believe, and what about that was wrong.
#[derive(Debug, Default)]
pub(super) struct Holds {
    pub(super) intervals: Vec<Interval>,
    pub(super) violations: Vec<Violation>,
    pub(super) denials: Vec<Denial>,
}

/// An owner that relied on a lock was told that it does not hold it.
#[derive(Debug)]
pub(super) struct Denial {
    /// None: it was not asked for.
    pub(super) op: Option<Op>,
    pub(super) holder: Holder,
    pub(super) name: Name,
    pub(super) from: Millis,
    pub(super) until: Millis,
    /// A coordinator had to renew it meanwhile.
    pub(super) kept_alive: bool,
}

/// An operation as it was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    holder: Holder,
    name: Name,
    kind: Kind,
    at: Millis,
    repeat: bool,
    /// See [`Account::relied_until`].
    relied: Option<Millis>,
}

/// A loss that has to be told.
#[derive(Clone, Copy, Debug)]
struct Owed {
    holder: Holder,
    name: Name,
    until: Millis,
}

struct Follower<'a> {
    bounds: &'a Bounds,
    accounts: BTreeMap<(Holder, Name), Account>,
    asked: BTreeMap<Op, Asked>,
    live: BTreeSet<SessionNo>,
    /// Answers may still come after the end that the client asked for, but they are worth nothing.
    closed: BTreeSet<SessionNo>,
    owed: Vec<Owed>,
    /// When a lock's keys were last deleted by hand.
    forced_at: BTreeMap<Name, Millis>,
    found: Holds,
}

/// Goes through a history.
pub(super) fn follow(events: &[Event], bounds: &Bounds) -> Holds {
    let mut follower = Follower {
        bounds,
        accounts: BTreeMap::new(),
        asked: BTreeMap::new(),
        live: BTreeSet::new(),
        closed: BTreeSet::new(),
        owed: Vec::new(),
        forced_at: BTreeMap::new(),
        found: Holds::default(),
    };
    for event in events {
        follower.see(event);
    }
    let end = events.last().map_or(0, |event| event.at);
    follower.end(end)
}

// === impl Follower ===

impl Follower<'_> {
    fn see(&mut self, event: &Event) {
        let at = event.at;
        self.expire_debts(at);
        match &event.what {
            What::Invoked {
                op,
                holder,
                name,
                kind,
                repeats,
                ..
            } => {
                let asked = Asked {
                    holder: *holder,
                    name: *name,
                    kind: *kind,
                    at,
                    repeat: repeats.is_some(),
                    relied: None,
                };
                self.invoked(*op, asked);
            }
            What::Told(op, told) => self.told(at, *op, told),
            What::Dropped(op) => {
                if let Some(asked) = self.asked.get(op).copied() {
                    self.account(asked.holder, asked.name).flying.remove(op);
                    self.give_releases_back(&asked);
                    self.doubt(at, &asked);
                    self.left(at, &asked);
                }
            }
            What::Unread(op) => {
                if let Some(asked) = self.asked.get(op).copied() {
                    self.left(at, &asked);
                }
            }
            What::Lost(holder, name, token) => self.lost(at, *holder, *name, *token),
            What::Kept(holder, name, seen) => {
                let asked_at = at.saturating_sub(self.bounds.call_timeout);
                if holder.mode == Mode::Read {
                    // It may be another grant, which the token does not tell.
                    self.settle(at, *holder, *name);
                }
                self.account(*holder, *name).own = i64::from(seen.count);
                self.grant(at, asked_at, (*holder, *name), *seen);
            }
            What::Forgot(holder, name) => self.forgot(at, *holder, *name),
            What::Attached(session, _) => {
                self.live.insert(*session);
            }
            What::Broken(session, keeps) => self.broken(at, *session, *keeps),
            What::Closing(session) => {
                self.closed.insert(*session);
                self.broken(at, *session, false);
            }
            What::Foreign(holder, name, until) => self.foreign(at, *holder, *name, *until),
            What::Forced(name) => self.forced(at, *name),
            What::Stored { .. }
            | What::Cancelled(_)
            | What::Waits(..)
            | What::HeldBack(..)
            | What::Reach(..)
            | What::Healed
            | What::Broke(_)
            | What::Note(_) => {}
        }
    }

    fn invoked(&mut self, op: Op, mut asked: Asked) {
        let Asked {
            holder, name, at, ..
        } = asked;
        self.settle(at, holder, name);
        let account = self.account(holder, name);
        account.flying.insert(op);
        asked.relied = account.relied_until(at);
        if asked.kind == Kind::Release {
            account.releases += 1;
            account.count -= 1;
            account.own -= 1;
            let in_doubt = account.flying.len() > 1
                || at < account.doubt_until
                || account.unsure
                || account.is_left_with_nothing(at);
            if in_doubt || account.count <= 0 {
                self.end_belief(at, holder, name);
            }
        }
        self.asked.insert(op, asked);
        if self.account(holder, name).flying.len() > 1 {
            self.shake(holder, name);
        }
    }

    /// What is under way no longer tells what the owner may rely on.
    fn shake(&mut self, holder: Holder, name: Name) {
        for op in self.account(holder, name).flying.clone() {
            self.asked.entry(op).and_modify(|asked| asked.relied = None);
        }
    }

    /// The answer will not be looked at, so a hold that it tells of is taken back.
    fn left(&mut self, at: Millis, asked: &Asked) {
        if !asked.kind.takes() {
            return;
        }
        let until = at + self.bounds.lease_max + self.bounds.settled();
        let account = self.account(asked.holder, asked.name);
        account.left_until = account.left_until.max(until);
        if account.is_left_with_nothing(at) {
            self.end_belief(at, asked.holder, asked.name);
        }
    }

    fn give_releases_back(&mut self, asked: &Asked) {
        if asked.kind == Kind::Release {
            let account = self.account(asked.holder, asked.name);
            account.releases -= 1;
            account.count += 1;
        }
    }

    fn forgot(&mut self, at: Millis, holder: Holder, name: Name) {
        self.shake(holder, name);
        self.end_belief(at, holder, name);
        self.account(holder, name).unsure = true;
    }

    fn broken(&mut self, at: Millis, session: SessionNo, keeps: bool) {
        self.live.remove(&session);
        self.owed
            .retain(|owed| owed.holder.session != Some(session));
        for (holder, name) in self.keys(|holder| holder.session == Some(session)) {
            self.shake(holder, name);
            let account = self.account(holder, name);
            account.unsure = true;
            if !keeps {
                account.count = 0;
                self.end_belief(at, holder, name);
            } else if let Some(belief) = account.belief.as_mut().filter(|b| b.kept_alive) {
                // As long as the stream was there nothing was heard of a loss.
                belief.kept_alive = false;
                belief.safe_until = belief.safe_until.max(at);
            }
        }
    }

    fn foreign(&mut self, at: Millis, holder: Holder, name: Name, until: Option<Millis>) {
        self.settle(at, holder, name);
        self.end_belief(at, holder, name);
        if let Some(until) = until {
            self.account(holder, name).belief = Some(Belief {
                token: 0,
                from: at,
                safe_until: until,
                kept_alive: false,
            });
        }
    }

    /// Deleting the keys by hand ends what anybody may rely on; the coordinators have to notice.
    fn forced(&mut self, at: Millis, name: Name) {
        self.forced_at.insert(name, at);
        for (holder, of) in self.keys(|_| true) {
            if of != name {
                continue;
            }
            self.settle(at, holder, name);
            let bounds = *self.bounds;
            let until = at + bounds.lease_max + bounds.settled();
            if self
                .account(holder, name)
                .belief
                .is_some_and(|belief| belief.kept_alive)
            {
                self.owed.push(Owed {
                    holder,
                    name,
                    until,
                });
            }
            self.end_belief(at, holder, name);
            let account = self.account(holder, name);
            account.doubt_until = account.doubt_until.max(until);
            account.unsure = true;
        }
    }

    fn expire_debts(&mut self, at: Millis) {
        let (due, owed) = self.owed.iter().partition(|owed| owed.until < at);
        self.owed = owed;
        for Owed { holder, name, .. } in due {
            self.broke(
                at,
                format!("lost: {holder} was never told that lock {name} is gone"),
            );
        }
    }

    /// The owner was told what has become of its grant.
    fn paid(&mut self, holder: Holder, name: Name) {
        self.owed
            .retain(|owed| (owed.holder, owed.name) != (holder, name));
    }

    /// Ends a belief that is over by the clock.
    fn settle(&mut self, at: Millis, holder: Holder, name: Name) {
        let account = self.account(holder, name);
        if account
            .belief
            .is_some_and(|b| !b.kept_alive && b.safe_until <= at)
        {
            account.count = 0;
            account.own = 0;
            // The store keeps it a little longer than the owner may rely on it.
            account.unsure = true;
            self.end_belief(at, holder, name);
        }
    }

    fn end_belief(&mut self, at: Millis, holder: Holder, name: Name) {
        let Some(belief) = self.account(holder, name).belief.take() else {
            return;
        };
        let until = if belief.kept_alive {
            at
        } else {
            at.min(belief.safe_until)
        };
        self.found.intervals.push(Interval {
            name,
            holder,
            token: belief.token,
            from: belief.from,
            until,
        });
    }

    fn end(mut self, at: Millis) -> Holds {
        for (holder, name) in self.keys(|_| true) {
            self.end_belief(at, holder, name);
        }
        self.found
    }

    fn account(&mut self, holder: Holder, name: Name) -> &mut Account {
        self.accounts.entry((holder, name)).or_default()
    }

    fn keys(&self, which: impl Fn(Holder) -> bool) -> Vec<(Holder, Name)> {
        let keys = self.accounts.keys().copied();
        keys.filter(|(holder, _)| which(*holder)).collect()
    }

    fn broke(&mut self, at: Millis, rule: String) {
        self.found.violations.push(violation(at, rule));
    }
}
