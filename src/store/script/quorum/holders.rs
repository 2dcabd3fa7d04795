//! Messages to the coordinators of holders, through every store that answers.

use std::time::Duration;

use super::voters::Quorum;
use crate::script::{CallError, Moved, ToHolders};

// === impl Quorum ===

impl Quorum {
    /// A holder was reached if any store says so.
    pub(in crate::script) async fn tell_holders(
        &self,
        channel: &str,
        message: &ToHolders,
    ) -> Result<Vec<bool>, CallError> {
        let answers = self
            .ask(&message.name, |voter| {
                voter.scripts.tell_holders(channel, message)
            })
            .await;
        let answers = self.outcomes(answers, self.majority())?;
        let said = |at: usize| move |reached: &Vec<bool>| reached.get(at) == Some(&true);
        let holders = 0..message.holders.len();
        Ok(holders.map(|at| answers.iter().any(said(at))).collect())
    }

    /// Through any store: coordinators listen to all of them.
    pub(in crate::script) async fn tell_moved(
        &self,
        channel: &str,
        prefix: &str,
        moved: &Moved,
    ) -> Result<(), CallError> {
        let answers = self
            .ask(&moved.session, |voter| {
                voter.scripts.tell_moved(channel, prefix, moved)
            })
            .await;
        self.outcomes(answers, 1).map(drop)
    }

    /// A majority has to know it.
    pub(in crate::script) async fn holders_reached(
        &self,
        name: &str,
        id: &str,
        holders: &[&str],
        retention: Duration,
    ) -> Result<(), CallError> {
        let answers = self
            .ask(name, |voter| {
                voter.scripts.holders_reached(name, id, holders, retention)
            })
            .await;
        self.outcomes(answers, self.majority()).map(drop)
    }
}
