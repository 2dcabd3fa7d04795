//! When grants are renewed.

use std::time::Duration;

use lockkeeper_api::pb::SessionOpened;
use tokio::time::Instant;

use crate::{duration::to_std, holding::Holding};

/// When watched holdings are renewed: a little before the coordinator's watchdog, which counts from
/// the last renewal of any kind, and so has nothing to do as long as this client renews. Only the
/// answer to a request says until when a grant is valid, because only its age has a known limit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RenewalTimes {
    lease: Duration,
    interval: Duration,
}

// === impl RenewalTimes ===

impl RenewalTimes {
    pub(super) fn of(opened: &SessionOpened) -> Self {
        let lease = to_std(opened.lease);
        let interval = opened.renew_interval;
        let interval = interval.map_or(of_lease(lease), |it| to_std(Some(it)));
        Self { lease, interval }
    }

    /// `None` for a holding that is not renewed in the background.
    pub(super) fn renew_at(self, sent_at: Instant, holding: &Holding) -> Option<Instant> {
        let interval = match holding.lease() {
            lease if lease == self.lease => self.interval,
            lease => of_lease(lease),
        };
        holding.is_watched().then_some(sent_at + interval)
    }
}

fn of_lease(lease: Duration) -> Duration {
    lease * 3 / 10
}
