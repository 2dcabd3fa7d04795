//! Several locks in one call. Their keys must be in one part of the store, but for a release.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use sha2::{Digest as _, Sha256};

use super::scripts::{Scripts, Store};
use crate::{
    host::{Call, Script},
    script::{
        CallError, Note, Refusal, Unsupported,
        calls::{
            Hold, HostScripts, Mode, Ownership, acquire_keys,
            encoding::{
                COUNTER_OUT_OF_RANGE, DONE, LIMIT_REACHED, NOT_DONE, REPEATED, SELF_DEADLOCK,
                WAKE_ALL, WAKE_ONE, WRONG_KIND, count, duration, flag, malformed, millis, number,
                numbers, refusal, text, time_to_live, unsigned,
            },
            give_back_keys, grouped, ownership, take_note,
        },
        catalog, keys,
    },
};

/// Numbers of each lock in the reply of an acquire or a release.
const NUMBERS: usize = 4;

/// Numbers in the reply of an acquire that was refused.
const REFUSAL_NUMBERS: usize = 3;

/// One of several locks, and what the caller knows of the owner's holds on it.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The lock.
    pub name: &'a str,
    /// How it is to be held, or is held.
    pub mode: Mode,
    /// The holds that the owner has without the attempt, if the caller knows.
    pub known_holds: Option<u32>,
    /// The serial of the grant it is about, if the caller knows.
    pub serial: Option<u64>,
}

/// Several locks of one owner, never none. The first names the record of the request.
#[derive(Clone, Copy, Debug)]
pub struct Members<'a> {
    /// The owner, as in [`Hold`].
    pub owner: &'a str,
    /// The locks: each name once, in the same order in every call about them.
    pub locks: &'a [Member<'a>],
}

/// What identifies an acquire of several locks.
#[derive(Clone, Copy, Debug)]
pub struct AttemptAll<'a> {
    /// The id of its record: that of the request, or the attempt's own name if only its undo will
    /// ask for it.
    pub record: &'a str,
    /// Unique for this attempt.
    pub attempt: &'a str,
    /// As in [`crate::script::Attempt`], for all new read grants.
    pub fresh_serial: u64,
    /// As in [`crate::script::Attempt`], for each of the locks.
    pub note: Option<&'a Note>,
}

/// What an acquire of several locks came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquiredAll {
    /// The owner holds all of them.
    Granted {
        /// One grant for each lock, in order.
        grants: Vec<MemberGrant>,
        /// Whether this repeats the first answer to the request.
        repeated: bool,
    },
    /// None was taken.
    Busy {
        /// One that is held by another.
        which: usize,
        /// What is left of that holder's lease; none if that is not known.
        remaining: Option<Duration>,
        /// What that holder says of its hold.
        note: Option<Arc<Note>>,
    },
    /// None was taken and none can be: one of them is no such lock, or the owner would wait for
    /// itself.
    Refused {
        /// That one.
        which: usize,
        /// Why.
        why: CallError,
    },
}

/// One of several locks that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberGrant {
    /// Holds, this one included.
    pub hold_count: u32,
    /// As in [`crate::script::Acquired::Granted`].
    pub token: u64,
    /// Time to live at the moment the script ran.
    pub lease: Duration,
    /// As in [`crate::script::Acquired::Granted`].
    pub serial: u64,
}

/// What became of one of several locks that were to be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleasedMember {
    /// Holds left after one was given back, or why the owner had none.
    pub left: Result<u32, Ownership>,
    /// Holds now, as in [`crate::script::Released::Done`].
    pub held: u32,
    /// Time to live of what is held now.
    pub lease: Duration,
}

// === impl Scripts ===

impl Scripts {
    /// Takes all of the locks, none of them fair, or none, where [`Scripts::takes_together`]. The
    /// record makes a repeat get the first answer.
    pub async fn acquire_all(
        &self,
        members: Members<'_>,
        lease: Duration,
        attempt: AttemptAll<'_>,
        refused: Refusal,
    ) -> Result<AcquiredAll, CallError> {
        let store = self.single(Unsupported::SeveralAtOnce)?;
        let script = &catalog::MULTI_ACQUIRE;
        let retention = self.config.request_retention;
        // A record that only an undo will look for is not needed for longer than the lease.
        let own_record = attempt.record == attempt.attempt;
        let retention = if own_record {
            retention.min(lease)
        } else {
            retention
        };
        let mut args = vec![
            text(members.owner),
            millis(lease),
            millis(self.config.idle_token_retention),
            text(attempt.attempt),
            millis(retention),
            flag(refused == Refusal::Recorded),
            members.digest(),
            keys::write_field(members.owner),
            number(attempt.fresh_serial),
            millis(self.config.writer_hold_back),
            flag(refused == Refusal::Waits),
            number(self.config.holders_per_lock_max),
        ];
        for member in members.locks {
            args.extend([word(member.mode), optional(member.known_holds)]);
        }
        args.extend(attempt.note.map(Note::text));
        let keys = members.keys(acquire_keys, Some(attempt.record));
        let _turn = self.turns.next(members.locks.len()).await?;
        let mut reply = store.call(Call { script, keys, args }).await?;
        let note = take_note(&mut reply, REFUSAL_NUMBERS);
        let reply = numbers(script, &reply)?;
        match *reply.as_slice() {
            [done @ (DONE | REPEATED), ref numbers @ ..] if members.fit(numbers) => {
                let grants = numbers.chunks_exact(NUMBERS).map(grant).collect();
                let repeated = done == REPEATED;
                Ok(AcquiredAll::Granted { grants, repeated })
            }
            [NOT_DONE, which, remaining] => Ok(AcquiredAll::Busy {
                which: members.which(which, script, &reply)?,
                remaining: time_to_live(remaining),
                note,
            }),
            [
                why @ (WRONG_KIND | SELF_DEADLOCK | COUNTER_OUT_OF_RANGE | LIMIT_REACHED),
                which,
            ] => Ok(AcquiredAll::Refused {
                which: members.which(which, script, &reply)?,
                why: refusal(script, &[why]),
            }),
            _ => Err(refusal(script, &reply)),
        }
    }

    /// Gives one hold of each lock back, as far as the owner has one; outcomes are in order. What
    /// is left of it gets the lease of the same place. With a request id a repeat gets the first
    /// answer. Locks in different parts of the store are given back at once, but not together:
    /// after an error of one part the outcome is unknown, unless no part has done anything.
    pub async fn release_all(
        &self,
        members: Members<'_>,
        leases: &[Duration],
        request_id: Option<&str>,
    ) -> Result<Vec<ReleasedMember>, CallError> {
        let store = match &self.store {
            Store::One(store) => store,
            Store::Quorum(quorum) => {
                return Box::pin(quorum.release_each(members, leases, request_id)).await;
            }
        };
        let _turn = self.turns.next(members.locks.len()).await?;
        let groups = grouped(members.locks.iter().map(|lock| store.partition(lock.name)));
        if groups.len() <= 1 {
            return release_together(store, members, leases, request_id).await;
        }
        let parts = groups.into_values().map(|places| async move {
            let locks: Vec<_> = places.iter().map(|at| members.locks[*at]).collect();
            let leases: Vec<_> = places.iter().map(|at| leases[*at]).collect();
            let members = Members {
                owner: members.owner,
                locks: &locks,
            };
            let answer = release_together(store, members, &leases, request_id).await;
            (places, answer)
        });
        let mut released = vec![None; members.locks.len()];
        let mut errors = Vec::new();
        for (places, answer) in join_all(parts).await {
            match answer {
                Ok(answers) => {
                    for (at, answer) in places.into_iter().zip(answers) {
                        released[at] = Some(answer);
                    }
                }
                Err(error) => errors.push(error),
            }
        }
        let any_done = released.iter().any(Option::is_some);
        let unknown = |error: &CallError| matches!(error, CallError::OutcomeUnknown(_));
        match errors
            .iter()
            .position(unknown)
            .or((!errors.is_empty()).then_some(0))
        {
            Some(at) if any_done && !unknown(&errors[at]) => {
                let why = format!("not all were given back: {}", errors[at]);
                Err(CallError::OutcomeUnknown(why))
            }
            Some(at) => Err(errors.swap_remove(at)),
            None => Ok(released.into_iter().flatten().collect()),
        }
    }

    /// Undoes an attempt, whether or not it ran. Where its record is gone, the owner's holds are
    /// lowered to those that are known; members for which `undo` says no are left alone. True if
    /// the attempt is undone.
    pub async fn undo_all(
        &self,
        members: Members<'_>,
        attempt: AttemptAll<'_>,
        undo: impl Fn(usize) -> bool + Send,
    ) -> Result<bool, CallError> {
        let store = self.single(Unsupported::SeveralAtOnce)?;
        let script = &catalog::MULTI_UNDO;
        let mut args = vec![
            text(members.owner),
            keys::write_field(members.owner),
            text(attempt.attempt),
        ];
        args.extend([store.publish(), text(WAKE_ONE), text(WAKE_ALL)]);
        args.push(millis(self.config.fair_waiter_timeout));
        let mut keys = Vec::new();
        for (at, member) in members.locks.iter().enumerate() {
            let undo = undo(at);
            args.push(if undo {
                word(member.mode)
            } else {
                Bytes::new()
            });
            args.extend([optional(member.known_holds), optional(member.serial)]);
            if undo {
                keys.extend(give_back_keys(members.hold(member)));
            }
        }
        keys.push(keys::record(members.locks[0].name, attempt.record));
        let _turn = self.turns.next(members.locks.len()).await?;
        let reply = store.eval(script, keys, args).await?;
        match *reply.as_slice() {
            [undone @ (DONE | NOT_DONE)] => Ok(undone == DONE),
            [WRONG_KIND, _which] => Err(CallError::WrongKind),
            _ => Err(refusal(script, &reply)),
        }
    }
}

async fn release_together(
    store: &HostScripts,
    members: Members<'_>,
    leases: &[Duration],
    request_id: Option<&str>,
) -> Result<Vec<ReleasedMember>, CallError> {
    let script = &catalog::MULTI_RELEASE;
    let mut args = vec![
        text(members.owner),
        keys::write_field(members.owner),
        millis(store.config().request_retention),
    ];
    args.extend([store.publish(), text(WAKE_ONE), text(WAKE_ALL)]);
    args.push(millis(store.config().fair_waiter_timeout));
    args.push(members.digest());
    for (member, lease) in members.locks.iter().zip(leases) {
        args.extend([word(member.mode), millis(*lease), optional(member.serial)]);
    }
    let keys = members.keys(give_back_keys, request_id);
    let reply = store.eval(script, keys, args).await?;
    match *reply.as_slice() {
        [NOT_DONE | DONE | REPEATED, ref numbers @ ..] if members.fit(numbers) => {
            let released = numbers.chunks_exact(NUMBERS).map(released);
            released
                .collect::<Option<_>>()
                .ok_or_else(|| malformed(script, &reply))
        }
        [WRONG_KIND, _which] => Err(CallError::WrongKind),
        _ => Err(refusal(script, &reply)),
    }
}

// === impl Members ===

impl<'a> Members<'a> {
    fn hold(&self, member: &Member<'a>) -> Hold<'a> {
        Hold::new(member.name, member.mode, self.owner)
    }

    fn keys(&self, of: fn(Hold<'_>) -> Vec<Bytes>, record: Option<&str>) -> Vec<Bytes> {
        let locks = self.locks.iter().flat_map(|member| of(self.hold(member)));
        let record = record.map(|id| keys::record(self.locks[0].name, id));
        locks.chain(record).collect()
    }

    /// Tells these locks and modes from all others. No name contains a zero. Whether a lock is fair
    /// only its holder knows for sure.
    fn digest(&self) -> Bytes {
        let mut digest = Sha256::new();
        for member in self.locks {
            let mode = match member.mode {
                Mode::Fair => Mode::Exclusive,
                mode => mode,
            };
            digest.update(word(mode));
            digest.update([0]);
            digest.update(member.name);
            digest.update([0]);
        }
        hex::encode(digest.finalize()).into()
    }

    fn fit(&self, numbers: &[i64]) -> bool {
        numbers.len() == self.locks.len() * NUMBERS
    }

    /// Scripts count from 1.
    fn which(&self, which: i64, script: &Script, reply: &[i64]) -> Result<usize, CallError> {
        let which = usize::try_from(which)
            .ok()
            .and_then(|which| which.checked_sub(1));
        which
            .filter(|which| *which < self.locks.len())
            .ok_or_else(|| malformed(script, &reply))
    }
}

fn grant(numbers: &[i64]) -> MemberGrant {
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    MemberGrant {
        hold_count: count(number(0)),
        token: unsigned(number(1)),
        lease: duration(number(2)),
        serial: unsigned(number(3)),
    }
}

fn released(numbers: &[i64]) -> Option<ReleasedMember> {
    let [done, left, held, lease] = *numbers else {
        return None;
    };
    Some(ReleasedMember {
        left: if done == DONE {
            Ok(count(left))
        } else {
            Err(ownership(left)?)
        },
        held: count(held),
        lease: duration(lease),
    })
}

/// A mode as the scripts call it.
fn word(mode: Mode) -> Bytes {
    Bytes::from_static(match mode {
        Mode::Exclusive => b"sole",
        Mode::Fair => b"fair",
        Mode::Read => b"read",
        Mode::Write => b"write",
    })
}

fn optional(value: Option<impl Into<u64>>) -> Bytes {
    value.map_or(Bytes::new(), number)
}
