//! The scripts of semaphores whose permits have owners and leases.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    permit_outcomes::{
        PermitAttempt, PermitId, PermitRenewal, PermitRenewals, PermitsAcquired, PermitsReleased,
        PermitsSet,
    },
    scripts::Scripts,
};
use crate::{
    host::{Call, Value, Words, words},
    script::{
        CallError, StoreLimit, Unsupported,
        calls::{
            Answer, Batch, HostScripts, Ownership,
            encoding::{
                DONE, LIMIT_REACHED, NO_SEMAPHORE, NOT_DONE, REPEATED, TOO_MANY_PERMITS, count,
                duration, flag, malformed, millis, numbers, refusal, time_to_live, unsigned,
            },
            grouped, not_renewed, ownership,
        },
        catalog, keys,
    },
};

/// Pages that a release may take, however few permits a name may have.
const PAGES_MIN: u32 = 1000;

/// Permits that one renewal script looks at, so that it does not block the store for long.
const PERMITS_PER_RENEWAL: usize = 1000;

// === impl Scripts ===

impl Scripts {
    /// Takes permits for the owner. With a request id a repeat gets the first answer;
    /// `record_refusal` says whether being busy counts as an answer.
    pub async fn acquire_permits(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        attempt: PermitAttempt<'_>,
        record_refusal: bool,
    ) -> Result<PermitsAcquired, CallError> {
        let store = self.single(Unsupported::Semaphores)?;
        let script = &catalog::PERMIT_ACQUIRE;
        let args = self.permit_args(store, owner, lease, attempt, record_refusal);
        let keys = permit_keys(name, attempt.request_id);
        let reply = store.call(Call { script, keys, args }).await?;
        let values = match &reply {
            Value::Array(values) => values,
            Value::Int(available) => {
                return Ok(PermitsAcquired::Granted {
                    ids: attempt.ids.to_vec(),
                    available: count(*available),
                    lease,
                    repeated: false,
                });
            }
            Value::Nil | Value::Bytes(_) => return Err(malformed(script, &reply)),
        };
        // Only the reply to a repeat has ids, those of the first attempt.
        if let [
            Value::Int(REPEATED),
            Value::Int(available),
            _,
            Value::Int(lease),
            Value::Bytes(ids),
        ] = values.as_slice()
        {
            return Ok(PermitsAcquired::Granted {
                ids: parsed(ids).ok_or_else(|| malformed(script, &reply))?,
                available: count(*available),
                lease: duration(*lease),
                repeated: true,
            });
        }
        let numbers = numbers(script, &reply)?;
        match *numbers.as_slice() {
            [DONE, available, _total, lease] => Ok(PermitsAcquired::Granted {
                ids: attempt.ids.to_vec(),
                available: count(available),
                lease: duration(lease),
                repeated: false,
            }),
            [NOT_DONE, available, _total, next_end] => Ok(PermitsAcquired::Busy {
                available: count(available),
                next_end: time_to_live(next_end),
            }),
            [NO_SEMAPHORE] => Ok(PermitsAcquired::NoSemaphore),
            [TOO_MANY_PERMITS, total] => Ok(PermitsAcquired::TooMany {
                total: count(total),
            }),
            [LIMIT_REACHED] => Err(CallError::LimitReached(StoreLimit::PermitsPerName)),
            _ => Err(refusal(script, &numbers)),
        }
    }

    fn permit_args(
        &self,
        store: &HostScripts,
        owner: &str,
        lease: Duration,
        attempt: PermitAttempt<'_>,
        record_refusal: bool,
    ) -> Words {
        let mut args = words![
            owner,
            millis(lease),
            self.kind_retention(),
            store.publish(),
            self.adopts(),
            self.config.permits_per_name_max,
            joined(attempt.ids),
        ];
        if attempt.request_id.is_some() {
            args.push("").push(attempt.attempt);
            args.push(millis(self.config.request_retention));
            args.push(flag(record_refusal));
        } else {
            args.extend(only_digits(attempt.ids));
        }
        args
    }

    /// Gives permits back, all that are named or none; without ids all that the owner has, by as
    /// many scripts as that takes. With a request id a repeat gets the first answer.
    pub async fn release_permits(
        &self,
        name: &str,
        owner: &str,
        ids: &[PermitId],
        request_id: Option<&str>,
    ) -> Result<PermitsReleased, CallError> {
        let store = self.single(Unsupported::Semaphores)?;
        let script = &catalog::PERMIT_RELEASE;
        let (mut page, mut before) = (0, 0);
        // A store whose pages have no end is broken.
        for _ in 0..self.config.permits_per_name_max.max(PAGES_MIN) {
            let mut args = words![owner, joined(ids), store.publish(), self.adopts()];
            if let Some(digits) = only_digits(ids).filter(|_| request_id.is_none()) {
                args.push(digits);
            } else {
                let retention = millis(self.config.request_retention);
                args.push("").push(retention).push(page).push(before);
            }
            let keys = permit_keys(name, request_id);
            let reply = store.call(Call { script, keys, args }).await?;
            if let Value::Int(available) = reply {
                return Ok(PermitsReleased::Done {
                    permits: 1,
                    available: count(available),
                    repeated: false,
                });
            }
            let reply = numbers(script, &reply)?;
            match *reply.as_slice() {
                [DONE, permits, _available, next] if next != 0 => {
                    (page, before) = (unsigned(next), count(permits));
                }
                [done @ (DONE | REPEATED), permits, available, _] => {
                    return Ok(PermitsReleased::Done {
                        permits: count(permits),
                        available: count(available),
                        repeated: done == REPEATED,
                    });
                }
                [NOT_DONE, why] => {
                    return ownership(why)
                        .map(PermitsReleased::NotOwner)
                        .ok_or_else(|| malformed(script, &reply));
                }
                _ => return Err(refusal(script, &reply)),
            }
        }
        Err(malformed(script, &"pages without an end"))
    }

    /// Undoes an attempt, whether or not it ran. True if permits were taken back.
    pub async fn undo_permits(
        &self,
        name: &str,
        attempt: PermitAttempt<'_>,
    ) -> Result<bool, CallError> {
        let store = self.single(Unsupported::Semaphores)?;
        let args = words![
            attempt.attempt,
            joined(attempt.ids),
            store.publish(),
            self.adopts(),
        ];
        let script = &catalog::PERMIT_UNDO;
        let keys = permit_keys(name, attempt.request_id);
        let reply = store.eval(script, keys, args).await?;
        match *reply.as_slice() {
            [done, _permits] => Ok(done == DONE),
            _ => Err(refusal(script, &reply)),
        }
    }

    /// Extends the leases of many grants; never shortens one. What has no outcome may have been
    /// extended.
    pub async fn renew_permits(&self, renewals: &[PermitRenewal]) -> PermitRenewals {
        let store = match self.single(Unsupported::Semaphores) {
            Ok(store) => store,
            Err(error) => return Batch::failed(renewals.len(), error),
        };
        let partitions = renewals
            .iter()
            .map(|renewal| store.partition(&renewal.name));
        let calls = grouped(partitions).into_iter().map(|(partition, places)| {
            let mut chunks = in_chunks(places, |at| renewals[at].ids.len());
            async move {
                let mut answers = Vec::with_capacity(chunks.len());
                for places in chunks.drain(..) {
                    let batch = places.iter().map(|at| &renewals[*at]);
                    let answer = renew_batch(store, batch).await;
                    answers.push((places, answer, Instant::now()));
                }
                (partition, answers)
            }
        });
        Batch::gather(renewals.len(), calls).await
    }

    /// Makes a semaphore or changes its size; `only_if_absent` leaves one that there is as it is.
    pub async fn set_permits(
        &self,
        name: &str,
        total: u32,
        only_if_absent: bool,
    ) -> Result<PermitsSet, CallError> {
        let store = self.single(Unsupported::Semaphores)?;
        let args = words![
            total,
            flag(only_if_absent),
            self.kind_retention(),
            store.publish(),
            self.adopts(),
        ];
        let script = &catalog::PERMIT_SET;
        let reply = store.eval(script, permit_keys(name, None), args).await?;
        match *reply.as_slice() {
            [DONE, total, available, created] => Ok(PermitsSet {
                created: created == 1,
                total: count(total),
                available,
            }),
            [NOT_DONE, total, available] => Ok(PermitsSet {
                created: false,
                total: count(total),
                available,
            }),
            _ => Err(refusal(script, &reply)),
        }
    }
}

async fn renew_batch(
    store: &HostScripts,
    batch: impl ExactSizeIterator<Item = &PermitRenewal>,
) -> Answer<Result<Duration, Ownership>> {
    let script = &catalog::PERMIT_RENEW;
    let count = batch.len();
    let (mut keys, mut args) = (words![], words![]);
    for renewal in batch {
        keys.push(keys::permit_leases(&renewal.name));
        keys.push(keys::permit_owners(&renewal.name));
        args.push(&*renewal.owner);
        args.push(millis(renewal.lease));
        args.push(joined(&renewal.ids));
    }
    let reply = store.eval(script, keys, args).await?;
    let [store_micros, ref outcomes @ ..] = *reply.as_slice() else {
        return Err(refusal(script, &reply));
    };
    if outcomes.len() != count {
        return Err(refusal(script, &reply));
    }
    let outcomes = outcomes.iter().map(|outcome| match *outcome {
        gone if gone < 0 => Err(not_renewed(gone)),
        lease => Ok(duration(lease)),
    });
    Ok((store_micros, outcomes.collect()))
}

/// Splits grants so that each part has no more permits than one script looks at, or is one grant.
fn in_chunks(places: Vec<usize>, permits: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let mut chunks = Vec::<Vec<usize>>::new();
    let mut in_last = 0;
    for at in places {
        in_last += permits(at);
        match chunks.last_mut() {
            Some(last) if in_last <= PERMITS_PER_RENEWAL => last.push(at),
            _ => {
                in_last = permits(at);
                chunks.push(vec![at]);
            }
        }
    }
    chunks
}

/// The semaphore as it is.
pub(super) fn semaphore_keys(name: &str) -> Words {
    words![
        keys::lock(name),
        keys::permit_leases(name),
        keys::permit_owners(name),
        keys::kind(name),
    ]
}

/// The same, its channel, and the record of a request.
fn permit_keys(name: &str, request_id: Option<&str>) -> Words {
    let mut keys = semaphore_keys(name);
    keys.push(keys::permit_channel(name));
    keys.extend(request_id.map(|id| keys::record(name, id)));
    keys
}

/// The hexadecimal digits of the id of a single permit.
fn only_digits(ids: &[PermitId]) -> Option<String> {
    let [id] = ids else { return None };
    Some(hex::encode(id))
}

fn joined(ids: &[PermitId]) -> Bytes {
    ids.concat().into()
}

fn parsed(digits: &[u8]) -> Option<Vec<PermitId>> {
    let bytes = hex::decode(digits).ok()?;
    let (ids, rest) = bytes.as_chunks();
    rest.is_empty().then(|| ids.to_vec())
}
