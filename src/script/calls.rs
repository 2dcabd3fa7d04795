//! One function per script: typed arguments, typed replies. The numbers that scripts return have their meaning here and nowhere else.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{CallError, Config, catalog, keys};
use crate::host::{Call, HostError, Script, ScriptHost, Value};

/// Message of a release: wakes one waiter in every process that listens. Redisson reads messages as numbers.
const WAKE_ONE: &str = "0";
const PUBLISH: &str = "PUBLISH";

const NOT_DONE: i64 = 0;
const DONE: i64 = 1;
const REQUEST_OVER: i64 = 2;
const REQUEST_ID_REUSED: i64 = 3;
const WRONG_KIND: i64 = 4;
const REPEATED: i64 = 5;

/// Why a release found no hold of the owner.
const HELD_BY_ANOTHER: i64 = 1;
const EXPIRED: i64 = 2;
const NEVER_HELD: i64 = 3;

/// In place of a lease in the reply of a renewal.
const RENEWAL_EXPIRED: i64 = -1;
const RENEWAL_HELD_BY_ANOTHER: i64 = -2;

/// The scripts on one host.
#[derive(Clone, Debug)]
pub struct Scripts {
    host: Arc<dyn ScriptHost>,
    config: Config,
}

/// What an acquire came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner holds the lock.
    Granted {
        /// Holds, this one included.
        hold_count: u32,
        /// The fencing token.
        token: u64,
        /// Time to live at the moment the script ran.
        lease: Duration,
        /// Whether this is the first answer to the request, told again.
        repeated: bool,
    },
    /// Another owner holds it.
    Busy {
        /// What is left of its lease; none if the key has no time to live.
        remaining: Option<Duration>,
    },
}

/// How an acquire can be told apart from all others, so that it can be repeated and undone.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The request id, if the first answer is to be kept; the attempt's own name, if only its undo will ask for it.
    pub request_id: Option<&'a str>,
    /// Unique for this attempt; several attempts may carry one request id.
    pub attempt: &'a str,
    /// The holds the owner has without this attempt, if the caller knows.
    pub known_holds: Option<u32>,
    /// The grant it adds a hold to or has got, if the caller knows: an undo leaves a newer one alone.
    pub token: Option<u64>,
}

/// What a release came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// One hold was given back.
    Done {
        /// Holds left after it; 0: that freed the lock.
        hold_count: u32,
        /// Holds now. Another number than `hold_count` only if this is the first answer to the request, told again.
        held: u32,
        /// Time to live of what is held now.
        lease: Duration,
    },
    /// The owner does not hold it.
    NotOwner(Ownership),
}

/// What the store knows of a lock that the caller does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Another owner holds it.
    HeldByAnother,
    /// Nobody holds it, but it has been granted before: the lease ran out, or it was given back.
    Expired,
    /// No grant of the name is known.
    NeverHeld,
}

/// One hold to renew.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lock.
    pub name: Arc<str>,
    /// The owner's field.
    pub owner: Arc<str>,
    /// The lease to count from now.
    pub lease: Duration,
}

/// What a batch of renewals came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewals {
    /// The store's clock in microseconds when the script ran.
    pub store_micros: i64,
    /// One outcome for each hold, in order: granted anew, or why not (never [`Ownership::NeverHeld`]).
    pub outcomes: Vec<Result<Renewed, Ownership>>,
}

/// A hold that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Holds.
    pub hold_count: u32,
    /// The fencing token.
    pub token: u64,
    /// Time to live at the moment the script ran; at least what was asked for.
    pub lease: Duration,
}

/// A lock as the store shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// Owner fields and hold counts.
    pub holders: Vec<(Bytes, u32)>,
    /// What is left of the lease; none if nobody holds it or the key has no time to live.
    pub remaining: Option<Duration>,
    /// The newest fencing token; 0: none known.
    pub token: u64,
}

// === impl Scripts ===

impl Scripts {
    /// The scripts on a host.
    pub fn new(host: Arc<dyn ScriptHost>, config: Config) -> Self {
        Self { host, config }
    }

    /// Takes a lock for the owner, or takes it again. With a request id a repeat gets the first answer; `record_refusal` says whether being
    /// busy counts as an answer.
    pub async fn acquire(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        attempt: Attempt<'_>,
        record_refusal: bool,
    ) -> Result<Acquired, CallError> {
        let mut keys = vec![keys::lock(name), keys::counter(name)];
        keys.extend(attempt.request_id.map(|id| keys::record(name, id)));
        // A record that only an undo will look for is not needed for longer than the lease.
        let own_record = attempt.request_id == Some(attempt.attempt);
        let retention = self.config.request_retention;
        let retention = if own_record {
            retention.min(lease)
        } else {
            retention
        };
        let args = vec![
            text(owner),
            millis(lease),
            millis(self.config.idle_token_retention),
            text(attempt.attempt),
            millis(retention),
            Bytes::from_static(if record_refusal { b"1" } else { b"0" }),
            attempt.known_holds.map_or(Bytes::new(), number),
        ];
        let reply = self.eval(&catalog::LOCK_ACQUIRE, keys, args).await?;
        match *reply.as_slice() {
            [done @ (DONE | REPEATED), hold_count, token, lease] => Ok(Acquired::Granted {
                hold_count: count(hold_count),
                token: unsigned(token),
                lease: duration(lease),
                repeated: done == REPEATED,
            }),
            [NOT_DONE, remaining] => Ok(Acquired::Busy {
                remaining: time_to_live(remaining),
            }),
            _ => Err(refusal(&catalog::LOCK_ACQUIRE, &reply)),
        }
    }

    /// Gives one hold of the grant with this token back, or of any that the owner has; what is left of it gets `lease` from now. With a
    /// request id a repeat gets the first answer.
    pub async fn release(
        &self,
        name: &str,
        owner: &str,
        token: Option<u64>,
        lease: Duration,
        request_id: Option<&str>,
    ) -> Result<Released, CallError> {
        let mut keys = vec![
            keys::lock(name),
            keys::channel(name).into(),
            keys::counter(name),
        ];
        keys.extend(request_id.map(|id| keys::record(name, id)));
        let args = vec![
            text(owner),
            millis(lease),
            millis(self.config.request_retention),
            Bytes::from_static(PUBLISH.as_bytes()),
            Bytes::from_static(WAKE_ONE.as_bytes()),
            token.map_or(Bytes::new(), number),
        ];
        let reply = self.eval(&catalog::LOCK_RELEASE, keys, args).await?;
        match *reply.as_slice() {
            [DONE, hold_count, lease] => Ok(Released::Done {
                hold_count: count(hold_count),
                held: count(hold_count),
                lease: duration(lease),
            }),
            [REPEATED, hold_count, held, lease] => Ok(Released::Done {
                hold_count: count(hold_count),
                held: count(held),
                lease: duration(lease),
            }),
            [NOT_DONE, HELD_BY_ANOTHER] => Ok(Released::NotOwner(Ownership::HeldByAnother)),
            [NOT_DONE, EXPIRED] => Ok(Released::NotOwner(Ownership::Expired)),
            [NOT_DONE, NEVER_HELD] => Ok(Released::NotOwner(Ownership::NeverHeld)),
            _ => Err(refusal(&catalog::LOCK_RELEASE, &reply)),
        }
    }

    /// Undoes an attempt, whether or not it ran; without a request id it lowers the owner's holds to those that the attempt knew of.
    /// True if a hold was taken back.
    pub async fn undo(
        &self,
        name: &str,
        owner: &str,
        attempt: Attempt<'_>,
    ) -> Result<bool, CallError> {
        let mut keys = vec![
            keys::lock(name),
            keys::channel(name).into(),
            keys::counter(name),
        ];
        keys.extend(attempt.request_id.map(|id| keys::record(name, id)));
        let args = vec![
            text(owner),
            text(attempt.attempt),
            number(attempt.known_holds.unwrap_or(0)),
            Bytes::from_static(PUBLISH.as_bytes()),
            Bytes::from_static(WAKE_ONE.as_bytes()),
            attempt.token.map_or(Bytes::new(), number),
        ];
        let reply = self.eval(&catalog::LOCK_UNDO, keys, args).await?;
        match *reply.as_slice() {
            [done, _left] => Ok(done == DONE),
            _ => Err(refusal(&catalog::LOCK_UNDO, &reply)),
        }
    }

    /// Lowers the holds of the grant with this token to a number, freeing the lock at 0. Safe to repeat.
    pub async fn lower(
        &self,
        name: &str,
        owner: &str,
        token: u64,
        holds: u32,
    ) -> Result<bool, CallError> {
        let exactly = Attempt {
            request_id: None,
            attempt: "",
            known_holds: Some(holds),
            token: Some(token),
        };
        self.undo(name, owner, exactly).await
    }

    /// Extends many leases in one call; never shortens one.
    pub async fn renew(&self, renewals: &[Renewal]) -> Result<Renewals, CallError> {
        let mut keys = Vec::with_capacity(renewals.len() * 2);
        let mut args = Vec::with_capacity(renewals.len() * 2 + 1);
        args.push(millis(self.config.idle_token_retention));
        for renewal in renewals {
            keys.push(keys::lock(&renewal.name));
            keys.push(keys::counter(&renewal.name));
            args.push(text(&renewal.owner));
            args.push(millis(renewal.lease));
        }
        let reply = self.eval(&catalog::LOCK_RENEW, keys, args).await?;
        let [store_micros, ref outcomes @ ..] = *reply.as_slice() else {
            return Err(refusal(&catalog::LOCK_RENEW, &reply));
        };
        if outcomes.len() != renewals.len() * 3 {
            return Err(refusal(&catalog::LOCK_RENEW, &reply));
        }
        let outcomes = outcomes.chunks_exact(3).map(|outcome| match outcome[0] {
            RENEWAL_EXPIRED => Err(Ownership::Expired),
            RENEWAL_HELD_BY_ANOTHER => Err(Ownership::HeldByAnother),
            lease => Ok(Renewed {
                hold_count: count(outcome[1]),
                token: unsigned(outcome[2]),
                lease: duration(lease),
            }),
        });
        Ok(Renewals {
            store_micros,
            outcomes: outcomes.collect(),
        })
    }

    /// Who holds a lock. Changes nothing.
    pub async fn inspect(&self, name: &str) -> Result<Inspected, CallError> {
        let script = &catalog::LOCK_INSPECT;
        let keys = vec![keys::lock(name), keys::counter(name)];
        let reply = self
            .host
            .eval(Call {
                script,
                keys,
                args: Vec::new(),
            })
            .await?;
        let Value::Array(reply) = reply else {
            return Err(malformed(script, &reply));
        };
        let (remaining, token, owners) = match reply.as_slice() {
            [Value::Int(WRONG_KIND)] => return Err(CallError::WrongKind),
            [
                Value::Int(DONE),
                Value::Int(remaining),
                Value::Int(token),
                owners @ ..,
            ] => (*remaining, *token, owners),
            _ => return Err(malformed(script, &reply)),
        };
        let holders = owners.chunks(2).map(|pair| match pair {
            [Value::Bytes(owner), Value::Int(holds)] => Ok((owner.clone(), count(*holds))),
            _ => Err(malformed(script, &pair)),
        });
        Ok(Inspected {
            holders: holders.collect::<Result<_, _>>()?,
            remaining: time_to_live(remaining),
            token: unsigned(token),
        })
    }

    /// Runs a script that returns numbers only.
    async fn eval(
        &self,
        script: &'static Script,
        keys: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Vec<i64>, CallError> {
        let reply = self.host.eval(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        let numbers = values.iter().map(|value| match value {
            Value::Int(number) => Some(*number),
            Value::Nil | Value::Bytes(_) | Value::Array(_) => None,
        });
        numbers
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| malformed(script, &reply))
    }

    /// Asks the store for nothing; success means that it answers.
    pub async fn probe(&self) -> Result<(), CallError> {
        self.renew(&[]).await.map(drop)
    }
}

/// The error of a reply that is no outcome.
fn refusal(script: &Script, reply: &[i64]) -> CallError {
    match reply {
        [REQUEST_OVER] => CallError::RequestOver,
        [REQUEST_ID_REUSED] => CallError::RequestIdReused,
        [WRONG_KIND] => CallError::WrongKind,
        _ => malformed(script, &reply),
    }
}

fn malformed(script: &Script, reply: &impl std::fmt::Debug) -> CallError {
    CallError::from(HostError::Rejected {
        code: "MALFORMED".to_owned(),
        message: format!("reply of {}: {reply:?}", script.name),
    })
}

fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

fn number(value: impl Into<u64>) -> Bytes {
    value.into().to_string().into()
}

/// Milliseconds, rounded down, as Redis counts leases.
fn millis(value: Duration) -> Bytes {
    value.as_millis().to_string().into()
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(unsigned(millis))
}

fn time_to_live(pttl: i64) -> Option<Duration> {
    u64::try_from(pttl).ok().map(Duration::from_millis)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A hold count; Redisson owners may have inflated ones, so a huge number is shown as the largest.
fn count(value: i64) -> u32 {
    u32::try_from(value.max(0)).unwrap_or(u32::MAX)
}
