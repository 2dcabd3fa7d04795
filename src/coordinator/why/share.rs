//! Keeps the waits of this coordinator in the store while they last.

use std::{collections::BTreeMap, time::Duration};

use futures::StreamExt as _;
use tokio::time::Instant;

use crate::{
    core::Core,
    why::{
        board::Own,
        shared::{millis, write},
        wait::{Party, Waits},
    },
};

/// What is shared is written again when it is older, with every second look for deadlocks. One is
/// named only after that.
const REFRESH: Duration = Duration::from_millis(350);

/// How long it outlives its coordinator.
const TTL: Duration = Duration::from_secs(3);

/// Concurrent calls.
const CALLS_AT_ONCE: usize = 32;

/// What is in the store.
#[derive(Debug, Default)]
pub(crate) struct Shares(BTreeMap<Party, Share>);

#[derive(Debug, Default)]
struct Share {
    /// When it was last written.
    written: Option<Instant>,
    /// When each wait began, by the store's clock.
    began: BTreeMap<u64, u64>,
}

// === impl Shares ===

impl Shares {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes what is new or due, and takes back what is over. Waits learn when they began.
    pub(crate) async fn update(&mut self, core: &Core, own: &mut Own, interval: Duration) {
        self.take_back(core, own).await;
        let ttl = TTL.max(4 * interval);
        let mut due = Vec::new();
        for (party, waits) in &mut own.parties {
            let share = self.0.entry(party.clone()).or_default();
            if share.is_due(waits) {
                due.push((party.clone(), write(&core.why.coordinator, waits)));
            }
        }
        let prefix = &core.config.limits.key_prefix;
        let calls = futures::stream::iter(due).map(|(party, text)| async move {
            let (sent_at, digest) = (Instant::now(), party.digest());
            let shared = core
                .scripts
                .share_waits((prefix, &digest), ttl, Some(&text));
            (party, sent_at, shared.await)
        });
        let mut calls = calls.buffer_unordered(CALLS_AT_ONCE);
        while let Some((party, sent_at, shared)) = calls.next().await {
            match shared {
                Ok(now) => {
                    if let Some(share) = self.0.get_mut(&party) {
                        share.done(&own.parties[&party], sent_at, now);
                    }
                }
                Err(error) => tracing::debug!(%error, "waits are not shared"),
            }
        }
        for (party, waits) in &mut own.parties {
            for wait in &mut waits.all {
                wait.began = self.0[party].began.get(&wait.id.1).copied();
            }
        }
    }

    async fn take_back(&mut self, core: &Core, own: &Own) {
        let prefix = &core.config.limits.key_prefix;
        let over = self
            .0
            .keys()
            .filter(|party| !own.parties.contains_key(party));
        let over: Vec<_> = over.cloned().collect();
        self.0.retain(|party, _| own.parties.contains_key(party));
        let calls = futures::stream::iter(over).map(|party| async move {
            let digest = party.digest();
            // If the store does not answer, they end with their time to live.
            let _ = core.scripts.share_waits((prefix, &digest), TTL, None).await;
        });
        calls.buffer_unordered(CALLS_AT_ONCE).collect::<()>().await;
    }
}

// === impl Share ===

impl Share {
    /// Whether other waits are to be written than before, or the same again. What is known of them
    /// is entered.
    fn is_due(&mut self, waits: &mut Waits) -> bool {
        let known = self.began.len();
        let tickets = |it: &u64| waits.all.iter().any(|wait| wait.id.1 == *it);
        self.began.retain(|ticket, _| tickets(ticket));
        let is_same = self.began.len() == known && known == waits.all.len();
        for wait in &mut waits.all {
            wait.began = self.began.get(&wait.id.1).copied();
        }
        !is_same || self.written.is_none_or(|at| at.elapsed() >= REFRESH)
    }

    /// They were written at this time of the store.
    fn done(&mut self, waits: &Waits, sent_at: Instant, now: u64) {
        self.written = Some(sent_at);
        for wait in &waits.all {
            let waited = millis(sent_at.saturating_duration_since(wait.since));
            let began = now.saturating_sub(waited);
            self.began.entry(wait.id.1).or_insert(began);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        testing::{SECOND, config, name, owner, start},
        types::Goal,
        why::wait::Wait,
    };
    use lockkeeper_store::script::Mode;

    /// A wait for each ticket.
    fn waits(tickets: &[u64]) -> Waits {
        let wait = |ticket: &u64| Wait {
            id: ("here".into(), *ticket),
            owner: owner("x"),
            name: name("a"),
            goal: Goal::Lock(Mode::Exclusive),
            since: Instant::now(),
            began: None,
            ends_on_deadlock: false,
        };
        Waits {
            client_name: String::new(),
            all: tickets.iter().map(wait).collect(),
            complete: true,
            alive_at: Instant::now(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_written_when_they_are_others_and_else_now_and_then() {
        let shared = || {
            let mut share = Share::default();
            assert!(share.is_due(&mut waits(&[1, 2])));
            share.done(&waits(&[1, 2]), Instant::now(), 1_000);
            share
        };
        let rows: [(&[u64], bool); 5] = [
            (&[1, 2], false),
            (&[1], true),
            (&[1, 2, 3], true),
            (&[1, 3], true),
            (&[], true),
        ];
        for (tickets, is_due) in rows {
            assert_eq!(shared().is_due(&mut waits(tickets)), is_due, "{tickets:?}");
        }
        let mut share = shared();
        tokio::time::advance(REFRESH.saturating_sub(Duration::from_millis(1))).await;
        assert!(!share.is_due(&mut waits(&[1, 2])));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(share.is_due(&mut waits(&[1, 2])));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_shared_outlives_the_pause_until_the_next_look() {
        let coordinator = start(config());
        let core = &coordinator.core;
        let party = Party::of(&owner("x"));
        let mut own = Own::none(&core.why.coordinator);
        own.parties.insert(party.clone(), waits(&[1]));
        Shares::default().update(core, &mut own, SECOND * 5).await;
        tokio::time::advance(SECOND * 6).await;
        let shared = core.scripts.shared_waits(("", &party.digest())).await;
        assert!(shared.unwrap().is_some());
    }
}
