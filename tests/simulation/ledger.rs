//! Looks at the locks in the store after everything that may have changed them, so that the history
//! knows the truth and not only what was told.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_store::{
    host::{Value, embedded::EmbeddedStore},
    script::{Mode, keys},
};
use parking_lot::Mutex;

use super::{
    history::{History, Holder, Millis, Name, Share, What},
    notes::Notes,
    plan::{Family, Plan},
};

/// The locks of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: EmbeddedStore,
    history: History,
    names: Vec<&'static str>,
    families: Vec<Family>,
    last: Mutex<Vec<Snapshot>>,
    /// Until when the readers of each lock are held back.
    held_back: Mutex<Vec<Millis>>,
    /// How much longer the mark of a writer lives.
    hold_back: Millis,
    notes: Notes,
    proclaimed: Mutex<Vec<Proclaimed>>,
    line: Mutex<Line>,
}

/// The candidate that was put first, and one that waited first while another one was granted.
#[derive(Debug, Default)]
struct Line {
    /// Until when it is vouched for, by the store's clock in milliseconds.
    next: Option<(Bytes, Millis)>,
    passed_over: Option<Bytes>,
}

/// A value of an election that a script recorded.
#[derive(Clone, Debug)]
pub(crate) struct Proclaimed {
    pub(crate) term: u64,
    pub(crate) value: String,
    /// Whether the one who proclaimed it held the lock by the newest grant then.
    pub(crate) by_leader: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Snapshot {
    shares: Vec<Share>,
    token: u64,
    queue: Vec<Holder>,
}

// === impl Ledger ===

impl Ledger {
    pub(crate) fn new(store: EmbeddedStore, history: History, plan: &Plan) -> Self {
        let last = Mutex::new(vec![Snapshot::default(); plan.names.len()]);
        Self(Arc::new(Shared {
            store,
            history,
            names: plan.names.clone(),
            families: plan.families.clone(),
            last,
            held_back: Mutex::new(vec![0; plan.names.len()]),
            hold_back: u64::try_from(plan.hold_back.as_millis()).unwrap_or(Millis::MAX),
            notes: Notes::default(),
            proclaimed: Mutex::default(),
            line: Mutex::default(),
        }))
    }

    pub(crate) fn store(&self) -> &EmbeddedStore {
        &self.0.store
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.0.names
    }

    pub(crate) fn family(&self, name: Name) -> Family {
        self.0.families[name]
    }

    /// Runs a command as redis-cli would.
    pub(crate) fn command<T: AsRef<[u8]>>(&self, words: &[T]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(AsRef::as_ref).collect();
        self.0.store.command(&words).unwrap()
    }

    /// Records those of the locks among `keys` that do not stand as they stood.
    pub(crate) fn look(&self, keys: &[Bytes], by: &'static str) {
        for (name, text) in self.0.names.iter().enumerate() {
            if keys.iter().any(|key| key == text) {
                self.look_at(name, by);
            }
        }
    }

    pub(crate) fn look_at(&self, name: Name, by: &'static str) {
        let seen = self.snapshot(name);
        for rule in self.0.notes.broken(&self.0.store, self.0.names[name], by) {
            self.0
                .history
                .record(What::Broke(format!("{rule}, by {by}")));
        }
        self.look_at_mark(name);
        let mut last = self.0.last.lock();
        if last[name] == seen {
            return;
        }
        last[name] = seen.clone();
        drop(last);
        self.0.history.record(What::Stored {
            name,
            shares: seen.shares,
            token: seen.token,
            queue: seen.queue,
            by,
        });
    }

    /// Records that readers are held back, if that is new.
    fn look_at_mark(&self, name: Name) {
        let mark = keys::writer_waiting(self.0.names[name]).to_bytes();
        let Some(Some(ends)) = self.time_to_live(&mark) else {
            return;
        };
        let until = ends.saturating_sub(self.0.hold_back);
        let mut held_back = self.0.held_back.lock();
        // A rounding is no news.
        if until > held_back[name] + 1 {
            held_back[name] = until;
            self.0.history.record(What::HeldBack(name, until));
        }
    }

    /// Looks whether what a script told of a holder is what that one says.
    pub(crate) fn told(&self, keys: &[Bytes], by: &'static str, told: &Value) {
        let is_meant = |lock: &&&str| keys.iter().any(|key| key == **lock);
        let locks: Vec<_> = self.0.names.iter().filter(is_meant).copied().collect();
        if let Some(wrong) = Notes::is_wrong(&self.0.store, &locks, told) {
            self.0.history.record(What::Broke(format!("{wrong}: {by}")));
        }
    }

    /// A script with these keys and arguments recorded a value.
    pub(crate) fn proclaims(&self, keys: &[Bytes], args: &[Bytes]) {
        let held = self.command(&[b"HEXISTS".as_ref(), &keys[0], &args[0]]);
        let newest = self.command(&[b"GET".as_ref(), &keys[1]]);
        self.0.proclaimed.lock().push(Proclaimed {
            term: number(&args[1]).unwrap(),
            value: String::from_utf8_lossy(&args[3]).into_owned(),
            by_leader: held == Value::Int(1) && newest == Value::Bytes(args[1].clone()),
        });
    }

    /// A script of a fair lock has put a waiter first, taken it away, or granted the lock.
    pub(crate) fn lines_up(&self, script: &str, keys: &[Bytes], args: &[Bytes], answer: &Value) {
        let mut line = self.0.line.lock();
        let vouched = keys::vouched_waiters(&String::from_utf8_lossy(&keys[0])).to_bytes();
        let now = self.store_millis();
        // One that nobody vouches for loses its place. The same script may have it queue up anew.
        let mut next = line.next.take().filter(|(_, until)| now < *until);
        // A lock that is handed on has its owner first, then the next one.
        let owner = args.get(usize::from(script == "lock_hand_on"));
        let is_next = next.as_ref().map(|(owner, _)| owner) == owner;
        match (script, answer) {
            ("fair_first", Value::Array(first)) if *first == [Value::Int(1)] => {
                next = args.first().map(|owner| (owner.clone(), now));
            }
            ("fair_leave" | "fair_undo", _) if is_next => next = None,
            ("fair_acquire" | "lock_hand_on", answer) if is_granted(answer) => {
                let passed_over = next.take().filter(|_| !is_next).map(|(owner, _)| owner);
                line.passed_over = line.passed_over.take().or(passed_over);
            }
            _ => {}
        }
        line.next = next.and_then(|(owner, _)| {
            let until = self.command(&[b"ZSCORE".as_ref(), &vouched, &owner]);
            match until {
                Value::Bytes(until) => Some((owner, number(&until)?)),
                _ => None,
            }
        });
    }

    /// The store's clock.
    fn store_millis(&self) -> Millis {
        let Value::Array(time) = self.command(&["TIME"]) else {
            panic!("no time");
        };
        let [Value::Bytes(seconds), Value::Bytes(micros)] = &time[..] else {
            panic!("no time: {time:?}");
        };
        number::<Millis>(seconds).unwrap() * 1000 + number::<Millis>(micros).unwrap() / 1000
    }

    /// A candidate that was to lead next, and waited while another one was granted the lock.
    pub(crate) fn passed_over(&self) -> Option<Bytes> {
        self.0.line.lock().passed_over.clone()
    }

    /// All values that were recorded, in order.
    pub(crate) fn proclaimed(&self) -> Vec<Proclaimed> {
        self.0.proclaimed.lock().clone()
    }

    /// A call that waits, made with these keys by the owner with this field, was told that the lock
    /// is busy.
    pub(crate) fn waits(&self, keys: &[Bytes], field: &[u8]) {
        let name = self.0.names.iter().position(|name| keys[0] == name);
        if let Some((name, holder)) = name.and_then(|name| Some((name, self.holder(name, field)?)))
        {
            self.0.history.record(What::Waits(holder, name));
        }
    }

    /// The owner with this field, if it is one.
    pub(crate) fn owner(&self, field: &[u8]) -> Option<Holder> {
        self.0.history.owner(field)
    }

    /// A text for a channel that has no random parts, as the owners' fields in those of fair locks
    /// are.
    pub(crate) fn same_in_every_run(&self, channel: &str) -> String {
        let owner = |name: &&str| {
            let field = channel.strip_prefix(&keys::channel(name))?;
            self.owner(field.strip_prefix(':')?.as_bytes())
        };
        let of = |name: &&'static str| Some(format!("{name} {}", owner(name)?));
        let known = self.0.names.iter().find_map(of);
        known.unwrap_or_else(|| channel.to_owned())
    }

    /// Whether the lock's key exists.
    pub(crate) fn is_held(&self, name: Name) -> bool {
        self.command(&["EXISTS", self.0.names[name]]) == Value::Int(1)
    }

    fn holder(&self, name: Name, field: &[u8]) -> Option<Holder> {
        let owner = self.0.history.owner(field)?;
        Some(owner.with(self.0.families[name].mode_of(field)))
    }

    fn snapshot(&self, name: Name) -> Snapshot {
        let text = self.0.names[name];
        let Value::Array(fields) = self.command(&["HGETALL", text]) else {
            return Snapshot::default();
        };
        let until = self.time_to_live(text.as_bytes());
        let mut shares = Vec::new();
        for pair in fields.chunks(2) {
            let [Value::Bytes(field), Value::Bytes(count)] = pair else {
                continue;
            };
            let (Some(holder), Some(count)) = (self.holder(name, field), number(count)) else {
                continue;
            };
            let until = match (holder.mode, until) {
                (Mode::Read, lock) => {
                    let hold = self.read_hold(text, field, count);
                    lock.and_then(|lock| Some(earlier(lock, hold?)))
                }
                (_, lock) => lock,
            };
            if let Some(until) = until {
                shares.push(Share {
                    holder,
                    count,
                    until,
                });
            }
        }
        let counter = keys::counter(text).to_bytes();
        let token = match self.command(&[b"GET".as_ref(), &counter]) {
            Value::Bytes(token) => number(&token).unwrap_or(0),
            _ => 0,
        };
        Snapshot {
            shares,
            token,
            queue: self.queue(name),
        }
    }

    /// Until when an owner's newest read hold lives; none if it is over.
    #[expect(
        clippy::option_option,
        reason = "a key may have no time to live, and there may be no key"
    )]
    fn read_hold(&self, lock: &str, owner: &[u8], count: i64) -> Option<Option<Millis>> {
        let owner = str::from_utf8(owner).ok()?;
        let key = format!("{}:{count}", keys::read_holds(lock, owner));
        self.time_to_live(key.as_bytes())
    }

    /// None if there is no such key; the inner one if it has no time to live.
    #[expect(clippy::option_option, reason = "the two are not the same")]
    fn time_to_live(&self, key: &[u8]) -> Option<Option<Millis>> {
        match self.command(&[b"PTTL".as_ref(), key]) {
            Value::Int(-1) => Some(None),
            Value::Int(left) => Some(Some(self.0.history.now() + u64::try_from(left).ok()?)),
            _ => None,
        }
    }

    fn queue(&self, name: Name) -> Vec<Holder> {
        if self.0.families[name] != Family::Fair {
            return Vec::new();
        }
        let key = keys::queue(self.0.names[name]).to_bytes();
        let Value::Array(owners) = self.command(&[b"LRANGE", key.as_ref(), b"0", b"-1"]) else {
            return Vec::new();
        };
        let owners = owners.iter().filter_map(|owner| match owner {
            Value::Bytes(field) => self.holder(name, field),
            _ => None,
        });
        owners.collect()
    }
}

fn earlier(a: Option<Millis>, b: Option<Millis>) -> Option<Millis> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Whether an acquire made a grant, and did not add a hold to one.
fn is_granted(answer: &Value) -> bool {
    match answer {
        Value::Array(answer) => answer.starts_with(&[Value::Int(1), Value::Int(1)]),
        Value::Int(_) | Value::Bytes(_) => true,
        Value::Nil => false,
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}
