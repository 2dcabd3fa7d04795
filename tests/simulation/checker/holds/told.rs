//! What answers and notices do to what an owner may believe.

use lockkeeper_store::script::Mode;

use super::{Asked, Denial, Follower};
use crate::{
    checker::account::Belief,
    history::{Holder, Kind, Millis, Name, Op, Seen, Told},
};

/// How far the holds of the one that was answered are known.
#[derive(Clone, Copy)]
struct Expected {
    /// No other of its operations is under way, and no doubt is left.
    certain: bool,
    /// Its holds are `count`.
    exact: bool,
    count: i64,
}

impl Follower<'_> {
    pub(super) fn told(&mut self, at: Millis, op: Op, told: &Told) {
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
        let how = Expected {
            certain,
            exact: certain && !account.unsure,
            count: account.count,
        };
        if matches!(told, Told::NotOwner | Told::Busy | Told::TimedOut)
            && let Some(until) = asked.relied.filter(|until| certain && at < *until)
        {
            self.found.denials.push(Denial {
                op: Some(op),
                holder,
                name,
                from: asked.at,
                until: at,
                kept_alive: until == Millis::MAX,
            });
        }
        match told {
            Told::Granted(seen) => self.granted(at, &asked, *seen, how),
            Told::Renewed(seen) => self.renewed(at, &asked, *seen, how),
            Told::Released(left) => self.released(at, &asked, i64::from(*left), how),
            Told::NotOwner => {
                self.end_belief(at, holder, name);
                let account = self.account(holder, name);
                account.count = 0;
                account.own = 0;
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

    fn granted(&mut self, at: Millis, asked: &Asked, seen: Seen, how: Expected) {
        let Asked { holder, name, .. } = *asked;
        let Expected {
            certain,
            exact,
            count,
        } = how;
        let expected = count + i64::from(!asked.repeat);
        if exact && !asked.repeat && i64::from(seen.count) != expected {
            let rule = format!(
                "count: {holder} was told {} holds of lock {name}, has {expected}",
                seen.count
            );
            self.broke(at, rule);
        }
        let account = self.account(holder, name);
        account.unsure &= !certain;
        account.own = if asked.repeat {
            i64::from(seen.count)
        } else {
            account.own + 1
        };
        self.grant(at, asked.at, (holder, name), seen);
    }

    fn renewed(&mut self, at: Millis, asked: &Asked, seen: Seen, how: Expected) {
        let Asked { holder, name, .. } = *asked;
        let Expected { exact, count, .. } = how;
        if self.account(holder, name).lost.contains(&seen.token)
            && self.lost_before(asked, seen.token)
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

    fn released(&mut self, at: Millis, asked: &Asked, left: i64, how: Expected) {
        let Asked { holder, name, .. } = *asked;
        let Expected {
            certain,
            exact,
            count,
        } = how;
        // The request itself took one off.
        let expected = count - 1;
        if exact && !asked.repeat && left != expected && expected >= 0 {
            let rule =
                format!("count: {holder} has {left} holds of lock {name} left, not {expected}");
            self.broke(at, rule);
        }
        let account = self.account(holder, name);
        account.unsure &= !certain;
        account.count = left - account.releases;
        // What is left of a grant that was lost meanwhile is nobody's.
        account.unsure |= account.belief.is_none() && left > 0;
        if account.count <= 0 {
            // A release under way takes a hold that is granted meanwhile, unless a hold whose
            // answer was left is there for it.
            account.own = match account.releases {
                0 => 0,
                _ => account.own.min(account.count),
            };
            self.end_belief(at, holder, name);
        }
    }

    /// Whether the token's loss had been told before the operation was asked for.
    pub(super) fn lost_before(&self, asked: &Asked, token: u64) -> bool {
        let told = self.found.intervals.iter().rev().find(|interval| {
            interval.holder == asked.holder
                && interval.name == asked.name
                && interval.token == token
        });
        told.is_some_and(|interval| interval.until < asked.at)
    }

    pub(super) fn grant(
        &mut self,
        at: Millis,
        asked_at: Millis,
        (holder, name): (Holder, Name),
        seen: Seen,
    ) {
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
        if holder.mode == Mode::Read {
            // Readers may get the same token again and again, and lose it as often.
            account.lost.remove(&seen.token);
        }
        account.count = i64::from(seen.count) - account.releases;
        if account.releases > 0 && at < account.doubt_until {
            // There may be fewer holds than that, so the release under way may be the last one.
            account.count = 0;
        }
        if account
            .belief
            .is_some_and(|belief| belief.token != seen.token)
        {
            // A writer that reads has a new token as a reader too when it is granted the lock anew.
            let anew = holder.mode == Mode::Read;
            if !anew && at >= account.doubt_until && !account.unsure && account.flying.is_empty() {
                self.broke(
                    at,
                    format!("token: {holder} holds lock {name} and was told another token"),
                );
            }
            self.end_belief(at, holder, name);
        }
        let account = self.account(holder, name);
        if account.count <= 0 || void || account.is_left_with_nothing(at) {
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

    pub(super) fn lost(&mut self, at: Millis, holder: Holder, name: Name, token: u64) {
        self.settle(at, holder, name);
        self.paid(holder, name);
        let account = self.account(holder, name);
        // Several grants of a reader may have one token, and one that was lost on its way was never
        // told.
        let another = holder.mode == Mode::Read;
        if !account.lost.insert(token) && !another {
            self.broke(
                at,
                format!("lost: {holder} was told twice of lock {name}, token {token}"),
            );
        }
        let account = self.account(holder, name);
        if account.belief.is_none_or(|belief| belief.token == token) {
            if account.flying.is_empty() && account.relied_until(at) == Some(Millis::MAX) {
                self.found.denials.push(Denial {
                    op: None,
                    holder,
                    name,
                    from: at,
                    until: at,
                    kept_alive: true,
                });
            }
            self.end_belief(at, holder, name);
            let account = self.account(holder, name);
            account.count = 0;
            account.own = 0;
            account.unsure = true;
        }
    }

    pub(super) fn doubt(&mut self, at: Millis, asked: &Asked) {
        let Asked { holder, name, .. } = *asked;
        if asked.kind == Kind::Release {
            // Who wanted to give it back does not rely on it, however many holds there were, and
            // need not hear of its loss.
            self.end_belief(at, holder, name);
            self.paid(holder, name);
        }
        let until = at + self.bounds.lease_max + self.bounds.settled();
        let account = self.account(holder, name);
        account.doubt_until = account.doubt_until.max(until);
        account.unsure = true;
    }
}
