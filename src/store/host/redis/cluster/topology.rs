//! Who serves which slot, by the answers of its nodes. Pure data.

use std::collections::BTreeSet;

use deadpool_redis::redis::Value;

use super::{super::address::Address, slot::SLOTS};

/// A run of slots with the same master.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    from: u16,
    to: u16,
    master: Address,
    replicas: Vec<Address>,
}

/// Who serves what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    /// In the order of slots.
    ranges: Vec<Range>,
}

/// The answer of a node cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

// === impl Topology ===

impl Topology {
    /// Reads the answer to `CLUSTER SLOTS`. A node that does not know its own host leaves it empty:
    /// it is the one that was `asked`.
    pub(super) fn parse(answer: &Value, asked: &Address) -> Result<Self, Unreadable> {
        let Value::Array(ranges) = answer else {
            return Err(Unreadable);
        };
        let ranges = ranges.iter().map(|range| match range {
            Value::Array(parts) => Range::parse(parts, asked),
            _ => None,
        });
        let mut ranges = ranges.collect::<Option<Vec<_>>>().ok_or(Unreadable)?;
        ranges.sort();
        Ok(Self { ranges })
    }

    /// The master of a slot; none if no node serves it.
    pub(super) fn master(&self, slot: u16) -> Option<&Address> {
        self.range(slot).map(|range| &range.master)
    }

    /// All masters that serve slots.
    pub(super) fn masters(&self) -> BTreeSet<&Address> {
        self.ranges.iter().map(|range| &range.master).collect()
    }

    /// All masters, each with the first slot that it serves, in the order of those.
    pub(super) fn masters_by_first_slot(&self) -> Vec<(u16, &Address)> {
        let mut masters: Vec<(u16, &Address)> = Vec::new();
        for range in &self.ranges {
            if masters.iter().all(|(_, known)| *known != &range.master) {
                masters.push((range.from, &range.master));
            }
        }
        masters
    }

    /// Masters and replicas.
    pub(super) fn nodes(&self) -> BTreeSet<&Address> {
        let replicas = self.ranges.iter().flat_map(|range| &range.replicas);
        self.masters().into_iter().chain(replicas).collect()
    }

    /// Slots that no node serves: the first of them, and how many.
    pub(super) fn uncovered(&self) -> Option<(u16, u16)> {
        let mut next = 0;
        let mut first = None;
        let mut count = 0;
        let end = (SLOTS, SLOTS);
        let covered = self.ranges.iter().map(|range| (range.from, range.to + 1));
        for (from, after) in covered.chain([end]) {
            if from > next {
                first = first.or(Some(next));
                count += from - next;
            }
            next = after.max(next);
        }
        first.map(|first| (first, count))
    }

    /// Whether a replica has taken a master's place since `before`, so that what that one had
    /// written last may be missing.
    pub(super) fn has_promoted_since(&self, before: &Self) -> bool {
        self.ranges.iter().any(|range| {
            before.ranges.iter().any(|old| {
                let overlap = old.from <= range.to && range.from <= old.to;
                overlap && old.master != range.master && old.replicas.contains(&range.master)
            })
        })
    }

    /// Whether the same nodes are the masters of the same slots.
    pub(super) fn has_same_masters(&self, other: &Self) -> bool {
        let key = |range: &Range| (range.from, range.to, range.master.clone());
        self.ranges.len() == other.ranges.len()
            && self.ranges.iter().map(key).eq(other.ranges.iter().map(key))
    }

    fn range(&self, slot: u16) -> Option<&Range> {
        let after = self.ranges.partition_point(|range| range.from <= slot);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        (slot <= range.to).then_some(range)
    }
}

// === impl Range ===

impl Range {
    /// `from, to, master, replica…`.
    fn parse(parts: &[Value], asked: &Address) -> Option<Self> {
        let [Value::Int(from), Value::Int(to), master, replicas @ ..] = parts else {
            return None;
        };
        let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
        let replicas = replicas.iter().map(|replica| node(replica, asked));
        let mut replicas = replicas.collect::<Option<Vec<_>>>()?;
        replicas.sort();
        Some(Self {
            from: slot(*from)?,
            to: slot(*to)?,
            master: node(master, asked)?,
            replicas,
        })
    }
}

/// `host, port, …`. A host that is not known either is `?` or nil.
fn node(parts: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = parts else {
        return None;
    };
    let [host, Value::Int(port), ..] = parts.as_slice() else {
        return None;
    };
    let host = match host {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok()?,
        Value::SimpleString(text) => text,
        Value::Nil => "",
        _ => return None,
    };
    let host = if ["", "?"].contains(&host) {
        &asked.host
    } else {
        host
    };
    Some(Address {
        host: host.to_owned(),
        port: u16::try_from(*port).ok()?,
    })
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
