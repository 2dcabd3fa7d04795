//! Renewals on a quorum.

use std::{collections::BTreeMap, time::Duration};

use super::{
    answers::{answered, reached},
    voters::Quorum,
};
use crate::script::{Batch, CallError, Ownership, Renewal, Renewals, Renewed};

/// What one store says of a hold; none if it did not answer.
type Seen = Option<Result<Renewed, Ownership>>;

// === impl Quorum ===

impl Quorum {
    pub(in crate::script) async fn renew(&self, renewals: &[Renewal]) -> Renewals {
        let first = renewals.first().map_or("", |renewal| &renewal.name);
        let answers = self
            .ask(first, |voter| async {
                let renewed = voter.scripts.renew(renewals).await;
                match renewed.error {
                    // Parts of a store that is in parts may have answered.
                    Some(error) if renewed.outcomes.iter().all(Option::is_none) => Err(error),
                    _ => Ok(renewed.outcomes),
                }
            })
            .await;
        self.renew_silent(renewals);
        if answered(&answers) < self.majority() {
            let error = CallError::Unavailable(self.too_few(&answers));
            return Batch::failed(renewals.len(), error);
        }
        let seen_at = |at: usize| {
            let of =
                |answer: &Result<Vec<Seen>, CallError>| -> Seen { *answer.as_ref().ok()?.get(at)? };
            answers.iter().map(of).collect::<Vec<Seen>>()
        };
        let outcomes = (0..renewals.len()).map(|at| combine(&seen_at(at), self.majority()));
        let outcomes: Vec<_> = outcomes.collect();
        let error = outcomes
            .contains(&None)
            .then(|| CallError::Unavailable(self.too_few(&answers)));
        Batch {
            outcomes,
            // Each store has a clock of its own, and none of them shows when a majority's leases
            // end. A step of one ends its leases only, which shows as a vote less in the next
            // renewal.
            clocks: Vec::new(),
            error,
        }
    }

    /// No call waits for stores that have stopped answering, but what they hold should not end
    /// because of that.
    fn renew_silent(&self, renewals: &[Renewal]) {
        let silent = |which: &usize| self.is_passed_over(*which);
        for which in (0..self.voters().len()).filter(silent) {
            if renewals.is_empty() {
                continue;
            }
            let (this, renewals) = (self.clone(), renewals.to_vec());
            self.0.tasks.spawn("renew-silent", async move {
                let renewed = this.voters()[which]
                    .scripts
                    .renew(&renewals)
                    .await
                    .complete();
                let _ = this.heard(which, renewed);
            });
        }
    }
}

/// Renewed if a majority renewed the same grant; gone if enough say so that no majority can have
/// it; otherwise not known.
pub(super) fn combine(seen: &[Seen], majority: usize) -> Seen {
    let gone = seen.iter().filter_map(|seen| seen.as_ref()?.as_ref().err());
    let gone: Vec<_> = gone.collect();
    if seen.len() - gone.len() < majority {
        let by_another = gone.iter().filter(|why| ***why == Ownership::HeldByAnother);
        return Some(Err(if by_another.count() >= majority {
            Ownership::HeldByAnother
        } else {
            Ownership::Expired
        }));
    }
    // A hold with another serial is left over from an attempt that is being undone.
    let mut grants: BTreeMap<u64, Vec<Renewed>> = BTreeMap::new();
    for renewed in seen.iter().flatten().flatten() {
        grants.entry(renewed.serial).or_default().push(*renewed);
    }
    let same = grants.into_values().find(|same| same.len() >= majority)?;
    let lease = reached(same.iter().map(|it| it.lease), majority);
    Some(Ok(Renewed {
        hold_count: reached(same.iter().map(|it| it.hold_count), majority).unwrap_or_default(),
        token: reached(same.iter().map(|it| it.token), majority).unwrap_or_default(),
        lease: lease.unwrap_or(Duration::ZERO),
        serial: same.first()?.serial,
        noted: false,
    }))
}
