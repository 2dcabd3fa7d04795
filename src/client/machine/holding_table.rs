//! What the session holds, until when, and by which guards.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use lockkeeper_api::pb::{Grant, LostReason, PermitGrant, session_request::Request};
use tokio::time::Instant;

use super::{
    entries::{GuardEntry, HoldingEntry, Unconfirmed},
    event::{Completion, Effect, Ids, closed},
    operation::{Operation, Purpose},
    renewal_times::RenewalTimes,
    timers::Timers,
};
use crate::{
    Error,
    holding::{GrantKey, Holding, release_of, renewed_key},
    validity::{Loss, Validity, YieldRequest, unheard},
};

/// All that the session holds.
#[derive(Debug)]
pub(super) struct HoldingTable {
    entries: BTreeMap<u64, HoldingEntry>,
    guards: HashMap<u64, GuardEntry>,
    by_key: HashMap<GrantKey, u64>,
    /// What guards held whose releases have no answer.
    releases: HashMap<u64, Vec<u64>>,
    timers: Timers,
    ids: Ids,
    pub(super) times: RenewalTimes,
    /// Renewals and releases that the machine has to start.
    pub(super) started: Vec<Operation>,
}

// === impl HoldingTable ===

impl HoldingTable {
    pub(super) fn new(ids: Ids) -> Self {
        Self {
            entries: BTreeMap::new(),
            guards: HashMap::new(),
            by_key: HashMap::new(),
            releases: HashMap::new(),
            timers: Timers::default(),
            ids,
            times: RenewalTimes::default(),
            started: Vec::new(),
        }
    }

    /// Adds what an operation acquired and delivers its guard.
    ///
    /// Only the instant of the request is known, not that of the grant: after a long wait the guard
    /// is delivered when a renewal has said until when it is valid.
    pub(super) fn grant(
        &mut self,
        now: Instant,
        sent_at: Instant,
        op_id: u64,
        holdings: Vec<Holding>,
        effects: &mut Vec<Effect>,
    ) {
        let guard = self.ids.next();
        let mut ids = Vec::with_capacity(holdings.len());
        let mut left = Vec::new();
        for holding in &holdings {
            let is_stale = now > sent_at + holding.valid_for() / 3;
            let id = self.add(now, sent_at, guard, holding, is_stale);
            ids.push(id);
            left.extend(is_stale.then_some(id));
            self.timers.set(now, id);
        }
        let entry = GuardEntry {
            ids,
            holdings,
            unconfirmed: None,
            loss: None,
        };
        self.guards.insert(guard, entry);
        let unconfirmed = Unconfirmed { op_id, left };
        self.deliver_or_keep(guard, unconfirmed, effects);
    }

    /// Adds a grant, or one more hold of a known grant, and returns its id.
    fn add(
        &mut self,
        now: Instant,
        sent_at: Instant,
        guard: u64,
        holding: &Holding,
        is_stale: bool,
    ) -> u64 {
        let renew_at = self.times.renew_at(sent_at, holding).map(|at| at.max(now));
        let mut until = sent_at + holding.valid_for();
        let mut known = self.find(holding);
        let is_released = |id: &u64| self.entries.get(id).is_some_and(|it| it.guards.is_empty());
        // What is being released is not extended: this is a new grant, or ends as the old one.
        if let Some(released) = known.take_if(|id| is_released(id)) {
            self.remove(released);
        }
        let id = known.unwrap_or_else(|| self.ids.next());
        for key in holding.keys() {
            self.by_key.insert(key, id);
        }
        let entry = self.entries.entry(id).or_insert_with(|| {
            // A renewal has to say more within a lease; until then there is no guard to read it.
            let until = if is_stale {
                now + holding.lease()
            } else {
                until
            };
            HoldingEntry {
                holding: holding.clone(),
                validity: Arc::new(Validity::new(holding.name(), until)),
                guards: Vec::new(),
                renew_at: None,
                is_renewing: false,
            }
        });
        entry.guards.push(guard);
        // The end of a former grant says nothing about this one.
        if is_stale || !entry.holding.is_older_than(holding) {
            until = until.max(entry.validity.valid_until());
        }
        entry.validity.set_valid_until(until);
        entry.holding = holding.clone();
        entry.renew_at = if is_stale { Some(now) } else { renew_at };
        id
    }

    /// Delivers a guard if all of it is confirmed.
    fn deliver_or_keep(&mut self, guard: u64, unconfirmed: Unconfirmed, effects: &mut Vec<Effect>) {
        let Some(entry) = self.guards.get_mut(&guard) else {
            return;
        };
        if !unconfirmed.left.is_empty() {
            entry.unconfirmed = Some(unconfirmed);
            return;
        }
        let entries = entry.ids.iter().filter_map(|id| self.entries.get(id));
        let granted = Completion::Granted {
            guard,
            holdings: entry.holdings.clone(),
            validities: entries.map(|it| Arc::clone(&it.validity)).collect(),
        };
        effects.push(Effect::Done {
            op_id: unconfirmed.op_id,
            result: Ok(granted),
        });
    }

    /// The guard that this operation is to get, while it is not delivered.
    pub(super) fn unconfirmed_guard(&self, op_id: u64) -> Option<u64> {
        let is_of = |it: &GuardEntry| it.unconfirmed.as_ref().is_some_and(|it| it.op_id == op_id);
        let mut guards = self.guards.iter();
        guards.find(|(_, it)| is_of(it)).map(|(guard, _)| *guard)
    }

    pub(super) fn contains(&self, grant: &Grant) -> bool {
        self.by_key.contains_key(&grant.into())
    }

    fn find(&self, holding: &Holding) -> Option<u64> {
        let mut keys = holding.keys().into_iter();
        keys.find_map(|key| self.by_key.get(&key)).copied()
    }

    /// What a request renews, and that grant's fencing token.
    pub(super) fn renewed_by(&self, request: &Request) -> Option<(u64, u64)> {
        let id = *self.by_key.get(&renewed_key(request)?)?;
        Some((id, self.entries.get(&id)?.holding.fencing_token()))
    }

    /// Everything that is held, to be named when the session is resumed.
    pub(super) fn grants(&self) -> (Vec<Grant>, Vec<PermitGrant>) {
        let holdings = || self.entries.values().map(|it| &it.holding);
        let locks = holdings().filter_map(Holding::lock).cloned().collect();
        let permits = holdings().filter_map(Holding::permits).cloned().collect();
        (locks, permits)
    }

    /// Renews or loses what is due.
    pub(super) fn meet_deadlines(
        &mut self,
        now: Instant,
        can_send: bool,
        effects: &mut Vec<Effect>,
    ) {
        while let Some(id) = self.timers.pop_due(now) {
            self.check(now, id, can_send, effects);
        }
    }

    /// Starts what a holding needs now, and sets its next timer. A renewal is only started if it
    /// can be sent.
    fn check(&mut self, now: Instant, id: u64, can_send: bool, effects: &mut Vec<Effect>) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if entry.guards.is_empty() {
            return;
        }
        let valid_until = entry.validity.valid_until();
        if valid_until <= now {
            self.lose(id, &Loss::new(LostReason::Expired, now), effects);
            return;
        }
        let can_renew = can_send && !entry.is_renewing;
        let renew_at = entry.renew_at.filter(|_| can_renew);
        let at = renew_at.filter(|at| *at > now).unwrap_or(valid_until);
        self.timers.set(at.min(valid_until), id);
        if renew_at.is_some_and(|at| at <= now) {
            entry.is_renewing = true;
            let renewal = entry.holding.renewal(None);
            self.started.push(Operation {
                renews: Some((id, entry.holding.fencing_token())),
                ..Operation::new(self.ids.next(), renewal, Purpose::Renewal)
            });
        }
    }

    /// Takes over the result of a renewal, or of a resume, that was sent at `sent_at`. Such answers
    /// may overtake each other.
    pub(super) fn renewed(
        &mut self,
        now: Instant,
        sent_at: Instant,
        holding: Holding,
        effects: &mut Vec<Effect>,
    ) {
        let Some(id) = self.find(&holding) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        if holding.is_older_than(&entry.holding) {
            return;
        }
        let until = sent_at + holding.valid_for();
        let mut guards = entry.guards.iter().filter_map(|it| self.guards.get(it));
        // Before there is a guard to read it, it may be an assumption.
        let is_delivered = guards.any(|it| it.unconfirmed.is_none());
        if until > now && (!is_delivered || entry.validity.valid_until() < until) {
            entry.validity.set_valid_until(until);
        }
        entry.renew_at = self.times.renew_at(sent_at, &holding).map(|at| at.max(now));
        entry.holding = holding;
        if until > now {
            for guard in entry.guards.clone() {
                let guard_entry = self.guards.get_mut(&guard);
                if let Some(mut left) = guard_entry.and_then(|it| it.unconfirmed.take()) {
                    left.left.retain(|it| *it != id);
                    self.deliver_or_keep(guard, left, effects);
                }
            }
        }
        self.timers.set(now, id);
    }

    /// The renewal of a holding has been answered.
    pub(super) fn on_renewal_answered(&mut self, now: Instant, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_renewing = false;
            self.timers.set(now, id);
        }
    }

    /// The renewal of a holding has failed. It is not lost: only time decides, because neither a
    /// store that is down nor a coordinator that refuses to renew has taken it away.
    pub(super) fn on_renewal_failed(&mut self, now: Instant, id: u64, retry_at: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.renew_at = Some(retry_at);
        }
        self.on_renewal_answered(now, id);
    }

    /// A renewal has failed because the grant with this token is not held.
    pub(super) fn on_not_owner(
        &mut self,
        (id, token): (u64, u64),
        loss: &Loss,
        effects: &mut Vec<Effect>,
    ) {
        let entry = self.entries.get(&id);
        if entry.is_some_and(|it| it.holding.fencing_token() == token) {
            self.lose(id, loss, effects);
        }
    }

    /// The answers to renewals under way are lost.
    pub(super) fn on_stream_ended(&mut self) {
        for entry in self.entries.values_mut() {
            entry.is_renewing = false;
        }
    }

    /// Each holding has to be checked.
    pub(super) fn on_resumed(&mut self, now: Instant) {
        for id in self.entries.keys() {
            self.timers.set(now, *id);
        }
    }

    /// The coordinator says that a holding is lost; see [`lose`](Self::lose). The loss of an older
    /// grant is ignored: its owner holds the lock anew. So is that of what is being released.
    pub(super) fn on_lost(&mut self, gone: &Holding, loss: &Loss, effects: &mut Vec<Effect>) {
        let Some(id) = self.find(gone) else {
            return;
        };
        let entry = self.entries.get(&id);
        if entry.is_some_and(|it| !it.guards.is_empty() && !gone.is_older_than(&it.holding)) {
            self.lose(id, loss, effects);
        }
    }

    /// Asks the guards of a holding to yield; false if there are none, or only of another grant.
    pub(super) fn on_asked(&self, asked: &Holding, request: &YieldRequest) -> bool {
        let entry = self.find(asked).and_then(|id| self.entries.get(&id));
        let entry = entry.filter(|it| {
            !it.guards.is_empty() && it.holding.fencing_token() == asked.fencing_token()
        });
        if let Some(entry) = entry {
            entry.validity.ask(request.clone());
        }
        entry.is_some()
    }

    /// Reports a loss to the holding's guards. An acquire whose guard is not delivered yet fails,
    /// and is released: of several locks the others are still held.
    fn lose(&mut self, id: u64, loss: &Loss, effects: &mut Vec<Effect>) {
        let Some(entry) = self.remove(id) else {
            return;
        };
        entry.validity.lose(loss.clone());
        for guard in entry.guards {
            let Some(guard_entry) = self.guards.get_mut(&guard) else {
                continue;
            };
            let failure = || loss.clone().of(entry.holding.name());
            guard_entry.loss.get_or_insert_with(failure);
            match guard_entry.unconfirmed.take() {
                None => effects.push(Effect::Lost(guard)),
                Some(unconfirmed) => {
                    let name = guard_entry.holdings.first().map(Holding::name);
                    let failure = loss.clone().of(name.unwrap_or_default());
                    effects.push(Effect::Done {
                        op_id: unconfirmed.op_id,
                        result: Err(failure),
                    });
                    self.release(guard, None, effects);
                }
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<HoldingEntry> {
        let entry = self.entries.remove(&id)?;
        self.timers.stop(id);
        for key in entry.holding.keys() {
            if self.by_key.get(&key) == Some(&id) {
                self.by_key.remove(&key);
            }
        }
        Some(entry)
    }

    /// Begins to release what a guard holds, even if it is lost: a coordinator that could not be
    /// reached may still hold it for this session. But not what its owner holds anew.
    pub(super) fn release(&mut self, guard: u64, op_id: Option<u64>, effects: &mut Vec<Effect>) {
        let Some(entry) = self.guards.remove(&guard) else {
            if let Some(op_id) = op_id {
                let result = Err(closed());
                effects.push(Effect::Done { op_id, result });
            }
            return;
        };
        let is_gone = |it: &Holding| {
            let now = self.find(it).and_then(|id| self.entries.get(&id));
            now.is_some_and(|now| now.lacks_hold_of(guard, it))
        };
        let (gone, held): (Vec<_>, Vec<_>) = entry.holdings.into_iter().partition(is_gone);
        let loss = gone.first().map(|it| {
            let unheard = || unheard(it.name());
            entry.loss.unwrap_or_else(unheard)
        });
        for id in &entry.ids {
            if let Some(holding) = self.entries.get_mut(id) {
                holding.guards.retain(|it| *it != guard);
            }
        }
        self.releases.insert(guard, entry.ids);
        let caller = match (op_id, loss) {
            (Some(op_id), Some(loss)) => {
                let result = Err(loss);
                effects.push(Effect::Done { op_id, result });
                None
            }
            (op_id, _) => op_id,
        };
        if held.is_empty() {
            return self.on_released(guard);
        }
        let id = caller.unwrap_or_else(|| self.ids.next());
        self.started.push(Operation {
            has_caller: caller.is_some(),
            ..Operation::new(id, release_of(&held), Purpose::Release(guard))
        });
    }

    /// The release of what a guard held has ended.
    pub(super) fn on_released(&mut self, guard: u64) {
        for id in self.releases.remove(&guard).unwrap_or_default() {
            let entry = self.entries.get(&id);
            if entry.is_some_and(|it| it.guards.is_empty()) {
                self.remove(id);
            }
        }
    }

    /// Fails the operations whose guards are not delivered yet.
    pub(super) fn fail_unconfirmed(&mut self, error: &Error, effects: &mut Vec<Effect>) {
        let guards = self.guards.extract_if(|_, it| it.unconfirmed.is_some());
        for unconfirmed in guards.filter_map(|(_, it)| it.unconfirmed) {
            effects.push(Effect::Done {
                op_id: unconfirmed.op_id,
                result: Err(error.clone()),
            });
        }
    }

    /// Everything is lost.
    pub(super) fn lose_all(&mut self, loss: &Loss, effects: &mut Vec<Effect>) {
        while let Some(id) = self.entries.keys().next().copied() {
            self.lose(id, loss, effects);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.timers.next()
    }
}
