//! How many waiters each caller has for one name, of callers that have quotas.

use std::collections::{HashMap, hash_map::Entry};

use lockkeeper_access::{Account, Identity, QuotaReached};

use crate::types::LockName;

/// The waiters of each caller, by name. There are no entries of zero.
#[derive(Debug, Default)]
pub(crate) struct Callers(HashMap<(LockName, Identity), usize>);

// === impl Callers ===

impl Callers {
    /// Counts one more. Returns whom to give to [`Callers::leave`]; none if the caller has no
    /// quotas.
    pub(crate) fn join(
        &mut self,
        name: &LockName,
        account: &Account,
    ) -> Result<Option<Identity>, QuotaReached> {
        if !account.has_quotas() {
            return Ok(None);
        }
        let caller = account.identity().clone();
        let entry = self.0.entry((name.clone(), caller.clone()));
        let others = match &entry {
            Entry::Occupied(count) => *count.get(),
            Entry::Vacant(_) => 0,
        };
        account.may_wait_beside(others)?;
        *entry.or_default() += 1;
        Ok(Some(caller))
    }

    /// Counts one less.
    pub(crate) fn leave(&mut self, name: &LockName, caller: &Identity) {
        if let Entry::Occupied(mut count) = self.0.entry((name.clone(), caller.clone())) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}
