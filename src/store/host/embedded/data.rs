//! What a key can hold.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    hash::{DefaultHasher, Hasher as _},
};

use bytes::Bytes;

/// The value of a key.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Text(Text),
    Hash(Fields),
    List(List),
    SortedSet(SortedSet),
}

/// A type of value: how commands that need it get at it.
pub(super) trait Kind: Sized + Default {
    fn of(data: &Data) -> Option<&Self>;
    fn of_mut(data: &mut Data) -> Option<&mut Self>;
    fn into_data(self) -> Data;
}

/// A string.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(pub(super) Bytes);

/// A list, head first.
pub(super) type List = VecDeque<Bytes>;

/// The fields of a hash: in the order of insertion as long as they are few, sorted later. (Redis
/// shuffles many; nothing may rely on it.)
#[derive(Clone, Debug)]
pub(super) enum Fields {
    Few(Vec<(Bytes, Bytes)>),
    Many(BTreeMap<Bytes, Bytes>),
}

/// Members with scores, in the order of scores and, within one score, of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct SortedSet {
    scores: HashMap<Bytes, f64>,
    order: BTreeSet<(Score, Bytes)>,
}

/// A double that is a number, so that all of them have an order. Zero and minus zero are equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score(pub(super) f64);

/// Hashes with more fields than this are searched by a tree, as Redis leaves its compact form at
/// this size.
const FIELDS_FEW_MAX: usize = 128;

/// Where a field is in a scan. Scripts read cursors as doubles, so it has no more bits than those.
fn place_in_scan(name: &[u8]) -> u64 {
    const UNUSED_BITS: u32 = 64 - 52;
    let mut hasher = DefaultHasher::new();
    hasher.write(name);
    (hasher.finish() >> UNUSED_BITS).max(1)
}

// === impl Data ===

impl Data {
    /// The name `TYPE` answers.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Hash(_) => "hash",
            Self::List(_) => "list",
            Self::SortedSet(_) => "zset",
        }
    }

    /// Whether the key should go: only a string may be empty.
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Text(_) => false,
            Self::Hash(fields) => fields.len() == 0,
            Self::List(list) => list.is_empty(),
            Self::SortedSet(set) => set.len() == 0,
        }
    }
}

macro_rules! kind {
    ($type:ty, $variant:ident) => {
        impl Kind for $type {
            fn of(data: &Data) -> Option<&Self> {
                if let Data::$variant(value) = data {
                    Some(value)
                } else {
                    None
                }
            }

            fn of_mut(data: &mut Data) -> Option<&mut Self> {
                if let Data::$variant(value) = data {
                    Some(value)
                } else {
                    None
                }
            }

            fn into_data(self) -> Data {
                Data::$variant(self)
            }
        }
    };
}

kind!(Text, Text);
kind!(Fields, Hash);
kind!(List, List);
kind!(SortedSet, SortedSet);

// === impl Fields ===

impl Fields {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(fields) => fields.len(),
            Self::Many(fields) => fields.len(),
        }
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Bytes> {
        match self {
            Self::Few(fields) => fields
                .iter()
                .find(|(n, _)| n == name)
                .map(|(_, value)| value),
            Self::Many(fields) => fields.get(name),
        }
    }

    /// Sets a field and returns whether it is new.
    pub(super) fn set(&mut self, name: &[u8], value: Bytes) -> bool {
        match self {
            Self::Few(fields) => {
                if let Some((_, old)) = fields.iter_mut().find(|(n, _)| n == name) {
                    *old = value;
                    return false;
                }
                fields.push((Bytes::copy_from_slice(name), value));
                if fields.len() > FIELDS_FEW_MAX {
                    *self = Self::Many(std::mem::take(fields).into_iter().collect());
                }
                true
            }
            Self::Many(fields) => fields.insert(Bytes::copy_from_slice(name), value).is_none(),
        }
    }

    /// Removes a field and returns whether there was one.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        match self {
            Self::Few(fields) => {
                let place = fields.iter().position(|(n, _)| n == name);
                place.map(|place| fields.remove(place)).is_some()
            }
            Self::Many(fields) => fields.remove(name).is_some(),
        }
    }

    /// Some names and values, and where to go on: 0 if there are no more. Few are returned all. Of
    /// many, those that are there from the first call of a scan to the last are returned, whatever
    /// else is added or removed meanwhile: they are in the order of their hashes.
    pub(super) fn scan(&self, from: u64, count: usize) -> (Vec<(&Bytes, &Bytes)>, u64) {
        let Self::Many(fields) = self else {
            return (self.iter().collect(), 0);
        };
        let rest = fields.iter().map(|pair| (place_in_scan(pair.0), pair));
        let mut rest: Vec<_> = rest.filter(|(place, _)| *place >= from).collect();
        rest.sort_unstable_by_key(|(place, _)| *place);
        let next = rest.get(count).map_or(0, |(place, _)| *place);
        let page = rest.into_iter().take(count);
        (page.map(|(_, pair)| pair).collect(), next)
    }

    /// Names and values.
    pub(super) fn iter(&self) -> Box<dyn Iterator<Item = (&Bytes, &Bytes)> + '_> {
        match self {
            Self::Few(fields) => Box::new(fields.iter().map(|(name, value)| (name, value))),
            Self::Many(fields) => Box::new(fields.iter()),
        }
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

// === impl SortedSet ===

impl SortedSet {
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// Adds a member or changes its score. The score must be a number.
    pub(super) fn set(&mut self, member: &[u8], score: f64) {
        debug_assert!(!score.is_nan(), "a score has a place in the order");
        self.remove(member);
        // Redis keeps the scores of small sets in a form that knows no minus zero.
        let score = score + 0.0;
        let member = Bytes::copy_from_slice(member);
        self.scores.insert(member.clone(), score);
        self.order.insert((Score(score), member));
    }

    /// Removes a member and returns whether there was one.
    pub(super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        let ordered = self.order.remove(&(Score(score), member));
        debug_assert!(ordered, "every member has a place in the order");
        true
    }

    /// The members, lowest score first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.order.iter().map(|(score, member)| (member, score.0))
    }

    /// The members from a score on, lowest first. An empty string precedes all members of its
    /// score.
    pub(super) fn iter_from(&self, lowest: f64) -> impl DoubleEndedIterator<Item = (&Bytes, f64)> {
        self.order
            .range((Score(lowest), Bytes::new())..)
            .map(|(score, member)| (member, score.0))
    }
}

// === impl Score ===

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}
