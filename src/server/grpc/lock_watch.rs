//! Converts waits until a lock is free.

use lockkeeper_access::Right;
use lockkeeper_coordinator::{AwaitFree, Error, LockFree};

use super::{
    convert::{Requests, wait},
    pb,
};

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn await_free(&self, request: &pb::AwaitFreeRequest) -> Result<AwaitFree, Error> {
        Ok(AwaitFree {
            name: self.name(&request.name, Right::Describe)?,
            session: self.session(&request.session_id)?,
            wait: wait(request.wait_timeout)?,
        })
    }
}

pub(super) fn free(free: LockFree) -> pb::LockFree {
    pb::LockFree {
        last_fencing_token: free.fencing_token,
    }
}
