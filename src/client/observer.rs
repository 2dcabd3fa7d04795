//! Observing elections.

use lockkeeper_api::pb::{
    ObserveRequest, ObserveResponse, TermsMissed, election_service_client::ElectionServiceClient,
};

use crate::{Error, endpoints::Endpoints, follow::Followed};

pub use lockkeeper_api::pb::observe_response::Event as Observed;

/// An observer of an election, see [`Client::observe`](crate::Client::observe).
#[derive(Debug)]
pub struct Observer {
    followed: Followed<ObserveResponse>,
    request: ObserveRequest,
    /// A stream broke before any revision was seen, so the next one may not be the first.
    may_have_missed: bool,
    /// Comes after the gap before it.
    pending: Option<Observed>,
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(endpoints: Endpoints, name: String, after_revision: u64) -> Self {
        Self {
            followed: Followed::new(endpoints),
            request: ObserveRequest {
                name,
                after_revision,
            },
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
            let request = &self.request;
            let open = |transport| {
                let request = request.clone();
                async move { ElectionServiceClient::new(transport).observe(request).await }
            };
            let (seen, goes_on) = self.followed.next(open).await?;
            self.may_have_missed |= goes_on && self.request.after_revision == 0;
            if let Some(event) = seen.event {
                return Ok(self.seen(event));
            }
        }
    }

    fn seen(&mut self, event: Observed) -> Observed {
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
}
