//! Random calls about semaphores and latches: the embedded store and a real Redis answer alike, and
//! no more permits are held than there are.

use std::{collections::VecDeque, fmt::Write as _};

use lockkeeper_store::{
    host::ScriptHost,
    script::{PermitId, Scripts},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::requests::{permit_attempt, permit_renewal};
use super::{
    counter_story::{acquired, released},
    story::{config, rounded},
};
use crate::support::hosts::{Store, TWINS};
use crate::support::prelude::*;

const SEEDS: std::ops::Range<u64> = 0..4;
const CALLS: u32 = 600;
/// Mostly semaphores and a latch, but not always.
const NAMES: [&str; 3] = ["p", "x{a}y", "latch"];
const OWNERS: [&str; 3] = ["o1", "o2", "s:o3"];
const TOTAL_MAX: u32 = 8;
/// Who took permits lately may give them back, or be mistaken for somebody else.
const REMEMBERED: usize = 4;

/// Permits that somebody asked for.
#[derive(Clone, Debug)]
struct Asked {
    name: &'static str,
    owner: &'static str,
    attempt: &'static str,
    request: Option<String>,
    ids: Vec<PermitId>,
}

/// What both stores are asked.
#[derive(Clone, Debug)]
enum Ask {
    Set(u32, bool),
    Take(Vec<PermitId>, Duration, Option<String>, &'static str, bool),
    Give(Vec<PermitId>, Option<String>),
    Undo(Vec<PermitId>, Option<String>, &'static str),
    Renew(Vec<PermitId>, Duration),
    Count(u32, Option<String>),
    Down(u32, Option<String>),
    Look,
    Delete,
    /// The lease of a permit is over since long.
    Expire(PermitId),
    /// What an operator does.
    Remove,
}

/// One store and what is asked of it.
struct Side {
    store: Store,
    scripts: Scripts,
}

#[tokio::test]
async fn random_calls_about_counters_are_answered_alike() {
    let mut sides = Vec::new();
    for host in TWINS {
        let store = host.start().await;
        let (client, _wakes): (std::sync::Arc<dyn ScriptHost>, _) = store.connect();
        let scripts = Scripts::new(client, config());
        sides.push(Side { store, scripts });
    }
    for seed in SEEDS {
        for side in &sides {
            side.store.flush().await;
        }
        let mut random = StdRng::seed_from_u64(seed);
        let (mut story, mut asked) = (String::new(), VecDeque::new());
        for call in 0..CALLS {
            let (name, owner, ask) = next(call, &mut asked, &mut random);
            let mut told = Vec::new();
            for side in &sides {
                let outcome = side.tell(name, owner, &ask).await;
                told.push(format!("{outcome}; {}", side.shown(name).await));
            }
            let _ = writeln!(story, "{name} {owner} {ask:?} => {}", told[0]);
            assert_eq!(told[0], told[1], "seed {seed}, after\n{story}");
        }
    }
}

fn next(
    call: u32,
    asked: &mut VecDeque<Asked>,
    random: &mut StdRng,
) -> (&'static str, &'static str, Ask) {
    let latch = random.random_ratio(1, 4);
    let name = match random.random_ratio(1, 30) {
        true => pick(&NAMES, random),
        false if latch => NAMES[2],
        false => pick(&NAMES[..2], random),
    };
    let owner = pick(&OWNERS, random);
    let request = random
        .random_ratio(1, 3)
        .then(|| format!("r{}", call / 25 + random.random_range(0..3)));
    if latch {
        return (name, owner, ask_latch(request, random));
    }
    let lease = secs(100 * random.random_range(1..=5));
    if asked.is_empty() || random.random_ratio(2, 5) {
        let total = random.random_range(3..=TOTAL_MAX);
        if random.random_ratio(1, 4) {
            let only_if_absent = random.random_ratio(1, 3);
            return (name, owner, Ask::Set(total, only_if_absent));
        }
        let ids: Vec<_> = (0..random.random_range(1..=3))
            .map(|n| id(call, n))
            .collect();
        let attempt = pick(&["1", "2"], random);
        asked.push_front(Asked {
            name,
            owner,
            attempt,
            request: request.clone(),
            ids: ids.clone(),
        });
        asked.truncate(REMEMBERED);
        let take = Ask::Take(ids, lease, request, attempt, random.random());
        return (name, owner, take);
    }
    let known = asked[random.random_range(0..asked.len())].clone();
    let owner = if random.random_ratio(1, 8) {
        owner
    } else {
        known.owner
    };
    let first = known.ids[..1].to_vec();
    let ask = match random.random_range(0..20) {
        0..3 => Ask::Take(known.ids, lease, known.request, "3", random.random()),
        3..8 => Ask::Give(known.ids, request),
        8..10 => Ask::Give(first, request),
        10 => Ask::Give(Vec::new(), request),
        11..13 => Ask::Undo(known.ids, known.request, known.attempt),
        13..16 => Ask::Renew(known.ids, lease),
        16..19 => Ask::Expire(known.ids[0]),
        _ => Ask::Remove,
    };
    (known.name, owner, ask)
}

fn ask_latch(request: Option<String>, random: &mut StdRng) -> Ask {
    match random.random_range(0..10) {
        0..3 => Ask::Count(random.random_range(1..5), request),
        3..8 => Ask::Down(random.random_range(1..4), request),
        8 => Ask::Look,
        _ => Ask::Delete,
    }
}

/// The permit of a call, in bytes that no text has.
fn id(call: u32, number: u32) -> PermitId {
    let mut id = [0xff; 16];
    id[..4].copy_from_slice(&call.to_le_bytes());
    id[4..8].copy_from_slice(&number.to_be_bytes());
    id
}

fn pick<T: Copy>(from: &[T], random: &mut StdRng) -> T {
    *from.choose(random).unwrap()
}

// === impl Side ===

impl Side {
    async fn tell(&self, name: &str, owner: &str, ask: &Ask) -> String {
        let scripts = &self.scripts;
        let told = match ask {
            Ask::Set(total, only_if_absent) => {
                let set = scripts.set_permits(name, *total, *only_if_absent).await;
                set.map(|set| format!("{set:?}"))
            }
            Ask::Take(ids, lease, request, attempt, recorded) => {
                let attempt = permit_attempt(ids, request.as_deref(), attempt);
                let taken = scripts.acquire_permits(name, owner, *lease, attempt, *recorded);
                taken.await.map(|outcome| acquired(&outcome))
            }
            Ask::Give(ids, request) => {
                let given = scripts.release_permits(name, owner, ids, request.as_deref());
                given.await.map(|outcome| released(&outcome))
            }
            Ask::Undo(ids, request, attempt) => {
                let attempt = permit_attempt(ids, request.as_deref(), attempt);
                let undone = scripts.undo_permits(name, attempt).await;
                undone.map(|undone| undone.to_string())
            }
            Ask::Renew(ids, lease) => {
                let renewals =
                    [NAMES[0], name].map(|name| permit_renewal(name, owner, *lease, ids.clone()));
                let renewed = scripts.renew_permits(&renewals).await;
                renewed.complete().map(|renewed| {
                    let each = renewed.into_iter();
                    format!("{:?}", each.map(|it| it.map(rounded)).collect::<Vec<_>>())
                })
            }
            Ask::Count(count, request) => {
                let set = scripts.set_count(name, *count, None, request.as_deref());
                set.await.map(|set| format!("{set:?}"))
            }
            Ask::Down(by, request) => {
                let counted = scripts.count_down(name, *by, request.as_deref()).await;
                counted.map(|counted| format!("{counted:?}"))
            }
            Ask::Look => scripts
                .inspect_latch(name)
                .await
                .map(|seen| format!("{seen:?}")),
            Ask::Delete => scripts
                .delete_latch(name)
                .await
                .map(|deleted| deleted.to_string()),
            Ask::Expire(id) => {
                let leases = keys::permit_leases(name).to_bytes();
                let words: [&[u8]; 5] = [b"ZADD", &leases, b"XX", b"7", id];
                Ok(format!(
                    "{:?}",
                    self.store.try_command(&words).await.is_ok()
                ))
            }
            Ask::Remove => {
                let words: [&[u8]; 2] = [b"DEL", name.as_bytes()];
                Ok(format!("{:?}", self.store.try_command(&words).await))
            }
        };
        told.unwrap_or_else(|error| format!("{error:?}"))
    }

    /// What there is by the name. What is held and what is free make the total, and no more is held
    /// than there is, or was when it was taken.
    async fn shown(&self, name: &str) -> String {
        let keys = self.store.key_count().await;
        let Ok(seen) = self.scripts.inspect_semaphore(name, u32::MAX).await else {
            return format!("no semaphore, {keys} keys");
        };
        let held: u32 = seen.holders.iter().map(|holder| holder.permits).sum();
        assert!(held <= TOTAL_MAX, "{seen:?}");
        let exists = self.store.command(&["EXISTS", name]).await;
        if exists == lockkeeper_store::host::Value::Int(1) {
            assert_eq!(i64::from(seen.total), seen.available + i64::from(held));
        }
        let mut text = format!("{} of {}", seen.available, seen.total);
        for holder in seen.holders {
            let remaining = holder.remaining.map_or("never".to_owned(), rounded);
            let owner = holder.owner.escape_ascii();
            let _ = write!(text, " {owner}={}/{remaining}", holder.permits);
        }
        format!("{text}, {keys} keys")
    }
}
