//! What is followed of elections. Observers read by themselves what is new.

use std::{sync::Arc, time::Duration};

use lockkeeper_store::script::{CallError, keys};

use crate::{
    core::Core,
    election::shown::ElectionShown,
    follow::{
        followed::{Follows, Heard},
        task::Shown,
    },
    types::LockName,
};

// === impl ElectionShown ===

impl Shown for ElectionShown {
    const TASK: &'static str = "follow-election";
    const PAUSE: Duration = Duration::ZERO;

    fn all(core: &Core) -> &Arc<Follows<Self>> {
        &core.elections
    }

    fn per_name_max(_: &Core) -> Option<usize> {
        None
    }

    fn channels(name: &LockName) -> Vec<String> {
        vec![keys::election(name.store_key())]
    }

    async fn look(
        core: &Core,
        name: &LockName,
        _: Heard,
    ) -> Result<(Self, Option<Duration>), CallError> {
        let seen = core
            .scripts
            .inspect_election(name.store_key(), None)
            .await?;
        let newest = seen.recorded.last().map_or(0, |it| it.revision);
        let lease = seen.remaining.filter(|_| seen.leads);
        Ok((Some((newest, seen.leads)), lease))
    }
}

// === impl Core ===

impl Core {
    /// Looks at an election that may have changed here.
    pub(crate) fn hint_election(&self, name: &LockName) {
        if self.elections.is_in_use() {
            self.elections
                .hint(&keys::election(name.store_key()), false);
        }
    }
}
