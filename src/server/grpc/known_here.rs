//! What the other coordinators ask for their lists of locks: the waiters here, and the client and
//! the time of the holders whose sessions are served here.

use std::collections::{HashMap, HashSet};

use lockkeeper_coordinator::{Coordinator, LockName};

use super::{
    convert::{count, whole_millis},
    convert_admin::proto_kind,
    pb,
    viewer::Viewer,
};

/// Maximum of names in an answer that calls wait for, and of those that a question contains.
const NAMES_MAX: usize = 1000;

/// The names that calls wait for here, and those of the holders asked for that have sessions here.
pub(super) fn known_here(
    coordinator: &Coordinator,
    request: &pb::ListLocksRequest,
    viewer: &Viewer,
) -> pb::ListLocksResponse {
    let waited = coordinator.waited_for(&request.prefix, NAMES_MAX);
    let waited = waited.into_iter().map(|(waited, waiters)| pb::LockSummary {
        name: waited.name.public().to_owned(),
        kind: proto_kind(waited.kind).into(),
        waiter_count: count(waiters),
        ..pb::LockSummary::default()
    });
    let holders = coordinator.holders_here(&names_by_session(coordinator, request));
    let held = holders.into_iter().map(|seen| pb::LockSummary {
        name: seen.name.public().to_owned(),
        holders: vec![pb::Holder {
            session_digest: seen.session_digest,
            owner: viewer.owner(&seen.owner),
            client_name: seen.client_name,
            held_for: Some(whole_millis(seen.since.elapsed())),
            ..pb::Holder::default()
        }],
        ..pb::LockSummary::default()
    });
    pb::ListLocksResponse {
        locks: waited.chain(held).collect(),
        ..pb::ListLocksResponse::default()
    }
}

/// The names asked for, by the digest of the session. The right to list them was checked by prefix.
fn names_by_session(
    coordinator: &Coordinator,
    request: &pb::ListLocksRequest,
) -> HashMap<String, HashSet<LockName>> {
    let mut names: HashMap<String, HashSet<LockName>> = HashMap::new();
    for lock in request.holders_of.iter().take(NAMES_MAX) {
        let name = LockName::parse(&lock.name, coordinator.limits()).ok();
        let Some(name) = name.filter(|name| name.public().starts_with(&request.prefix)) else {
            continue;
        };
        for holder in &lock.holders {
            let of_session = names.entry(holder.session_digest.clone()).or_default();
            of_session.insert(name.clone());
        }
    }
    names
}
