//! Locks that are followed: waiting until one is free, from any coordinator.

mod free;
mod random;
mod watch;

use lockkeeper_api::pb::await_free_response::Event;
use tonic::Streaming;

use crate::support::prelude::*;

/// A call that waits until a lock is free.
pub(crate) struct FreeCall(Streaming<pb::AwaitFreeResponse>);

pub(crate) async fn await_free(
    client: &mut Client,
    request: pb::AwaitFreeRequest,
) -> Result<FreeCall, Status> {
    let answers = client.api.await_free(request).await?;
    Ok(FreeCall(answers.into_inner()))
}

/// Every coordinator hears the releases of this lock.
async fn until_followed(world: &World, name: &str, coordinators: usize) {
    for channel in [keys::channel(name), keys::rw_channel(name)] {
        world.until_listening(&channel, coordinators).await;
    }
}

// === impl FreeCall ===

impl FreeCall {
    pub(crate) async fn next(&mut self) -> Result<Event, Status> {
        let answer = self.0.message().await?;
        Ok(answer.and_then(|it| it.event).expect("an answer"))
    }

    pub(crate) async fn expect_waiting(&mut self) -> pb::Waiting {
        expect!(self.next().await, Ok(Event::Waiting(waiting)) => waiting)
    }

    /// Passes over news of the wait.
    async fn end(&mut self) -> Result<Event, Status> {
        loop {
            match self.next().await? {
                Event::Waiting(_) => {}
                end => {
                    assert!(self.0.message().await?.is_none(), "after the last");
                    return Ok(end);
                }
            }
        }
    }

    pub(crate) async fn expect_free(&mut self) -> u64 {
        expect!(self.end().await, Ok(Event::Free(free)) => free.last_fencing_token)
    }

    async fn expect_not_free(&mut self) -> pb::NotGranted {
        expect!(self.end().await, Ok(Event::NotFree(ended)) => ended)
    }
}
