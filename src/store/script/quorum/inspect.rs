//! A lock as a majority of the stores that answer shows it.

use std::collections::BTreeMap;

use super::{answers::reached, voters::Quorum};
use crate::script::{CallError, Holder, Inspected, Mode};

// === impl Quorum ===

impl Quorum {
    pub(in crate::script) async fn inspect(
        &self,
        name: &str,
        max: u32,
    ) -> Result<Inspected, CallError> {
        let answers = self
            .ask(name, |voter| voter.scripts.inspect(name, max))
            .await;
        let seen = self.outcomes(answers, self.majority())?;
        Ok(combine(&seen, self.voters().len()))
    }
}

/// What more than half of those that answered show, of all stores.
pub(super) fn combine(seen: &[Inspected], stores: usize) -> Inspected {
    let most = seen.len() / 2 + 1;
    let mut holders: BTreeMap<(&[u8], Mode), Vec<&Holder>> = BTreeMap::new();
    for holder in seen.iter().flat_map(|inspected| &inspected.holders) {
        let key = (holder.owner.as_ref(), holder.mode);
        holders.entry(key).or_default().push(holder);
    }
    let agreed = holders.into_values().filter(|same| same.len() >= most);
    let holders = agreed.filter_map(|same| {
        Some(Holder {
            owner: same.first()?.owner.clone(),
            mode: same.first()?.mode,
            hold_count: reached(same.iter().map(|it| it.hold_count), most)?,
            // Without a time to live is longer than any.
            remaining: reached(same.iter().map(|it| forever_last(it.remaining)), most)?.1,
            note: None,
        })
    });
    let held = seen.iter().filter(|inspected| inspected.mode.is_some());
    let held: Vec<_> = held.collect();
    let (mode, remaining) = if held.len() >= most {
        let same = |mode| held.iter().filter(|it| it.mode == mode).count();
        let mode = held.iter().map(|it| it.mode).max_by_key(|mode| same(*mode));
        let left = held.iter().map(|it| forever_last(it.remaining));
        (
            mode.flatten(),
            reached(left, most).and_then(|(_, left)| left),
        )
    } else {
        (None, None)
    };
    // The newest grant's token is shown by a majority of all stores; a larger one may be of an
    // attempt that was not granted.
    let share = (stores / 2 + 1).saturating_sub(stores - seen.len()).max(1);
    Inspected {
        mode,
        holders: holders.collect(),
        holder_count: reached(seen.iter().map(|it| it.holder_count), most).unwrap_or_default(),
        remaining,
        token: reached(seen.iter().map(|it| it.token), share).unwrap_or_default(),
        queue: Vec::new(),
        queue_len: 0,
    }
}

/// In the order of how long it lasts.
fn forever_last<T: Copy + Ord>(remaining: Option<T>) -> (bool, Option<T>) {
    (remaining.is_none(), remaining)
}
