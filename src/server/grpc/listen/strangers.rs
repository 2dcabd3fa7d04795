//! Connections that have not shown credentials, where they are required. Above a number the oldest
//! are closed for a new one: a client that has credentials shows them at once, so those who have
//! none cannot keep it out.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::metrics::{Metrics, Refused};
use crate::grpc::peer::Usage;

/// The part of the connections that is closed when there is one too many.
const CLOSED_AT_ONCE: usize = 16;

/// The connections, oldest first. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    max: usize,
    known: Arc<Mutex<VecDeque<Weak<Usage>>>>,
    metrics: Metrics,
}

// === impl Strangers ===

impl Strangers {
    pub(super) fn new(max: usize, metrics: Metrics) -> Self {
        Self {
            max,
            known: Arc::default(),
            metrics,
        }
    }

    /// Adds a connection. Closes the oldest ones if there are too many.
    pub(super) fn add(&self, usage: &Arc<Usage>) {
        let mut known = self.known.lock();
        known.push_back(Arc::downgrade(usage));
        if known.len() <= self.max {
            return;
        }
        known.retain(|usage| {
            let usage = usage.upgrade();
            usage.is_some_and(|usage| !usage.is_authenticated() && !usage.is_closed())
        });
        if known.len() <= self.max {
            return;
        }
        // Some at once, so that not every new connection walks all others.
        let closed = known.len() - self.max + self.max / CLOSED_AT_ONCE;
        for oldest in known.drain(..closed) {
            if let Some(oldest) = oldest.upgrade() {
                oldest.close();
                self.metrics.refused(Refused::UnauthenticatedMax);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_without_credentials_gives_way() {
        let strangers = Strangers::new(2, Metrics::default());
        let [a, b, c, d] = [(); 4].map(|()| Arc::new(Usage::default()));
        for usage in [&a, &b, &c] {
            strangers.add(usage);
        }
        let closed = || [&a, &b, &c, &d].map(|usage| usage.is_closed());
        assert_eq!(closed(), [true, false, false, false]);
        b.authenticate();
        strangers.add(&d);
        assert_eq!(closed(), [true, false, false, false], "b is a place less");
        drop(c);
        strangers.add(&Arc::new(Usage::default()));
        assert!(!d.is_closed() && !b.is_closed());
    }
}
