//! Metrics of operations that have ended.

use lockkeeper_base::metrics::observe;
use lockkeeper_store::script::CallError;
use tokio::time::Instant;

use crate::{
    error::Error,
    metrics::{
        families::Metrics,
        labels::{Given, OperationName, Outcome, Renewal, Renewer},
    },
    summary::{Counts, Subject, Summary},
};

// === impl Metrics ===

impl Metrics {
    /// Records the end of an operation that began at `begun`; `name` is none if it may wait.
    pub(crate) fn ended(
        &self,
        name: Option<OperationName>,
        subject: Subject<'_>,
        ended: Result<Summary, &Error>,
        begun: Instant,
    ) {
        if let Err(Error::LimitReached(limit)) = ended {
            self.limited(*limit);
        }
        if let Err(
            Error::Store(CallError::CounterOutOfRange)
            | Error::StoreOf(_, CallError::CounterOutOfRange),
        ) = ended
        {
            self.counters_refused.inc();
        }
        let outcome = ended.map_or(Outcome::Failed, Summary::outcome);
        match name {
            Some(name) => observe(self.operations.of(name), begun.elapsed()),
            None => observe(self.waits.of(outcome), begun.elapsed()),
        }
        match subject.counts {
            Counts::Nothing => {}
            Counts::Grant(kind) => {
                self.grants.of_both(kind, outcome).inc();
                if let Some(name) = subject.name {
                    self.prefixes.ended(name, outcome);
                }
                if let (Outcome::Busy | Outcome::TimedOut, Some(name)) = (outcome, subject.name) {
                    self.contention.refused(name);
                }
            }
            Counts::Grants(locks) => {
                for (name, mode) in locks.iter() {
                    self.grants.of_both(mode.into(), outcome).inc();
                    self.prefixes.ended(name, outcome);
                }
            }
            Counts::Releases(all) => self.released(all, ended),
            Counts::Renewal => {
                let result = match ended {
                    Ok(_) => Renewal::Done,
                    Err(Error::NotOwner(_)) => Renewal::NotOwner,
                    Err(_) => Renewal::Failed,
                };
                self.renewals.of_both(Renewer::Client, result).inc();
            }
        }
    }

    fn released(&self, all: usize, ended: Result<Summary, &Error>) {
        let count = |given, locks: usize| {
            let locks = u64::try_from(locks).unwrap_or(u64::MAX);
            self.releases.of(given).inc_by(locks);
        };
        match ended {
            Ok(Summary::Released { not_held }) => {
                count(Given::Released, all.saturating_sub(not_held));
                count(Given::NotOwner, not_held);
            }
            Ok(_) => count(Given::Released, all),
            Err(Error::NotOwner(_)) => count(Given::NotOwner, all),
            Err(_) => count(Given::Failed, all),
        }
    }
}
