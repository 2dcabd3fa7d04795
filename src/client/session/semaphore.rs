//! Semaphores and latches.

use std::time::Duration;

use lockkeeper_api::pb::{
    AwaitLatchRequest, CountDownRequest, DeleteLatchRequest, DescribeLatchRequest,
    DescribeLatchResponse, DescribeSemaphoreRequest, DescribeSemaphoreResponse, SetCountRequest,
    SetCountResponse, SetPermitsRequest, SetPermitsResponse, session_request::Request,
    session_response::Response,
};
use tokio::time::Instant;

use super::{
    command::{Answer, Commands, unexpected},
    requests::PermitsRequest,
};
use crate::{Error, NotGrantedReason};

/// A semaphore by its name.
#[derive(Clone, Debug)]
pub struct Semaphore {
    commands: Commands,
    name: String,
}

/// A latch by its name.
#[derive(Clone, Debug)]
pub struct Latch {
    commands: Commands,
    name: String,
}

// === impl Semaphore ===

impl Semaphore {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self { commands, name }
    }

    /// So many permits, to be acquired at once.
    pub fn permits(&self, permits: u32) -> PermitsRequest {
        PermitsRequest::new(self.commands.clone(), self.name.clone(), permits)
    }

    /// Says how many permits there are in all; 0 removes the semaphore.
    pub async fn set_permits(&self, permits: u32) -> Result<SetPermitsResponse, Error> {
        self.set(permits, false).await
    }

    /// The same, unless the semaphore exists.
    pub async fn set_permits_if_absent(&self, permits: u32) -> Result<SetPermitsResponse, Error> {
        self.set(permits, true).await
    }

    async fn set(&self, permits: u32, only_if_absent: bool) -> Result<SetPermitsResponse, Error> {
        let request = Request::SetPermits(SetPermitsRequest {
            name: self.name.clone(),
            permits,
            only_if_absent,
        });
        match self.commands.ask_plainly(request).await? {
            Response::PermitsSet(set) => Ok(set),
            _ => Err(unexpected()),
        }
    }

    /// Who holds permits, and who waits for some.
    pub async fn describe(&self) -> Result<DescribeSemaphoreResponse, Error> {
        let name = self.name.clone();
        let request = Request::DescribeSemaphore(DescribeSemaphoreRequest { name });
        match self.commands.ask_plainly(request).await? {
            Response::SemaphoreDescribed(description) => Ok(description),
            _ => Err(unexpected()),
        }
    }
}

// === impl Latch ===

impl Latch {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self { commands, name }
    }

    /// Gives it its count if it has none. `ttl`: after so long it is forgotten, and open.
    pub async fn set_count(
        &self,
        count: u32,
        ttl: Option<Duration>,
    ) -> Result<SetCountResponse, Error> {
        let ttl = ttl.map(prost_types::Duration::try_from).transpose();
        let request = Request::SetCount(SetCountRequest {
            name: self.name.clone(),
            count,
            ttl: ttl.map_err(|_| Error::Misconfigured("the time is too long".to_owned()))?,
            ..SetCountRequest::default()
        });
        match self.commands.ask_plainly(request).await? {
            Response::CountSet(set) => Ok(set),
            _ => Err(unexpected()),
        }
    }

    /// Lowers the count, and returns what is left.
    pub async fn count_down(&self, by: u32) -> Result<u32, Error> {
        let request = Request::CountDown(CountDownRequest {
            name: self.name.clone(),
            by,
            ..CountDownRequest::default()
        });
        match self.commands.ask_plainly(request).await? {
            Response::CountedDown(counted) => Ok(counted.count),
            _ => Err(unexpected()),
        }
    }

    /// Waits until it is open. Fails with [`Error::NotGranted`] if that takes longer than `limit`.
    pub async fn wait(&self, limit: Option<Duration>) -> Result<(), Error> {
        let request = Request::AwaitLatch(AwaitLatchRequest {
            name: self.name.clone(),
            ..AwaitLatchRequest::default()
        });
        let until = limit.and_then(|it| Instant::now().checked_add(it));
        match self.commands.ask(request, until).await? {
            Answer::Other(Response::LatchOpened(_)) => Ok(()),
            Answer::Other(Response::LatchNotOpened(_)) => Err(Error::NotGranted {
                name: self.name.clone(),
                reason: NotGrantedReason::WaitTimeout,
                holder_remaining_lease: None,
                available: None,
            }),
            _ => Err(unexpected()),
        }
    }

    /// What is left to be counted down, and how many wait.
    pub async fn describe(&self) -> Result<DescribeLatchResponse, Error> {
        let name = self.name.clone();
        let request = Request::DescribeLatch(DescribeLatchRequest { name });
        match self.commands.ask_plainly(request).await? {
            Response::LatchDescribed(description) => Ok(description),
            _ => Err(unexpected()),
        }
    }

    /// Deletes it, which opens it for those who wait. Returns whether there was one.
    pub async fn delete(&self) -> Result<bool, Error> {
        let name = self.name.clone();
        let request = Request::DeleteLatch(DeleteLatchRequest { name });
        match self.commands.ask_plainly(request).await? {
            Response::LatchDeleted(deleted) => Ok(deleted.deleted),
            _ => Err(unexpected()),
        }
    }
}
