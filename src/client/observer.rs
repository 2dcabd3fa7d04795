//! Observing elections.

use std::time::Duration;

use lockkeeper_api::pb::{
    ObserveRequest, ObserveResponse, election_service_client::ElectionServiceClient,
};
use tonic::Streaming;

use crate::{Error, endpoints::Endpoints};

pub use lockkeeper_api::pb::observe_response::Event as Observed;

/// Between two attempts to go on.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// An observer of an election, see [`Client::observe`](crate::Client::observe).
#[derive(Debug)]
pub struct Observer {
    endpoints: Endpoints,
    request: ObserveRequest,
    stream: Option<Streaming<ObserveResponse>>,
    has_begun: bool,
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
        }
    }

    /// The next term or value, in order; that there is no leader; or that some were missed. If the
    /// coordinator or the connection fails, it goes on at the next endpoint after what it has seen,
    /// for as long as that takes. Dropping the future loses nothing.
    ///
    /// Fails with [`Error::Refused`] if the same request would be refused again. The first call
    /// also fails if no coordinator answers.
    pub async fn next(&mut self) -> Result<Observed, Error> {
        loop {
            match self.attempt().await {
                Ok(Some(event)) => {
                    self.has_begun = true;
                    if let Observed::Leader(leader) = &event {
                        self.request.after_revision = leader.revision;
                    }
                    return Ok(event);
                }
                Ok(None) => self.stream = None,
                Err(error) if !self.has_begun || !error.is_retryable() => return Err(error),
                Err(_) => {
                    self.stream = None;
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
            }
        }
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
