//! Converts waits until a lock is free, and what is watched of a lock.

use futures::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use lockkeeper_access::{Account, Right};
use lockkeeper_coordinator::{AwaitFree, Description, Error, GapReason, GrantEnd, LockEvent};
use tonic::Status;

use super::{
    call::Calls,
    convert::{Requests, count, holder, wait},
    pb::{self, watch_lock_response::Event},
    viewer::Viewer,
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

// === impl Calls ===

impl Calls {
    /// The events of a lock, until the caller may not see them any more.
    pub(super) fn watch_lock(
        &self,
        account: &Account,
        request: &pb::WatchLockRequest,
    ) -> Result<BoxStream<'static, Result<pb::WatchLockResponse, Status>>, Error> {
        let name = self
            .requests(account)
            .name(&request.name, Right::Describe)?;
        let watcher = self.coordinator.watch_lock(name.clone(), account)?;
        let viewer = self.viewer(account);
        let events = stream::unfold(watcher, |mut watcher| async {
            Some((watcher.next().await, watcher))
        });
        let events = events.map(move |event| event.map(|it| watched(it, &viewer)));
        Ok(self.while_described(account, name, events))
    }
}

pub(super) fn free(last_fencing_token: u64) -> pb::LockFree {
    pb::LockFree { last_fencing_token }
}

fn watched(event: LockEvent, viewer: &Viewer) -> pb::WatchLockResponse {
    let event = match event {
        LockEvent::State(seen) => Event::State(state(seen, viewer)),
        LockEvent::Granted {
            holder: seen,
            fencing_token,
        } => Event::Granted(pb::LockGranted {
            holder: Some(holder(seen, viewer)),
            fencing_token,
        }),
        LockEvent::Ended {
            holder: seen,
            fencing_token,
            end,
            detail,
        } => Event::Ended(pb::LockEnded {
            holder: Some(holder(seen, viewer)),
            fencing_token,
            end: grant_end(end).into(),
            detail,
        }),
        LockEvent::Freed { fencing_token } => Event::Free(free(fencing_token)),
        LockEvent::Waiters(waiters) => Event::Waiters(pb::LockWaiters {
            waiter_count: count(waiters),
        }),
        LockEvent::Gap(reason) => Event::Gap(pb::LockGap {
            reason: gap_reason(reason).into(),
        }),
    };
    pb::WatchLockResponse { event: Some(event) }
}

fn state(seen: Description, viewer: &Viewer) -> pb::LockState {
    let holders = seen.holders.into_iter();
    pb::LockState {
        holders: holders.map(|seen| holder(seen, viewer)).collect(),
        holder_count: count(seen.holder_count),
        waiter_count: count(seen.waiter_count),
        last_fencing_token: seen.fencing_token,
    }
}

fn grant_end(end: GrantEnd) -> pb::GrantEnd {
    match end {
        GrantEnd::Released => pb::GrantEnd::Released,
        GrantEnd::Expired => pb::GrantEnd::Expired,
        GrantEnd::Forced { preempted: false } => pb::GrantEnd::ForceReleased,
        GrantEnd::Forced { preempted: true } => pb::GrantEnd::Preempted,
        GrantEnd::Unannounced => pb::GrantEnd::Unannounced,
    }
}

fn gap_reason(reason: GapReason) -> pb::LockGapReason {
    match reason {
        GapReason::Folded => pb::LockGapReason::Folded,
        GapReason::Unheard => pb::LockGapReason::Unheard,
        GapReason::StoreUnreachable => pb::LockGapReason::StoreUnreachable,
        GapReason::Behind => pb::LockGapReason::Behind,
    }
}
