//! Looking at a lock.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{
    encoding::{count, malformed, refusal, time_to_live, unsigned},
    hold::Mode,
    host_scripts::HostScripts,
    note::Note,
};
use crate::{
    host::{Call, Value, words},
    script::{CallError, catalog, keys},
};

/// A lock as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// How it is held; none if it is free. A lock with one owner counts as fair while its queue is
    /// not empty.
    pub mode: Option<Mode>,
    /// The first who hold it.
    pub holders: Vec<Holder>,
    /// How many hold it.
    pub holder_count: usize,
    /// What is left of the lease; none if it is free or the key has no time to live.
    pub remaining: Option<Duration>,
    /// The newest fencing token; 0: none known.
    pub token: u64,
    /// The first owners in the queue of a fair lock.
    pub queue: Vec<Bytes>,
    /// Its length.
    pub queue_len: usize,
}

/// An owner that holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The owner, without the suffix of a write hold.
    pub owner: Bytes,
    /// How it holds the lock.
    pub mode: Mode,
    /// Holds.
    pub hold_count: u32,
    /// What is left of its lease; none if it has no time to live.
    pub remaining: Option<Duration>,
    /// What it says of its hold.
    pub note: Option<Arc<Note>>,
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn inspect(&self, name: &str, max: u32) -> Result<Inspected, CallError> {
        let script = &catalog::LOCK_INSPECT;
        let keys = words![
            keys::lock(name),
            keys::counter(name),
            keys::queue(name),
            keys::read_holds_base(name),
        ];
        let args = words![max];
        let reply = self.ask(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        match values.as_slice() {
            [Value::Int(why)] => Err(refusal(script, &[*why])),
            [
                Value::Int(_done),
                Value::Bytes(mode),
                Value::Int(remaining),
                Value::Int(token),
                Value::Int(holder_count),
                Value::Array(holders),
                Value::Int(queue_len),
                Value::Array(queue),
            ] => {
                let queue_len = usize::try_from(*queue_len).unwrap_or(0);
                let mode = mode_of(mode, queue_len);
                let holders = holders.chunks(4).map(|parts| holder(parts, mode));
                let queue = queue.iter().map(|owner| match owner {
                    Value::Bytes(owner) => Some(owner.clone()),
                    Value::Nil | Value::Int(_) | Value::Array(_) => None,
                });
                Ok(Inspected {
                    mode,
                    holders: holders
                        .collect::<Option<_>>()
                        .ok_or_else(|| malformed(script, &reply))?,
                    holder_count: usize::try_from(*holder_count).unwrap_or(0),
                    remaining: time_to_live(*remaining),
                    token: unsigned(*token),
                    queue: queue
                        .collect::<Option<_>>()
                        .ok_or_else(|| malformed(script, &reply))?,
                    queue_len,
                })
            }
            _ => Err(malformed(script, &reply)),
        }
    }
}

pub(super) fn mode_of(mode: &[u8], queue_len: usize) -> Option<Mode> {
    match mode {
        b"sole" if queue_len > 0 => Some(Mode::Fair),
        b"sole" => Some(Mode::Exclusive),
        b"read" => Some(Mode::Read),
        b"write" => Some(Mode::Write),
        _ => None,
    }
}

pub(super) fn holder(parts: &[Value], mode: Option<Mode>) -> Option<Holder> {
    let [
        Value::Bytes(ref field),
        Value::Int(hold_count),
        Value::Int(remaining),
        ref note @ ..,
    ] = *parts
    else {
        return None;
    };
    let (owner, mode) = match (mode?, keys::writer(field)) {
        (Mode::Read | Mode::Write, Some(owner)) => (owner, Mode::Write),
        (Mode::Read | Mode::Write, None) => (field.clone(), Mode::Read),
        (sole, _) => (field.clone(), sole),
    };
    Some(Holder {
        owner,
        mode,
        hold_count: count(hold_count),
        remaining: time_to_live(remaining),
        note: note.first().and_then(Note::of),
    })
}
