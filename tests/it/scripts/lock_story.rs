//! Stories of locks. A command names keys by `lock`, `counter` and `record:r1`.

use std::{collections::BTreeSet, fmt::Write as _};

use bytes::Bytes;
use lockkeeper_store::script::{
    Acquired, Asked, Attempt, CallError, Config, Forced, HandOver, Hold, Inspected, Mode, Renewals,
    Scripts, ToHolders, WalkCursor,
};

use super::{
    election::Elections,
    lock_words::{
        LOCKS, SESSION, WORDS, forced_record, hold_of, in_session, mode, mode_of, name_of, note,
        note_shown, refusal, released, renewal, vouched_for,
    },
    mask::{Mask, SEEDED},
    multi,
    story::{self, Stage, Teller, config, option, or_nothing, rounded, rounded_or_endless, time},
};
use crate::support::prelude::*;

/// Runs every story on every host.
pub(crate) async fn check(stories: &str) {
    story::check::<Locks>(stories).await;
}

/// Owners whose own channels are listened to, as waiters of a fair lock do.
const LISTENERS: [&str; 3] = ["x", "y", "z"];

/// The serial of read grants for which a story names none. It is not shown.
const UNNAMED_SERIAL: u64 = 1;

struct Locks {
    config: Config,
    mask: Mask,
    /// If commands are used that are no scripts: it remembers counters from call to call.
    native: Option<Scripts>,
    elections: Elections,
}

// === impl Locks ===

impl Teller for Locks {
    const MARKED: usize = 1;

    fn channels() -> Vec<String> {
        let locks = LOCKS
            .iter()
            .flat_map(|lock| [keys::channel(lock), keys::rw_channel(lock)]);
        let locks = locks.chain([keys::election(LOCKS[0])]);
        let owners = LISTENERS.map(|owner| keys::fair_channel(LOCKS[0], owner));
        locks.chain(owners).collect()
    }

    async fn begin(stage: &Stage) -> Self {
        Self {
            config: config(),
            mask: Mask::new(stage.store.now_micros().await),
            native: None,
            elections: Elections::default(),
        }
    }

    async fn call(&mut self, stage: &Stage, words: &[&str]) -> Option<Result<String, CallError>> {
        let new = || Scripts::new(Arc::clone(&stage.client), self.config.clone());
        let scripts = self.native.clone().unwrap_or_else(new);
        let on = option(words, "on").map_or(LOCKS[0], name_of);
        let request_id = option(words, "request");
        let note = option(words, "note").map(note);
        let fresh_serial = option(words, "fresh");
        let fresh_serial = fresh_serial.map_or(UNNAMED_SERIAL, |serial| serial.parse().unwrap());
        let attempt = Attempt {
            request_id,
            known_holds: option(words, "known").map(|holds| holds.parse().unwrap()),
            serial: option(words, "serial").map(|serial| self.serial(serial)),
            note: note.as_ref(),
            least: option(words, "least").map(time),
            delay: option(words, "delay").map(time),
            ..Attempt::new(option(words, "attempt").unwrap_or("a"), fresh_serial)
        };
        let mode = mode_of(words);
        let words: Vec<_> = words.iter().map(|word| in_session(word)).collect();
        let words: &[&str] = &words.iter().map(AsRef::as_ref).collect::<Vec<_>>();
        let hold = |owner| hold_of(on, mode, owner).noted(words.contains(&"noted"));
        let outcome = match *words {
            ["acquire", owner, lease, ..] => {
                let acquired = scripts.acquire(hold(owner), time(lease), &attempt, refusal(words));
                acquired.await.map(|outcome| self.acquired(&outcome))
            }
            ["release", owner, lease, ..] => {
                let outcome = scripts.release(hold(owner), attempt.serial, time(lease), request_id);
                outcome.await.map(|outcome| released(&outcome))
            }
            ["release_last", owner, lease, ..] => {
                let outcome = scripts.release_last(hold(owner), attempt.serial, time(lease));
                outcome.await.map(|outcome| released(&outcome))
            }
            ["hand_on", owner, next, lease, ..] => {
                let outcome =
                    scripts.hand_over(hold(owner), attempt.serial, (next, time(lease)), &attempt);
                outcome.await.map(|outcome| self.handed_on(outcome))
            }
            ["undo", owner, ..] => {
                let undone = scripts.undo(hold(owner), &attempt).await;
                undone.map(|undone| undone.to_string())
            }
            ["lower", owner, holds, ..] => {
                let (serial, holds) = (attempt.serial.unwrap_or(u64::MAX), holds.parse().unwrap());
                let lowered = scripts.lower(hold(owner), serial, holds, attempt.lease);
                lowered.await.map(|lowered| lowered.to_string())
            }
            ["leave", owner, ..] => scripts.leave(hold(owner)).await.map(|()| String::new()),
            ["vouch", ref owners @ ..] => {
                let vouched = scripts.fair_keepalive(on, owners).await;
                vouched.map(|vouched| vouched_for(&vouched))
            }
            [verb, owner, ref rest @ ..] if verb.ends_with("_all") => {
                let call = multi::All::parse(owner, rest, attempt);
                call.run(verb, &scripts, &mut self.mask).await
            }
            ["renew", ref holds @ ..] => {
                let holds: Vec<_> = holds.iter().map(|hold| renewal(hold)).collect();
                self.renewed(scripts.renew(&holds).await)
            }
            ["native"] => Ok(self.be_native(stage)),
            ["retention", tokens] => {
                self.config.idle_token_retention = time(tokens);
                Ok(String::new())
            }
            _ => self.operate(stage, &scripts, on, words).await?,
        };
        Some(outcome.map(|outcome| outcome.replace(SESSION, "s")))
    }

    fn keys(&self, requests: &BTreeSet<String>) -> Vec<(String, Bytes)> {
        let mut names: Vec<_> = WORDS.map(str::to_owned).to_vec();
        names.extend(WORDS.map(|lock| lock.replace("lock", "counter")));
        names.extend(OTHERS.map(|(name, _)| name.to_owned()));
        names.extend(requests.iter().map(|id| format!("record:{id}")));
        let keys = names
            .into_iter()
            .map(|name| (name.clone(), Self::key(&name)));
        keys.collect()
    }

    /// The key that a word stands for, or the word with its `\xff` made bytes.
    fn key(word: &str) -> Bytes {
        if let Some(id) = word.strip_prefix("record:") {
            return keys::record(LOCKS[0], id).to_bytes();
        } else if let Some(number) = word.strip_prefix("counter") {
            return keys::counter(name_of(&format!("lock{number}"))).to_bytes();
        } else if WORDS.contains(&word) {
            return keys::lock(name_of(word)).to_bytes();
        }
        if let Some((_, key)) = OTHERS.iter().find(|(name, _)| *name == word) {
            return key();
        }
        let word = in_session(word);
        let mut parts = word.split("\\x");
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        }
        bytes.into()
    }

    fn shown(&mut self, reply: &Value) -> String {
        self.mask.shown(reply).replace(SESSION, "s")
    }
}

impl Locks {
    /// A serial, or a token of before by its place.
    fn serial(&self, word: &str) -> u64 {
        let place = word.strip_prefix('T').map(|place| place.parse().unwrap());
        place.map_or_else(|| word.parse().unwrap(), |place| self.mask.token(place))
    }

    fn be_native(&mut self, stage: &Stage) -> String {
        self.config.native_commands = true;
        self.native = Some(Scripts::new(Arc::clone(&stage.client), self.config.clone()));
        String::new()
    }

    /// What is not asked for a session.
    async fn operate(
        &mut self,
        stage: &Stage,
        scripts: &Scripts,
        on: &str,
        words: &[&str],
    ) -> Option<Result<String, CallError>> {
        let outcome = match *words {
            ["seeded"] => {
                for lock in LOCKS {
                    let (counter, token) = (keys::counter(lock).to_bytes(), SEEDED.to_string());
                    let set = [&b"SET"[..], &counter, token.as_bytes(), b"PX", b"100000000"];
                    stage.store.try_command(&set).await.unwrap();
                }
                Ok(String::new())
            }
            ["first", owner] => Ok(scripts.fair_first(on, owner).await.unwrap().to_string()),
            ["inspect"] => scripts
                .inspect(on, 3)
                .await
                .map(|seen| self.inspected(&seen)),
            ["force", reason, ref grace @ ..] => {
                let grace = grace.first().map_or(Duration::ZERO, |grace| time(grace));
                let forced = scripts.force_release(on, reason, grace, None, 3).await;
                forced.map(|forced| self.forced(forced.as_ref()))
            }
            ["preempt", place, holders, reason, grace] => {
                let holders: Vec<String> = holders.split(',').map(str::to_owned).collect();
                let place = place.parse().unwrap();
                let token = if place > 0 { self.mask.token(place) } else { 0 };
                let holders = &holders;
                let asked = Some(Asked { token, holders });
                let forced = scripts.force_release(on, reason, time(grace), asked, 3);
                forced.await.map(|forced| self.forced(forced.as_ref()))
            }
            ["acknowledge", owner, ref rest @ ..] => {
                let mode = option(rest, "mode").map_or(Mode::Exclusive, mode);
                let open = scripts.acknowledge_forced(Hold::new(on, mode, owner)).await;
                open.map(|open| if open { "open" } else { "closed" }.to_owned())
            }
            ["forced"] => {
                let record = scripts.forced(on).await;
                record.map(|record| forced_record(&mut self.mask, record))
            }
            ["walk", prefix] => {
                let prefix = prefix.trim_matches('/');
                walk(scripts, prefix).await
            }
            ["tell" | "reached", ..] => return notify(scripts, on, words).await,
            _ => {
                let elections = &mut self.elections;
                return elections.call(scripts, &mut self.mask, on, words).await;
            }
        };
        Some(outcome)
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
            Acquired::Busy {
                remaining,
                place,
                ref note,
            } => {
                let place = place.map_or_else(String::new, |place| format!(" place {place}"));
                let left = rounded_or_endless(remaining);
                format!("busy {left}{place}{}", note_shown(note.as_deref()))
            }
        }
    }

    fn handed_on(&mut self, outcome: HandOver) -> String {
        match outcome {
            HandOver::Done(token) => self.mask.number(token.try_into().unwrap()),
            HandOver::NotFirst => "others come first".to_owned(),
            HandOver::OthersRead(others) => format!("{others} others read"),
            HandOver::Refused => "nothing".to_owned(),
        }
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
        Ok(or_nothing(&each, ", "))
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
                let left = rounded_or_endless(holder.remaining);
                let _ = write!(text, "({:?} {left})", holder.mode);
            }
            text = text + &note_shown(holder.note.as_deref()) + " ";
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
}

/// Messages to the coordinators of holders, and their answers.
async fn notify(scripts: &Scripts, on: &str, words: &[&str]) -> Option<Result<String, CallError>> {
    let outcome = match *words {
        ["tell", id, ref holders @ ..] => {
            let reached = tell(scripts, on, id, holders).await;
            reached.map(|reached| format!("{reached:?}"))
        }
        ["reached", id, ref holders @ ..] => {
            let reached = scripts.holders_reached(on, id, holders, Duration::from_secs(100));
            reached.await.map(|()| String::new())
        }
        _ => return None,
    };
    Some(outcome)
}

/// Sends a message, which nobody hears here.
async fn tell(
    scripts: &Scripts,
    on: &str,
    id: &str,
    holders: &[&str],
) -> Result<Vec<bool>, CallError> {
    let message = ToHolders {
        id: id.to_owned(),
        by: String::new(),
        token: 1,
        within: Duration::from_secs(100),
        preempts: false,
        handed_over: false,
        name: on.to_owned(),
        reason: "why".to_owned(),
        holders: holders.iter().map(|holder| (*holder).to_owned()).collect(),
    };
    scripts.tell_holders("told", &message).await
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
    Ok(or_nothing(&seen, " "))
}

type MakeKey = fn() -> Bytes;

/// More keys of the first lock, by what stories call them. Of the owners' read holds there are
/// those of the first two listeners.
const OTHERS: [(&str, MakeKey); 15] = [
    ("note", || keys::note(LOCKS[0]).to_bytes()),
    ("x:note", || keys::reader_note(LOCKS[0], "x").to_bytes()),
    ("y:note", || keys::reader_note(LOCKS[0], "y").to_bytes()),
    ("election", || keys::election(LOCKS[0]).into()),
    ("told", || keys::holders_reached(LOCKS[0], "7").to_bytes()),
    ("forced", || keys::forced(LOCKS[0]).to_bytes()),
    ("queue", || keys::queue(LOCKS[0]).to_bytes()),
    ("deadlines", || keys::queue_deadlines(LOCKS[0]).to_bytes()),
    ("vouched", || keys::vouched_waiters(LOCKS[0]).to_bytes()),
    ("readers", || keys::readers(LOCKS[0]).to_bytes()),
    ("writer_waiting", || {
        keys::writer_waiting(LOCKS[0]).to_bytes()
    }),
    ("x:1", || read_hold("x", 1)),
    ("x:2", || read_hold("x", 2)),
    ("y:1", || read_hold("y", 1)),
    ("y:2", || read_hold("y", 2)),
];

fn read_hold(owner: &str, number: u32) -> Bytes {
    let prefix = keys::read_holds(LOCKS[0], owner).to_bytes();
    format!("{}:{number}", String::from_utf8_lossy(&prefix)).into()
}
