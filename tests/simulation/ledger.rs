//! Looks at the locks in the store after everything that may have changed them, so that the history knows the truth and not only what was told.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper::{
    host::{Value, embedded::EmbeddedStore},
    script::keys,
};
use parking_lot::Mutex;

use super::history::{History, Holder, Millis, Name, What};

/// The locks of a run.
#[derive(Clone, Debug)]
pub(crate) struct Ledger(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: EmbeddedStore,
    history: History,
    names: Vec<&'static str>,
    last: Mutex<Vec<Snapshot>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Snapshot {
    holders: Vec<(Holder, i64)>,
    token: u64,
    until: Option<Millis>,
}

// === impl Ledger ===

impl Ledger {
    pub(crate) fn new(store: EmbeddedStore, history: History, names: Vec<&'static str>) -> Self {
        let last = Mutex::new(vec![Snapshot::default(); names.len()]);
        Self(Arc::new(Shared {
            store,
            history,
            names,
            last,
        }))
    }

    pub(crate) fn store(&self) -> &EmbeddedStore {
        &self.0.store
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.0.names
    }

    /// Runs a command as redis-cli would.
    pub(crate) fn command(&self, words: &[&str]) -> Value {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
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
        let mut last = self.0.last.lock();
        if last[name] == seen {
            return;
        }
        last[name] = seen.clone();
        drop(last);
        self.0.history.record(What::Stored {
            name,
            holders: seen.holders,
            token: seen.token,
            until: seen.until,
            by,
        });
    }

    /// Whether the lock's key exists.
    pub(crate) fn is_held(&self, name: Name) -> bool {
        self.command(&["EXISTS", self.0.names[name]]) == Value::Int(1)
    }

    fn snapshot(&self, name: Name) -> Snapshot {
        let text = self.0.names[name];
        let Value::Array(fields) = self.command(&["HGETALL", text]) else {
            return Snapshot::default();
        };
        let holders = fields.chunks(2).filter_map(|pair| match pair {
            [Value::Bytes(field), Value::Bytes(count)] => {
                let holder = self.0.history.holder(field)?;
                Some((holder, number(count)?))
            }
            _ => None,
        });
        let until = match self.command(&["PTTL", text]) {
            Value::Int(left) => u64::try_from(left).ok(),
            _ => None,
        };
        let counter = keys::counter(text);
        let token = self.0.store.command(&[b"GET", counter.as_ref()]).unwrap();
        let token = match token {
            Value::Bytes(token) => number(&token).unwrap_or(0),
            _ => 0,
        };
        Snapshot {
            holders: holders.collect(),
            token,
            until: until.map(|left| self.0.history.now() + left),
        }
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}
