//! Several stores that are independent of each other, as one: what a majority of them agrees on
//! holds (the Redlock algorithm).
//!
//! A store of the quorum is a *voter*. Every typed call goes to all voters at once, each within its
//! own short time limit, and their answers are combined. Unlike a host this knows what an acquire
//! is and how it is undone: a vote that decided nothing is taken back, exactly and as often as
//! needed, and so is one of which nobody heard.
//!
//! - [`votes`]: who has won, if anybody; pure.
//! - [`acquire`]: an acquire, and the second phase that makes fencing tokens grow.
//! - [`give_back`], [`renew`], [`inspect`]: the other calls, each with its combination of answers.
//! - [`admin`]: what is held on any of them, and taking it away on all.
//! - [`errand`]: what is brought to its end in the background.
//! - [`voter`]: one store, and what is known of it.

mod acquire;
mod admin;
mod errand;
mod give_back;
mod inspect;
mod renew;
#[cfg(test)]
mod tests;
mod voter;
mod votes;

use std::{
    collections::hash_map::DefaultHasher,
    fmt,
    future::poll_fn,
    hash::{Hash as _, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::Poll,
};

use futures::future::{join_all, maybe_done};
use parking_lot::Mutex;
use rand::RngExt as _;

use super::{CallError, Config, calls::HostScripts, metrics::Metrics};
use crate::host::ScriptHost;
use lockkeeper_base::tasks::Tasks;
use voter::Voter;

/// Names whose calls are put into one order share a lock with others.
const ORDERS: usize = 64;

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
pub(super) struct Quorum(Arc<Inner>);

struct Inner {
    voters: Vec<Voter>,
    config: Config,
    tasks: Tasks,
    orders: Vec<Mutex<()>>,
    /// Names of releases that have none, unique among all coordinators.
    prefix: u64,
    releases: AtomicU64,
}

/// What each voter answered, in order.
type Answers<T> = Vec<Result<T, CallError>>;

// === impl Quorum ===

impl Quorum {
    pub(super) fn new(
        members: Vec<QuorumMember>,
        config: &Config,
        tasks: Tasks,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let voters = members.into_iter().enumerate().map(|(at, member)| {
            let metrics = metrics.of_store(at);
            let scripts = HostScripts::counted(member.host, config.clone(), metrics);
            Voter::new(member.name, scripts)
        });
        Self(Arc::new(Inner {
            voters: voters.collect(),
            config: config.clone(),
            tasks,
            orders: (0..ORDERS).map(|_| Mutex::new(())).collect(),
            prefix: rand::rng().random(),
            releases: AtomicU64::new(0),
        }))
    }

    /// So many have to agree.
    fn majority(&self) -> usize {
        self.0.voters.len() / 2 + 1
    }

    fn voters(&self) -> &[Voter] {
        &self.0.voters
    }

    /// The voter that is the same server as this one and stands before it, so that this one has no
    /// vote.
    fn double_of(&self, which: usize) -> Option<usize> {
        let identity = self.voters()[which].scripts.identity()?;
        let before = &self.voters()[..which];
        before
            .iter()
            .position(|other| other.scripts.identity().as_ref() == Some(&identity))
    }

    /// Why a voter is not to be asked at all.
    fn excluded(&self, which: usize) -> Option<CallError> {
        let other = &self.voters()[self.double_of(which)?].name;
        Some(self.voters()[which].refuse_double(other))
    }

    /// Whether nobody waits for this voter: it has stopped answering, and there is a majority
    /// without it.
    fn is_passed_over(&self, which: usize) -> bool {
        let answering = self.voters().iter().filter(|voter| !voter.is_silent());
        self.voters()[which].is_silent() && answering.count() >= self.majority()
    }

    /// Asks all voters at once and waits for their answers, except for those of silent ones, which
    /// are not asked. Calls about the same name reach all voters in the same order, as far as that
    /// is in the power of this process: otherwise callers that come at once would split the votes.
    async fn ask<'a, T, F>(&'a self, name: &str, call: impl Fn(&'a Voter) -> F) -> Answers<T>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let silent = || CallError::Unavailable("it has stopped answering".to_owned());
        let mut calls: Vec<_> = (0..self.voters().len())
            .map(|which| {
                let refused = self.excluded(which);
                let refused = refused.or_else(|| self.is_passed_over(which).then(silent));
                let call = refused.is_none().then(|| call(&self.voters()[which]));
                Box::pin(maybe_done(async move {
                    match (refused, call) {
                        (None, Some(call)) => self.heard(which, call.await),
                        (Some(error), _) => Err(error),
                        (None, None) => Err(silent()),
                    }
                }))
            })
            .collect();
        // The first poll of a call sends it.
        poll_fn(|context| {
            let _order = self.order_of(name).lock();
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

    fn order_of(&self, name: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let orders = &self.0.orders;
        &orders[usize::try_from(hasher.finish() % ORDERS as u64).unwrap_or_default()]
    }

    /// Takes note of whether a voter answers in time.
    fn heard<T>(&self, which: usize, answer: Result<T, CallError>) -> Result<T, CallError> {
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

    /// A name for a release that has none, so that it can be repeated.
    fn release_id(&self) -> String {
        let number = self.0.releases.fetch_add(1, Ordering::Relaxed);
        format!("release-{:x}-{number:x}", self.0.prefix)
    }

    /// The error of a call that too few have answered.
    fn too_few<T>(&self, answers: &Answers<T>) -> String {
        let errors = answers.iter().map(|answer| answer.as_ref().err());
        self.too_few_of(errors)
    }

    fn too_few_of<'a>(&self, errors: impl Iterator<Item = Option<&'a CallError>>) -> String {
        let errors: Vec<_> = errors.collect();
        let lost = |error: &&CallError| error.is_transient();
        let answered = errors
            .iter()
            .filter(|error| !error.is_some_and(|it| lost(&it)));
        let answered = answered.count();
        let first = errors
            .iter()
            .zip(self.voters())
            .find_map(|(error, voter)| Some((error.filter(lost)?, &voter.name)));
        let first = first.map_or(String::new(), |(error, name)| format!("; {name}: {error}"));
        format!(
            "{answered} of {} stores answered, {} are needed{first}",
            errors.len(),
            self.majority()
        )
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.voters()).finish()
    }
}

/// Whether so many answered, with an outcome or with a refusal that says something of the lock.
fn answered<T>(answers: &Answers<T>) -> usize {
    let has_answer = |answer: &&Result<T, CallError>| match answer {
        Ok(_) => true,
        Err(error) => !error.is_transient(),
    };
    answers.iter().filter(has_answer).count()
}

/// The refusal that the most voters agree on, and how many they are.
fn common_refusal<'a>(errors: impl Iterator<Item = &'a CallError>) -> Option<(CallError, usize)> {
    let refusals: Vec<_> = errors.filter(|error| !error.is_transient()).collect();
    let same = |error: &CallError| {
        let kind = std::mem::discriminant(error);
        let others = refusals.iter();
        others
            .filter(|other| std::mem::discriminant(**other) == kind)
            .count()
    };
    let counted = refusals.iter().map(|error| ((*error).clone(), same(error)));
    counted.max_by_key(|(_, count)| *count)
}

/// The value that at least `count` of them reach; `None` if there are not so many.
fn reached<T: Ord>(values: impl Iterator<Item = T>, count: usize) -> Option<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable_by(|a, b| b.cmp(a));
    let last = count.checked_sub(1)?;
    (values.len() > last).then(|| values.swap_remove(last))
}
