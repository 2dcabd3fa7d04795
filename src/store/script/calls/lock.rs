//! Taking locks and giving them back, in every mode.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    attempt::Attempt,
    encoding::{
        DONE, NOT_DONE, REPEATED, WAKE_ALL, WAKE_ONE, count, duration, flag, integer, malformed,
        millis, numbers, refusal, time_to_live, unsigned,
    },
    hold::{Hold, Mode, acquire_keys, fair_keys, release_keys},
    host_scripts::HostScripts,
    note::{Note, take_note},
    ownership::{Ownership, ownership},
    seen_counters::Step,
};
use crate::{
    host::{Call, Script, Value, Words, words},
    script::{CallError, catalog, keys},
};

/// Numbers in the reply of an acquire that was refused.
const REFUSAL_NUMBERS: usize = 4;

/// What an acquire came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner holds the lock.
    Granted {
        /// Holds, this one included.
        hold_count: u32,
        /// The fencing token; of a reader that of the last writer, 0 if none is known.
        token: u64,
        /// Time to live at the moment the script ran.
        lease: Duration,
        /// Tells this grant from every other of the owner on this lock. The token, but of a reader
        /// the [`Attempt::fresh_serial`] of its first hold.
        serial: u64,
        /// Whether this repeats the first answer to the request.
        repeated: bool,
    },
    /// It cannot be had now.
    Busy {
        /// What is left of the holder's lease; none if that is not known.
        remaining: Option<Duration>,
        /// The place in the queue of a fair lock, if it is known.
        place: Option<u32>,
        /// What a holder says of its hold.
        note: Option<Arc<Note>>,
    },
}

/// What a refused acquire leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing.
    Forgotten,
    /// The answer, for a repeat of the request.
    Recorded,
    /// The caller waits: of a fair lock a place in the queue, of a writer the mark that holds
    /// readers back. [`crate::script::Scripts::leave`] takes them away.
    Waits,
}

/// What a release came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Released {
    /// One hold was given back.
    Done {
        /// Holds left after it.
        hold_count: u32,
        /// Holds now. Another number than `hold_count` only if this repeats the first answer to the
        /// request.
        held: u32,
        /// Time to live of what is held now.
        lease: Duration,
    },
    /// The owner does not hold it.
    NotOwner(Ownership),
}

// === impl Acquired ===

impl Acquired {
    /// The first hold of a grant that its token identifies.
    pub fn first(token: u64, lease: Duration) -> Self {
        Self::Granted {
            hold_count: 1,
            token,
            lease,
            serial: token,
            repeated: false,
        }
    }
}

// === impl Attempt ===

impl Attempt<'_> {
    /// Whether the script is not told more than that: the owner has no hold, there is no request
    /// id, and the owner says nothing of its hold.
    fn is_plain(&self) -> bool {
        let is_bare = self.note.is_none() && self.least.is_none() && self.delay.is_none();
        self.request_id.is_none() && self.known_holds == Some(0) && is_bare
    }

    /// Adds what the owner says of its hold, the last arguments of the script: what is not said is
    /// empty, if something follows, and otherwise not there.
    fn say_in(&self, args: &mut Words) {
        let (note, least) = (self.note.map(Note::text), self.least.map(millis));
        let delay = self.delay.map(millis);
        if note.is_some() || least.is_some() || delay.is_some() {
            args.push(note);
        }
        if least.is_some() || delay.is_some() {
            args.push(least);
        }
        args.extend(delay);
    }

    /// No attempt: its undo lowers the holds of the grant with this serial, if that is known, to a
    /// number.
    pub(crate) fn to_lower(serial: Option<u64>, holds: u32) -> Self {
        Self {
            known_holds: Some(holds),
            serial,
            ..Self::new("", 0)
        }
    }
}

// === impl HostScripts ===

impl HostScripts {
    pub(crate) async fn acquire(
        &self,
        hold: Hold<'_>,
        lease: Duration,
        attempt: &Attempt<'_>,
        refused: Refusal,
    ) -> Result<Acquired, CallError> {
        if let Some(step) = self.free_step(hold, attempt)
            && let Some(acquired) = self.take_free(hold, lease, step).await?
        {
            return Ok(acquired);
        }
        let vote = self.vote(hold, lease, attempt, refused).await;
        vote.map(|(acquired, _counter)| acquired)
    }

    /// The same with what the fencing counter shows.
    pub(crate) async fn vote(
        &self,
        hold: Hold<'_>,
        lease: Duration,
        attempt: &Attempt<'_>,
        refused: Refusal,
    ) -> Result<(Acquired, u64), CallError> {
        let mut args = words![hold.field(), millis(lease)];
        self.add_acquire_args(&mut args, hold, attempt, refused);
        let is_plain = attempt.is_plain();
        let makes_token = hold.mode != Mode::Read;
        if is_plain && makes_token {
            let step = self.counters.next(hold.name);
            args.extend(step.iter().flat_map(Step::args));
        } else if !is_plain {
            if makes_token {
                args.push("").push("");
            }
            self.add_look_up_args(&mut args, lease, attempt, refused);
            attempt.say_in(&mut args);
        }
        let mut keys = acquire_keys(hold);
        keys.extend(attempt.request_id.map(|id| keys::record(hold.name, id)));
        let (script, sent_at) = (hold.mode.verbs().acquire, Instant::now());
        let reply = self.call(Call { script, keys, args }).await;
        if is_plain && makes_token {
            self.saw_token(hold.name, reply.as_ref().ok(), sent_at);
        }
        let mut reply = reply?;
        let note = take_note(&mut reply, REFUSAL_NUMBERS);
        if !matches!(reply, Value::Array(_)) {
            let token = integer(&reply).ok_or_else(|| malformed(script, &reply))?;
            let token = unsigned(token);
            let first = Acquired::Granted {
                hold_count: 1,
                token,
                lease,
                serial: if makes_token {
                    token
                } else {
                    attempt.fresh_serial
                },
                repeated: false,
            };
            return Ok((first, token));
        }
        long_answer(script, &reply, note)
    }

    /// Adds what a script needs that has to look at holds of the owner, or at an earlier answer.
    fn add_look_up_args(
        &self,
        args: &mut Words,
        lease: Duration,
        attempt: &Attempt<'_>,
        refused: Refusal,
    ) {
        let id = attempt.request_id.unwrap_or_default();
        let retention = self.config.record_retention(id, attempt.attempt, lease);
        args.push(attempt.known_holds).push(attempt.attempt);
        args.push(millis(retention));
        args.push(flag(refused == Refusal::Recorded));
    }

    /// Adds the arguments of this mode besides those of all modes.
    fn add_acquire_args(
        &self,
        args: &mut Words,
        hold: Hold<'_>,
        attempt: &Attempt<'_>,
        refused: Refusal,
    ) {
        let waits = refused == Refusal::Waits;
        let hold_back = millis(self.config.writer_hold_back);
        let retention = millis(self.config.idle_token_retention);
        match hold.mode {
            Mode::Exclusive => args.push(retention),
            Mode::Fair => args
                .push(retention)
                .push(flag(waits))
                .push(millis(self.config.fair_waiter_timeout))
                .push(keys::channel_key(hold.name))
                .push(self.publish()),
            Mode::Read => args
                .push(attempt.fresh_serial)
                .push(hold_back)
                .push(self.config.holders_per_lock_max),
            Mode::Write => args.push(retention).push(waits.then_some(hold_back)),
        };
    }

    /// The same as a release without a request id of a grant that has one hold.
    pub(crate) async fn release_last(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        lease: Duration,
    ) -> Result<Released, CallError> {
        if self.may_run(hold)
            && let Some(released) = self.give_back_last(hold, lease).await?
        {
            return Ok(released);
        }
        self.release(hold, serial, lease, None).await
    }

    pub(crate) async fn release(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        lease: Duration,
        request_id: Option<&str>,
    ) -> Result<Released, CallError> {
        let (mut keys, channel) = release_keys(hold);
        let mut args = words![hold.field(), serial, millis(lease)];
        args.extend(channel);
        if hold.mode == Mode::Fair {
            args.push(millis(self.config.fair_waiter_timeout));
        }
        let is_plain = request_id.is_none() && !hold.noted;
        if !is_plain || self.publishes_both() {
            args.push(self.publish());
        }
        if !is_plain {
            args.push(millis(self.config.request_retention));
        }
        if hold.noted {
            args.push(flag(true));
        }
        keys.extend(request_id.map(|id| keys::record(hold.name, id)));
        let script = hold.mode.verbs().release;
        let reply = self.eval(script, keys, args).await?;
        match *reply.as_slice() {
            [DONE] => Ok(Released::Done {
                hold_count: 0,
                held: 0,
                lease,
            }),
            [DONE, hold_count, lease] => Ok(Released::Done {
                hold_count: count(hold_count),
                held: count(hold_count),
                lease: duration(lease),
            }),
            [REPEATED, hold_count, now, lease] => Ok(Released::Done {
                hold_count: count(hold_count),
                held: count(now),
                lease: duration(lease),
            }),
            [NOT_DONE, why] => ownership(why)
                .map(Released::NotOwner)
                .ok_or_else(|| malformed(script, &reply)),
            _ => Err(refusal(script, &reply)),
        }
    }

    pub(crate) async fn undo(
        &self,
        hold: Hold<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<bool, CallError> {
        self.undo_with(hold, attempt, hold.mode.wake()).await
    }

    /// The same with a message for waiters.
    pub(super) async fn undo_with(
        &self,
        hold: Hold<'_>,
        attempt: &Attempt<'_>,
        message: &'static str,
    ) -> Result<bool, CallError> {
        // If the owner's holds are not known, only a record distinguishes that of the attempt.
        let has_no_record = attempt.request_id.is_none();
        let mut args = words![
            hold.field(),
            attempt.attempt,
            attempt.known_holds.or(has_no_record.then_some(0)),
            self.publish(),
            message,
            attempt.serial,
        ];
        let (mut keys, channel) = release_keys(hold);
        args.extend(channel);
        if hold.mode == Mode::Fair {
            args.push(millis(self.config.fair_waiter_timeout));
        }
        keys.extend(attempt.request_id.map(|id| keys::record(hold.name, id)));
        let script = hold.mode.verbs().undo;
        let reply = self.eval(script, keys, args).await?;
        match *reply.as_slice() {
            [done, _left] => Ok(done == DONE),
            _ => Err(refusal(script, &reply)),
        }
    }

    pub(crate) async fn leave(&self, hold: Hold<'_>) -> Result<(), CallError> {
        let (script, keys, args) = match hold.mode {
            Mode::Exclusive | Mode::Read => return Ok(()),
            Mode::Fair => {
                let mut args = words![hold.owner, millis(self.config.fair_waiter_timeout)];
                self.add_wake_one(&mut args, hold.name);
                (&catalog::FAIR_LEAVE, fair_keys(hold.name), args)
            }
            Mode::Write => {
                let channel = keys::rw_channel_key(hold.name);
                let args = words![self.publish(), WAKE_ALL];
                let keys = words![keys::writer_waiting(hold.name), channel];
                (&catalog::WRITE_LEAVE, keys, args)
            }
        };
        match *self.eval(script, keys, args).await? {
            [DONE] => Ok(()),
            ref other => Err(refusal(script, other)),
        }
    }

    /// Adds the channel of a fair lock, to be followed by the owner, and the command and message
    /// that wake one waiter.
    pub(crate) fn add_wake_one(&self, args: &mut Words, name: &str) {
        args.push(keys::channel_key(name));
        args.push(self.publish()).push(WAKE_ONE);
    }
}

/// The answer of an acquire script that had to look closer, and what the fencing counter shows.
fn long_answer(
    script: &'static Script,
    reply: &Value,
    note: Option<Arc<Note>>,
) -> Result<(Acquired, u64), CallError> {
    let reply = numbers(script, reply)?;
    match *reply.as_slice() {
        [done @ (DONE | REPEATED), hold_count, token, lease, serial] => {
            let granted = Acquired::Granted {
                hold_count: count(hold_count),
                token: unsigned(token),
                lease: duration(lease),
                serial: unsigned(serial),
                repeated: done == REPEATED,
            };
            Ok((granted, unsigned(token)))
        }
        [NOT_DONE, remaining, place, counter] => {
            let busy = Acquired::Busy {
                remaining: time_to_live(remaining),
                place: u32::try_from(place).ok().filter(|place| *place > 0),
                note,
            };
            Ok((busy, unsigned(counter)))
        }
        _ => Err(refusal(script, &reply)),
    }
}
