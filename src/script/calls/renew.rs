//! Extending leases, many at once.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use super::{Hold, HostScripts, Mode, Ownership, count, duration, millis, refusal, unsigned};
use crate::{
    host::Script,
    script::{CallError, catalog, keys},
};

/// In place of a lease in the reply of a renewal.
const EXPIRED: i64 = -1;
pub(super) const HELD_BY_ANOTHER: i64 = -2;

/// One hold to renew.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The lock.
    pub name: Arc<str>,
    /// How it is held.
    pub mode: Mode,
    /// The owner, as of [`Hold`].
    pub owner: Arc<str>,
    /// The lease to count from now. Zero looks at the hold without giving it more.
    pub lease: Duration,
}

/// What a batch of renewals came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewals {
    /// The store's clock in microseconds when the last script ran.
    pub store_micros: i64,
    /// One outcome for each hold, in order: granted anew, or why not (never [`Ownership::NeverHeld`]); none if too few stores of a quorum know of it.
    pub outcomes: Vec<Option<Result<Renewed, Ownership>>>,
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
    /// Tells the grant from every other of the owner.
    pub serial: u64,
}

/// Holds that one script renews, and what is known of each in its reply.
struct Family {
    /// Whether it is that of the read holds; the other one has all others.
    reads: bool,
    script: &'static Script,
    keys: fn(Hold<'_>) -> Vec<Bytes>,
    numbers: usize,
}

// === impl HostScripts ===

impl HostScripts {
    /// Extends many leases, in one call of each script that is needed; never shortens one. After an error some may have been extended.
    pub async fn renew(&self, renewals: &[Renewal]) -> Result<Renewals, CallError> {
        let families = [Family::READ, Family::OTHERS];
        let mut renewed = Renewals {
            store_micros: 0,
            outcomes: vec![None; renewals.len()],
        };
        for family in families {
            let places: Vec<usize> = (0..renewals.len())
                .filter(|at| family.has(renewals[*at].mode))
                .collect();
            // An empty batch asks whether the store answers.
            if places.is_empty() && (!renewals.is_empty() || family.has(Mode::Read)) {
                continue;
            }
            let batch: Vec<&Renewal> = places.iter().map(|at| &renewals[*at]).collect();
            let (store_micros, outcomes) = self.renew_family(&family, &batch).await?;
            renewed.store_micros = store_micros;
            for (at, outcome) in places.into_iter().zip(outcomes) {
                renewed.outcomes[at] = Some(outcome);
            }
        }
        Ok(renewed)
    }

    async fn renew_family(
        &self,
        family: &Family,
        batch: &[&Renewal],
    ) -> Result<(i64, Vec<Result<Renewed, Ownership>>), CallError> {
        let mut keys = Vec::with_capacity(batch.len() * 4);
        let mut args = Vec::with_capacity(batch.len() * 2 + 1);
        args.push(millis(self.config.idle_token_retention));
        for renewal in batch {
            let hold = Hold::new(&renewal.name, renewal.mode, &renewal.owner);
            keys.extend((family.keys)(hold));
            args.push(hold.field());
            args.push(millis(renewal.lease));
        }
        let reply = self.eval(family.script, keys, args).await?;
        match *reply.as_slice() {
            [store_micros, ref outcomes @ ..] if outcomes.len() == batch.len() * family.numbers => {
                let outcomes = outcomes.chunks_exact(family.numbers).map(outcome);
                Ok((store_micros, outcomes.collect()))
            }
            _ => Err(refusal(family.script, &reply)),
        }
    }
}

/// Lease, holds, token, and the serial where that is not the token.
fn outcome(numbers: &[i64]) -> Result<Renewed, Ownership> {
    match *numbers {
        [EXPIRED, ..] => Err(Ownership::Expired),
        [HELD_BY_ANOTHER, ..] => Err(Ownership::HeldByAnother),
        [lease, hold_count, token, ref rest @ ..] => Ok(Renewed {
            hold_count: count(hold_count),
            token: unsigned(token),
            lease: duration(lease),
            serial: unsigned(rest.first().copied().unwrap_or(token)),
        }),
        _ => Err(Ownership::Expired),
    }
}

// === impl Family ===

impl Family {
    const READ: Self = Self {
        reads: true,
        script: &catalog::READ_RENEW,
        keys: |hold| {
            vec![
                keys::lock(hold.name),
                keys::counter(hold.name),
                keys::read_holds(hold.name, hold.owner),
                keys::readers(hold.name),
            ]
        },
        numbers: 4,
    };
    const OTHERS: Self = Self {
        reads: false,
        script: &catalog::LOCK_RENEW,
        keys: |hold| vec![keys::lock(hold.name), keys::counter(hold.name)],
        numbers: 3,
    };

    fn has(&self, mode: Mode) -> bool {
        (mode == Mode::Read) == self.reads
    }
}
