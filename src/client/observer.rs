//! Observing elections.

use std::time::Duration;

use lockkeeper_api::pb::{
    ObserveRequest, ObserveResponse, TermsMissed, election_service_client::ElectionServiceClient,
};
use rand::RngExt as _;
use tonic::Streaming;

use crate::{Error, endpoints::Endpoints};

pub use lockkeeper_api::pb::observe_response::Event as Observed;

/// The longest time between two attempts to go on.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// An observer of an election, see [`Client::observe`](crate::Client::observe).
#[derive(Debug)]
pub struct Observer {
    endpoints: Endpoints,
    request: ObserveRequest,
    stream: Option<Streaming<ObserveResponse>>,
    has_begun: bool,
    /// A stream broke before any revision was seen, so the next one may not be the first.
    may_have_missed: bool,
    /// Comes after the gap before it.
    pending: Option<Observed>,
}

/// Waits before the next attempt. Clients that lost the same coordinator come back one by one.
pub(crate) async fn pause() {
    let share = rand::rng().random_range(0.5..1.0);
    tokio::time::sleep(RETRY_INTERVAL.mul_f64(share)).await;
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(endpoints: Endpoints, name: String, after_revision: u64) -> Self {
        Self {
            endpoints,
            request: ObserveRequest {
                name,
                after_revision,
            },
            stream: None,
            has_begun: false,
            may_have_missed: false,
            pending: None,
        }
    }

    /// The next term or value, in order; that there is no leader; or that some were missed. If the
    /// coordinator or the connection fails, it goes on at the next endpoint after what it has seen,
    /// for as long as that takes. Dropping the future loses nothing.
    ///
    /// If it has not seen any term by then, it cannot know whether the next one is the first; so it
    /// reports [`Observed::Missed`] before it.
    ///
    /// Fails with [`Error::Refused`] if the same request would be refused again. The first call
    /// also fails if no coordinator answers.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        if let Some(event) = self.pending.take() {
            return Ok(event);
        }
        loop {
            match self.attempt().await {
                Ok(Some(event)) => return Ok(self.seen(event)),
                Err(error) if !self.has_begun || !error.is_retryable() => return Err(error),
                Ok(None) | Err(_) => {
                    self.stream = None;
                    self.may_have_missed |= self.has_begun && self.request.after_revision == 0;
                    pause().await;
                }
            }
        }
    }

    fn seen(&mut self, event: Observed) -> Observed {
        self.has_begun = true;
        match &event {
            Observed::NoLeader(_) => return event,
            Observed::Leader(leader) => self.request.after_revision = leader.revision,
            Observed::Missed(_) => {}
        }
        let is_gap = std::mem::take(&mut self.may_have_missed);
        if is_gap && matches!(event, Observed::Leader(_)) {
            self.pending = Some(event);
            return Observed::Missed(TermsMissed {});
        }
        event
    }

    /// `None` at the end of a stream.
    async fn attempt(&mut self) -> Result<Option<Observed>, Error> {
        if self.stream.is_none() {
            let mut client = ElectionServiceClient::new(self.endpoints.connect().await?);
            let stream = client.observe(self.request.clone()).await?;
            self.stream = Some(stream.into_inner());
        }
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        let event = stream.message().await?;
        Ok(event.and_then(|it| it.event))
    }
}
