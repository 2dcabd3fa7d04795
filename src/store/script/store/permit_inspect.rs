//! Who holds the permits of a semaphore, page by page.

use std::collections::HashMap;

use bytes::Bytes;

use super::{
    permit_outcomes::{PermitHolder, SemaphoreInspected},
    permits::semaphore_keys,
    scripts::Scripts,
};
use crate::{
    host::{Call, Value, words},
    script::{
        CallError, Unsupported,
        calls::encoding::{DONE, count, malformed, numbers, refusal, time_to_live, unsigned},
        catalog,
    },
};

/// Permits that one script looks at.
const PERMITS_PER_PAGE: u32 = 500;

/// What one script shows.
struct Page {
    total: u32,
    available: i64,
    /// How many permits it is about.
    permits: u64,
    holders: Vec<PermitHolder>,
}

// === impl Scripts ===

impl Scripts {
    /// How many permits a semaphore has, and the owners of those taken permits whose leases end
    /// first: of at least `max` permits, and of no more than may be taken. Changes nothing.
    pub async fn inspect_semaphore(
        &self,
        name: &str,
        max: u32,
    ) -> Result<SemaphoreInspected, CallError> {
        let max = max.min(self.config.permits_per_name_max);
        let page_size = max.min(PERMITS_PER_PAGE);
        let mut seen = self.page_of_permits(name, 0, page_size).await?;
        let (mut looked_at, mut last) = (seen.permits, seen.permits);
        while last == u64::from(page_size) && looked_at < u64::from(max) {
            let next = self.page_of_permits(name, looked_at, page_size).await?;
            last = next.permits;
            looked_at += last;
            seen = seen.and(next);
        }
        Ok(SemaphoreInspected {
            total: seen.total,
            available: seen.available,
            holders: seen.holders,
        })
    }

    async fn page_of_permits(&self, name: &str, from: u64, size: u32) -> Result<Page, CallError> {
        let store = self.single(Unsupported::Semaphores)?;
        let script = &catalog::PERMIT_INSPECT;
        let keys = semaphore_keys(name);
        let args = words![self.adopts(), from, size];
        let reply = store.ask(Call { script, keys, args }).await?;
        let Value::Array(values) = &reply else {
            return Err(malformed(script, &reply));
        };
        let [
            Value::Int(DONE),
            Value::Int(total),
            Value::Int(available),
            Value::Int(permits),
            owners @ ..,
        ] = values.as_slice()
        else {
            return Err(refusal(script, &numbers(script, &reply)?));
        };
        let holders = owners.chunks(3).map(|holder| match holder {
            [
                Value::Bytes(owner),
                Value::Int(permits),
                Value::Int(remaining),
            ] => Ok(PermitHolder {
                owner: owner.clone(),
                permits: count(*permits),
                remaining: time_to_live(*remaining),
            }),
            _ => Err(malformed(script, &holder)),
        });
        Ok(Page {
            total: count(*total),
            available: *available,
            permits: unsigned(*permits),
            holders: holders.collect::<Result<_, _>>()?,
        })
    }
}

// === impl Page ===

impl Page {
    /// The two as one: what was seen last of the semaphore, and each owner once.
    fn and(mut self, next: Self) -> Self {
        let known = self.holders.iter().enumerate();
        let known = known.map(|(at, holder)| (holder.owner.clone(), at));
        let known: HashMap<Bytes, usize> = known.collect();
        for holder in next.holders {
            match known.get(&holder.owner) {
                Some(at) => {
                    // Pages are in the order in which leases end.
                    self.holders[*at].permits += holder.permits;
                    self.holders[*at].remaining = holder.remaining;
                }
                None => self.holders.push(holder),
            }
        }
        Self {
            total: next.total,
            available: next.available,
            permits: next.permits,
            holders: self.holders,
        }
    }
}
