//! Giving the last hold of a lock to who waits for it, in one call, and what calls that make tokens
//! tell of the counter.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    attempt::Attempt,
    encoding::{NOT_DONE, count, integer, millis, numbers, refusal, unsigned},
    hold::{Hold, Mode, acquire_keys},
    host_scripts::HostScripts,
    native::unfinished,
    seen_counters::Step,
};
use crate::{
    host::{Call, Value, words},
    script::{Acquired, CallError, catalog, keys},
};

/// What a script returns if the next owner of a fair lock is not the first in its queue.
const NOT_FIRST: i64 = 1;

/// The outcome of giving a lock to who waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandOver {
    /// The next owner holds it, with this token, which is the serial of its grant too.
    Done(u64),
    /// Nothing changed: another waiter of the fair lock comes first.
    NotFirst,
    /// Nothing changed: so many others read, too.
    OthersRead(u32),
    /// Nothing changed: it is not the owner's last hold of that grant, or the store is a quorum.
    Refused,
}

// === impl Acquired ===

impl Acquired {
    /// Not granted, and nothing is known of the holder.
    pub fn nothing_known() -> Self {
        Self::Busy {
            remaining: None,
            place: None,
            note: None,
        }
    }
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn hand_over(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        (next, lease): (&str, Duration),
        attempt: &Attempt<'_>,
    ) -> Result<HandOver, CallError> {
        let keys = match hold.mode {
            Mode::Read => {
                let next = (next, lease);
                return self.hand_over_read(hold, serial, next, attempt).await;
            }
            Mode::Write => words![
                keys::lock(hold.name),
                keys::counter(hold.name),
                keys::writer_waiting(hold.name),
            ],
            Mode::Exclusive | Mode::Fair => acquire_keys(hold),
        };
        let next = Hold {
            owner: next,
            ..hold
        };
        let mut args = words![hold.field(), next.field(), millis(lease)];
        let record = attempt.request_id;
        let seen = serial.filter(|_| record.is_none());
        let step = seen.and_then(|serial| self.counters.next_after(hold.name, serial));
        if let Some(step) = step.filter(|_| hold.names_grant) {
            args.push(step.by);
            let script = &catalog::GRANT_HAND_ON;
            let call = Call { script, keys, args };
            let handed_over = self.hand_on(hold.name, call, lease, attempt).await?;
            return self.with_token((next, lease), step, handed_over).await;
        }
        let script = &catalog::LOCK_HAND_ON;
        if let Some(step) = step {
            args.extend(step.args());
        } else {
            let retention = millis(self.config.idle_token_retention);
            args.push("").push("").push(serial).push(retention);
        }
        self.hand_on(hold.name, Call { script, keys, args }, lease, attempt)
            .await
    }

    /// Makes the token of a grant that was given the lock, if the step did not lead to it.
    async fn with_token(
        &self,
        (next, lease): (Hold<'_>, Duration),
        step: Step,
        handed_over: HandOver,
    ) -> Result<HandOver, CallError> {
        match handed_over {
            HandOver::Done(sum) if sum != step.to => {
                let token = self.token_by_script(next, step, sum).await;
                if let Some(token) = token.map_err(unfinished)? {
                    return Ok(HandOver::Done(token));
                }
                self.counters.forget(next.name);
                let _ = self.release_last(next, None, lease).await;
                Err(unfinished("there is no token"))
            }
            other => Ok(other),
        }
    }

    /// The same from the last reader to a writer.
    async fn hand_over_read(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        (next, lease): (&str, Duration),
        attempt: &Attempt<'_>,
    ) -> Result<HandOver, CallError> {
        let Hold { name, owner, .. } = hold;
        let keys = words![
            keys::lock(name),
            keys::counter(name),
            keys::read_holds(name, owner),
            keys::readers(name),
            keys::writer_waiting(name),
        ];
        let mut args = words![
            hold.field(),
            keys::write_field(next),
            millis(lease),
            serial,
            millis(self.config.idle_token_retention),
        ];
        let step = self.counters.next(name);
        args.extend(step.map_or([None; 2], |step| step.args().map(Some)));
        let script = &catalog::READ_HAND_ON;
        self.hand_on(name, Call { script, keys, args }, lease, attempt)
            .await
    }

    /// Calls a script that gives a lock to the owner that makes this attempt.
    async fn hand_on(
        &self,
        name: &str,
        mut call: Call,
        lease: Duration,
        attempt: &Attempt<'_>,
    ) -> Result<HandOver, CallError> {
        if let Some(id) = attempt.request_id {
            call.keys.push(keys::record(name, id));
            let retention = self.config.record_retention(id, attempt.attempt, lease);
            call.args.push(attempt.attempt).push(millis(retention));
        }
        let (script, sent_at) = (call.script, Instant::now());
        let reply = self.call(call).await;
        self.saw_token(name, reply.as_ref().ok(), sent_at);
        let reply = reply?;
        let what = numbers(script, &reply)?;
        match (&reply, what.as_slice()) {
            (Value::Array(_), [NOT_DONE]) => Ok(HandOver::Refused),
            (Value::Array(_), [NOT_DONE, others]) => Ok(HandOver::OthersRead(count(*others))),
            (Value::Array(_), [NOT_FIRST]) => Ok(HandOver::NotFirst),
            (_, [token]) => Ok(HandOver::Done(unsigned(*token))),
            _ => Err(refusal(script, &what)),
        }
    }

    /// Remembers what a script answered that makes a token: text if it is the store's time, and a
    /// number after a step of the counter. An outcome without a token says nothing of the counter.
    pub(super) fn saw_token(&self, name: &str, reply: Option<&Value>, sent_at: Instant) {
        match reply {
            Some(Value::Bytes(_)) => {
                let token = reply.and_then(integer).unwrap_or_default();
                self.counters.set(name, unsigned(token), sent_at);
            }
            Some(Value::Int(token)) => self.counters.stepped(name, unsigned(*token)),
            Some(Value::Array(values))
                if matches!(
                    values[..],
                    [Value::Int(NOT_DONE), ..] | [Value::Int(NOT_FIRST)]
                ) => {}
            _ => self.counters.forget(name),
        }
    }
}
