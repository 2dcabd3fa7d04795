//! The limits on connections, in total and from each address.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::{DashMap, Entry};

use super::metrics::{Metrics, Refused};

/// Counts connections. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Admission(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    max: usize,
    per_peer_max: usize,
    metrics: Metrics,
    all: AtomicUsize,
    by_peer: DashMap<IpAddr, usize>,
}

/// A counted connection; dropping this ends it.
#[derive(Debug)]
pub(super) struct Admitted {
    counts: Arc<Counts>,
    from: Option<IpAddr>,
}

// === impl Admission ===

impl Admission {
    pub(super) fn new(max: usize, per_peer_max: usize, metrics: Metrics) -> Self {
        Self(Arc::new(Counts {
            max,
            per_peer_max,
            metrics,
            all: AtomicUsize::new(0),
            by_peer: DashMap::new(),
        }))
    }

    /// Counts a connection. The error is the limit that it would exceed.
    pub(super) fn admit(&self, from: Option<IpAddr>) -> Result<Admitted, Refused> {
        let counts = &self.0;
        if counts.all.load(Ordering::Relaxed) >= counts.max {
            return Err(Refused::ConnectionsMax);
        }
        if let Some(from) = from {
            let mut count = counts.by_peer.entry(from).or_insert(0);
            if *count >= counts.per_peer_max {
                return Err(Refused::ConnectionsPerPeerMax);
            }
            *count += 1;
        }
        counts.all.fetch_add(1, Ordering::Relaxed);
        counts.metrics.opened();
        Ok(Admitted {
            counts: Arc::clone(counts),
            from,
        })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.counts.all.fetch_sub(1, Ordering::Relaxed);
        self.counts.metrics.closed();
        if let Some(from) = self.from
            && let Entry::Occupied(mut count) = self.counts.by_peer.entry(from)
        {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be_and_none_is_forgotten() {
        let admission = Admission::new(3, 2, Metrics::default());
        let (a, b) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let first = admission.admit(Some(a)).unwrap();
        let _second = admission.admit(Some(a)).unwrap();
        let refused = admission.admit(Some(a)).unwrap_err();
        assert_eq!(refused, Refused::ConnectionsPerPeerMax);
        let third = admission.admit(Some(b)).unwrap();
        let refused = admission.admit(None).unwrap_err();
        assert_eq!(refused, Refused::ConnectionsMax);
        drop((first, third));
        assert!(admission.admit(None).is_ok());
        let _again = admission.admit(Some(a)).unwrap();
        assert_eq!(admission.0.by_peer.len(), 1, "b is forgotten");
    }
}
