//! Stories of semaphores and latches, told as those of locks are (`story.rs`) and checked on every
//! host.
//!
//! Permits have names of one letter, `a,c` are two of them. Steps are calls (`take x 100s a,c
//! request=r1`), `expire a` (the lease is over since long), commands of an operator in capital
//! letters, `state` and `heard`.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use bytes::Bytes;
use lockkeeper_store::{
    host::{ScriptHost, Value, Wake},
    script::{
        CallError, CountedDown, PermitAttempt, PermitId, PermitRenewal, PermitsAcquired,
        PermitsReleased, Scripts, keys,
    },
};
use tokio::sync::mpsc;

use super::{
    mask::seconds,
    story::{Row, config, named, option, rounded, time},
};
use crate::support::hosts::{HOSTS, Store};

/// The name that all stories are about, and another one.
const NAMES: [&str; 2] = ["n", "m"];

/// Runs every story on every host, and fails with all that went otherwise.
pub(crate) async fn check(rows: &[Row]) {
    let mut failures = String::new();
    for host in HOSTS {
        let store = host.start().await;
        let (client, wakes) = store.connect();
        let mut teller = Teller::new(&store, client, wakes).await;
        for (heading, story) in rows {
            store.set_out_of_memory(false).await;
            store.flush().await;
            teller.requests.clear();
            let lines = story.lines().map(str::trim).filter(|line| !line.is_empty());
            for line in lines.chain(["heard => nothing"]) {
                let (step, expected) = match line.split_once(" => ") {
                    Some((step, expected)) => (step, Some(expected)),
                    None => (line, None),
                };
                let outcome = teller.step(step).await;
                let as_told = match expected {
                    Some(expected) => outcome == expected,
                    None => !outcome.starts_with("error"),
                };
                if !as_told {
                    let _ = write!(
                        failures,
                        "\n{host:?}: {heading}\n  {line}\n  {step} => {outcome}\n"
                    );
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

struct Teller<'a> {
    store: &'a Store,
    scripts: Scripts,
    wakes: mpsc::Receiver<Wake>,
    requests: BTreeSet<String>,
}

// === impl Teller ===

impl<'a> Teller<'a> {
    async fn new(
        store: &'a Store,
        client: Arc<dyn ScriptHost>,
        wakes: mpsc::Receiver<Wake>,
    ) -> Self {
        for name in NAMES {
            client.subscribe(&keys::permit_channel(name)).await.unwrap();
            client.subscribe(&keys::latch_channel(name)).await.unwrap();
        }
        Self {
            store,
            scripts: Scripts::new(client, config()),
            wakes,
            requests: BTreeSet::new(),
        }
    }

    async fn step(&mut self, step: &str) -> String {
        let words: Vec<_> = step.split_ascii_whitespace().collect();
        let name = option(&words, "on").unwrap_or(NAMES[0]);
        let request_id = option(&words, "request");
        self.requests.extend(request_id.map(str::to_owned));
        let told = match self.permits(name, request_id, &words).await {
            Some(told) => Some(told),
            None => self.latch(name, request_id, &words).await,
        };
        if let Some(told) = told {
            return told.unwrap_or_else(|error| named(&error));
        }
        match *words.as_slice() {
            ["heard"] => self.heard().await,
            ["state"] => self.state().await,
            ["full"] => {
                self.store.set_out_of_memory(true).await;
                String::new()
            }
            ["expire", permits] => {
                for id in ids(permits) {
                    let words: [&[u8]; 4] = [b"ZADD", &keys::permit_leases(name), b"7", &id];
                    self.store.try_command(&words).await.unwrap();
                }
                String::new()
            }
            _ => self.command(&words).await,
        }
    }

    async fn permits(
        &self,
        name: &str,
        request_id: Option<&str>,
        words: &[&str],
    ) -> Option<Result<String, CallError>> {
        let attempt = option(words, "attempt").unwrap_or("1");
        let attempt = |ids| PermitAttempt {
            request_id,
            attempt,
            ids,
        };
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
            ["holders"] => scripts.inspect_semaphore(name).await.map(|seen| {
                let mut text = format!("{} of {}", seen.available, seen.total);
                for holder in seen.holders {
                    let remaining = holder.remaining.map_or("endless".to_owned(), rounded);
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
                let remaining = seen.remaining.map_or("endless".to_owned(), rounded);
                format!("{} {remaining}", seen.count)
            }),
            ["delete"] => {
                let deleted = scripts.delete_latch(name).await;
                deleted.map(|deleted| deleted.to_string())
            }
            _ => return None,
        })
    }

    /// A command in capital letters, in which `leases`, `owners`, `kind` and `record:…` are the
    /// keys of the name.
    async fn command(&mut self, words: &[&str]) -> String {
        assert!(
            words[0].chars().all(|c| c.is_ascii_uppercase()),
            "no such step: {words:?}"
        );
        let words: Vec<_> = words.iter().map(|word| key(NAMES[0], word)).collect();
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        match self.store.try_command(&words).await {
            Ok(reply) => format!("{reply:?}"),
            Err(error) => format!("error {error}"),
        }
    }

    /// What was published since this was asked last. Messages of a server come in order, so a mark
    /// comes behind all others.
    async fn heard(&mut self) -> String {
        const MARK: &str = "mark";
        // Names may be on servers of their own, whose messages come in no common order.
        for name in NAMES {
            let channel = keys::permit_channel(name);
            self.store.command(&["PUBLISH", &channel, MARK]).await;
        }
        let (mut heard, mut marks) = (Vec::new(), 0);
        while marks < NAMES.len() {
            match self.wakes.recv().await.expect("the client lives") {
                Wake::Message { payload, .. } if payload == MARK => marks += 1,
                Wake::Message { payload, .. } => heard.push(payload.escape_ascii().to_string()),
                Wake::Gap | Wake::TakenOver => heard.push("a gap".to_owned()),
            }
        }
        if heard.is_empty() {
            "nothing".to_owned()
        } else {
            heard.join(" ")
        }
    }

    /// Every key, what it holds and its time to live.
    async fn state(&mut self) -> String {
        let mut all = Vec::new();
        for name in NAMES {
            all.extend([name, "leases", "owners", "kind"].map(|word| (name, word.to_owned())));
        }
        all.extend(
            self.requests
                .iter()
                .map(|id| (NAMES[0], format!("record:{id}"))),
        );
        let mut shown = Vec::new();
        for (name, word) in all {
            let key = key(name, &word);
            let held = match self.ask(&[b"TYPE", &key]).await {
                Value::Bytes(kind) if kind == "none" => continue,
                Value::Bytes(kind) if kind == "string" => {
                    format!("={}", flat(&self.ask(&[b"GET", &key]).await))
                }
                Value::Bytes(kind) if kind == "hash" => {
                    format!("{{{}}}", flat(&self.ask(&[b"HGETALL", &key]).await))
                }
                Value::Bytes(kind) if kind == "zset" => {
                    let now = self.store.now_micros().await / 1000;
                    let members = [b"ZRANGE", &key[..], b"0", b"-1", b"WITHSCORES"];
                    format!("{{{}}}", scored(&self.ask(&members).await, now))
                }
                other => format!(":{}", flat(&other)),
            };
            let ttl = match self.ask(&[b"PTTL", &key]).await {
                Value::Int(-1) => "endless".to_owned(),
                Value::Int(ttl) => seconds(ttl.try_into().unwrap()),
                other => panic!("{other:?}"),
            };
            let place = if name == NAMES[0] { "" } else { "m:" };
            shown.push(format!("{place}{word}{held}/{ttl}"));
        }
        let unknown = self.store.key_count().await - shown.len();
        if unknown > 0 {
            shown.push(format!("and {unknown} other keys"));
        }
        if shown.is_empty() {
            "nothing".to_owned()
        } else {
            shown.join(" ")
        }
    }

    async fn ask(&mut self, words: &[&[u8]]) -> Value {
        self.store.try_command(words).await.unwrap()
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
    PermitRenewal {
        name: name.into(),
        owner: owner.into(),
        lease: time(lease),
        ids: ids(letters).into(),
    }
}

/// The key that a word stands for, or the word; `id:a` is a permit's id.
fn key(name: &str, word: &str) -> Bytes {
    match word.split_once(':') {
        Some(("record", id)) => return keys::record(name, id),
        Some(("id", letter)) => return Bytes::copy_from_slice(&ids(letter)[0]),
        _ => {}
    }
    match word {
        "leases" => keys::permit_leases(name),
        "owners" => keys::permit_owners(name),
        "kind" => keys::kind(name),
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
