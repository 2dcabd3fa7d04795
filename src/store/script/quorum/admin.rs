//! What is held on any store of a quorum, and taking it away on all.

use std::{collections::BTreeMap, time::Duration};

use super::{inspect::combine, voters::Quorum};
use crate::{
    host::ScanCursor,
    script::{Asked, CallError, Forced, ForcedRecord, Hold, Inspected, NameKind, WalkCursor},
};

// === impl Quorum ===

impl Quorum {
    /// The names of one store after the other; what an earlier one has is left out. A store that
    /// does not answer is passed over: what a majority holds is on others too.
    pub(in crate::script) async fn walk(
        &self,
        from: WalkCursor,
        prefix: &str,
        work: u32,
    ) -> Result<(Vec<(String, NameKind)>, Option<WalkCursor>), CallError> {
        let mut store = from.store;
        let mut at = from.at;
        loop {
            let Some(voter) = self.voters().get(store) else {
                return Ok((Vec::new(), None));
            };
            let following = (store + 1 < self.voters().len()).then_some(WalkCursor {
                store: store + 1,
                at: ScanCursor::default(),
            });
            let found = async {
                let (names, next) = voter.scripts.scan_names(at, prefix, work).await?;
                let kinds = voter.scripts.kinds(&names).await?;
                Ok::<_, CallError>((names, kinds, next))
            };
            let (names, kinds, next) = match found.await {
                Ok(found) => found,
                Err(error) if error.is_transient() && following.is_some() => {
                    (store, at) = (store + 1, ScanCursor::default());
                    continue;
                }
                Err(error) => return Err(error),
            };
            let known = names.into_iter().zip(kinds);
            let mut known: Vec<_> = known
                .filter_map(|(name, kind)| Some((name, kind?)))
                .collect();
            for earlier in &self.voters()[..store] {
                let names: Vec<String> = known.iter().map(|(name, _)| name.clone()).collect();
                if let Ok(listed) = earlier.scripts.kinds(&names).await {
                    let listed = listed.into_iter().map(|kind| kind.is_some());
                    let rest = known.into_iter().zip(listed);
                    known = rest
                        .filter_map(|(it, listed)| (!listed).then_some(it))
                        .collect();
                }
            }
            let next = next.map(|at| WalkCursor { store, at }).or(following);
            return Ok((known, next));
        }
    }

    /// On all stores. It is free once a majority has none of it.
    pub(in crate::script) async fn force_release(
        &self,
        name: &str,
        reason: &str,
        grace: Duration,
        asked: Option<Asked<'_>>,
        max: u32,
    ) -> Result<Option<Forced>, CallError> {
        let answers = self
            .ask(name, |voter| {
                voter.scripts.force_release(name, reason, grace, asked, max)
            })
            .await;
        let undecided = self.undecided(&answers);
        let forced = match self.outcomes(answers, self.majority()) {
            Err(error) if error.is_transient() => return Err(undecided),
            outcome => outcome?,
        };
        let forced: Vec<Forced> = forced.into_iter().flatten().collect();
        let seen: Vec<Inspected> = forced.iter().map(as_seen).collect();
        if seen.is_empty() {
            return Ok(None);
        }
        let Inspected {
            mode,
            holders,
            holder_count,
            token,
            ..
        } = combine(&seen, self.voters().len());
        let grace = forced.iter().map(|forced| forced.grace).max();
        Ok(Some(Forced {
            mode,
            token,
            holders,
            holder_count,
            grace: grace.unwrap_or_default(),
        }))
    }

    /// A majority has to take writes.
    pub(in crate::script) async fn takes_writes(&self, prefix: &str) -> Result<(), CallError> {
        let answers = self
            .ask(prefix, |voter| voter.scripts.takes_writes(prefix))
            .await;
        self.outcomes(answers, self.majority()).map(drop)
    }

    /// What most of the stores that know of one say.
    pub(in crate::script) async fn forced(
        &self,
        name: &str,
    ) -> Result<Option<ForcedRecord>, CallError> {
        let answers = self.ask(name, |voter| voter.scripts.forced(name)).await;
        let answers = self.outcomes(answers, self.majority())?;
        // How many know of it, and the grace period of the one that ends it first.
        let mut records: BTreeMap<(u64, &str, bool), (usize, Duration)> = BTreeMap::new();
        for record in answers.iter().flatten() {
            let known = records.entry((record.token, record.reason.as_str(), record.preempted));
            let (count, grace) = known.or_insert((0, record.grace));
            *count += 1;
            *grace = record.grace.min(*grace);
        }
        let most = records.into_iter().max_by_key(|(_, (count, _))| *count);
        Ok(
            most.map(|((token, reason, preempted), (_, grace))| ForcedRecord {
                token,
                reason: reason.to_owned(),
                grace,
                preempted,
            }),
        )
    }

    /// On all stores. It is free once a majority says so.
    pub(in crate::script) async fn acknowledge_forced(
        &self,
        hold: Hold<'_>,
    ) -> Result<bool, CallError> {
        let answers = self
            .ask(hold.name, |voter| voter.scripts.acknowledge_forced(hold))
            .await;
        let free = self.outcomes(answers, self.majority())?;
        Ok(free.iter().filter(|free| **free).count() >= self.majority())
    }
}

/// What was taken away on one store, as if it were still there.
fn as_seen(forced: &Forced) -> Inspected {
    Inspected {
        mode: forced.mode,
        holders: forced.holders.clone(),
        holder_count: forced.holder_count,
        remaining: None,
        token: forced.token,
        queue: Vec::new(),
        queue_len: 0,
    }
}
