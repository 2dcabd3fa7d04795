//! Stories of semaphores and latches.
//!
//! Permits have names of one letter, `a,c` are two of them. `expire a` ends a lease. A command
//! names keys by `leases`, `owners`, `kind` and `record:r1`.

use std::{collections::BTreeSet, fmt::Write as _};

use bytes::Bytes;
use lockkeeper_store::script::{
    CallError, CountedDown, PermitId, PermitRenewal, PermitsAcquired, PermitsReleased, Scripts,
};

use super::requests::{permit_attempt, permit_renewal};
use super::{
    mask::seconds,
    story::{self, Stage, Teller, config, option, rounded, rounded_or_endless, time},
};
use crate::support::prelude::*;

/// The name that all stories are about, and another one.
const NAMES: [&str; 2] = ["n", "m"];

/// Runs every story on every host.
pub(crate) async fn check(stories: &str) {
    story::check::<Counters>(stories).await;
}

struct Counters {
    scripts: Scripts,
}

// === impl Counters ===

impl Teller for Counters {
    // Names may be on servers of their own, whose messages come in no common order.
    const MARKED: usize = NAMES.len();

    fn channels() -> Vec<String> {
        let channels = NAMES.map(keys::permit_channel).into_iter();
        channels.chain(NAMES.map(keys::latch_channel)).collect()
    }

    async fn begin(stage: &Stage) -> Self {
        Self {
            scripts: Scripts::new(Arc::clone(&stage.client), config()),
        }
    }

    async fn call(&mut self, stage: &Stage, words: &[&str]) -> Option<Result<String, CallError>> {
        let name = option(words, "on").unwrap_or(NAMES[0]);
        let request_id = option(words, "request");
        if let ["expire", permits] = *words {
            for id in ids(permits) {
                stage
                    .ask(&[b"ZADD", &keys::permit_leases(name).to_bytes(), b"7", &id])
                    .await;
            }
            return Some(Ok(String::new()));
        }
        match self.permits(name, request_id, words).await {
            None => self.latch(name, request_id, words).await,
            outcome => outcome,
        }
    }

    fn keys(&self, requests: &BTreeSet<String>) -> Vec<(String, Bytes)> {
        let mut all = Vec::new();
        for (name, place) in NAMES.into_iter().zip(["", "m:"]) {
            let words = [name, "leases", "owners", "kind"];
            all.extend(words.map(|word| (format!("{place}{word}"), key(name, word))));
        }
        let records = requests.iter().map(|id| format!("record:{id}"));
        all.extend(records.map(|word| (word.clone(), Self::key(&word))));
        all
    }

    fn key(word: &str) -> Bytes {
        key(NAMES[0], word)
    }

    fn shown(&mut self, reply: &Value) -> String {
        match reply {
            Value::Array(_) => format!("{{{}}}", flat(reply)),
            reply => flat(reply),
        }
    }

    async fn members(&mut self, stage: &Stage, key: &[u8]) -> String {
        let now = stage.store.now_micros().await / 1000;
        let members = [b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"];
        format!("{{{}}}", scored(&stage.ask(&members).await, now))
    }
}

impl Counters {
    async fn permits(
        &self,
        name: &str,
        request_id: Option<&str>,
        words: &[&str],
    ) -> Option<Result<String, CallError>> {
        let attempt = option(words, "attempt").unwrap_or("1");
        let attempt = |ids| permit_attempt(ids, request_id, attempt);
        let scripts = &self.scripts;
        Some(match *words {
            ["set", total, ..] => {
                let only_if_absent = words.contains(&"absent");
                let set = scripts.set_permits(name, total.parse().unwrap(), only_if_absent);
                set.await.map(|set| {
                    let verb = if set.created { "made" } else { "set" };
                    format!("{verb} {} of {}", set.available, set.total)
                })
            }
            ["take", owner, lease, permits, ..] => {
                let (ids, recorded) = (ids(permits), words.contains(&"recorded"));
                let taken =
                    scripts.acquire_permits(name, owner, time(lease), attempt(&ids), recorded);
                taken.await.map(|outcome| acquired(&outcome))
            }
            ["give", owner, permits, ..] => {
                let ids = if permits == "all" {
                    Vec::new()
                } else {
                    ids(permits)
                };
                let given = scripts.release_permits(name, owner, &ids, request_id);
                given.await.map(|outcome| released(&outcome))
            }
            ["undo", permits, ..] => {
                let ids = ids(permits);
                let undone = scripts.undo_permits(name, attempt(&ids));
                undone.await.map(|undone| undone.to_string())
            }
            ["renew", ref grants @ ..] => {
                let grants: Vec<_> = grants.iter().map(|grant| renewal(grant)).collect();
                let renewed = scripts.renew_permits(&grants).await.complete();
                renewed.map(|renewed| {
                    let each = renewed.iter().map(|outcome| match outcome {
                        Ok(lease) => rounded(*lease),
                        Err(why) => format!("{why:?}"),
                    });
                    each.collect::<Vec<_>>().join(" ")
                })
            }
            ["holders"] => scripts.inspect_semaphore(name, u32::MAX).await.map(|seen| {
                let mut text = format!("{} of {}", seen.available, seen.total);
                for holder in seen.holders {
                    let remaining = rounded_or_endless(holder.remaining);
                    let owner = holder.owner.escape_ascii();
                    let _ = write!(text, " '{owner}'={}/{remaining}", holder.permits);
                }
                text
            }),
            _ => return None,
        })
    }

    async fn latch(
        &self,
        name: &str,
        request_id: Option<&str>,
        words: &[&str],
    ) -> Option<Result<String, CallError>> {
        let scripts = &self.scripts;
        Some(match *words {
            ["count", count, ..] => {
                let ttl = option(words, "ttl").map(time);
                let set = scripts.set_count(name, count.parse().unwrap(), ttl, request_id);
                set.await.map(|set| {
                    let verb = if set.set { "set" } else { "there" };
                    format!("{verb} {}", set.count)
                })
            }
            ["down", by, ..] => {
                let counted = scripts.count_down(name, by.parse().unwrap(), request_id);
                counted.await.map(|counted| match counted {
                    CountedDown::Left(left) => left.to_string(),
                    CountedDown::TooMany(there) => format!("only {there}"),
                })
            }
            ["look"] => scripts.inspect_latch(name).await.map(|seen| {
                let remaining = rounded_or_endless(seen.remaining);
                format!("{} {remaining}", seen.count)
            }),
            ["delete"] => {
                let deleted = scripts.delete_latch(name).await;
                deleted.map(|deleted| deleted.to_string())
            }
            _ => return None,
        })
    }
}

pub(super) fn acquired(outcome: &PermitsAcquired) -> String {
    match outcome {
        PermitsAcquired::Granted {
            ids,
            available,
            lease,
            repeated,
        } => {
            let verb = if *repeated { "repeated" } else { "granted" };
            let letters: Vec<_> = ids.iter().map(|id| letter(id)).collect();
            format!(
                "{verb} {} {} left {available}",
                letters.join(","),
                rounded(*lease)
            )
        }
        PermitsAcquired::Busy {
            available,
            next_end,
        } => format!(
            "busy, left {available}, next {}",
            next_end.map_or("never".to_owned(), rounded)
        ),
        PermitsAcquired::TooMany { total } => format!("too many of {total}"),
        PermitsAcquired::NoSemaphore => "no semaphore".to_owned(),
    }
}

pub(super) fn released(outcome: &PermitsReleased) -> String {
    match *outcome {
        PermitsReleased::Done {
            permits,
            available,
            repeated,
        } => {
            let verb = if repeated { "repeated" } else { "given" };
            format!("{verb} {permits}, left {available}")
        }
        PermitsReleased::NotOwner(ownership) => format!("{ownership:?}"),
    }
}

/// The permits of the letters: ids with bytes that no text has.
pub(super) fn ids(letters: &str) -> Vec<PermitId> {
    let ids = letters.split(',').map(|letter| {
        let mut id = *b"\x00\xff\r\n\x00%s}{ ?\x80\xfe\x0012";
        id[15] = letter.as_bytes()[0];
        id
    });
    ids.collect()
}

/// The letter of a permit of a story; any other as its digits.
fn letter(id: &[u8]) -> String {
    if id[..15] != ids("x")[0][..15] {
        return hex::encode(id);
    }
    char::from(id[15]).to_string()
}

/// `owner@n:100s:a,c`
fn renewal(text: &str) -> PermitRenewal {
    let (owner, rest) = text.split_once('@').unwrap();
    let (name, rest) = rest.split_once(':').unwrap();
    let (lease, letters) = rest.split_once(':').unwrap();
    permit_renewal(name, owner, time(lease), ids(letters))
}

/// The key that a word stands for, or the word; `id:a` is a permit's id.
fn key(name: &str, word: &str) -> Bytes {
    match word.split_once(':') {
        Some(("record", id)) => return keys::record(name, id).to_bytes(),
        Some(("id", letter)) => return Bytes::copy_from_slice(&ids(letter)[0]),
        _ => {}
    }
    match word {
        "leases" => keys::permit_leases(name).to_bytes(),
        "owners" => keys::permit_owners(name).to_bytes(),
        "kind" => keys::kind(name).to_bytes(),
        word => Bytes::copy_from_slice(word.as_bytes()),
    }
}

/// Members with what is left of their leases.
fn scored(members: &Value, now: i64) -> String {
    let Value::Array(items) = members else {
        panic!("{members:?}")
    };
    let shown = items.chunks(2).map(|pair| match pair {
        [Value::Bytes(id), Value::Bytes(score)] => {
            let score: i64 = str::from_utf8(score).unwrap().parse().unwrap();
            let left = match score {
                922_337_203_685_477 => "never".to_owned(),
                _ if score <= now => "over".to_owned(),
                _ => seconds((score - now).try_into().unwrap()),
            };
            format!("{}={left}", letter(id))
        }
        other => panic!("{other:?}"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

/// A text; pairs with `=` between; ids as their letters.
fn flat(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => {
            let text = bytes.escape_ascii().to_string();
            let ids: Option<Vec<String>> = hex::decode(&text)
                .ok()
                .filter(|raw| raw.len() >= 16 && raw.len() % 16 == 0)
                .map(|raw| raw.chunks(16).map(letter).collect());
            ids.map_or(text, |letters| letters.join(","))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(flat).collect();
            let pairs = items.chunks(2).map(|pair| pair.join("="));
            pairs.collect::<Vec<_>>().join(" ")
        }
        other => format!("{other:?}"),
    }
}
