//! Answers that are streams, and go on at another coordinator.

use std::{mem, time::Duration};

use rand::RngExt as _;
use tonic::{Response, Status, Streaming};

use crate::{
    Error, Transport,
    endpoints::{Endpoints, Rounds},
};

/// The longest time between two attempts to go on.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// One stream after the other.
#[derive(Debug)]
pub(crate) struct Followed<T> {
    rounds: Rounds,
    stream: Option<Streaming<T>>,
    goes_on: bool,
}

/// Waits before the next attempt. Clients that lost the same coordinator come back one by one.
pub(crate) async fn pause() {
    let share = rand::rng().random_range(0.5..1.0);
    tokio::time::sleep(RETRY_INTERVAL.mul_f64(share)).await;
}

// === impl Followed ===

impl<T> Followed<T> {
    pub(crate) fn new(endpoints: Endpoints) -> Self {
        Self {
            rounds: Rounds::new(endpoints),
            stream: None,
            goes_on: false,
        }
    }

    /// The next message, and whether it is the first one after a break. `open` makes the call.
    /// Dropping the future loses nothing.
    ///
    /// Fails if the same request would be refused again, or if no endpoint answers at first.
    pub(crate) async fn next<O>(
        &mut self,
        open: impl Fn(Transport) -> O,
    ) -> Result<(T, bool), Error>
    where
        O: Future<Output = Result<Response<Streaming<T>>, Status>>,
    {
        loop {
            let failure = match self.attempt(&open).await {
                Ok(Some(message)) => {
                    self.rounds.on_answer();
                    return Ok((message, mem::take(&mut self.goes_on)));
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            self.stream = None;
            self.goes_on = self.rounds.has_begun;
            if self.rounds.on_failed(failure)? {
                pause().await;
            }
        }
    }

    /// `None` at the end of a stream.
    async fn attempt<O>(&mut self, open: &impl Fn(Transport) -> O) -> Result<Option<T>, Error>
    where
        O: Future<Output = Result<Response<Streaming<T>>, Status>>,
    {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => open(self.rounds.connect().await?).await?.into_inner(),
        };
        Ok(self.stream.insert(stream).message().await?)
    }
}
