//! Places for what many callers share: connections, watches, calls without credentials. There is a
//! limit in total and one for each address, so that no address can take all places.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use dashmap::{DashMap, Entry};
use prometheus_client::metrics::gauge::Gauge;

/// Counts the places in use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Admission(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    max: usize,
    per_peer_max: usize,
    in_use: Gauge,
    all: AtomicUsize,
    by_peer: DashMap<IpAddr, usize>,
}

/// A place in use; dropping this frees it.
#[derive(Debug)]
pub(crate) struct Admitted {
    counts: Arc<Counts>,
    from: Option<IpAddr>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// That of all places.
    All,
    /// That of the caller's address.
    OfPeer,
}

// === impl Admission ===

impl Admission {
    /// All places are free. The gauge shows how many are in use.
    pub(crate) fn new(max: usize, per_peer_max: usize, in_use: Gauge) -> Self {
        Self(Arc::new(Counts {
            max,
            per_peer_max,
            in_use,
            all: AtomicUsize::new(0),
            by_peer: DashMap::new(),
        }))
    }

    /// Takes a place. Callers without an address are local, and only the total limit is theirs.
    pub(crate) fn admit(&self, from: Option<IpAddr>) -> Result<Admitted, Full> {
        let counts = &self.0;
        if counts.all.load(Ordering::Relaxed) >= counts.max {
            return Err(Full::All);
        }
        let from = from.map(network);
        if let Some(from) = from {
            let mut count = counts.by_peer.entry(from).or_insert(0);
            if *count >= counts.per_peer_max {
                return Err(Full::OfPeer);
            }
            *count += 1;
        }
        counts.all.fetch_add(1, Ordering::Relaxed);
        counts.in_use.inc();
        Ok(Admitted {
            counts: Arc::clone(counts),
            from,
        })
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.counts.all.fetch_sub(1, Ordering::Relaxed);
        self.counts.in_use.dec();
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

/// The addresses that one caller has at least: with IPv6 a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_may_be_and_none_is_forgotten() {
        let admission = Admission::new(3, 2, Gauge::default());
        let (a, b) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        let first = admission.admit(Some(a)).unwrap();
        let _second = admission.admit(Some(a)).unwrap();
        let refused = admission.admit(Some(a)).unwrap_err();
        assert_eq!(refused, Full::OfPeer);
        let third = admission.admit(Some(b)).unwrap();
        let refused = admission.admit(None).unwrap_err();
        assert_eq!(refused, Full::All);
        assert_eq!(admission.0.in_use.get(), 3);
        drop((first, third));
        assert!(admission.admit(None).is_ok());
        let _again = admission.admit(Some(a)).unwrap();
        assert_eq!(admission.0.by_peer.len(), 1, "b is forgotten");
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let admission = Admission::new(9, 1, Gauge::default());
        let admit = |address: &str| admission.admit(Some(address.parse().unwrap()));
        let _held = admit("2001:db8:1:2::1").unwrap();
        assert_eq!(admit("2001:db8:1:2:ffff::9").unwrap_err(), Full::OfPeer);
        assert!(admit("2001:db8:1:3::1").is_ok());
        let _v4 = admit("10.0.0.1").unwrap();
        assert_eq!(admit("::ffff:10.0.0.1").unwrap_err(), Full::OfPeer);
    }
}
