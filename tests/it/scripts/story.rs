//! Stories of calls and what comes of them, told as text and checked on every host.
//!
//! A line is a step, and behind `=>` what it must come to. Steps are calls of the scripts (`acquire
//! x 100s request=r1`), commands of an operator (`HSET lock x 1`, in capital letters), `state`
//! (every key with its time to live) and `heard` (what was published). What has not been heard at
//! the end of a story fails it, and so does a step without `=>` that is an error.
//!
//! Times are multiples of 100 s, and tokens are shown as `T1`, `T2`: see [`Mask`].

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use lockkeeper_store::{
    host::{ScriptHost, Wake},
    script::{
        Acquired, Attempt, CallError, Config, Forced, ForcedRecord, Hold, Inspected, Mode, Refusal,
        Released, Renewal, Renewals, Scripts, Vouched, WalkCursor, keys,
    },
};
use tokio::sync::mpsc;

use super::{
    mask::{Mask, SEEDED, seconds},
    multi,
};
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

/// What the words of a story stand for: names that share a slot.
const LOCKS: [&str; 4] = ["lock", "{lock}2", "{lock}3", "{lock}4"];
const WORDS: [&str; 4] = ["lock", "lock2", "lock3", "lock4"];

/// Owners whose own channels are listened to, as waiters of a fair lock do.
const LISTENERS: [&str; 3] = ["x", "y", "z"];

/// The serial of read grants for which a story names none. It is not shown.
const UNNAMED_SERIAL: u64 = 1;

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
            client.subscribe(&keys::rw_channel(lock)).await.unwrap();
        }
        for owner in LISTENERS {
            let channel = keys::fair_channel(LOCKS[0], owner);
            client.subscribe(&channel).await.unwrap();
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
        let on = option(&words, "on").map_or(LOCKS[0], name_of);
        let request_id = option(&words, "request");
        self.requests.extend(request_id.map(str::to_owned));
        let attempt = Attempt {
            request_id,
            attempt: option(&words, "attempt").unwrap_or("a"),
            known_holds: option(&words, "known").map(|holds| holds.parse().unwrap()),
            serial: option(&words, "serial").map(|serial| serial.parse().unwrap()),
            fresh_serial: option(&words, "fresh")
                .map_or(UNNAMED_SERIAL, |serial| serial.parse().unwrap()),
        };
        let mode = option(&words, "mode").map_or(Mode::Exclusive, mode);
        let hold = |owner| Hold::new(on, mode, owner);
        let outcome = match *words.as_slice() {
            ["acquire", owner, lease, ..] => {
                let refusal = if words.contains(&"recorded") {
                    Refusal::Recorded
                } else if words.contains(&"waits") {
                    Refusal::Waits
                } else {
                    Refusal::Forgotten
                };
                let acquired = scripts.acquire(hold(owner), time(lease), attempt, refusal);
                acquired.await.map(|outcome| self.acquired(&outcome))
            }
            ["release", owner, lease, ..] => {
                let outcome = scripts.release(hold(owner), attempt.serial, time(lease), request_id);
                outcome.await.map(|outcome| released(&outcome))
            }
            ["hand_on", owner, next, lease, ..] => {
                let token = scripts.hand_on(hold(owner), attempt.serial, next, time(lease));
                token.await.map(|token| self.handed_on(token))
            }
            ["undo", owner, ..] => {
                let undone = scripts.undo(hold(owner), attempt).await;
                undone.map(|undone| undone.to_string())
            }
            ["lower", owner, holds, ..] => {
                let serial = attempt.serial.unwrap_or(u64::MAX);
                let lowered = scripts.lower(hold(owner), serial, holds.parse().unwrap());
                lowered.await.map(|lowered| lowered.to_string())
            }
            ["leave", owner, ..] => scripts.leave(hold(owner)).await.map(|()| String::new()),
            ["vouch", ref owners @ ..] => {
                let vouched = scripts.vouch(on, owners).await;
                vouched.map(|vouched| vouched_for(&vouched))
            }
            ["seeded"] => {
                for lock in LOCKS {
                    let (counter, token) = (keys::counter(lock), SEEDED.to_string());
                    let set = [&b"SET"[..], &counter, token.as_bytes(), b"PX", b"1000000"];
                    self.store.try_command(&set).await.unwrap();
                }
                Ok(String::new())
            }
            [verb, owner, ref rest @ ..] if verb.ends_with("_all") => {
                let call = multi::All::parse(owner, rest, attempt);
                call.run(verb, &scripts, &mut self.mask).await
            }
            ["renew", ref holds @ ..] => {
                let holds: Vec<_> = holds.iter().map(|hold| renewal(hold)).collect();
                let renewed = scripts.renew(&holds).await;
                self.renewed(renewed)
            }
            ["inspect"] => scripts
                .inspect(on, 3)
                .await
                .map(|seen| self.inspected(&seen)),
            ["force", reason] => {
                let forced = scripts.force_release(on, reason, 3).await;
                forced.map(|forced| self.forced(forced.as_ref()))
            }
            ["forced"] => scripts.forced(on).await.map(|record| match record {
                Some(ForcedRecord { token, reason }) => {
                    let token = self.mask.number(token.try_into().unwrap());
                    format!("{token} {reason}")
                }
                None => "never".to_owned(),
            }),
            ["walk", prefix] => {
                let prefix = prefix.trim_matches('/');
                walk(&scripts, prefix).await
            }
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

    /// A command in capital letters, in which `lock`, `counter` and `record:…` are the keys of that
    /// name.
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
                serial,
                repeated,
            } => {
                let verb = if repeated { "repeated" } else { "granted" };
                let own_serial = if serial == token || serial == UNNAMED_SERIAL {
                    String::new()
                } else {
                    format!(" serial={serial}")
                };
                let token = self.mask.number(token.try_into().unwrap());
                format!("{verb} {hold_count} {token} {}{own_serial}", rounded(lease))
            }
            Acquired::Busy { remaining, place } => {
                let place = place.map_or_else(String::new, |place| format!(" place {place}"));
                let left = remaining.map_or("endless".to_owned(), rounded);
                format!("busy {left}{place}")
            }
        }
    }

    fn handed_on(&mut self, token: Option<u64>) -> String {
        token.map_or("nothing".to_owned(), |token| {
            self.mask.number(token.try_into().unwrap())
        })
    }

    fn renewed(&mut self, renewed: Renewals) -> Result<String, CallError> {
        for clock in &renewed.clocks {
            assert!(self.mask.is_time(clock.micros), "the store's clock");
        }
        let outcomes = renewed.complete()?;
        let each = outcomes.iter().map(|outcome| match outcome {
            Ok(renewed) => {
                let token = self.mask.number(renewed.token.try_into().unwrap());
                format!("{} {token} {}", renewed.hold_count, rounded(renewed.lease))
            }
            Err(why) => format!("{why:?}"),
        });
        let each: Vec<_> = each.collect();
        Ok(if each.is_empty() {
            "nothing".to_owned()
        } else {
            each.join(", ")
        })
    }

    fn forced(&mut self, forced: Option<&Forced>) -> String {
        let Some(forced) = forced else {
            return "free".to_owned();
        };
        let seen = Inspected {
            mode: forced.mode,
            holders: forced.holders.clone(),
            holder_count: forced.holder_count,
            remaining: None,
            token: forced.token,
            queue: Vec::new(),
            queue_len: 0,
        };
        self.inspected(&seen)
    }

    fn inspected(&mut self, seen: &Inspected) -> String {
        let mut text = String::new();
        for holder in &seen.holders {
            let _ = write!(
                text,
                "{}={}",
                holder.owner.escape_ascii(),
                holder.hold_count
            );
            if let Mode::Read | Mode::Write = holder.mode {
                let left = holder.remaining.map_or("endless".to_owned(), rounded);
                let _ = write!(text, "({:?} {left})", holder.mode);
            }
            text.push(' ');
        }
        if seen.holder_count > seen.holders.len() {
            let _ = write!(text, "of {} ", seen.holder_count);
        }
        let token = self.mask.number(seen.token.try_into().unwrap());
        text = text + &token + " " + &seen.remaining.map_or("none".to_owned(), rounded);
        if seen.queue_len > 0 {
            let queue: Vec<_> = seen
                .queue
                .iter()
                .map(|owner| owner.escape_ascii().to_string())
                .collect();
            let _ = write!(text, " queue {} of {}", queue.join(","), seen.queue_len);
        }
        text
    }

    /// What was published since this was asked last. Messages of a server come in order, so a mark
    /// comes behind all others.
    async fn heard(&mut self) -> String {
        const MARK: &str = "mark";
        let channel = keys::channel(LOCKS[0]);
        self.store.command(&["PUBLISH", &channel, MARK]).await;
        let mut heard = Vec::new();
        loop {
            match self.wakes.recv().await.expect("the client lives") {
                Wake::Message { payload, .. } if payload == MARK => break,
                Wake::Message {
                    payload,
                    channel: on,
                } => {
                    let whom = on.strip_prefix(&channel);
                    let whom = whom.filter(|it| it.starts_with(':')).unwrap_or_default();
                    heard.push(format!("{}{whom}", payload.escape_ascii()));
                }
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
        let mut names: Vec<_> = WORDS.map(str::to_owned).to_vec();
        names.extend(WORDS.map(|lock| lock.replace("lock", "counter")));
        names.extend(OTHERS.map(|(name, _)| name.to_owned()));
        names.extend(self.requests.iter().map(|id| format!("record:{id}")));
        let mut shown = Vec::new();
        for name in names {
            let key = resolve(&name);
            let kind = self.ask(&["TYPE".as_bytes(), &key]).await;
            let held = match kind.as_str() {
                "none" => continue,
                "string" => format!("={}", self.ask(&[b"GET", &key]).await),
                "hash" => self.ask(&[b"HGETALL", &key]).await,
                "list" => self.ask(&[b"LRANGE", &key, b"0", b"-1"]).await,
                "zset" => self.ask(&[b"ZRANGE", &key, b"0", b"-1"]).await,
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

/// All names that begin with this, in small steps.
async fn walk(scripts: &Scripts, prefix: &str) -> Result<String, CallError> {
    let (mut seen, mut at) = (BTreeSet::new(), Some(WalkCursor::default()));
    while let Some(from) = at {
        let (found, next) = scripts.walk(from, prefix, 2).await?;
        seen.extend(found.iter().map(|(name, kind)| format!("{name}={kind:?}")));
        at = next;
    }
    let seen: Vec<_> = seen.into_iter().collect();
    Ok(if seen.is_empty() {
        "nothing".to_owned()
    } else {
        seen.join(" ")
    })
}

fn vouched_for(vouched: &Vouched) -> String {
    let left = vouched.remaining.map_or("none".to_owned(), rounded);
    let places: Vec<_> = vouched.places.iter().map(u32::to_string).collect();
    format!("{left}, places {}", places.join(" "))
}

pub(super) fn mode(word: &str) -> Mode {
    match word {
        "sole" => Mode::Exclusive,
        "fair" => Mode::Fair,
        "read" => Mode::Read,
        "write" => Mode::Write,
        _ => panic!("no such mode: {word}"),
    }
}

pub(super) fn config() -> Config {
    Config {
        idle_token_retention: Duration::from_secs(1000),
        request_retention: Duration::from_secs(600),
        fair_waiter_timeout: Duration::from_secs(100),
        writer_hold_back: Duration::from_secs(100),
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

/// `owner@lock:100s`, and for another mode `owner@lock:100s:read`
fn renewal(text: &str) -> Renewal {
    let (owner, rest) = text.split_once('@').unwrap();
    let (name, lease) = rest.split_once(':').unwrap();
    let (lease, of_mode) = lease.split_once(':').unwrap_or((lease, ""));
    Renewal {
        name: name_of(name).into(),
        mode: if of_mode.is_empty() {
            Mode::Exclusive
        } else {
            mode(of_mode)
        },
        owner: owner.into(),
        lease: time(lease),
    }
}

type MakeKey = fn() -> Bytes;

/// More keys of the first lock, by what stories call them. Of the owners' read holds there are
/// those of the first two listeners.
const OTHERS: [(&str, MakeKey); 10] = [
    ("forced", || keys::forced(LOCKS[0])),
    ("queue", || keys::queue(LOCKS[0])),
    ("deadlines", || keys::queue_deadlines(LOCKS[0])),
    ("vouched", || keys::vouched_waiters(LOCKS[0])),
    ("readers", || keys::readers(LOCKS[0])),
    ("writer_waiting", || keys::writer_waiting(LOCKS[0])),
    ("x:1", || read_hold("x", 1)),
    ("x:2", || read_hold("x", 2)),
    ("y:1", || read_hold("y", 1)),
    ("y:2", || read_hold("y", 2)),
];

fn read_hold(owner: &str, number: u32) -> Bytes {
    let prefix = keys::read_holds(LOCKS[0], owner);
    format!("{}:{number}", String::from_utf8_lossy(&prefix)).into()
}

/// The lock that a word stands for.
pub(super) fn name_of(word: &str) -> &'static str {
    let at = WORDS.iter().position(|it| *it == word);
    LOCKS[at.unwrap_or_else(|| panic!("no such lock: {word}"))]
}

/// The key that a word stands for, or the word with its `\xff` made bytes.
fn resolve(word: &str) -> Bytes {
    if let Some(id) = word.strip_prefix("record:") {
        return keys::record(LOCKS[0], id);
    } else if let Some(number) = word.strip_prefix("counter") {
        return keys::counter(name_of(&format!("lock{number}")));
    } else if WORDS.contains(&word) {
        return keys::lock(name_of(word));
    }
    if let Some((_, key)) = OTHERS.iter().find(|(name, _)| *name == word) {
        return key();
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
