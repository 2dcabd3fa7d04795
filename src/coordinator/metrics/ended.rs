//! Metrics of operations that have ended.

use lockkeeper_base::metrics::observe;
use lockkeeper_store::script::CallError;
use tokio::time::Instant;

use crate::{
    error::Error,
    latch::{LatchAnswer, LatchOperation},
    lock::outcome::Tried,
    metrics::{
        families::Metrics,
        labels::{Given, Kind, OperationName, Outcome, Renewal, Renewer},
    },
    multi::outcome::TriedAll,
    operation::{Answer, Operation},
    semaphore::{outcome::PermitAnswer, request::PermitOperation},
};

type Ended = Result<Answer, Error>;

// === impl Metrics ===

impl Metrics {
    /// Records the end of an operation that began at `begun`.
    pub(crate) fn ended(&self, operation: &Operation, ended: &Ended, begun: Instant) {
        if let Err(Error::LimitReached(limit)) = ended {
            self.limited(*limit);
        }
        if let Err(
            Error::Store(CallError::CounterOutOfRange)
            | Error::StoreOf(_, CallError::CounterOutOfRange),
        ) = ended
        {
            self.counters_out_of_range.inc();
        }
        match operation_name(operation) {
            Some(name) => observe(self.operations.of(name), begun.elapsed()),
            None => observe(self.waits.of(outcome(ended)), begun.elapsed()),
        }
        match operation {
            Operation::Acquire(request) | Operation::TryAcquire(request) => {
                self.acquired(request.mode.into(), ended);
            }
            Operation::AcquireAll(request) | Operation::TryAcquireAll(request) => {
                let modes = request.locks.iter().map(|(_, mode)| mode);
                modes.for_each(|mode| self.acquired(mode.into(), ended));
            }
            Operation::Permits(PermitOperation::Acquire(_) | PermitOperation::TryAcquire(_)) => {
                self.acquired(Kind::Permits, ended);
            }
            Operation::Release(_) | Operation::Permits(PermitOperation::Release(_)) => {
                self.releases.of(given(ended)).inc();
            }
            Operation::ReleaseAll(request) => {
                self.released_all(request.locks.iter().count(), ended);
            }
            Operation::Renew(_) | Operation::Permits(PermitOperation::Renew(_)) => {
                let result = match ended {
                    Ok(_) => Renewal::Done,
                    Err(Error::NotOwner(_)) => Renewal::NotOwner,
                    Err(_) => Renewal::Failed,
                };
                self.renewals.of_both(Renewer::Client, result).inc();
            }
            Operation::Describe(_)
            | Operation::CheckToken(..)
            | Operation::Permits(PermitOperation::Set(_) | PermitOperation::Describe(_))
            | Operation::Latch(_) => {}
        }
    }

    fn acquired(&self, kind: Kind, ended: &Ended) {
        self.grants.of_both(kind, outcome(ended)).inc();
    }

    fn released_all(&self, locks: usize, ended: &Ended) {
        if let Ok(Answer::ReleasedAll(released)) = ended {
            for lock in released {
                let given = match lock.left {
                    Some(_) => Given::Released,
                    None => Given::NotOwner,
                };
                self.releases.of(given).inc();
            }
        } else {
            let locks = u64::try_from(locks).unwrap_or(u64::MAX);
            self.releases.of(given(ended)).inc_by(locks);
        }
    }
}

fn given(ended: &Ended) -> Given {
    match ended {
        Ok(_) => Given::Released,
        Err(Error::NotOwner(_)) => Given::NotOwner,
        Err(_) => Given::Failed,
    }
}

fn outcome(ended: &Ended) -> Outcome {
    let without = |cancelled: bool| {
        if cancelled {
            Outcome::Cancelled
        } else {
            Outcome::TimedOut
        }
    };
    match ended {
        Ok(
            Answer::Tried(Tried::Busy { .. })
            | Answer::TriedAll(TriedAll::Busy { .. })
            | Answer::Permits(PermitAnswer::Busy { .. }),
        ) => Outcome::Busy,
        Ok(Answer::NotGranted(ended)) => without(ended.cancelled),
        Ok(Answer::Permits(PermitAnswer::NotGranted(ended))) => without(ended.cancelled),
        Ok(Answer::Latch(LatchAnswer::NotOpened { cancelled, .. })) => without(*cancelled),
        Ok(_) => Outcome::Granted,
        Err(_) => Outcome::Failed,
    }
}

/// None for an operation that may wait.
fn operation_name(operation: &Operation) -> Option<OperationName> {
    Some(match operation {
        Operation::TryAcquire(_) => OperationName::TryAcquire,
        Operation::TryAcquireAll(_) => OperationName::TryAcquireAll,
        Operation::Release(_) => OperationName::Release,
        Operation::ReleaseAll(_) => OperationName::ReleaseAll,
        Operation::Renew(_) => OperationName::Renew,
        Operation::Describe(_) => OperationName::Describe,
        Operation::CheckToken(..) => OperationName::CheckToken,
        Operation::Permits(PermitOperation::TryAcquire(_)) => OperationName::TryAcquirePermits,
        Operation::Permits(PermitOperation::Release(_)) => OperationName::ReleasePermits,
        Operation::Permits(PermitOperation::Renew(_)) => OperationName::RenewPermits,
        Operation::Permits(PermitOperation::Set(_)) => OperationName::SetPermits,
        Operation::Permits(PermitOperation::Describe(_)) => OperationName::DescribeSemaphore,
        Operation::Latch(LatchOperation::Set(_)) => OperationName::SetCount,
        Operation::Latch(LatchOperation::CountDown(_)) => OperationName::CountDown,
        Operation::Latch(LatchOperation::Describe(_)) => OperationName::DescribeLatch,
        Operation::Latch(LatchOperation::Delete(_)) => OperationName::DeleteLatch,
        Operation::Acquire(_)
        | Operation::AcquireAll(_)
        | Operation::Permits(PermitOperation::Acquire(_))
        | Operation::Latch(LatchOperation::Await(_)) => return None,
    })
}
