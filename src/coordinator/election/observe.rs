//! Observing an election: every term and value in order.

use std::{collections::VecDeque, sync::Arc};

use lockkeeper_access::{Account, Counted, Quota};
use lockkeeper_store::script::{ElectionInspected, Recorded};
use tokio::time::sleep_until;

use crate::{
    coordinator::Coordinator,
    core::Core,
    election::{outcome::Observed, shown::ElectionShown},
    error::Error,
    follow::{followed::Following, task::follow},
    types::LockName,
};

/// Values that the store keeps of an election, see `lua/lib/election.lua`.
const VALUES_KEPT: usize = 64;

/// An observer of an election.
#[derive(Debug)]
pub struct Observer {
    core: Arc<Core>,
    name: LockName,
    following: Following<ElectionShown>,
    cursor: Cursor,
    has_looked: bool,
    /// The store may show something new.
    is_stale: bool,
    _counted: Counted,
}

/// What an observer has seen.
#[derive(Debug, Default)]
struct Cursor {
    /// The last revision; 0 if there was none yet. None before the first look.
    revision: Option<u64>,
    /// What had that revision, if it was seen here. A store that forgot it may give the revision to
    /// another value.
    newest: Option<Recorded>,
    is_without_leader: bool,
    pending: VecDeque<Observed>,
}

// === impl Coordinator ===

impl Coordinator {
    /// Observes an election, from its present leader on or after a revision.
    pub fn observe(
        &self,
        name: LockName,
        after: Option<u64>,
        account: &Account,
    ) -> Result<Observer, Error> {
        let core = Arc::clone(&self.core);
        core.check_serving()?;
        let counted = account.count(Quota::Waiters, 1)?;
        let following = follow(&core, &name, account)?;
        Ok(Observer {
            core,
            name,
            following,
            cursor: Cursor {
                revision: after,
                ..Cursor::default()
            },
            has_looked: false,
            is_stale: true,
            _counted: counted,
        })
    }
}

// === impl Observer ===

impl Observer {
    /// The next term or change. May be dropped at any instant. Fails if the store cannot be read at
    /// first; later it waits until that is possible again.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        let core = Arc::clone(&self.core);
        let next = async {
            loop {
                if let Some(observed) = self.cursor.pending.pop_front() {
                    return Ok(observed);
                }
                // The task that looks for changes ends after its observers.
                if !self.is_stale && self.following.changes.changed().await.is_err() {
                    return Err(Error::Draining);
                }
                self.is_stale = true;
                self.look().await?;
            }
        };
        tokio::select! {
            biased;
            () = core.draining.cancelled() => Err(Error::Draining),
            next = next => next,
        }
    }

    /// Reads what is new.
    async fn look(&mut self) -> Result<(), Error> {
        loop {
            self.following.changes.mark_unchanged();
            let (name, after) = (self.name.store_key(), self.cursor.revision);
            match self.core.scripts.inspect_election(name, after).await {
                Ok(seen) => {
                    (self.has_looked, self.is_stale) = (true, false);
                    self.cursor.follow(seen);
                    return Ok(());
                }
                Err(error) if self.has_looked && error.is_transient() => {
                    sleep_until(self.core.check_at(None)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

// === impl Cursor ===

impl Cursor {
    /// Queues what is new.
    fn follow(&mut self, seen: ElectionInspected) {
        let ElectionInspected {
            leads, recorded, ..
        } = seen;
        let newest = recorded.last().cloned();
        let is_new = newest.as_ref().is_some_and(|newest| {
            let is_another = self.newest.as_ref().is_some_and(|it| it != newest);
            self.revision != Some(newest.revision) || is_another
        });
        if let (Some(after), Some(first), true) = (self.revision, recorded.first(), is_new) {
            let is_gap = match after {
                0 => recorded.len() >= VALUES_KEPT,
                after => first.revision != after + 1,
            };
            self.pending.extend(is_gap.then_some(Observed::Missed));
        }
        // A first look is for the present leader only.
        let is_told = if self.revision.is_none() {
            leads
        } else {
            is_new || (leads && self.is_without_leader)
        };
        if is_told {
            let leaders = recorded.into_iter().map(Into::into).map(Observed::Leader);
            self.pending.extend(leaders);
            self.is_without_leader = false;
        }
        if !leads && !std::mem::replace(&mut self.is_without_leader, true) {
            self.pending.push_back(Observed::NoLeader);
        }
        let revision = newest.as_ref().map(|it| it.revision);
        self.revision = revision.or(self.revision).or(Some(0));
        self.newest = newest.or(self.newest.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events to send when the store shows these revisions, and whether the newest leads.
    fn told(cursor: &mut Cursor, revisions: &[u64], leads: bool) -> String {
        let recorded = revisions
            .iter()
            .map(|&revision| recorded(revision, revision * 10));
        told_of(cursor, recorded.collect(), leads)
    }

    fn recorded(revision: u64, term: u64) -> Recorded {
        Recorded {
            revision,
            term,
            owner: "x".into(),
            client_name: String::new(),
            value: String::new(),
        }
    }

    fn told_of(cursor: &mut Cursor, recorded: Vec<Recorded>, leads: bool) -> String {
        cursor.follow(ElectionInspected {
            leads,
            remaining: None,
            recorded,
        });
        let told = cursor.pending.drain(..).map(|it| match it {
            Observed::Leader(it) => it.revision.to_string(),
            Observed::NoLeader => "none".to_owned(),
            Observed::Missed => "missed".to_owned(),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_revision_is_told_once_in_order_and_gaps_are_told() {
        let mut cursor = Cursor::default();
        let steps: [(&[u64], bool, &str); 11] = [
            (&[5], true, "5"),
            (&[5], true, ""),
            (&[6, 7], true, "6 7"),
            (&[7], false, "none"),
            (&[7], false, ""),
            (&[8, 9], false, "8 9 none"),
            (&[10], true, "10"),
            (&[12, 13], true, "missed 12 13"),
            (&[], false, "none"),
            (&[1000], true, "missed 1000"),
            (&[900], true, "missed 900"),
        ];
        for (at, (revisions, leads, expected)) in steps.into_iter().enumerate() {
            assert_eq!(told(&mut cursor, revisions, leads), expected, "step {at}");
        }
    }

    #[test]
    fn a_revision_that_the_store_forgot_and_gave_to_another_term_is_told_as_a_gap() {
        let mut cursor = Cursor::default();
        assert_eq!(told(&mut cursor, &[5], true), "5");
        assert_eq!(told(&mut cursor, &[4], false), "missed 4 none");
        assert_eq!(told(&mut cursor, &[5], true), "5");
        let anew = vec![recorded(5, 70)];
        assert_eq!(told_of(&mut cursor, anew.clone(), true), "missed 5");
        assert_eq!(told_of(&mut cursor, anew, false), "none");
    }

    #[test]
    fn the_first_look_is_for_the_present_leader() {
        let fresh = |revisions: &[u64], leads| told(&mut Cursor::default(), revisions, leads);
        assert_eq!(fresh(&[], false), "none");
        assert_eq!(fresh(&[5], false), "none");
        let mut cursor = Cursor::default();
        assert_eq!(told(&mut cursor, &[], false), "none");
        assert_eq!(told(&mut cursor, &[70], true), "70", "the first of all");
        let mut cursor = Cursor::default();
        told(&mut cursor, &[], false);
        let many: Vec<u64> = (70..70 + VALUES_KEPT as u64).collect();
        assert!(told(&mut cursor, &many, true).starts_with("missed 70 71"));
        let mut resumed = Cursor {
            revision: Some(5),
            ..Cursor::default()
        };
        assert_eq!(told(&mut resumed, &[5], true), "", "it knows the leader");
        assert_eq!(told(&mut resumed, &[6], true), "6");
    }
}
