//! Keys, what they hold, and when they end.

use std::{
    collections::{BTreeSet, HashMap},
    hash::BuildHasher as _,
    sync::Arc,
};

use bytes::Bytes;

use super::{
    data::{Data, Kind},
    reply::Refusal,
};

/// All keys of a store. Time does not pass between two calls of [`Keyspace::set_now`], as it does
/// for Redis while a script runs.
#[derive(Debug, Default)]
pub(super) struct Keyspace {
    now_ms: i64,
    entries: HashMap<Key, Entry, foldhash::fast::RandomState>,
    /// Every key with a time to live, soonest first; in step with `entries`.
    expiries: BTreeSet<(i64, Key)>,
    /// Keys that were made since the clock was last set.
    made: usize,
}

type Key = Arc<[u8]>;

#[derive(Debug)]
struct Entry {
    key: Key,
    data: Data,
    /// The last millisecond in which the key exists.
    expires_at_ms: Option<i64>,
}

/// How long a key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// It does not.
    Missing,
    Endless,
    /// Through this millisecond.
    Until(i64),
}

/// Due keys removed each time the clock is set, at least, and for each key that was made since it
/// was set before. More than were made, so that keys nobody touches do not pile up; few, so that a
/// script does not wait long for the sins of others.
const EVICTIONS_MIN: usize = 32;
const EVICTIONS_PER_KEY: usize = 2;

/// Keys that there is always room for.
const ROOM_MIN: usize = 1024;

// === impl Keyspace ===

impl Keyspace {
    /// Sets the time and removes some of the keys that are due by it.
    pub(super) fn set_now(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        let made = std::mem::take(&mut self.made);
        for _ in 0..EVICTIONS_MIN.max(EVICTIONS_PER_KEY * made) {
            let Some((at, _)) = self.expiries.first() else {
                break;
            };
            if *at >= now_ms {
                break;
            }
            if let Some((_, key)) = self.expiries.pop_first() {
                self.entries.remove(&key);
            }
        }
        self.give_room_back();
    }

    /// A table does not become smaller by itself, and names by the million would leave a large one
    /// behind.
    fn give_room_back(&mut self) {
        let wanted = ROOM_MIN.max(self.entries.len());
        if self.entries.capacity() / 8 > wanted {
            self.entries.shrink_to(2 * wanted);
        }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// How many keys exist; those that are due, but not removed yet, do not.
    pub(super) fn count(&self) -> usize {
        let first_alive = (self.now_ms, Key::default());
        self.entries.len() - self.expiries.range(..first_alive).count()
    }

    /// Keys in the order of their hashes, from this one on, and more where hashes are the same; and
    /// the hash to go on from, if there are more. Keys that come and go meanwhile do not move the
    /// others.
    pub(super) fn walk(&self, from: u64, count: usize) -> (Vec<Bytes>, Option<u64>) {
        let hash = |key: &Key| self.entries.hasher().hash_one(key);
        let alive = self
            .entries
            .values()
            .filter(|entry| !entry.is_due(self.now_ms));
        let hashed = alive.map(|entry| (hash(&entry.key), &entry.key));
        let mut rest: Vec<_> = hashed.filter(|(hash, _)| *hash >= from).collect();
        let next = if rest.len() > count {
            let (_, next, _) = rest.select_nth_unstable(count);
            let next = next.0;
            rest.retain(|(hash, _)| *hash < next);
            Some(next)
        } else {
            None
        };
        let keys = rest.iter().map(|(_, key)| Bytes::copy_from_slice(key));
        (keys.collect(), next)
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.expiries.clear();
    }

    /// What a key holds, if it exists.
    pub(super) fn data(&self, key: &[u8]) -> Option<&Data> {
        self.entry(key).map(|entry| &entry.data)
    }

    /// What a key holds; none if it does not exist, an error if that is of another type.
    pub(super) fn read<K: Kind>(&self, key: &[u8]) -> Result<Option<&K>, Refusal> {
        let data = self.data(key);
        data.map(|data| K::of(data).ok_or(Refusal::WRONG_TYPE))
            .transpose()
    }

    /// The same, to be changed. [`Keyspace::tidy`] must follow if it may have become empty.
    pub(super) fn change<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut K>, Refusal> {
        let now_ms = self.now_ms;
        let entry = self
            .entries
            .get_mut(key)
            .filter(|entry| !entry.is_due(now_ms));
        entry
            .map(|entry| K::of_mut(&mut entry.data).ok_or(Refusal::WRONG_TYPE))
            .transpose()
    }

    /// The same, made if the key does not exist. It must not be left empty.
    pub(super) fn change_or_make<K: Kind>(&mut self, key: &[u8]) -> Result<&mut K, Refusal> {
        if self.entry(key).is_none() {
            self.put(key, K::default().into_data());
        }
        self.change(key)?.ok_or(Refusal::WRONG_TYPE)
    }

    /// Removes a key that a change has left empty.
    pub(super) fn tidy(&mut self, key: &[u8]) {
        if self.data(key).is_some_and(Data::is_empty) {
            self.remove(key);
        }
    }

    /// Replaces what a key holds, and its time to live by none.
    pub(super) fn put(&mut self, key: &[u8], data: Data) {
        self.put_until(key, data, None);
    }

    /// The same with the last millisecond of the key, if it is to have one.
    pub(super) fn put_until(&mut self, key: &[u8], data: Data, until: Option<i64>) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.data = data;
            Self::move_end(&mut self.expiries, entry, until);
            return;
        }
        self.made += 1;
        let mut entry = Entry {
            key: Key::from(key),
            data,
            expires_at_ms: None,
        };
        Self::move_end(&mut self.expiries, &mut entry, until);
        self.entries.insert(Arc::clone(&entry.key), entry);
    }

    /// Removes a key and returns whether it existed.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(mut entry) = self.entries.remove(key) else {
            return false;
        };
        let existed = !entry.is_due(self.now_ms);
        Self::move_end(&mut self.expiries, &mut entry, None);
        existed
    }

    pub(super) fn lifetime(&self, key: &[u8]) -> Lifetime {
        let Some(entry) = self.entry(key) else {
            return Lifetime::Missing;
        };
        entry
            .expires_at_ms
            .map_or(Lifetime::Endless, Lifetime::Until)
    }

    /// Changes the last millisecond of a key, if it exists; none takes its time to live away.
    pub(super) fn expire(&mut self, key: &[u8], at: Option<i64>) {
        let now_ms = self.now_ms;
        let Some(entry) = self
            .entries
            .get_mut(key)
            .filter(|entry| !entry.is_due(now_ms))
        else {
            return;
        };
        Self::move_end(&mut self.expiries, entry, at);
    }

    /// Changes when an entry ends, in the index too.
    fn move_end(expiries: &mut BTreeSet<(i64, Key)>, entry: &mut Entry, until: Option<i64>) {
        if entry.expires_at_ms == until {
            return;
        }
        if let Some(before) = std::mem::replace(&mut entry.expires_at_ms, until) {
            let indexed = expiries.remove(&(before, Arc::clone(&entry.key)));
            debug_assert!(indexed, "every time to live is indexed");
        }
        if let Some(until) = until {
            expiries.insert((until, Arc::clone(&entry.key)));
        }
    }

    fn entry(&self, key: &[u8]) -> Option<&Entry> {
        self.entries
            .get(key)
            .filter(|entry| !entry.is_due(self.now_ms))
    }
}

// === impl Lifetime ===

impl Lifetime {
    /// The last millisecond, of a key that has one.
    pub(super) fn end(self) -> Option<i64> {
        if let Self::Until(at) = self {
            Some(at)
        } else {
            None
        }
    }
}

// === impl Entry ===

impl Entry {
    fn is_due(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| at < now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::data::{Fields, List, Text},
        *,
    };

    fn text(value: &'static str) -> Data {
        Text(Bytes::from(value)).into_data()
    }

    #[test]
    fn a_key_lives_through_its_last_millisecond() {
        let mut keys = Keyspace::default();
        keys.put(b"a", text("1"));
        keys.expire(b"a", Some(10));
        keys.set_now(10);
        assert!(keys.data(b"a").is_some());
        keys.set_now(11);
        assert!(keys.data(b"a").is_none());
        assert_eq!(keys.count(), 0);
    }

    #[test]
    fn a_walk_tells_every_key_that_stays() {
        let mut keys = Keyspace::default();
        for number in 0..100_u8 {
            keys.put(&[number], text("1"));
        }
        let (mut seen, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let (found, next) = keys.walk(at, 7);
            assert!(found.len() <= 7);
            seen.extend(found.iter().map(|key| key[0]));
            // Odd ones go and others come meanwhile.
            let gone = seen.len() % 50 * 2 + 1;
            keys.remove(&[u8::try_from(gone).unwrap()]);
            keys.put(&[200, u8::try_from(seen.len()).unwrap()], text("1"));
            from = next;
        }
        seen.sort_unstable();
        assert!((0..50).all(|number| seen.contains(&(2 * number))));
    }

    #[test]
    fn keys_that_nobody_touches_are_evicted_in_bounded_portions() {
        let mut keys = Keyspace::default();
        for number in 0..100_u8 {
            keys.put(&[number], text("1"));
            keys.expire(&[number], Some(10));
        }
        keys.set_now(9);
        keys.set_now(11);
        assert_eq!(keys.count(), 0);
        assert_eq!(keys.entries.len(), 100 - EVICTIONS_MIN);
        for _ in 0..3 {
            keys.set_now(11);
        }
        assert!(keys.entries.is_empty() && keys.expiries.is_empty());
    }

    #[test]
    fn keys_do_not_pile_up_when_each_call_makes_many() {
        let mut keys = Keyspace::default();
        for call in 0..10_u8 {
            keys.set_now(call.into());
            for number in 0..250_u8 {
                keys.put_until(&[call, number], text("1"), Some(i64::from(call)));
            }
            assert!(keys.entries.len() <= 500, "{}", keys.entries.len());
        }
    }

    #[test]
    fn a_due_key_is_gone_for_writers_too() {
        let mut keys = Keyspace::default();
        keys.put(b"a", text("1"));
        keys.expire(b"a", Some(10));
        // Past the portion that is evicted, or the clock was stepped within a portion: the key is
        // due, but still there.
        keys.now_ms = 11;
        assert!(keys.change::<Text>(b"a").unwrap().is_none());
        keys.expire(b"a", Some(99));
        assert!(keys.data(b"a").is_none());
        assert!(
            keys.change_or_make::<Fields>(b"a").is_ok(),
            "another type takes the name over"
        );
        assert_eq!(keys.lifetime(b"a"), Lifetime::Endless);
        assert!(keys.expiries.is_empty());
    }

    #[test]
    fn the_index_follows_every_change() {
        let mut keys = Keyspace::default();
        keys.put(b"a", text("1"));
        keys.expire(b"a", Some(10));
        keys.expire(b"a", Some(20));
        assert_eq!(keys.expiries.len(), 1);
        keys.put(b"a", text("2"));
        assert!(keys.expiries.is_empty(), "a put has no time to live");
        keys.expire(b"a", Some(20));
        keys.expire(b"a", None);
        assert!(keys.expiries.is_empty());
        keys.expire(b"a", Some(20));
        assert!(keys.remove(b"a"));
        assert!(!keys.remove(b"a"));
        assert!(keys.expiries.is_empty());
    }

    #[test]
    fn types_are_kept_apart_and_the_empty_removed() {
        let mut keys = Keyspace::default();
        keys.change_or_make::<List>(b"l")
            .unwrap()
            .push_back(Bytes::from("x"));
        assert_eq!(keys.read::<Fields>(b"l").unwrap_err(), Refusal::WRONG_TYPE);
        assert_eq!(
            keys.change_or_make::<Text>(b"l").unwrap_err(),
            Refusal::WRONG_TYPE
        );
        keys.change::<List>(b"l").unwrap().unwrap().clear();
        keys.tidy(b"l");
        assert_eq!(keys.count(), 0);
    }
}
