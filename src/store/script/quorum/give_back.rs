//! Giving back on a quorum: sent to all, decided by a majority, and brought to its end on the
//! others in the background.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    answers::{Answers, answered, common_refusal, reached},
    repair::{Action, OwnAttempt, Repair},
    voters::Quorum,
};
use crate::script::{Attempt, CallError, Hold, Members, Mode, Ownership, Released, ReleasedMember};

// === impl Quorum ===

impl Quorum {
    pub(in crate::script) async fn release(
        &self,
        hold: Hold<'_>,
        serial: Option<u64>,
        lease: Duration,
        request_id: Option<&str>,
    ) -> Result<Released, CallError> {
        // Of a grant whose serial is known the holds can be lowered to what is left. Without that
        // only a record makes it safe to repeat.
        let own_id = (request_id.is_none() && serial.is_none()).then(|| self.release_id());
        let id = request_id.or(own_id.as_deref());
        let answers = self.ask(hold.name, |voter| {
            voter.scripts.release(hold, serial, lease, id)
        });
        let answers = answers.await;
        let released = match combine(&answers, self.majority()) {
            Some(released) => released?,
            None => return Err(self.undecided(&answers)),
        };
        let left = match &released {
            Released::Done { held, .. } => *held,
            Released::NotOwner(_) => 0,
        };
        let retention = self.0.config.request_retention;
        let lower = OwnAttempt::from(&Attempt::to_lower(serial, left));
        let lower = Repair::new(hold, Action::Undo(lower));
        let (what, at_most) = if serial.is_some() && (id.is_none() || left == 0) {
            // What is not renewed there has ended there by then. A repeat of the last release finds
            // nothing, so it needs no record.
            (Arc::clone(&lower), lease.max(retention))
        } else {
            // Without its record a repeat would be another release.
            let id = id.unwrap_or_default().to_owned();
            let again = Action::Release { serial, lease, id };
            (Repair::new(hold, again), retention)
        };
        let those = |are: fn(&Result<Released, CallError>) -> bool| {
            let answers = answers.iter().enumerate();
            answers.filter_map(move |(which, answer)| are(answer).then_some(which))
        };
        self.send(&what, those(is_lost), at_most);
        if left == 0 {
            // It missed earlier releases, and nobody renews or releases what is left there.
            self.send(&lower, those(has_holds), at_most);
        }
        Ok(released)
    }

    /// Gives one hold of each of several locks back, one lock after the other.
    pub(in crate::script) async fn release_each(
        &self,
        members: Members<'_>,
        leases: &[Duration],
        request_id: Option<&str>,
    ) -> Result<Vec<ReleasedMember>, CallError> {
        let mut released = Vec::with_capacity(members.locks.len());
        for (member, lease) in members.locks.iter().zip(leases) {
            let hold = Hold::new(member.name, member.mode, members.owner);
            match self.release(hold, member.serial, *lease, request_id).await {
                Ok(Released::Done {
                    hold_count,
                    held,
                    lease,
                }) => released.push(ReleasedMember {
                    left: Ok(hold_count),
                    held,
                    lease,
                }),
                Ok(Released::NotOwner(why)) => released.push(ReleasedMember {
                    left: Err(why),
                    held: 0,
                    lease: Duration::ZERO,
                }),
                Err(CallError::Unavailable(why)) if !released.is_empty() => {
                    return Err(CallError::OutcomeUnknown(why));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(released)
    }

    pub(in crate::script) async fn undo(
        &self,
        hold: Hold<'_>,
        attempt: &Attempt<'_>,
    ) -> Result<bool, CallError> {
        // Without a record or a serial it would take what the owner has acquired since, where it
        // comes late. Every attempt on a quorum has a record.
        let own_record = attempt.serial.is_none().then_some(attempt.attempt);
        let attempt = &Attempt {
            request_id: attempt.request_id.or(own_record),
            ..*attempt
        };
        let answers = self
            .ask(hold.name, |voter| voter.scripts.undo(hold, attempt))
            .await;
        if answered(&answers) < self.majority() {
            return Err(self.undecided(&answers));
        }
        let undo = Repair::new(hold, Action::Undo(OwnAttempt::from(attempt)));
        let silent = |at: &usize| answers[*at].as_ref().is_err_and(CallError::is_transient);
        let silent = (0..answers.len()).filter(silent);
        let at_most = attempt.lease.max(self.0.config.request_retention);
        self.send(&undo, silent, at_most);
        Ok(answers.iter().any(|undone| matches!(undone, Ok(true))))
    }

    pub(in crate::script) async fn leave(&self, hold: Hold<'_>) -> Result<(), CallError> {
        if hold.mode != Mode::Write {
            return Ok(());
        }
        // Where it does not arrive, the mark ends by itself.
        let answers = self.ask(hold.name, |voter| voter.scripts.leave(hold)).await;
        if answered(&answers) < self.majority() {
            return Err(self.undecided(&answers));
        }
        Ok(())
    }

    /// The error of a change that too few have answered: nothing was done only if no store can have
    /// done it.
    pub(super) fn undecided<T>(&self, answers: &Answers<T>) -> CallError {
        let why = self.too_few(answers);
        let untouched =
            |answer: &Result<T, CallError>| matches!(answer, Err(CallError::Unavailable(_)));
        if answers.iter().all(untouched) {
            CallError::Unavailable(why)
        } else {
            CallError::OutcomeUnknown(why)
        }
    }
}

fn is_lost(answer: &Result<Released, CallError>) -> bool {
    answer.as_ref().is_err_and(CallError::is_transient)
}

fn has_holds(answer: &Result<Released, CallError>) -> bool {
    matches!(answer, Ok(Released::Done { held: 1.., .. }))
}

/// What a release came to; none if too few answered.
pub(super) fn combine(
    answers: &Answers<Released>,
    majority: usize,
) -> Option<Result<Released, CallError>> {
    if answered(answers) < majority {
        return None;
    }
    let refusal = common_refusal(answers.iter().filter_map(|answer| answer.as_ref().err()));
    let mut groups: BTreeMap<u32, Vec<(u32, Duration)>> = BTreeMap::new();
    let mut refused = Vec::new();
    for answer in answers.iter().flatten() {
        match answer {
            Released::Done {
                hold_count,
                held,
                lease,
            } => {
                groups.entry(*hold_count).or_default().push((*held, *lease));
            }
            Released::NotOwner(why) => refused.push(*why),
        }
    }
    match refusal {
        Some((refusal, count))
            if count >= majority || (groups.is_empty() && refused.is_empty()) =>
        {
            return Some(Err(refusal));
        }
        _ => {}
    }
    let largest = groups
        .into_iter()
        .max_by_key(|(count, group)| (group.len(), *count));
    match largest {
        Some((hold_count, group)) if refused.len() < majority => {
            let share = group.len().min(majority);
            let held = reached(group.iter().map(|(held, _)| *held), share);
            let lease = reached(group.iter().map(|(_, lease)| *lease), share);
            Some(Ok(Released::Done {
                hold_count,
                held: held.unwrap_or_default(),
                lease: lease.unwrap_or_default(),
            }))
        }
        _ => Some(Ok(Released::NotOwner(ownership(&refused, majority)))),
    }
}

/// Why a majority found no hold of the owner: by the stores that know most.
fn ownership(refused: &[Ownership], majority: usize) -> Ownership {
    let count = |why: Ownership| refused.iter().filter(|it| **it == why).count();
    if count(Ownership::HeldByAnother) >= majority {
        Ownership::HeldByAnother
    } else if count(Ownership::HeldInAnotherMode) > 0 {
        Ownership::HeldInAnotherMode
    } else if count(Ownership::NeverHeld) == refused.len() {
        Ownership::NeverHeld
    } else {
        Ownership::Expired
    }
}
