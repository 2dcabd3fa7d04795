//! The coordinators of a quorum of stores. Nothing about locks depends on them, so any store will
//! do.

use std::{collections::BTreeMap, time::Duration};

use super::voters::Quorum;
use crate::script::{CallError, OtherCoordinators};

// === impl Quorum ===

impl Quorum {
    /// In all stores that answer; the others are those that any of them knows.
    pub(in crate::script) async fn announce(
        &self,
        key: &str,
        id: &str,
        ttl: Duration,
        said: Option<&str>,
    ) -> Result<OtherCoordinators, CallError> {
        let answers = self
            .ask(id, |voter| voter.scripts.announce(key, id, ttl, said))
            .await;
        let answers = self.outcomes(answers, 1)?;
        let is_announced = answers.iter().any(|answer| answer.is_announced);
        let others = answers.into_iter().flat_map(|answer| answer.others);
        let others: BTreeMap<_, _> = others.collect();
        Ok(OtherCoordinators {
            is_announced,
            others: others.into_iter().collect(),
        })
    }
}
