//! Checks a list of stores.

use std::collections::BTreeSet;

use super::{Store, StoreUrl, check_url};

const KEY: &str = "store.quorum";
const DEFAULT_PORT: &str = "6379";
const DEFAULT_SENTINEL_PORT: &str = "26379";

/// The target of an address, as far as its text tells: hosts with ports, and the service there.
struct Place {
    hosts: BTreeSet<String>,
    service: String,
}

pub(super) fn check(store: &Store, report: &mut dyn FnMut(&str, String)) {
    let urls = &store.quorum;
    if store.url != StoreUrl::default() {
        report(KEY, "must not be set together with store.url".to_owned());
    }
    if urls.len() < 3 || urls.len().is_multiple_of(2) {
        let problem = format!(
            "must name an odd number of stores, 3 or 5, not {}",
            urls.len()
        );
        report(KEY, problem);
    }
    if store.quorum_member_timeout > store.call_timeout {
        report(
            "store.quorum_member_timeout",
            "must not be longer than store.call_timeout".to_owned(),
        );
    }
    let mut is_usable = true;
    for (at, url) in urls.iter().enumerate() {
        let mut problem = |_: &str, problem: String| {
            is_usable = false;
            report(KEY, format!("store {}: {problem}", at + 1));
        };
        check_url(KEY, url, &mut problem);
        if url.scheme() == Some("embedded") {
            problem(
                KEY,
                "an embedded store cannot be part of a quorum".to_owned(),
            );
        }
    }
    // An unreadable address may be anything, even a password.
    if !is_usable {
        return;
    }
    let schemes: BTreeSet<_> = urls.iter().filter_map(StoreUrl::scheme).collect();
    if schemes.len() > 1 {
        let schemes: Vec<_> = schemes.into_iter().collect();
        let problem = format!("must not mix schemes: {}", schemes.join(", "));
        return report(KEY, problem);
    }
    let places: Vec<_> = urls.iter().map(Place::of).collect();
    for (at, place) in places.iter().enumerate() {
        if let Some(other) = places[..at].iter().position(|other| other.is(place)) {
            let problem = format!("stores {} and {} are the same", other + 1, at + 1);
            report(KEY, problem);
        }
    }
}

// === impl Place ===

impl Place {
    fn of(url: &StoreUrl) -> Self {
        let text = url.expose();
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let rest = rest.split('?').next().unwrap_or_default();
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_sentinel = scheme.ends_with("+sentinel");
        let port = if is_sentinel {
            DEFAULT_SENTINEL_PORT
        } else {
            DEFAULT_PORT
        };
        let with_port = |host: &str| {
            let host = host.to_lowercase();
            // Colons inside brackets do not begin a port.
            let after = host.rsplit(']').next().unwrap_or_default();
            if after.contains(':') {
                host
            } else {
                format!("{host}:{port}")
            }
        };
        // Databases of one server are not independent stores; services of the same sentinels are.
        let service = path.split('/').next().filter(|_| is_sentinel);
        Self {
            hosts: hosts.split(',').map(with_port).collect(),
            service: service.unwrap_or_default().to_owned(),
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.service == other.service && !self.hosts.is_disjoint(&other.hosts)
    }
}
