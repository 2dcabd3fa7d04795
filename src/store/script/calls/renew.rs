//! Extending leases, many at once.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    encoding::{DONE, count, duration, malformed, millis, numbers, refusal, unsigned},
    hold::{Hold, Mode},
    host_scripts::HostScripts,
    ownership::Ownership,
    partitions::{Answer, Batch, grouped},
};
use crate::{
    host::{Call, Partition, Script, Words, words},
    script::{CallError, catalog, keys},
};

/// In place of a lease in the reply of a renewal; other negative numbers: it has expired.
const HELD_BY_ANOTHER: i64 = -2;

/// One hold to renew.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lock.
    pub name: Arc<str>,
    /// How it is held.
    pub mode: Mode,
    /// The owner, as in [`Hold`].
    pub owner: Arc<str>,
    /// The lease to count from now. Zero looks at the hold without giving it more.
    pub lease: Duration,
    /// Whether the owner has said something of it, which is to live as long.
    pub noted: bool,
}

/// What renewals of holds came to: granted anew, or why not (never [`Ownership::NeverHeld`]).
pub type Renewals = Batch<Result<Renewed, Ownership>>;

/// A hold that was renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Holds.
    pub hold_count: u32,
    /// The fencing token.
    pub token: u64,
    /// Time to live at the moment the script ran; at least what was asked for.
    pub lease: Duration,
    /// Tells the grant from every other of the owner.
    pub serial: u64,
    /// Whether the owner may have said something of it.
    pub noted: bool,
}

/// Holds that one script renews.
struct Family {
    script: &'static Script,
    /// But for the fencing counter, which is last.
    keys: fn(Hold<'_>) -> Words,
    /// Whether it takes the prefix of each owner's hold keys.
    prefixed: bool,
    /// For each hold in a reply that tells more than leases.
    numbers: usize,
    /// Whether the owners have said something of the holds.
    noted: bool,
}

/// Renewals look after the fencing counters so many times, at least, while one lives that is not.
const LOOKS: u32 = 4;

/// Leases within which every hold is renewed that is watched, with some to spare.
const RENEWED_WITHIN: u32 = 2;

// === impl HostScripts ===

impl HostScripts {
    /// Extends many leases, in one call of each script that is needed in each part of the store;
    /// never shortens one. What has no outcome may have been extended. An empty batch asks whether
    /// the store answers.
    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Renewals {
        let calls = self.families(renewals).into_iter();
        let calls = calls.map(|(partition, family, places)| async move {
            let answer = self.renew_family(&family, &picked(renewals, &places)).await;
            (partition, vec![(places, answer, Instant::now())])
        });
        Batch::gather(renewals.len(), calls).await
    }

    /// The same for holds that are renewed again and again, where nothing but the leases is wanted.
    /// It costs the store less: it looks after the fencing counters only now and then, and after
    /// notes only if there are any.
    pub(crate) async fn extend(&self, renewals: &[Renewal]) -> Batch<Result<Duration, Ownership>> {
        if self.looks_after_counters(renewals) {
            let renewed = self.renew(renewals).await;
            return renewed.map(|outcome| outcome.map(|renewed| renewed.lease));
        }
        let calls = self.families(renewals).into_iter();
        let calls = calls.map(|(partition, family, places)| async move {
            let batch = picked(renewals, &places);
            // The scripts look after notes where they look after counters.
            let answer = if family.noted {
                let answer = self.renew_family(&family, &batch).await;
                answer.map(|(clock, outcomes)| (clock, leases(outcomes)))
            } else {
                self.extend_family(&family, &batch).await
            };
            (partition, vec![(places, answer, Instant::now())])
        });
        Batch::gather(renewals.len(), calls).await
    }

    /// Whether it is time to give counters their time to live again: for longer than it takes to
    /// renew every hold once, several times while a counter lives that nobody looks after. Not at
    /// the start: the grant or the resume of each hold has just done so.
    fn looks_after_counters(&self, renewals: &[Renewal]) -> bool {
        let lease = renewals.iter().map(|renewal| renewal.lease).max();
        let looking = lease.unwrap_or_default() * RENEWED_WITHIN;
        let every = self.config.idle_token_retention / LOOKS;
        let since = self.started.elapsed();
        let in_period = since.as_millis() % every.as_millis().max(1);
        every > Duration::ZERO && since >= every && in_period < looking.as_millis()
    }

    /// The scripts that are needed in each part of the store, with the places of what they renew.
    fn families(&self, renewals: &[Renewal]) -> Vec<(Partition, Family, Vec<usize>)> {
        let of = |renewal: &Renewal| {
            let is_read = renewal.mode == Mode::Read;
            (self.partition(&renewal.name), (is_read, renewal.noted))
        };
        let mut groups = grouped(renewals.iter().map(of));
        if groups.is_empty() {
            groups.insert((0, (false, false)), Vec::new());
        }
        let groups = groups
            .into_iter()
            .map(|((partition, (reads, noted)), places)| {
                let family = if reads { Family::READ } else { Family::OTHERS };
                (partition, Family { noted, ..family }, places)
            });
        groups.collect()
    }

    /// Asks the store for nothing; success means that it answers.
    pub(crate) async fn probe(&self) -> Result<(), CallError> {
        self.renew(&[]).await.complete().map(drop)
    }

    /// Whether the store takes writes; names begin with this.
    pub(crate) async fn takes_writes(&self, prefix: &str) -> Result<(), CallError> {
        let (script, keys) = (&catalog::STORE_WRITE, words![keys::never(prefix)]);
        let reply = self
            .ask(Call {
                script,
                keys,
                args: words![],
            })
            .await?;
        match *numbers(script, &reply)? {
            [DONE] => Ok(()),
            ref other => Err(refusal(script, other)),
        }
    }

    async fn renew_family(
        &self,
        family: &Family,
        batch: &[&Renewal],
    ) -> Answer<Result<Renewed, Ownership>> {
        let idle = millis(self.config.idle_token_retention);
        let reply = self.ask_family(family, batch, Some(idle)).await?;
        match *reply.as_slice() {
            [store_micros, ref outcomes @ ..] if outcomes.len() == batch.len() * family.numbers => {
                let outcomes = outcomes.chunks_exact(family.numbers).map(outcome);
                Ok((store_micros, outcomes.collect()))
            }
            _ => Err(refusal(family.script, &reply)),
        }
    }

    async fn extend_family(
        &self,
        family: &Family,
        batch: &[&Renewal],
    ) -> Answer<Result<Duration, Ownership>> {
        let reply = self.ask_family(family, batch, None).await?;
        let malformed = || malformed(family.script, &reply);
        let [store_micros, ref others @ ..] = *reply.as_slice() else {
            return Err(malformed());
        };
        let (others, []) = others.as_chunks() else {
            return Err(malformed());
        };
        let mut outcomes: Vec<_> = batch.iter().map(|renewal| Ok(renewal.lease)).collect();
        for [number, lease] in others {
            let at = usize::try_from(*number).ok();
            let at = at.and_then(|number| number.checked_sub(1));
            let outcome = at.and_then(|at| outcomes.get_mut(at));
            *outcome.ok_or_else(malformed)? = leased(*lease);
        }
        Ok((store_micros, outcomes))
    }

    /// The reply of the script; `idle`: the time to live of counters, if they are to be looked at.
    async fn ask_family(
        &self,
        family: &Family,
        batch: &[&Renewal],
        idle: Option<u64>,
    ) -> Result<Vec<i64>, CallError> {
        let lease = batch.first().map(|renewal| renewal.lease);
        let same = batch.iter().all(|renewal| Some(renewal.lease) == lease);
        let mut keys = words![];
        let mut args = words![idle, lease.filter(|_| same).map(millis)];
        for renewal in batch {
            let hold = Hold::new(&renewal.name, renewal.mode, &renewal.owner);
            keys.extend(&(family.keys)(hold));
            keys.extend(idle.map(|_| keys::counter(hold.name)));
            args.push(hold.field());
        }
        if !same {
            args.extend(batch.iter().map(|renewal| millis(renewal.lease)));
        }
        if family.prefixed {
            let holds = batch.iter();
            args.extend(holds.map(|it| keys::read_holds(&it.name, &it.owner)));
        }
        self.eval(family.script, keys, args).await
    }
}

fn picked<'a>(renewals: &'a [Renewal], places: &[usize]) -> Vec<&'a Renewal> {
    places.iter().map(|at| &renewals[*at]).collect()
}

fn leases(outcomes: Vec<Result<Renewed, Ownership>>) -> Vec<Result<Duration, Ownership>> {
    let outcomes = outcomes.into_iter();
    outcomes.map(|it| it.map(|renewed| renewed.lease)).collect()
}

/// A lease that a hold has now, or why it has none.
fn leased(lease: i64) -> Result<Duration, Ownership> {
    if lease < 0 {
        Err(not_renewed(lease))
    } else {
        Ok(duration(lease))
    }
}

/// Why there is no lease.
pub(crate) fn not_renewed(gone: i64) -> Ownership {
    match gone {
        HELD_BY_ANOTHER => Ownership::HeldByAnother,
        _ => Ownership::Expired,
    }
}

/// Lease, holds, token, the serial where that is not the token, and whether there is a note.
fn outcome(numbers: &[i64]) -> Result<Renewed, Ownership> {
    match *numbers {
        [gone, ..] if gone < 0 => Err(not_renewed(gone)),
        [lease, hold_count, token, ref rest @ .., noted] => Ok(Renewed {
            hold_count: count(hold_count),
            token: unsigned(token),
            lease: duration(lease),
            serial: unsigned(rest.first().copied().unwrap_or(token)),
            noted: noted > 0,
        }),
        _ => Err(Ownership::Expired),
    }
}

// === impl Family ===

impl Family {
    const READ: Self = Self {
        script: &catalog::READ_RENEW,
        keys: |hold| words![keys::lock(hold.name), keys::readers(hold.name)],
        prefixed: true,
        numbers: 5,
        noted: false,
    };
    const OTHERS: Self = Self {
        script: &catalog::LOCK_RENEW,
        keys: |hold| words![keys::lock(hold.name)],
        prefixed: false,
        numbers: 4,
        noted: false,
    };
}
