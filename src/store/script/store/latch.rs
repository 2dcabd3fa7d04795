//! The scripts of latches.

use std::time::Duration;

use super::scripts::Scripts;
use crate::{
    host::{Words, words},
    script::{
        CallError, Unsupported,
        calls::encoding::{self, DONE, NOT_DONE, REPEATED, count, millis, refusal, time_to_live},
        catalog, keys,
    },
};

/// What setting a count came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountSet {
    /// Whether it was set; otherwise there was one.
    pub set: bool,
    /// The count that there is.
    pub count: u32,
}

/// What counting down came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountedDown {
    /// So much is left; 0: the latch is open.
    Left(u32),
    /// It would be below zero: so much there is, and nothing changed.
    TooMany(u32),
}

/// A latch as the store shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatchInspected {
    /// 0: it is open.
    pub count: u32,
    /// When it is forgotten; none if it is open or stays.
    pub remaining: Option<Duration>,
}

// === impl Scripts ===

impl Scripts {
    /// Gives a latch its count if it has none; without `ttl` it stays. With a request id a repeat
    /// gets the first answer.
    pub async fn set_count(
        &self,
        name: &str,
        count: u32,
        ttl: Option<Duration>,
        request_id: Option<&str>,
    ) -> Result<CountSet, CallError> {
        let store = self.single(Unsupported::Latches)?;
        let args = words![
            count,
            millis(ttl.unwrap_or_default()),
            self.kind_retention(),
            millis(self.config.request_retention),
            store.publish(),
            &keys::latch_channel(name),
            self.adopts(),
        ];
        let script = &catalog::LATCH_SET;
        let reply = store
            .eval(script, latch_keys(name, request_id), args)
            .await?;
        match *reply.as_slice() {
            [done @ (DONE | REPEATED | NOT_DONE), count] => Ok(CountSet {
                set: done != NOT_DONE,
                count: encoding::count(count),
            }),
            _ => Err(refusal(script, &reply)),
        }
    }

    /// Lowers a count. With a request id a repeat gets the first answer.
    pub async fn count_down(
        &self,
        name: &str,
        by: u32,
        request_id: Option<&str>,
    ) -> Result<CountedDown, CallError> {
        let store = self.single(Unsupported::Latches)?;
        let args = words![
            by,
            millis(self.config.request_retention),
            store.publish(),
            &keys::latch_channel(name),
            self.adopts(),
        ];
        let script = &catalog::LATCH_COUNT_DOWN;
        let reply = store
            .eval(script, latch_keys(name, request_id), args)
            .await?;
        match *reply.as_slice() {
            [DONE | REPEATED, left] => Ok(CountedDown::Left(count(left))),
            [NOT_DONE, there] => Ok(CountedDown::TooMany(count(there))),
            _ => Err(refusal(script, &reply)),
        }
    }

    /// A latch's count. Changes nothing.
    pub async fn inspect_latch(&self, name: &str) -> Result<LatchInspected, CallError> {
        let store = self.single(Unsupported::Latches)?;
        let script = &catalog::LATCH_INSPECT;
        let reply = store
            .eval(script, latch_keys(name, None), words![self.adopts()])
            .await?;
        match *reply.as_slice() {
            [DONE, count, remaining] => Ok(LatchInspected {
                count: encoding::count(count),
                remaining: time_to_live(remaining),
            }),
            _ => Err(refusal(script, &reply)),
        }
    }

    /// Deletes a latch. True if there was one.
    pub async fn delete_latch(&self, name: &str) -> Result<bool, CallError> {
        let store = self.single(Unsupported::Latches)?;
        let channel = &keys::latch_channel(name);
        let args = words![store.publish(), channel, self.adopts()];
        let script = &catalog::LATCH_DELETE;
        let reply = store.eval(script, latch_keys(name, None), args).await?;
        match *reply.as_slice() {
            [done @ (DONE | NOT_DONE)] => Ok(done == DONE),
            _ => Err(refusal(script, &reply)),
        }
    }
}

fn latch_keys(name: &str, request_id: Option<&str>) -> Words {
    let mut keys = words![
        keys::lock(name),
        keys::kind(name),
        keys::permit_leases(name),
    ];
    keys.extend(request_id.map(|id| keys::record(name, id)));
    keys
}
