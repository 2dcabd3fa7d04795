//! Taking a lock away by force.

use std::time::Duration;

use super::{
    encoding::{
        DONE, NOT_DONE, WAKE_ALL, WAKE_ONE, duration, malformed, millis, refusal, unsigned,
    },
    hold::{Hold, Mode, queue_keys},
    host_scripts::HostScripts,
    inspect::{Holder, holder, mode_of},
};
use crate::{
    host::{Call, Value, words},
    script::{CallError, catalog, keys},
};

/// A lock that was taken away by force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forced {
    /// How it was held.
    pub mode: Option<Mode>,
    /// The fencing token of its holders; 0: none known.
    pub token: u64,
    /// The first of its holders.
    pub holders: Vec<Holder>,
    /// How many held it.
    pub holder_count: usize,
    /// How long it stays closed, unless all of them acknowledge.
    pub grace: Duration,
}

/// The holders that were asked to yield a lock.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Their fencing token.
    pub token: u64,
    /// Their fields, without the numbers of grants.
    pub holders: &'a [String],
}

/// What is kept of a release by force, for former holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedRecord {
    /// Grants with this token were taken away.
    pub token: u64,
    /// Why.
    pub reason: String,
    /// What is left of the grace period.
    pub grace: Duration,
    /// Whether they were asked to yield before.
    pub preempted: bool,
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn force_release(
        &self,
        name: &str,
        reason: &str,
        grace: Duration,
        asked: Option<Asked<'_>>,
        max: u32,
    ) -> Result<Option<Forced>, CallError> {
        let script = &catalog::LOCK_FORCE;
        let keys = words![
            keys::lock(name),
            keys::counter(name),
            keys::channel_key(name),
            keys::queue(name),
            keys::queue_deadlines(name),
            keys::vouched_waiters(name),
            keys::readers(name),
            keys::read_holds_base(name),
            keys::rw_channel_key(name),
            keys::forced(name),
        ];
        let mut args = words![
            self.publish(),
            WAKE_ONE,
            WAKE_ALL,
            millis(self.config.fair_waiter_timeout),
            millis(self.config.idle_token_retention),
            reason,
            millis(self.config.request_retention),
            max,
            millis(grace),
        ];
        if let Some(asked) = asked {
            args.push(asked.token);
            args.extend(asked.holders.iter().map(String::as_str));
        }
        let reply = self.call(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        match values.as_slice() {
            [Value::Int(NOT_DONE)] => Ok(None),
            [Value::Int(why)] => Err(refusal(script, &[*why])),
            [
                Value::Int(DONE),
                Value::Bytes(mode),
                Value::Int(token),
                Value::Int(holder_count),
                Value::Array(holders),
                Value::Int(grace),
            ] => {
                let mode = mode_of(mode, 0);
                let holders = holders.chunks(3).map(|parts| holder(parts, mode));
                let holders = holders.collect::<Option<_>>();
                Ok(Some(Forced {
                    mode,
                    token: unsigned(*token),
                    holders: holders.ok_or_else(|| malformed(script, &reply))?,
                    holder_count: usize::try_from(*holder_count).unwrap_or(0),
                    grace: duration(*grace),
                }))
            }
            _ => Err(malformed(script, &reply)),
        }
    }

    pub(crate) async fn forced(&self, name: &str) -> Result<Option<ForcedRecord>, CallError> {
        let script = &catalog::LOCK_FORCED;
        let (keys, args) = (words![keys::forced(name)], words![]);
        let reply = self.host.eval(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        match values.as_slice() {
            [Value::Int(NOT_DONE)] => Ok(None),
            [
                Value::Int(DONE),
                Value::Int(token),
                Value::Bytes(reason),
                Value::Int(grace),
                Value::Int(preempted),
            ] => Ok(Some(ForcedRecord {
                token: unsigned(*token),
                reason: String::from_utf8_lossy(reason).into_owned(),
                grace: duration(*grace),
                preempted: *preempted == DONE,
            })),
            _ => Err(malformed(script, &reply)),
        }
    }

    /// Acknowledges the loss of a hold; whether the lock is free now.
    pub(crate) async fn acknowledge_forced(&self, hold: Hold<'_>) -> Result<bool, CallError> {
        let name = hold.name;
        let mut keys = words![keys::lock(name), keys::channel_key(name)];
        keys.extend(queue_keys(name));
        keys.push(keys::rw_channel_key(name));
        let args = words![
            hold.owner,
            self.publish(),
            WAKE_ONE,
            WAKE_ALL,
            millis(self.config.fair_waiter_timeout),
        ];
        match *self.eval(&catalog::LOCK_ACKNOWLEDGE, keys, args).await? {
            [DONE] => Ok(true),
            [NOT_DONE] => Ok(false),
            ref other => Err(refusal(&catalog::LOCK_ACKNOWLEDGE, other)),
        }
    }
}
