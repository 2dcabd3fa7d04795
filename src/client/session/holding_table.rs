//! What the session holds, until when, and by which guards.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use lockkeeper_api::pb::{Grant, LostReason, PermitGrant, SessionOpened, session_request::Request};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    command::{Answer, Held, Reply, WeakCommands, closed},
    timers::Timers,
};
use crate::{
    Error,
    duration::to_std,
    holding::{GrantKey, Holding, release_of},
    validity::{Loss, Validity},
};

/// All that the session holds.
pub(super) struct HoldingTable {
    entries: BTreeMap<u64, HoldingEntry>,
    guards: HashMap<u64, GuardEntry>,
    by_key: HashMap<GrantKey, u64>,
    /// Releases without an answer, by guard.
    releases: HashMap<u64, Release>,
    timers: Timers,
    commands: WeakCommands,
    pub(super) times: RenewalTimes,
}

/// One grant, which several guards may share.
struct HoldingEntry {
    holding: Holding,
    validity: Arc<Validity>,
    /// Empty once it is being released: its loss is not reported then.
    guards: Vec<u64>,
    /// `None` for a lease that was given with the request.
    renew_at: Option<Instant>,
    is_renewing: bool,
}

/// What one guard holds.
struct GuardEntry {
    holdings: Vec<u64>,
    lost: CancellationToken,
    release: Request,
    unconfirmed: Option<Unconfirmed>,
}

/// A guard that is delivered once all of it was renewed: the answer took so long that it does not
/// say until when it is valid.
struct Unconfirmed {
    reply: Reply<Answer>,
    holdings: Vec<Holding>,
    /// Those that are not renewed yet.
    left: Vec<u64>,
}

struct Release {
    holdings: Vec<u64>,
    reply: Option<Reply<()>>,
}

/// What the driver has to do for a holding.
pub(super) enum Upkeep {
    Nothing,
    Renew(Request),
    /// It is lost; see [`HoldingTable::lose`].
    Lost(Vec<u64>),
}

/// When watched holdings are renewed: a little before the coordinator's watchdog, which counts from
/// the last renewal of any kind, and so has nothing to do as long as this client renews. Only the
/// answer to a request says until when a grant is valid, because only its age has a known limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenewalTimes {
    lease: Duration,
    interval: Duration,
}

// === impl RenewalTimes ===

impl RenewalTimes {
    pub(super) fn of(opened: &SessionOpened) -> Self {
        let lease = to_std(opened.lease);
        let interval = opened.renew_interval;
        let interval = interval.map_or(of_lease(lease), |it| to_std(Some(it)));
        Self { lease, interval }
    }

    /// `None` for a holding that is not renewed in the background.
    fn renew_at(self, sent_at: Instant, holding: &Holding) -> Option<Instant> {
        let interval = match holding.lease() {
            lease if lease == self.lease => self.interval,
            lease => of_lease(lease),
        };
        holding.is_watched().then_some(sent_at + interval)
    }
}

fn of_lease(lease: Duration) -> Duration {
    lease * 3 / 10
}

// === impl HoldingTable ===

impl HoldingTable {
    pub(super) fn new(commands: WeakCommands, times: RenewalTimes) -> Self {
        Self {
            entries: BTreeMap::new(),
            guards: HashMap::new(),
            by_key: HashMap::new(),
            releases: HashMap::new(),
            timers: Timers::default(),
            commands,
            times,
        }
    }

    /// Adds what a request acquired and delivers its guard. Returns the holdings to
    /// [`check`](Self::check).
    ///
    /// Only the instant of the request is known, not that of the grant: after a long wait the guard
    /// is delivered when a renewal has said until when it is valid.
    pub(super) fn grant(
        &mut self,
        now: Instant,
        sent_at: Instant,
        holdings: Vec<Holding>,
        reply: Reply<Answer>,
    ) -> Vec<u64> {
        let guard = self.commands.ids.next();
        let times = self.times;
        let mut ids = Vec::with_capacity(holdings.len());
        let mut stale = Vec::new();
        for holding in &holdings {
            let until = sent_at + holding.valid_for();
            let is_stale = now + holding.valid_for().mul_f64(2.0 / 3.0) > until;
            let id = self.commands.ids.next();
            let (id, entry) = self.add(guard, id, holding, until.max(now));
            ids.push(id);
            entry.renew_at = times.renew_at(sent_at, holding).map(|at| at.max(now));
            if is_stale {
                stale.push(id);
                entry.renew_at = Some(now);
                // Without effect on a guard: there is none until it is confirmed.
                entry.validity.set_valid_until(now + holding.lease());
            }
        }
        let entry = GuardEntry {
            holdings: ids.clone(),
            lost: CancellationToken::new(),
            release: release_of(&holdings),
            unconfirmed: None,
        };
        self.guards.insert(guard, entry);
        if stale.is_empty() {
            self.deliver(guard, reply, holdings);
        } else if let Some(entry) = self.guards.get_mut(&guard) {
            entry.unconfirmed = Some(Unconfirmed {
                reply,
                holdings,
                left: stale,
            });
        }
        ids
    }

    /// Adds a grant with a new id, or one more hold of a known grant, and returns its id.
    fn add(
        &mut self,
        guard: u64,
        new: u64,
        holding: &Holding,
        until: Instant,
    ) -> (u64, &mut HoldingEntry) {
        let known = self.find(holding);
        let known = known.filter(|id| self.entries.contains_key(id));
        let id = known.unwrap_or(new);
        if known.is_none() {
            for key in holding.keys() {
                self.by_key.insert(key, id);
            }
        }
        let entry = self.entries.entry(id).or_insert_with(|| HoldingEntry {
            holding: holding.clone(),
            validity: Arc::new(Validity::new(holding.name(), until)),
            guards: Vec::new(),
            renew_at: None,
            is_renewing: false,
        });
        entry.guards.push(guard);
        entry.holding = holding.clone();
        let until = until.max(entry.validity.valid_until());
        entry.validity.set_valid_until(until);
        (id, entry)
    }

    /// Hands a guard to its user. If the user is gone, dropping the guard releases it.
    fn deliver(&self, guard: u64, reply: Reply<Answer>, holdings: Vec<Holding>) {
        let (Some(commands), Some(entry)) = (self.commands.upgrade(), self.guards.get(&guard))
        else {
            return;
        };
        let entries = entry.holdings.iter().filter_map(|id| self.entries.get(id));
        let held = Held {
            commands,
            guard,
            validities: entries.map(|it| Arc::clone(&it.validity)).collect(),
            lost: entry.lost.clone(),
            is_released: false,
        };
        let _ = reply.send(Ok(Answer::Granted(held, holdings)));
    }

    pub(super) fn contains(&self, holding: &Holding) -> bool {
        self.find(holding).is_some()
    }

    fn find(&self, holding: &Holding) -> Option<u64> {
        let mut keys = holding.keys().into_iter();
        keys.find_map(|key| self.by_key.get(&key)).copied()
    }

    /// Everything that is held, to be named when the session is resumed.
    pub(super) fn grants(&self) -> (Vec<Grant>, Vec<PermitGrant>) {
        let holdings = || self.entries.values().map(|it| &it.holding);
        let locks = holdings().filter_map(Holding::lock).cloned().collect();
        let permits = holdings().filter_map(Holding::permits).cloned().collect();
        (locks, permits)
    }

    /// Says what a holding needs now, and sets its next timer. A renewal is only asked for if it
    /// can be sent.
    pub(super) fn check(&mut self, now: Instant, id: u64, can_send: bool) -> Upkeep {
        let Some(entry) = self.entries.get_mut(&id) else {
            return Upkeep::Nothing;
        };
        if entry.guards.is_empty() {
            return Upkeep::Nothing;
        }
        let valid_until = entry.validity.valid_until();
        if valid_until <= now {
            return Upkeep::Lost(self.lose(id, &Loss::new(LostReason::Expired)));
        }
        self.timers.set(valid_until, id);
        let (false, Some(renew_at), true) = (entry.is_renewing, entry.renew_at, can_send) else {
            return Upkeep::Nothing;
        };
        if renew_at > now {
            self.timers.set(renew_at, id);
            return Upkeep::Nothing;
        }
        entry.is_renewing = true;
        Upkeep::Renew(entry.holding.renewal(None))
    }

    /// Takes over the result of a renewal, or of a resume, that was sent at `sent_at`.
    pub(super) fn renewed(&mut self, now: Instant, sent_at: Instant, holding: Holding) {
        let Some(id) = self.find(&holding) else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        let until = sent_at + holding.valid_for();
        let is_confirmed = until > now;
        let is_awaited = entry.guards.iter().any(|guard| {
            let guard = self.guards.get(guard);
            guard.is_some_and(|it| it.unconfirmed.is_some())
        });
        // Answers to a renewal and to a resume may overtake each other.
        if is_confirmed && (is_awaited || entry.validity.valid_until() < until) {
            entry.validity.set_valid_until(until);
        }
        entry.renew_at = self.times.renew_at(sent_at, &holding).map(|at| at.max(now));
        entry.holding = holding;
        if is_confirmed {
            for guard in entry.guards.clone() {
                self.confirm(guard, id);
            }
        }
        self.timers.set(now, id);
    }

    fn confirm(&mut self, guard: u64, holding: u64) {
        let Some(entry) = self.guards.get_mut(&guard) else {
            return;
        };
        let Some(mut unconfirmed) = entry.unconfirmed.take() else {
            return;
        };
        unconfirmed.left.retain(|id| *id != holding);
        if unconfirmed.left.is_empty() {
            self.deliver(guard, unconfirmed.reply, unconfirmed.holdings);
        } else {
            entry.unconfirmed = Some(unconfirmed);
        }
    }

    /// The renewal of a holding has been answered.
    pub(super) fn on_renewal_answered(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_renewing = false;
        }
    }

    /// The renewal of a holding has failed. It is not lost: only time decides, because neither a
    /// store that is down nor a coordinator that refuses to renew has taken it away.
    pub(super) fn on_renewal_failed(&mut self, id: u64, retry_at: Instant) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.is_renewing = false;
            entry.renew_at = Some(retry_at);
            self.timers.set(retry_at, id);
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
    /// grant is ignored: its owner holds the lock anew.
    pub(super) fn on_lost(&mut self, gone: &Holding, loss: &Loss) -> Vec<u64> {
        let Some(id) = self.find(gone) else {
            return Vec::new();
        };
        let entry = self.entries.get(&id);
        if entry.is_some_and(|it| gone.is_older_than(&it.holding)) {
            return Vec::new();
        }
        self.lose(id, loss)
    }

    /// Reports a loss to the holding's guards. An acquire whose guard is not delivered yet fails;
    /// returns such guards, to be released: of several locks the others are still held.
    pub(super) fn lose(&mut self, id: u64, loss: &Loss) -> Vec<u64> {
        let Some(entry) = self.remove(id) else {
            return Vec::new();
        };
        entry.validity.lose(loss.clone());
        let mut failed = Vec::new();
        for guard in entry.guards {
            let Some(entry) = self.guards.get_mut(&guard) else {
                continue;
            };
            entry.lost.cancel();
            if let Some(unconfirmed) = entry.unconfirmed.take() {
                let name = unconfirmed.holdings.first().map(Holding::name);
                let failure = loss.clone().of(name.unwrap_or_default());
                let _ = unconfirmed.reply.send(Err(failure));
                failed.push(guard);
            }
        }
        failed
    }

    fn remove(&mut self, id: u64) -> Option<HoldingEntry> {
        let entry = self.entries.remove(&id)?;
        for key in entry.holding.keys() {
            if self.by_key.get(&key) == Some(&id) {
                self.by_key.remove(&key);
            }
        }
        Some(entry)
    }

    /// Begins to release what a guard holds, even if it is lost: a coordinator that could not be
    /// reached may still hold it for this session. Returns the request to send.
    pub(super) fn release(&mut self, guard: u64, reply: Option<Reply<()>>) -> Option<Request> {
        let Some(entry) = self.guards.remove(&guard) else {
            if let Some(reply) = reply {
                let _ = reply.send(Err(closed()));
            }
            return None;
        };
        for id in &entry.holdings {
            if let Some(holding) = self.entries.get_mut(id) {
                holding.guards.retain(|it| *it != guard);
            }
        }
        let holdings = entry.holdings;
        self.releases.insert(guard, Release { holdings, reply });
        Some(entry.release)
    }

    /// The release of what a guard held has ended.
    pub(super) fn on_released(&mut self, guard: u64, result: Result<(), Error>) {
        let Some(release) = self.releases.remove(&guard) else {
            return;
        };
        for id in release.holdings {
            let entry = self.entries.get(&id);
            if entry.is_some_and(|it| it.guards.is_empty()) {
                self.remove(id);
            }
        }
        if let Some(reply) = release.reply {
            let _ = reply.send(result);
        }
    }

    /// The session has ended: everything is lost.
    pub(super) fn lose_all(&self, loss: &Loss) {
        for entry in self.entries.values() {
            entry.validity.lose(loss.clone());
            for guard in entry.guards.iter().filter_map(|it| self.guards.get(it)) {
                guard.lost.cancel();
            }
        }
    }

    /// No release will be answered.
    pub(super) fn end(self, error: &Error) {
        for reply in self.releases.into_values().filter_map(|it| it.reply) {
            let _ = reply.send(Err(error.clone()));
        }
    }

    pub(super) fn wake_at(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next holding to check now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u64> {
        self.timers.pop_due(now)
    }
}
