//! Reads the waits of this coordinator that are worth sharing.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use lockkeeper_access::Identity;
use tokio::time::Instant;

use crate::{
    core::Core,
    types::Goal,
    waiters::{line::Waiter, queue::Waiters},
    why::{
        board::Own,
        wait::{Party, Wait, Waits},
    },
};

/// Shorter waits are not shared.
const SHARED_AFTER: Duration = Duration::from_secs(1);

/// Owners and sessions whose waits are shared, and how many of them may be of one caller with
/// quotas.
const PARTIES_MAX: usize = 512;
const PARTIES_PER_CALLER: usize = PARTIES_MAX / 4;

/// Waits shared of one session.
const WAITS_PER_PARTY: usize = 16;

/// The waits that are older than a second and whose owners hold something.
pub(crate) fn own(core: &Core) -> Own {
    let at = Instant::now();
    let mut own = Own {
        at,
        ..Own::none(&core.why.coordinator)
    };
    let old = core.waiters.old_parties(at);
    let mut callers: HashMap<Identity, usize> = HashMap::new();
    let mut chosen = BTreeSet::new();
    for (party, caller) in old {
        if !holds(core, &party) {
            continue;
        }
        let of_caller = caller.map(|caller| callers.entry(caller).or_default());
        let is_room = chosen.len() < PARTIES_MAX
            && of_caller
                .as_ref()
                .is_none_or(|count| **count < PARTIES_PER_CALLER);
        if is_room {
            if let Some(count) = of_caller {
                *count += 1;
            }
            chosen.insert(party);
        } else {
            own.left_out += 1;
        }
    }
    if !chosen.is_empty() {
        core.waiters.collect_waits(core, chosen, &mut own);
    }
    own
}

/// Whether others may wait for this party. What an owner without a session holds, only the store
/// knows; what it was granted here is remembered.
fn holds(core: &Core, party: &Party) -> bool {
    match party {
        Party::Session(id) => core.sessions.get(id).is_ok_and(|it| it.holds_any()),
        Party::Owner(field) => core.sessionless.may_hold(field),
    }
}

// === impl Waiters ===

impl Waiters {
    /// The parties with an old wait, each with its caller if that one has quotas.
    fn old_parties(&self, now: Instant) -> BTreeMap<Party, Option<Identity>> {
        let mut parties = BTreeMap::new();
        self.each(|_, waiter| {
            let is_old = now.saturating_duration_since(waiter.since) >= SHARED_AFTER;
            // An owner that was made for this wait holds nothing.
            if is_old && !waiter.owner.is_new() {
                parties.insert(Party::of(&waiter.owner), waiter.caller.clone());
            }
        });
        parties
    }

    fn collect_waits(&self, core: &Core, chosen: BTreeSet<Party>, own: &mut Own) {
        let at = own.at;
        let waits = |party: Party| {
            let waits = Waits {
                client_name: core.client_name(&party.owner("")),
                all: Vec::new(),
                complete: true,
                alive_at: at,
            };
            (party, waits)
        };
        own.parties = chosen.into_iter().map(waits).collect();
        self.each(|ticket, waiter| {
            let Some(of_party) = own.parties.get_mut(&Party::of(&waiter.owner)) else {
                return;
            };
            if of_party.all.len() == WAITS_PER_PARTY {
                of_party.complete = false;
                return;
            }
            own.waiters.insert(ticket, Arc::clone(waiter));
            of_party.all.push(Wait {
                id: (Arc::clone(&core.why.coordinator), ticket),
                owner: waiter.owner.clone(),
                name: waiter.name.clone(),
                goal: waiter.goal,
                since: waiter.since,
                began: None,
                ends_on_deadlock: waiter.ends_on_deadlock(),
            });
        });
    }

    /// Looks at every wait for a lock or for permits.
    fn each(&self, mut look: impl FnMut(u64, &Arc<Waiter>)) {
        let state = self.state.lock();
        let lines = state.channels.values().flat_map(|it| it.lines.values());
        for (ticket, waiter) in lines.flat_map(|line| &line.waiters) {
            if waiter.goal != Goal::Latch {
                look(*ticket, waiter);
            }
        }
    }
}
