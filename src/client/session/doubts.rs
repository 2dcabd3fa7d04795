//! What may have been done when the stream broke, and nobody has heard of.

use lockkeeper_api::pb::Grant;
use tokio::time::Instant;

use super::{
    book::release_of,
    driver::Driver,
    operation::{Operation, Purpose, with_request_id},
};
use crate::Thing;

impl Driver {
    /// Locks that may be held.
    pub(super) fn doubtful(&self) -> Vec<Grant> {
        let operations = self.operations.values();
        operations.flat_map(Operation::doubtful_grants).collect()
    }

    /// What may have been taken when the stream broke is asked for again with the same request id,
    /// which gets the same grant. Two things cannot be had so: permits, which could not be named in
    /// the resume, and several locks of which only some are held.
    pub(super) fn settle_doubts(&mut self, now: Instant, still_held: &[Thing]) {
        let mut halves = Vec::new();
        for operation in self.operations.values_mut() {
            let named = operation.doubtful_grants();
            let is_held = |grant: &Grant| {
                still_held
                    .iter()
                    .any(|it| it.is(&Thing::Lock(grant.clone())))
            };
            let held: Vec<_> = named.iter().filter(|it| is_held(it)).cloned().collect();
            if named.len() > 1 && !held.is_empty() && held.len() < named.len() {
                halves.extend(held);
                operation.renew_request_id();
            }
            if operation.takes() && named.is_empty() {
                operation.renew_request_id();
            }
        }
        for grant in halves {
            let request = with_request_id(release_of(&[Thing::Lock(grant)]));
            let op_id = self.next_id();
            self.add(now, op_id, Operation::new(request, Purpose::Cleanup));
        }
    }
}
