//! An acquire on a quorum: a vote, and for a grant that is new a second phase that raises the
//! fencing counters of a majority to its token.
//!
//! Each store makes a token of its own from its own counter and clock. The grant's is the largest
//! of them, and the grant counts only when a majority shows it: every later majority has one of
//! those stores, so every later token is larger, whatever the clocks of the others say.

use std::time::Duration;

use rand::RngExt as _;

use super::{
    answers::{answered, reached},
    repair::{Action, OwnAttempt, Repair},
    voters::Quorum,
    votes::{Ballot, Defeat, Elected, KnownHold, Vote, defeat, elect},
};
use crate::script::{Acquired, Attempt, CallError, Hold, Mode, Refusal};

/// After a split vote each tries again after another time, so that one comes first.
const SPLIT_RETRY_MILLIS: std::ops::Range<u64> = 10..60;

/// An acquire under way.
struct Acquiring<'a> {
    hold: Hold<'a>,
    lease: Duration,
    /// Always with a record, by which it can be undone on each store.
    attempt: Attempt<'a>,
    refused: Refusal,
}

// === impl Quorum ===

impl Quorum {
    pub(in crate::script) async fn acquire(
        &self,
        hold: Hold<'_>,
        lease: Duration,
        attempt: &Attempt<'_>,
        refused: Refusal,
    ) -> Result<Acquired, CallError> {
        let acquiring = Acquiring {
            hold,
            lease,
            attempt: Attempt {
                request_id: attempt.request_id.or(Some(attempt.attempt)),
                // By its record it is known well enough; a store that it ran late on may show a
                // newer serial.
                serial: None,
                ..*attempt
            },
            refused,
        };
        // Dropped when a vote that decided nothing has been taken back.
        let superseding = self.0.orders.acquire(hold);
        let votes = self.vote(&acquiring).await;
        let known = KnownHold {
            mode: hold.mode,
            known_holds: attempt.known_holds,
            serial: attempt.serial,
        };
        let Some(elected) = elect(&votes, known) else {
            return self.give_up(&acquiring, &votes).await;
        };
        let token = match self.confirm(&acquiring, &elected, &votes).await {
            Ok(token) => token,
            Err(unconfirmed) => {
                self.take_back(&acquiring, &votes).await;
                return unconfirmed;
            }
        };
        if let Some(superseding) = superseding {
            superseding.granted();
        }
        // A store that did not answer in time, or that does not agree, must not have a hold that is
        // never renewed.
        let others = (0..votes.len())
            .filter(|which| !elected.counted.contains(which) && may_hold(&votes[*which]));
        let withdraw = Repair::new(hold, Action::Withdraw(OwnAttempt::from(&acquiring.attempt)));
        self.send(&withdraw, others, lease);
        Ok(Acquired::Granted {
            hold_count: elected.hold_count,
            token,
            lease: elected.lease,
            serial: if hold.mode == Mode::Read {
                elected.serial
            } else {
                token
            },
            repeated: elected.repeated,
        })
    }

    async fn vote(&self, acquiring: &Acquiring<'_>) -> Vec<Vote> {
        let &Acquiring {
            hold,
            lease,
            attempt,
            refused,
        } = acquiring;
        let votes = self.ask(hold.name, |voter| async move {
            let vote = voter.scripts.vote(hold, lease, &attempt, refused).await;
            vote.map(Ballot::from)
        });
        let mut votes = votes.await;
        // Which server it is may not have been known before it answered.
        for (which, vote) in votes.iter_mut().enumerate() {
            if let Some(error) = self.excluded(which) {
                *vote = Err(error);
            }
        }
        votes
    }

    /// The second phase: the token, when a majority shows it. Otherwise what is answered when the
    /// votes are taken back.
    async fn confirm(
        &self,
        acquiring: &Acquiring<'_>,
        elected: &Elected,
        votes: &[Vote],
    ) -> Result<u64, Result<Acquired, CallError>> {
        let reads = acquiring.hold.mode == Mode::Read;
        let target = elected.token;
        let (mut counters, mut lower) = (Vec::new(), Vec::new());
        for which in &elected.counted {
            match &votes[*which] {
                Ok(Ballot::Granted(granted)) if granted.token >= target => {
                    counters.push(granted.token);
                }
                _ => lower.push(*which),
            }
        }
        let record = acquiring.attempt.request_id.unwrap_or_default();
        let raises = lower.iter().map(|which| async move {
            let store = &self.voters()[*which].scripts;
            let raised = store.raise(acquiring.hold, target, record).await;
            (*which, self.heard(*which, raised))
        });
        let mut unanswered = Vec::new();
        for (which, raised) in futures::future::join_all(raises).await {
            match raised {
                // While the owner writes, a reader's token is that of the write.
                Ok(Some(counter)) if reads || counter == target => counters.push(counter),
                Ok(_) => {}
                Err(_) => unanswered.push(which),
            }
        }
        let token = reached(counters.iter().copied(), self.majority());
        // The owner may write on a majority, whose token it is then. Where it does so on fewer, a
        // write is left over that is being given back.
        let same = |token: u64| counters.iter().filter(|it| **it == token).count();
        let shown = |token: &u64| *token >= target || same(*token) >= self.majority();
        let Some(token) = token.filter(shown) else {
            let why = || format!("fewer than {} stores confirmed the token", self.majority());
            return Err(if unanswered.is_empty() {
                Ok(split())
            } else {
                Err(CallError::Unavailable(why()))
            });
        };
        let record = record.to_owned();
        let raise = Repair::new(
            acquiring.hold,
            Action::Raise {
                token: target,
                record,
            },
        );
        self.send(&raise, unanswered, acquiring.lease);
        Ok(token)
    }

    /// No owner was elected: gives votes back and returns why.
    async fn give_up(
        &self,
        acquiring: &Acquiring<'_>,
        votes: &Vec<Vote>,
    ) -> Result<Acquired, CallError> {
        self.take_back(acquiring, votes).await;
        let remaining = match defeat(votes) {
            Defeat::Busy(remaining) => remaining,
            Defeat::Split => return Ok(split()),
            Defeat::Refused(error) => return Err(error),
            Defeat::TooFew => {
                let why = if answered(votes) < self.majority() {
                    self.too_few(votes)
                } else {
                    format!("no {} of {} stores agree", self.majority(), votes.len())
                };
                return Err(CallError::Unavailable(why));
            }
        };
        Ok(Acquired::Busy {
            remaining,
            place: None,
            note: None,
        })
    }

    /// Undoes the attempt on every store that may have granted: before others hear of the outcome
    /// where that is known, in the background where it is not. It wakes no waiter. Others who came
    /// meanwhile have seen counters that differ, and try again soon.
    async fn take_back(&self, acquiring: &Acquiring<'_>, votes: &[Vote]) {
        let (attempt, hold) = (&acquiring.attempt, acquiring.hold);
        let granted = (0..votes.len()).filter(|at| matches!(votes[*at], Ok(Ballot::Granted(_))));
        let undone = granted.map(|which| async move {
            let undone = self.voters()[which].scripts.withdraw(hold, attempt).await;
            (which, self.heard(which, undone))
        });
        let undone = futures::future::join_all(undone).await.into_iter();
        let unanswered = undone
            .filter(|(_, undone)| undone.is_err())
            .map(|(which, _)| which);
        let unknown = (0..votes.len()).filter(|at| votes[*at].is_err() && may_hold(&votes[*at]));
        let withdraw = Repair::new(hold, Action::Withdraw(OwnAttempt::from(attempt)));
        let at_most = match attempt.known_holds {
            Some(0) => acquiring.lease,
            // What it was added to may last longer.
            _ => acquiring.lease.max(self.0.config.request_retention),
        };
        self.send(&withdraw, unanswered.chain(unknown), at_most);
    }
}

/// The answer of a split vote: waiters try again soon.
fn split() -> Acquired {
    let millis = rand::rng().random_range(SPLIT_RETRY_MILLIS);
    Acquired::Busy {
        remaining: Some(Duration::from_millis(millis)),
        place: None,
        note: None,
    }
}

/// Whether a store may have a hold of the attempt.
pub(super) fn may_hold(vote: &Vote) -> bool {
    match vote {
        Ok(ballot) => matches!(ballot, Ballot::Granted(_)),
        Err(error) => error.may_have_changed(),
    }
}
