//! Latches.

use std::time::Duration;

use lockkeeper_api::pb::{
    AwaitLatchRequest, CountDownRequest, DeleteLatchRequest, DescribeLatchRequest,
    DescribeLatchResponse, SetCountRequest, SetCountResponse, session_request::Request,
    session_response::Response,
};
use tokio::time::Instant;

use super::command::{Answer, Commands, call, unexpected};
use crate::{Error, duration::to_proto};

/// A latch by its name, see [`Session::latch`](crate::Session::latch). It opens when its count is
/// 0; a latch that does not exist is open.
///
/// Its methods fail with [`Error::Refused`] and [`Error::SessionEnded`].
#[derive(Clone, Debug)]
pub struct Latch {
    commands: Commands,
    name: String,
}

// === impl Latch ===

impl Latch {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self { commands, name }
    }

    /// Sets the count, unless the latch has one. It is deleted, and so opens, after `ttl`; without
    /// one it exists until it is open or deleted.
    ///
    /// Also fails with [`Error::Misconfigured`] if `ttl` is longer than the protocol can express.
    pub async fn set_count(
        &self,
        count: u32,
        ttl: Option<Duration>,
    ) -> Result<SetCountResponse, Error> {
        let request = SetCountRequest {
            name: self.name.clone(),
            count,
            ttl: to_proto(ttl, "time")?,
            ..SetCountRequest::default()
        };
        call!(self.commands, Request::SetCount(request) => CountSet)
    }

    /// Lowers the count by `by` and returns what is left.
    pub async fn count_down(&self, by: u32) -> Result<u32, Error> {
        let request = CountDownRequest {
            name: self.name.clone(),
            by,
            ..CountDownRequest::default()
        };
        call!(self.commands, Request::CountDown(request) => CountedDown).map(|it| it.count)
    }

    /// Waits until the latch is open. Fails with [`Error::NotGranted`] if that takes longer than
    /// `limit`, or with [`Error::Unreachable`] if there is no stream then; without one it waits
    /// forever.
    pub async fn wait(&self, limit: Option<Duration>) -> Result<(), Error> {
        let request = Request::AwaitLatch(AwaitLatchRequest {
            name: self.name.clone(),
            ..AwaitLatchRequest::default()
        });
        let until = limit.and_then(|it| Instant::now().checked_add(it));
        match self.commands.run(request, until, None).await? {
            Answer::Other(Response::LatchOpened(_)) => Ok(()),
            _ => Err(unexpected()),
        }
    }

    /// The count, and how many wait for the latch to open.
    pub async fn describe(&self) -> Result<DescribeLatchResponse, Error> {
        let name = self.name.clone();
        let request = DescribeLatchRequest { name };
        call!(self.commands, Request::DescribeLatch(request) => LatchDescribed)
    }

    /// Deletes the latch, which opens it for its waiters. Returns whether it existed.
    pub async fn delete(&self) -> Result<bool, Error> {
        let name = self.name.clone();
        let request = DeleteLatchRequest { name };
        call!(self.commands, Request::DeleteLatch(request) => LatchDeleted).map(|it| it.deleted)
    }
}
