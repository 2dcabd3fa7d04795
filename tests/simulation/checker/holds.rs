//! From when until when each owner may rely on what it was told. An owner relies on a grant from the answer until it asks to give it back,
//! ends its session, or is told of the loss; and, if nobody renews it or its session has no stream, no longer than the validity it was told.

use std::collections::{BTreeMap, BTreeSet};

use super::{Bounds, Violation, violation};
use crate::history::{Event, Holder, Kind, Millis, Name, Op, Seen, SessionNo, Told, What};

/// A time in which an owner may rely on a lock; the end is not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) name: Name,
    pub(super) holder: Holder,
    pub(super) token: u64,
    pub(super) from: Millis,
    pub(super) until: Millis,
}

/// What the owners could believe, and what about that was wrong.
#[derive(Debug, Default)]
pub(super) struct Holds {
    pub(super) intervals: Vec<Interval>,
    pub(super) violations: Vec<Violation>,
}

/// What one owner knows of one lock.
#[derive(Debug, Default)]
struct Account {
    belief: Option<Belief>,
    /// Holds that the owner knows of, less those that it is giving back.
    count: i64,
    /// Operations without an answer yet.
    flying: BTreeSet<Op>,
    releases: i64,
    /// Something was left in doubt; until then counts are not compared.
    doubt_until: Millis,
    /// The next answer says what the count is.
    unsure: bool,
    lost: BTreeSet<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Belief {
    token: u64,
    from: Millis,
    safe_until: Millis,
    /// Somebody renews it, so it lasts until something is heard.
    kept_alive: bool,
}

/// An operation as it was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    holder: Holder,
    name: Name,
    kind: Kind,
    at: Millis,
    repeat: bool,
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

/// No two owners at once.
pub(super) fn exclusion(intervals: &[Interval]) -> Vec<Violation> {
    let mut sorted: Vec<Interval> = intervals.to_vec();
    sorted.sort_by_key(|interval| (interval.name, interval.from, interval.until));
    let mut violations = Vec::new();
    let mut last: Option<Interval> = None;
    for interval in sorted.into_iter().filter(|i| i.from < i.until) {
        if let Some(before) = last.filter(|before| before.name == interval.name) {
            if before.until > interval.from && before.holder != interval.holder {
                let Interval { name, from, .. } = interval;
                violations.push(violation(
                    from,
                    format!(
                        "exclusion: {} relies on lock {name} until {}, {} from {from}",
                        before.holder, before.until, interval.holder
                    ),
                ));
            }
            if before.until > interval.until {
                continue;
            }
        }
        last = Some(interval);
    }
    violations
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
                };
                self.invoked(*op, asked);
            }
            What::Told(op, told) => self.told(at, *op, told),
            What::Dropped(op) => {
                if let Some(asked) = self.asked.get(op).copied() {
                    self.account(asked.holder, asked.name).flying.remove(op);
                    self.give_releases_back(&asked);
                    self.doubt(at, &asked);
                }
            }
            What::Lost(holder, name, token) => self.lost(at, *holder, *name, *token),
            What::Kept(holder, name, seen) => {
                let asked_at = at.saturating_sub(self.bounds.call_timeout);
                self.grant(at, asked_at, (*holder, *name), *seen);
            }
            What::Forgot(holder, name) => {
                self.end_belief(at, *holder, *name);
                self.account(*holder, *name).unsure = true;
            }
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
            What::Unread(_)
            | What::Stored { .. }
            | What::Reach(..)
            | What::Healed
            | What::Broke(_)
            | What::Note(_) => {}
        }
    }

    fn invoked(&mut self, op: Op, asked: Asked) {
        let Asked {
            holder, name, at, ..
        } = asked;
        self.settle(at, holder, name);
        self.asked.insert(op, asked);
        let account = self.account(holder, name);
        account.flying.insert(op);
        if asked.kind == Kind::Release {
            account.releases += 1;
            account.count -= 1;
            let in_doubt = account.flying.len() > 1 || at < account.doubt_until || account.unsure;
            if in_doubt || account.count <= 0 {
                self.end_belief(at, holder, name);
            }
        }
    }

    fn told(&mut self, at: Millis, op: Op, told: &Told) {
        let Some(asked) = self.asked.get(&op).copied() else {
            return;
        };
        let Asked { holder, name, .. } = asked;
        self.settle(at, holder, name);
        self.give_releases_back(&asked);
        let account = self.account(holder, name);
        let alone = account.flying.len() == 1 && account.flying.contains(&op);
        account.flying.remove(&op);
        let certain = alone && at >= account.doubt_until;
        let exact = certain && !account.unsure;
        let count = account.count;
        match told {
            Told::Granted(seen) => {
                let expected = count + i64::from(!asked.repeat);
                if exact && !asked.repeat && i64::from(seen.count) != expected {
                    let rule = format!(
                        "count: {holder} was told {} holds of lock {name}, has {expected}",
                        seen.count
                    );
                    self.broke(at, rule);
                }
                self.account(holder, name).unsure &= !certain;
                self.grant(at, asked.at, (holder, name), *seen);
            }
            Told::Renewed(seen) => {
                if self.account(holder, name).lost.contains(&seen.token)
                    && self.lost_before(&asked, seen.token)
                {
                    let rule = format!("lost: {holder} renewed lock {name} after it was lost");
                    self.broke(at, rule);
                }
                if exact && i64::from(seen.count) != count && count > 0 {
                    let rule = format!(
                        "count: {holder} renewed {} holds of lock {name}, has {count}",
                        seen.count
                    );
                    self.broke(at, rule);
                }
                if let Some(belief) = &mut self.account(holder, name).belief
                    && belief.token == seen.token
                {
                    belief.safe_until = belief.safe_until.max(seen.safe_until);
                }
            }
            Told::Released(left) => {
                // The request itself took one off.
                let expected = count - 1;
                if exact && !asked.repeat && i64::from(*left) != expected && expected >= 0 {
                    let rule = format!(
                        "count: {holder} has {left} holds of lock {name} left, not {expected}"
                    );
                    self.broke(at, rule);
                }
                let account = self.account(holder, name);
                account.unsure &= !certain;
                account.count = i64::from(*left) - account.releases;
                // What is left of a grant that was lost meanwhile is nobody's.
                account.unsure |= account.belief.is_none() && *left > 0;
                if account.count <= 0 {
                    self.end_belief(at, holder, name);
                }
            }
            Told::NotOwner => {
                self.end_belief(at, holder, name);
                let account = self.account(holder, name);
                account.count = 0;
                account.unsure = !certain;
                self.paid(holder, name);
            }
            Told::Unknown | Told::Nothing => self.doubt(at, &asked),
            Told::Refused("request over")
                if asked.repeat
                    && asked.kind != Kind::Release
                    && self.account(holder, name).belief.is_some() =>
            {
                self.broke(
                    at,
                    format!("repeat: {holder} holds lock {name}, but its request is over"),
                );
            }
            Told::Refused(_) if asked.kind == Kind::Release => self.doubt(at, &asked),
            Told::Refused(_) | Told::Busy | Told::TimedOut | Told::Cancelled => {}
        }
    }

    /// Whether the token's loss had been told before the operation was asked for.
    fn lost_before(&self, asked: &Asked, token: u64) -> bool {
        let told = self.found.intervals.iter().rev().find(|interval| {
            interval.holder == asked.holder
                && interval.name == asked.name
                && interval.token == token
        });
        told.is_some_and(|interval| interval.until < asked.at)
    }

    fn give_releases_back(&mut self, asked: &Asked) {
        if asked.kind == Kind::Release {
            let account = self.account(asked.holder, asked.name);
            account.releases -= 1;
            account.count += 1;
        }
    }

    fn grant(&mut self, at: Millis, asked_at: Millis, (holder, name): (Holder, Name), seen: Seen) {
        // What was deleted while the answer was on its way is for the coordinator to notice.
        let deleted = self.forced_at.get(&name).is_some_and(|at| asked_at <= *at);
        let void = deleted
            || holder
                .session
                .is_some_and(|session| self.closed.contains(&session));
        let live = holder
            .session
            .is_some_and(|session| self.live.contains(&session));
        self.paid(holder, name);
        let account = self.account(holder, name);
        account.count = i64::from(seen.count) - account.releases;
        if account.releases > 0 && at < account.doubt_until {
            // There may be fewer holds than that, so the release under way may be the last one.
            account.count = 0;
        }
        if account
            .belief
            .is_some_and(|belief| belief.token != seen.token)
        {
            if at >= account.doubt_until && !account.unsure && account.flying.is_empty() {
                self.broke(
                    at,
                    format!("token: {holder} holds lock {name} and was told another token"),
                );
            }
            self.end_belief(at, holder, name);
        }
        let account = self.account(holder, name);
        if account.count <= 0 || void {
            return;
        }
        let from = account.belief.map_or(at, |belief| belief.from);
        let before = account.belief.map_or(0, |belief| belief.safe_until);
        account.belief = Some(Belief {
            token: seen.token,
            from,
            safe_until: seen.safe_until.max(before),
            kept_alive: seen.watched && live,
        });
    }

    fn lost(&mut self, at: Millis, holder: Holder, name: Name, token: u64) {
        self.settle(at, holder, name);
        self.paid(holder, name);
        if !self.account(holder, name).lost.insert(token) {
            self.broke(
                at,
                format!("lost: {holder} was told twice of lock {name}, token {token}"),
            );
        }
        let account = self.account(holder, name);
        if account.belief.is_none_or(|belief| belief.token == token) {
            self.end_belief(at, holder, name);
            let account = self.account(holder, name);
            account.count = 0;
            account.unsure = true;
        }
    }

    fn broken(&mut self, at: Millis, session: SessionNo, keeps: bool) {
        self.live.remove(&session);
        self.owed
            .retain(|owed| owed.holder.session != Some(session));
        for (holder, name) in self.keys(|holder| holder.session == Some(session)) {
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

    fn doubt(&mut self, at: Millis, asked: &Asked) {
        let Asked { holder, name, .. } = *asked;
        if asked.kind == Kind::Release {
            // Who wanted to give it back does not rely on it, however many holds there were.
            self.end_belief(at, holder, name);
        }
        let until = at + self.bounds.lease_max + self.bounds.settled();
        let account = self.account(holder, name);
        account.doubt_until = account.doubt_until.max(until);
        account.unsure = true;
    }

    /// Ends a belief that is over by the clock.
    fn settle(&mut self, at: Millis, holder: Holder, name: Name) {
        let account = self.account(holder, name);
        if account
            .belief
            .is_some_and(|b| !b.kept_alive && b.safe_until <= at)
        {
            account.count = 0;
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
