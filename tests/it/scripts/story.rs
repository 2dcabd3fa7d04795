//! Stories of calls and their outcomes, written as text and checked on every host.
//!
//! A line that is not indented is the heading of a story, and each indented one is a step of it;
//! behind `=>`, on the same line or the next, is its expected outcome, which goes on in lines that
//! begin with `+`. Steps are calls of the scripts (`acquire x 100s
//! request=r1`), commands of an operator in capital letters (`HSET lock x 1`), `state` (every
//! key with its time to live), `heard` (what was published) and `full` (the server is out of
//! memory). A story fails on a message that no step expects, and on an error without `=>`.
//!
//! Times are multiples of 100 s, and tokens are shown as `T1`, `T2`: see [`Mask`](super::mask).

use std::{collections::BTreeSet, fmt::Write as _};

use bytes::Bytes;
use lockkeeper_store::{
    host::{ScriptHost, Wake},
    script::{CallError, Config},
};
use tokio::sync::mpsc;

use super::mask::seconds;
use crate::support::hosts::{HOSTS, Host, Store};
use crate::support::prelude::*;

/// What one kind of story adds: its calls, and the keys they are about.
pub(super) trait Teller {
    /// Channels that are listened to. A mark that is published on the first `MARKED` of them ends
    /// what is heard: messages of one server come in order.
    fn channels() -> Vec<String>;
    const MARKED: usize;

    /// Begins a story, on a store without keys.
    async fn begin(stage: &Stage) -> Self;

    /// The outcome of a call, or none if no call has this name.
    async fn call(&mut self, stage: &Stage, words: &[&str]) -> Option<Result<String, CallError>>;

    /// Every key that a state shows, by its name in stories.
    fn keys(&self, requests: &BTreeSet<String>) -> Vec<(String, Bytes)>;

    /// The key that a word stands for, or the word itself.
    fn key(word: &str) -> Bytes;

    fn shown(&mut self, reply: &Value) -> String;

    /// The members of a sorted set.
    async fn members(&mut self, stage: &Stage, key: &[u8]) -> String {
        let members = stage.ask(&[b"ZRANGE", key, b"0", b"-1"]).await;
        self.shown(&members)
    }
}

/// The store that a story is about, and what all kinds of stories do with it.
pub(super) struct Stage {
    pub(super) store: Store,
    pub(super) client: Arc<dyn ScriptHost>,
    wakes: mpsc::Receiver<Wake>,
    /// Request ids that the story has used.
    requests: BTreeSet<String>,
}

/// Runs every story on every host, and fails with every other outcome than the expected.
pub(super) async fn check<T: Teller>(text: &str) {
    let mut failures = String::new();
    for host in HOSTS {
        let mut stage = Stage::start(host, &T::channels()).await;
        for (heading, story) in stories(text) {
            stage.store.set_out_of_memory(false).await;
            stage.store.flush().await;
            stage.requests.clear();
            let mut teller = T::begin(&stage).await;
            for line in story {
                let (step, expected) = match line.split_once(" => ") {
                    Some((step, expected)) => (step, Some(expected)),
                    None => (line.as_str(), None),
                };
                let outcome = stage.step(&mut teller, step).await;
                let as_expected = match expected {
                    Some(expected) => outcome == expected,
                    None => !outcome.starts_with("error"),
                };
                if !as_expected {
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

/// Headings, and steps with what they must come to; at last, nothing may be left to hear.
fn stories(text: &str) -> Vec<(&str, Vec<String>)> {
    let mut stories: Vec<(&str, Vec<String>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with(' ') {
            stories.push((line, Vec::new()));
            continue;
        }
        let (_, steps) = stories.last_mut().expect("a heading comes first");
        let line = line.trim();
        match steps.last_mut() {
            Some(last) if line.starts_with("=> ") => last.extend([" ", line]),
            Some(last) if line.starts_with("+ ") => *last += &line[1..],
            _ => steps.push(line.to_owned()),
        }
    }
    for (_, steps) in &mut stories {
        steps.push("heard => nothing".to_owned());
    }
    stories
}

// === impl Stage ===

impl Stage {
    async fn start(host: Host, channels: &[String]) -> Self {
        let store = host.start().await;
        let (client, wakes) = store.connect();
        for channel in channels {
            client.subscribe(channel).await.unwrap();
        }
        Self {
            store,
            client,
            wakes,
            requests: BTreeSet::new(),
        }
    }

    async fn step<T: Teller>(&mut self, teller: &mut T, step: &str) -> String {
        let words: Vec<_> = step.split_ascii_whitespace().collect();
        let request = option(&words, "request").map(str::to_owned);
        self.requests.extend(request);
        match words[0] {
            "heard" => self.heard::<T>().await,
            "state" => self.state(teller).await,
            "full" => {
                self.store.set_out_of_memory(true).await;
                String::new()
            }
            _ => match teller.call(self, &words).await {
                Some(outcome) => outcome.unwrap_or_else(|error| named(&error)),
                None => self.command(teller, &words).await,
            },
        }
    }

    /// A command in capital letters, with words for keys.
    async fn command<T: Teller>(&self, teller: &mut T, words: &[&str]) -> String {
        let is_command = words[0].chars().all(|c| c.is_ascii_uppercase());
        assert!(is_command, "no such step: {words:?}");
        let words: Vec<_> = words.iter().map(|word| T::key(word)).collect();
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        match self.store.try_command(&words).await {
            Ok(reply) => teller.shown(&reply),
            Err(error) => format!("error {error}"),
        }
    }

    /// What was published since this was last asked, with the owner whose own channel it was.
    async fn heard<T: Teller>(&mut self) -> String {
        const MARK: &str = "mark";
        let channels = T::channels();
        for channel in &channels[..T::MARKED] {
            self.store.command(&["PUBLISH", channel, MARK]).await;
        }
        let (mut heard, mut marks) = (Vec::new(), 0);
        while marks < T::MARKED {
            match self.wakes.recv().await.expect("the client lives") {
                Wake::Message { payload, .. } if payload == MARK => marks += 1,
                Wake::Message { payload, channel } => {
                    let owner = channel.strip_prefix(&channels[0]);
                    let owner = owner.filter(|it| it.starts_with(':')).unwrap_or_default();
                    heard.push(format!("{}{owner}", payload.escape_ascii()));
                }
                Wake::Gap | Wake::TakenOver => heard.push("a gap".to_owned()),
            }
        }
        or_nothing(&heard, " ")
    }

    /// Every key, what it holds and its time to live.
    async fn state<T: Teller>(&self, teller: &mut T) -> String {
        let mut shown = Vec::new();
        for (name, key) in teller.keys(&self.requests) {
            let kind = expect!(self.ask(&[b"TYPE", &key]).await, Value::Bytes);
            let held = match &kind[..] {
                b"none" => continue,
                b"string" => format!("={}", teller.shown(&self.ask(&[b"GET", &key]).await)),
                b"hash" => teller.shown(&self.ask(&[b"HGETALL", &key]).await),
                b"list" => teller.shown(&self.ask(&[b"LRANGE", &key, b"0", b"-1"]).await),
                b"zset" => teller.members(self, &key).await,
                other => format!(":{}", other.escape_ascii()),
            };
            let ttl = match self.ask(&[b"PTTL", &key]).await {
                Value::Int(-1) => "endless".to_owned(),
                Value::Int(ttl) => seconds(ttl.try_into().unwrap()),
                other => panic!("{other:?}"),
            };
            shown.push(format!("{name}{held}/{ttl}"));
        }
        let unknown = self.store.key_count().await - shown.len();
        if unknown > 0 {
            shown.push(format!("and {unknown} other keys"));
        }
        or_nothing(&shown, " ")
    }

    pub(super) async fn ask(&self, words: &[&[u8]]) -> Value {
        self.store.try_command(words).await.unwrap()
    }
}

pub(super) fn or_nothing(parts: &[String], between: &str) -> String {
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join(between)
    }
}

pub(super) fn config() -> Config {
    Config {
        // So long that two tokens of a story hardly ever are in two windows.
        idle_token_retention: Duration::from_secs(100_000),
        request_retention: Duration::from_secs(600),
        fair_waiter_timeout: Duration::from_secs(100),
        writer_hold_back: Duration::from_secs(100),
        holders_per_lock_max: 10_000,
        permits_per_name_max: 10_000,
        adopts_counters: true,
        native_commands: false,
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

/// A time that may be without end.
pub(super) fn rounded_or_endless(time: Option<Duration>) -> String {
    time.map_or("endless".to_owned(), rounded)
}

fn named(error: &CallError) -> String {
    let debug = format!("{error:?}");
    let name = debug.split('(').next().unwrap_or_default();
    format!("error {name}")
}
