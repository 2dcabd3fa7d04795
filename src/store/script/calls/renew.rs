//! Extending leases, many at once.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    encoding::{DONE, count, duration, millis, numbers, refusal, unsigned},
    hold::{Hold, Mode},
    host_scripts::HostScripts,
    ownership::Ownership,
    partitions::{Answer, Batch, grouped},
};
use crate::{
    host::{Call, Script},
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
}

/// Holds that one script renews, and what is known of each in its reply.
struct Family {
    script: &'static Script,
    keys: fn(Hold<'_>) -> Vec<Bytes>,
    numbers: usize,
}

// === impl HostScripts ===

impl HostScripts {
    /// Extends many leases, in one call of each script that is needed in each part of the store;
    /// never shortens one. What has no outcome may have been extended. An empty batch asks whether
    /// the store answers.
    pub(crate) async fn renew(&self, renewals: &[Renewal]) -> Renewals {
        let of = |renewal: &Renewal| (self.partition(&renewal.name), renewal.mode == Mode::Read);
        let mut groups = grouped(renewals.iter().map(of));
        if groups.is_empty() {
            groups.insert((0, false), Vec::new());
        }
        let calls = groups.into_iter().map(|((partition, reads), places)| {
            let family = if reads { Family::READ } else { Family::OTHERS };
            let batch: Vec<&Renewal> = places.iter().map(|at| &renewals[*at]).collect();
            async move {
                let answer = self.renew_family(&family, &batch).await;
                (partition, vec![(places, answer, Instant::now())])
            }
        });
        Batch::gather(renewals.len(), calls).await
    }

    /// Asks the store for nothing; success means that it answers.
    pub(crate) async fn probe(&self) -> Result<(), CallError> {
        self.renew(&[]).await.complete().map(drop)
    }

    /// Whether the store takes writes; names begin with this.
    pub(crate) async fn takes_writes(&self, prefix: &str) -> Result<(), CallError> {
        let (script, keys) = (&catalog::STORE_WRITE, vec![keys::never(prefix)]);
        let reply = self
            .ask(Call {
                script,
                keys,
                args: Vec::new(),
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

/// Why there is no lease.
pub(crate) fn not_renewed(gone: i64) -> Ownership {
    match gone {
        HELD_BY_ANOTHER => Ownership::HeldByAnother,
        _ => Ownership::Expired,
    }
}

/// Lease, holds, token, and the serial where that is not the token.
fn outcome(numbers: &[i64]) -> Result<Renewed, Ownership> {
    match *numbers {
        [gone, ..] if gone < 0 => Err(not_renewed(gone)),
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
        script: &catalog::LOCK_RENEW,
        keys: |hold| vec![keys::lock(hold.name), keys::counter(hold.name)],
        numbers: 3,
    };
}
