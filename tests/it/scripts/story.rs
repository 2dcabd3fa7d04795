//! Stories of calls and what comes of them, told as text and checked on every host.
//!
//! A line is a step, and behind `=>` what it must come to. Steps are calls of the scripts (`acquire x 100s request=r1`), commands of an
//! operator (`HSET lock x 1`, in capital letters), `state` (every key with its time to live) and `heard` (what was published). What has
//! not been heard at the end of a story fails it, and so does a step without `=>` that is an error.
//!
//! Times are multiples of 100 s, and tokens are shown as `T1`, `T2`: see [`Mask`].

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper::{
    host::{ScriptHost, Wake},
    script::{
        Acquired, Attempt, CallError, Config, Inspected, Released, Renewal, Renewals, Scripts, keys,
    },
};
use tokio::sync::mpsc;

use super::mask::{Mask, seconds};
use crate::support::hosts::{HOSTS, Store};

/// A heading and its story.
pub(crate) type Row = (&'static str, &'static str);

/// Runs every story on every host, and fails with all that went otherwise.
pub(crate) async fn check(rows: &[Row]) {
    let mut failures = String::new();
    for host in HOSTS {
        let store = host.start().await;
        let (client, wakes) = store.connect();
        let mut teller = Teller::new(&store, client, wakes).await;
        for (heading, story) in rows {
            teller.begin().await;
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

/// What the names of a story stand for.
const LOCKS: [&str; 4] = ["lock", "lock2", "lock3", "lock4"];

struct Teller<'a> {
    store: &'a Store,
    client: Arc<dyn ScriptHost>,
    wakes: mpsc::Receiver<Wake>,
    config: Config,
    requests: BTreeSet<String>,
    mask: Mask,
}

// === impl Teller ===

impl<'a> Teller<'a> {
    async fn new(
        store: &'a Store,
        client: Arc<dyn ScriptHost>,
        wakes: mpsc::Receiver<Wake>,
    ) -> Self {
        for lock in LOCKS {
            client.subscribe(&keys::channel(lock)).await.unwrap();
        }
        Self {
            store,
            client,
            wakes,
            config: config(),
            requests: BTreeSet::new(),
            mask: Mask::new(0),
        }
    }

    async fn begin(&mut self) {
        self.store.set_out_of_memory(false).await;
        self.store.flush().await;
        self.config = config();
        self.requests.clear();
        self.mask = Mask::new(self.store.now_micros().await);
    }

    async fn step(&mut self, step: &str) -> String {
        let words: Vec<_> = step.split_ascii_whitespace().collect();
        let scripts = Scripts::new(Arc::clone(&self.client), self.config.clone());
        let on = option(&words, "on").unwrap_or(LOCKS[0]);
        let request_id = option(&words, "request");
        self.requests.extend(request_id.map(str::to_owned));
        let attempt = Attempt {
            request_id,
            attempt: option(&words, "attempt").unwrap_or("a"),
            known_holds: option(&words, "known").map(|holds| holds.parse().unwrap()),
            token: option(&words, "token").map(|token| token.parse().unwrap()),
        };
        let outcome = match *words.as_slice() {
            ["acquire", owner, lease, ..] => {
                let recorded = words.contains(&"recorded");
                let acquired = scripts.acquire(on, owner, time(lease), attempt, recorded);
                acquired.await.map(|outcome| self.acquired(&outcome))
            }
            ["release", owner, lease, ..] => {
                let outcome = scripts.release(on, owner, attempt.token, time(lease), request_id);
                outcome.await.map(|outcome| released(&outcome))
            }
            ["undo", owner, ..] => {
                let undone = scripts.undo(on, owner, attempt).await;
                undone.map(|undone| undone.to_string())
            }
            ["lower", owner, holds] => {
                let lowered = scripts
                    .lower(on, owner, u64::MAX, holds.parse().unwrap())
                    .await;
                lowered.map(|lowered| lowered.to_string())
            }
            ["renew", ref holds @ ..] => {
                let holds: Vec<_> = holds.iter().map(|hold| renewal(hold)).collect();
                let renewed = scripts.renew(&holds).await;
                renewed.map(|outcome| self.renewed(&outcome))
            }
            ["inspect"] => scripts.inspect(on).await.map(|seen| self.inspected(&seen)),
            ["heard"] => Ok(self.heard().await),
            ["state"] => Ok(self.state().await),
            ["full"] => {
                self.store.set_out_of_memory(true).await;
                Ok(String::new())
            }
            ["retention", tokens] => {
                self.config.idle_token_retention = time(tokens);
                Ok(String::new())
            }
            _ => return self.command(&words).await,
        };
        outcome.unwrap_or_else(|error| named(&error))
    }

    /// A command in capital letters, in which `lock`, `counter` and `record:…` are the keys of that name.
    async fn command(&mut self, words: &[&str]) -> String {
        assert!(
            words[0].chars().all(|c| c.is_ascii_uppercase()),
            "no such step: {words:?}"
        );
        let words: Vec<_> = words.iter().map(|word| resolve(word)).collect();
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        match self.store.try_command(&words).await {
            Ok(reply) => self.mask.shown(&reply),
            Err(error) => format!("error {error}"),
        }
    }

    fn acquired(&mut self, outcome: &Acquired) -> String {
        match *outcome {
            Acquired::Granted {
                hold_count,
                token,
                lease,
                repeated,
            } => {
                let verb = if repeated { "repeated" } else { "granted" };
                let token = self.mask.number(token.try_into().unwrap());
                format!("{verb} {hold_count} {token} {}", rounded(lease))
            }
            Acquired::Busy { remaining } => {
                format!("busy {}", remaining.map_or("endless".to_owned(), rounded))
            }
        }
    }

    fn renewed(&mut self, outcome: &Renewals) -> String {
        assert!(self.mask.is_time(outcome.store_micros), "the store's clock");
        let each = outcome.outcomes.iter().map(|outcome| match outcome {
            Ok(renewed) => {
                let token = self.mask.number(renewed.token.try_into().unwrap());
                format!("{} {token} {}", renewed.hold_count, rounded(renewed.lease))
            }
            Err(why) => format!("{why:?}"),
        });
        let each: Vec<_> = each.collect();
        if each.is_empty() {
            "nothing".to_owned()
        } else {
            each.join(", ")
        }
    }

    fn inspected(&mut self, seen: &Inspected) -> String {
        let mut text = String::new();
        for (owner, holds) in &seen.holders {
            let _ = write!(text, "{}={holds} ", owner.escape_ascii());
        }
        let token = self.mask.number(seen.token.try_into().unwrap());
        text + &token + " " + &seen.remaining.map_or("none".to_owned(), rounded)
    }

    /// What was published since this was asked last. Messages of a server come in order, so a mark comes behind all others.
    async fn heard(&mut self) -> String {
        const MARK: &str = "mark";
        let channel = keys::channel(LOCKS[0]);
        self.store.command(&["PUBLISH", &channel, MARK]).await;
        let mut heard = Vec::new();
        loop {
            match self.wakes.recv().await.expect("the client lives") {
                Wake::Message { payload, .. } if payload == MARK => break,
                Wake::Message { payload, .. } => heard.push(payload.escape_ascii().to_string()),
                Wake::Gap => heard.push("a gap".to_owned()),
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
        let mut names: Vec<_> = LOCKS.map(str::to_owned).to_vec();
        names.extend(LOCKS.map(|lock| lock.replace("lock", "counter")));
        names.extend(self.requests.iter().map(|id| format!("record:{id}")));
        let mut shown = Vec::new();
        for name in names {
            let key = resolve(&name);
            let kind = self.ask(&["TYPE".as_bytes(), &key]).await;
            let held = match kind.as_str() {
                "none" => continue,
                "string" => format!("={}", self.ask(&[b"GET", &key]).await),
                "hash" => self.ask(&[b"HGETALL", &key]).await,
                other => format!(":{other}"),
            };
            let ttl = self.ask(&[b"PTTL", &key]).await;
            shown.push(format!("{name}{held}/{}", ttl.replace("-1", "endless")));
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

    async fn ask(&mut self, words: &[&[u8]]) -> String {
        let reply = self.store.try_command(words).await.unwrap();
        self.mask.shown(&reply)
    }
}

fn released(outcome: &Released) -> String {
    match *outcome {
        Released::Done {
            hold_count,
            held,
            lease,
        } => format!("done {hold_count}, now {held} {}", rounded(lease)),
        Released::NotOwner(ownership) => format!("{ownership:?}"),
    }
}

pub(super) fn config() -> Config {
    Config {
        idle_token_retention: Duration::from_secs(1000),
        request_retention: Duration::from_secs(600),
    }
}

pub(super) fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let values = words.iter().filter_map(|word| word.split_once('='));
    let mut values = values.filter(|(option, _)| *option == name);
    values.next().map(|(_, value)| value)
}

/// `100s`
pub(super) fn time(text: &str) -> Duration {
    Duration::from_secs(text.strip_suffix('s').unwrap().parse().unwrap())
}

pub(super) fn rounded(time: Duration) -> String {
    seconds(time.as_millis().try_into().unwrap())
}

/// `owner@lock:100s`
fn renewal(text: &str) -> Renewal {
    let (owner, rest) = text.split_once('@').unwrap();
    let (name, lease) = rest.split_once(':').unwrap();
    Renewal {
        name: name.into(),
        owner: owner.into(),
        lease: time(lease),
    }
}

/// The key that a word stands for, or the word with its `\xff` made bytes.
fn resolve(word: &str) -> Bytes {
    if let Some(id) = word.strip_prefix("record:") {
        return keys::record(LOCKS[0], id);
    } else if let Some(number) = word.strip_prefix("counter") {
        return keys::counter(&format!("lock{number}"));
    }
    let mut parts = word.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes.into()
}

pub(super) fn named(error: &CallError) -> String {
    let debug = format!("{error:?}");
    let name = debug.split('(').next().unwrap_or_default();
    format!("error {name}")
}
