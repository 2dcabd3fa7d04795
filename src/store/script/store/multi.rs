//! Several locks in one call. Their keys must be in one part of the store, but for a release.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;

use super::{
    members::{Members, NUMBERS, word},
    scripts::{Scripts, Store},
};
use crate::{
    host::{Call, Value, Words, words},
    script::{
        CallError, Note, Refusal, Unsupported,
        calls::{
            HostScripts, Ownership, acquire_keys,
            encoding::{
                COUNTER_OUT_OF_RANGE, DONE, LIMIT_REACHED, NOT_DONE, REPEATED, SELF_DEADLOCK,
                WAKE_ALL, WAKE_ONE, WRONG_KIND, count, duration, flag, integer, malformed, millis,
                numbers, refusal, time_to_live, unsigned,
            },
            give_back_keys, grouped, ownership, take_note,
        },
        catalog, keys,
    },
};

/// Numbers in the reply of an acquire that was refused.
const REFUSAL_NUMBERS: usize = 3;

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
        let args = self.acquire_all_args(members, lease, attempt, refused);
        let keys = members.keys(acquire_keys, Some(attempt.record));
        let _turn = self.turns.next(members.locks.len()).await?;
        let mut reply = store.call(Call { script, keys, args }).await?;
        if let Value::Bytes(_) = reply {
            let token = integer(&reply).ok_or_else(|| malformed(script, &reply))?;
            let grants = vec![MemberGrant::first(unsigned(token), lease); members.locks.len()];
            let repeated = false;
            return Ok(AcquiredAll::Granted { grants, repeated });
        }
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

    fn acquire_all_args(
        &self,
        members: Members<'_>,
        lease: Duration,
        attempt: AttemptAll<'_>,
        refused: Refusal,
    ) -> Words {
        let id = attempt.record;
        let retention = self.config.record_retention(id, attempt.attempt, lease);
        let mut args = words![
            members.owner,
            millis(lease),
            millis(self.config.idle_token_retention),
            attempt.attempt,
            millis(retention),
            members.digest(),
        ];
        if !(members.are_new() && attempt.note.is_none() && refused != Refusal::Recorded) {
            args.push(flag(refused == Refusal::Recorded));
            args.push(keys::write_field(members.owner));
            args.push(attempt.fresh_serial);
            args.push(millis(self.config.writer_hold_back));
            args.push(flag(refused == Refusal::Waits));
            args.push(self.config.holders_per_lock_max);
            for member in members.locks {
                args.push(word(member.mode)).push(member.known_holds);
            }
            args.extend(attempt.note.map(Note::text));
        }
        args
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
        let mut args = words![
            members.owner,
            keys::write_field(members.owner),
            attempt.attempt,
        ];
        args.extend([store.publish(), WAKE_ONE, WAKE_ALL]);
        args.push(millis(self.config.fair_waiter_timeout));
        let mut keys = words![];
        for (at, member) in members.locks.iter().enumerate() {
            let undo = undo(at);
            args.push(undo.then(|| word(member.mode)));
            args.push(member.known_holds).push(member.serial);
            if undo {
                keys.extend(&give_back_keys(members.hold(member)));
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
    let mut args = words![members.owner];
    let serials = members.serials_of_exclusive();
    let lease = leases
        .first()
        .filter(|first| leases.iter().all(|it| it == *first));
    match (serials, lease, request_id) {
        (Some(serials), Some(lease), None) if !store.publishes_both() => {
            args.push(millis(*lease));
            args.extend(serials);
        }
        _ => {
            args.push(keys::write_field(members.owner));
            args.push(millis(store.config().request_retention));
            args.push(store.publish()).push(WAKE_ONE).push(WAKE_ALL);
            args.push(millis(store.config().fair_waiter_timeout));
            args.push(members.digest());
            for (member, lease) in members.locks.iter().zip(leases) {
                args.push(word(member.mode)).push(millis(*lease));
                args.push(member.serial);
            }
        }
    }
    let keys = members.keys(give_back_keys, request_id);
    let reply = store.eval(script, keys, args).await?;
    match *reply.as_slice() {
        [DONE] => Ok(leases
            .iter()
            .map(|lease| ReleasedMember {
                left: Ok(0),
                held: 0,
                lease: *lease,
            })
            .collect()),
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

// === impl MemberGrant ===

impl MemberGrant {
    /// The first hold of a grant that its token identifies.
    fn first(token: u64, lease: Duration) -> Self {
        Self {
            hold_count: 1,
            token,
            lease,
            serial: token,
        }
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
