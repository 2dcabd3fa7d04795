//! All voters: whom a call asks, and who is left out.

use std::{
    fmt,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures::future::{join_all, maybe_done};
use lockkeeper_base::tasks::Tasks;
use rand::RngExt as _;

use super::{
    answers::{Answers, answered, common_refusal},
    orders::Orders,
    voter::Voter,
};
use crate::{
    host::ScriptHost,
    script::{CallError, Config, calls::HostScripts, metrics::Metrics},
};

/// How often a store that has stopped answering is asked whether it does again.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// One store of a quorum.
#[derive(Debug)]
pub struct QuorumMember {
    /// What it is called in errors and logs; without any password.
    pub name: String,
    /// Where its scripts run. Its calls are bounded by the time limit of members.
    pub host: Arc<dyn ScriptHost>,
}

/// The scripts on a quorum. Cheap to clone.
#[derive(Clone)]
pub(in crate::script) struct Quorum(pub(super) Arc<Inner>);

pub(super) struct Inner {
    voters: Vec<Voter>,
    pub(super) config: Config,
    pub(super) tasks: Tasks,
    pub(super) orders: Arc<Orders>,
    /// Names of releases that have none, unique among all coordinators.
    prefix: u64,
    releases: AtomicU64,
}

// === impl Quorum ===

impl Quorum {
    pub(in crate::script) fn new(
        members: Vec<QuorumMember>,
        config: &Config,
        tasks: Tasks,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let voters = members.into_iter().enumerate().map(|(at, member)| {
            let metrics = metrics.of_store(at);
            let scripts = HostScripts::new(member.host, config.clone(), metrics);
            Voter::new(member.name, scripts)
        });
        Self(Arc::new(Inner {
            voters: voters.collect(),
            config: config.clone(),
            tasks,
            orders: Arc::new(Orders::new()),
            prefix: rand::rng().random(),
            releases: AtomicU64::new(0),
        }))
    }

    /// How many have to agree.
    pub(super) fn majority(&self) -> usize {
        self.0.voters.len() / 2 + 1
    }

    pub(super) fn voters(&self) -> &[Voter] {
        &self.0.voters
    }

    /// The voter that is the same server as this one and precedes it, so that this one has no vote.
    fn double_of(&self, which: usize) -> Option<usize> {
        let identity = self.voters()[which].scripts.identity()?;
        let before = &self.voters()[..which];
        before
            .iter()
            .position(|other| other.scripts.identity().as_ref() == Some(&identity))
    }

    /// Why a voter is not to be asked at all.
    pub(super) fn excluded(&self, which: usize) -> Option<CallError> {
        let other = &self.voters()[self.double_of(which)?].name;
        Some(self.voters()[which].refuse_double(other))
    }

    /// Whether no call waits for this voter: it has stopped answering, and there is a majority
    /// without it.
    pub(super) fn is_passed_over(&self, which: usize) -> bool {
        let answering = self.voters().iter().filter(|voter| !voter.is_silent());
        self.voters()[which].is_silent() && answering.count() >= self.majority()
    }

    /// Asks all voters at once and waits for their answers, except for those of silent ones, which
    /// are not asked. Calls about the same name reach all voters in the same order, as far as that
    /// is in the power of this process: otherwise callers that come at once would split the votes.
    pub(super) async fn ask<'a, T, F>(
        &'a self,
        name: &str,
        call: impl Fn(&'a Voter) -> F,
    ) -> Answers<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let silent = || CallError::Unavailable("it has stopped answering".to_owned());
        let asking = self.voters().iter().enumerate().map(|(which, voter)| {
            let refused = self.excluded(which);
            let refused = refused.or_else(|| self.is_passed_over(which).then(silent));
            let asked = refused.map_or_else(|| Ok(call(voter)), Err);
            Box::pin(maybe_done(async move { self.heard(which, asked?.await) }))
        });
        let mut calls: Vec<_> = asking.collect();
        // The first poll of a call sends it.
        poll_fn(|context| {
            let _order = self.0.orders.lock(name);
            for call in &mut calls {
                let _ = call.as_mut().poll(context);
            }
            Poll::Ready(())
        })
        .await;
        join_all(calls.iter_mut()).await;
        calls
            .iter_mut()
            .map(|call| {
                let answer = call.as_mut().take_output();
                answer.unwrap_or_else(|| Err(CallError::Refused("no answer".to_owned())))
            })
            .collect()
    }

    /// Takes note of whether a voter answers in time.
    pub(super) fn heard<T>(
        &self,
        which: usize,
        answer: Result<T, CallError>,
    ) -> Result<T, CallError> {
        let voter = &self.voters()[which];
        match &answer {
            Err(CallError::OutcomeUnknown(_)) => {
                if voter.falls_silent() {
                    self.watch_silent(which);
                }
            }
            Err(CallError::Unavailable(_)) => {}
            Ok(_) | Err(_) => voter.speaks(),
        }
        answer
    }

    /// Asks a silent store until it answers.
    fn watch_silent(&self, which: usize) {
        let (this, stop) = (self.clone(), self.0.tasks.stop().clone());
        let answering = async move {
            let voter = &this.voters()[which];
            while voter.is_silent() {
                tokio::time::sleep(PROBE_INTERVAL).await;
                match voter.scripts.probe().await {
                    Err(error) if error.is_transient() => {}
                    Ok(()) | Err(_) => voter.speaks(),
                }
            }
        };
        self.0.tasks.spawn("silent-store", async move {
            stop.run_until_cancelled(answering).await;
        });
    }

    /// A name for a release that has none, so that it can be repeated.
    pub(super) fn release_id(&self) -> String {
        let number = self.0.releases.fetch_add(1, Ordering::Relaxed);
        format!("release-{:x}-{number:x}", self.0.prefix)
    }

    /// The outcomes of the voters that have one, if these are as many as needed.
    pub(super) fn outcomes<T>(
        &self,
        answers: Answers<T>,
        needed: usize,
    ) -> Result<Vec<T>, CallError> {
        if answers.iter().flatten().count() >= needed {
            return Ok(answers.into_iter().flatten().collect());
        }
        let refusal = common_refusal(answers.iter().filter_map(|answer| answer.as_ref().err()));
        let refusal = refusal.filter(|_| answered(&answers) >= needed);
        let unavailable = || CallError::Unavailable(self.too_few(&answers));
        Err(refusal.map_or_else(unavailable, |(refusal, _)| refusal))
    }

    /// The error of a call that too few have answered.
    pub(super) fn too_few<'a, T>(&self, answers: &'a Answers<T>) -> String {
        let lost = |answer: &'a Result<T, CallError>| {
            answer.as_ref().err().filter(|error| error.is_transient())
        };
        let mut voters = answers.iter().zip(self.voters());
        let first = voters.find_map(|(answer, voter)| Some((lost(answer)?, &voter.name)));
        let first = first.map_or(String::new(), |(error, name)| format!("; {name}: {error}"));
        format!(
            "{} of {} stores answered, {} are needed{first}",
            answered(answers),
            answers.len(),
            self.majority()
        )
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.voters()).finish()
    }
}
