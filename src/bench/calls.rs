//! Callers that acquire and release a lock with unary RPCs.

use std::sync::Arc;

use lockkeeper_api::pb::{
    AcquireRequest, AcquireResponse, Grant, ReleaseRequest, TryAcquireRequest,
    acquire_response::Event,
};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_cli::client::Client;
use tokio::task::{JoinHandle, yield_now};
use tonic::{Status, Streaming};

use super::{
    plan::{Caller, Target},
    stage::Stage,
};

/// A caller's way to the coordinator.
struct Calls {
    stage: Arc<Stage>,
    client: Client,
    connection: usize,
    /// The caller's number on its connection.
    number: usize,
}

/// A grant, if there was one, with the rest of its stream: dropping a stream before its end would
/// reset it.
type Answer = Option<(Grant, Option<Streaming<AcquireResponse>>)>;

/// Starts all callers; each makes one call after the other.
pub(super) fn start(stage: &Arc<Stage>, clients: &[Client]) -> Vec<JoinHandle<()>> {
    let callers = (0..stage.plan.in_flight).map(|number| {
        let connection = number % clients.len();
        let calls = Calls {
            stage: Arc::clone(stage),
            client: clients[connection].clone(),
            connection,
            number: number / clients.len(),
        };
        spawn_detached("caller", calls.repeat(Caller::new(number)))
    });
    callers.collect()
}

// === impl Calls ===

impl Calls {
    /// Ends with the run, or with the first fault.
    async fn repeat(mut self, mut caller: Caller) {
        let stage = Arc::clone(&self.stage);
        while let Some(due) = stage.pace.next(&stage.timeline).await {
            let target = caller.next(&stage.plan);
            if let Err(status) = self.take_and_release(target, due).await {
                stage.failed(&mut stage.tally(self.connection), target, &status);
            }
            if stage.tally(self.connection).faults > 0 {
                return;
            }
        }
    }

    async fn take_and_release(&mut self, target: Target, due: u64) -> Result<(), Status> {
        let answer = if self.stage.plan.waits() {
            let stop = self.stage.stop.clone();
            // Only a wait may be cancelled: a short call may have acquired the lock.
            match stop.run_until_cancelled(self.acquire(target)).await {
                Some(answer) => answer?,
                None => return Ok(()),
            }
        } else {
            self.try_acquire(target).await?
        };
        let at = self.stage.timeline.now();
        let Some((grant, rest)) = answer else {
            let mut tally = self.stage.tally(self.connection);
            self.stage.not_acquired(&mut tally, target);
            return Ok(());
        };
        let mut taken = {
            let mut tally = self.stage.tally(self.connection);
            self.stage
                .granted(&mut tally, self.number, target, &grant, (due, at))
        };
        if self.stage.plan.waits() {
            // Another holder, if there is one, runs now.
            yield_now().await;
        }
        self.stage.leave(&mut taken);
        let request = ReleaseRequest {
            name: grant.name,
            owner: grant.owner,
            mode: target.mode.into(),
            ..ReleaseRequest::default()
        };
        let answer = self.client.release(request).await?.into_inner();
        let at = self.stage.timeline.now();
        let mut tally = self.stage.tally(self.connection);
        self.stage.released(&mut tally, &taken, answer.released, at);
        drop(rest);
        Ok(())
    }

    async fn try_acquire(&mut self, target: Target) -> Result<Answer, Status> {
        let request = TryAcquireRequest {
            name: self.stage.locks[target.lock].name.clone(),
            mode: target.mode.into(),
            lease: self.stage.plan.lease,
            ..TryAcquireRequest::default()
        };
        let answer = self.client.try_acquire(request).await?.into_inner();
        let granted = answer.grant.filter(|_| answer.acquired);
        Ok(granted.map(|grant| (grant, None)))
    }

    async fn acquire(&mut self, target: Target) -> Result<Answer, Status> {
        let request = AcquireRequest {
            name: self.stage.locks[target.lock].name.clone(),
            mode: target.mode.into(),
            lease: self.stage.plan.lease,
            ..AcquireRequest::default()
        };
        let mut events = self.client.acquire(request).await?.into_inner();
        loop {
            match events.message().await?.and_then(|answer| answer.event) {
                Some(Event::Waiting(_)) => {}
                Some(Event::Granted(grant)) => return Ok(Some((grant, Some(events)))),
                Some(Event::NotGranted(_)) | None => return Ok(None),
            }
        }
    }
}
