//! Converts the chain of `Explain`. Names that the viewer may not describe are hidden, and what
//! comes after them.

use std::collections::BTreeSet;

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    Cycle, Error, Explanation, HolderExplained, Link, LockExplained, LockName, NameKind,
    WaitExplained,
};
use tokio::time::Instant;

use super::{
    convert::{Requests, count, digest, proto_mode, whole_millis},
    convert_note, pb,
    viewer::Viewer,
};

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn explain(&self, request: &pb::ExplainRequest) -> Result<LockName, Error> {
        self.name(&request.name, Right::Describe)
    }
}

pub(super) fn explained(seen: Explanation, viewer: &Viewer) -> pb::ExplainResponse {
    let mut reached: BTreeSet<LockName> = BTreeSet::new();
    let mut locks = Vec::new();
    // A lock comes after the first one whose holder waits for it.
    for lock in seen.locks {
        if !locks.is_empty() && !reached.contains(&lock.name) {
            continue;
        }
        let waits = lock.holders.iter().flat_map(|holder| &holder.waits);
        let visible = waits
            .map(|wait| &wait.name)
            .filter(|name| viewer.describes(name));
        reached.extend(visible.cloned());
        locks.push(explained_lock(lock, viewer));
    }
    let deadlocks = seen.deadlocks.iter();
    pb::ExplainResponse {
        locks,
        truncated: seen.truncated,
        deadlocks: deadlocks.map(|it| deadlock(it, viewer)).collect(),
    }
}

fn explained_lock(seen: LockExplained, viewer: &Viewer) -> pb::ExplainedLock {
    let mode = seen.mode.map_or(pb::LockMode::Unspecified, proto_mode);
    let holders = seen.holders.into_iter();
    pb::ExplainedLock {
        name: seen.name.public().to_owned(),
        mode: mode.into(),
        is_semaphore: seen.kind == NameKind::Semaphore,
        holders: holders.map(|it| explained_holder(it, viewer)).collect(),
        holder_count: count(seen.holder_count),
        waiter_count: count(seen.waiter_count),
        last_fencing_token: seen.fencing_token,
    }
}

fn explained_holder(seen: HolderExplained, viewer: &Viewer) -> pb::ExplainedHolder {
    let owner = seen.owner.as_ref();
    let mode = seen.mode.map_or(pb::LockMode::Unspecified, proto_mode);
    pb::ExplainedHolder {
        holder: Some(pb::Holder {
            session_digest: owner.map(digest).unwrap_or_default(),
            owner: owner.map_or_else(String::new, |owner| viewer.owner(owner)),
            hold_count: seen.hold_count,
            client_name: seen.client_name,
            mode: mode.into(),
            remaining_lease: seen.remaining.map(whole_millis),
            note: seen.note.as_deref().map(convert_note::proto),
            held_for: seen.since.map(elapsed),
        }),
        held_for: seen.since.map(elapsed),
        waits: seen
            .waits
            .iter()
            .map(|it| explained_wait(it, viewer))
            .collect(),
    }
}

fn explained_wait(seen: &WaitExplained, viewer: &Viewer) -> pb::ExplainedWait {
    let is_hidden = !viewer.describes(&seen.name);
    let mode = seen.mode.map_or(pb::LockMode::Unspecified, proto_mode);
    pb::ExplainedWait {
        name: shown(&seen.name, viewer),
        is_hidden,
        owner: viewer.owner(&seen.owner),
        is_holder: seen.is_holder,
        mode: mode.into(),
        waiting_for: Some(elapsed(seen.since)),
    }
}

fn deadlock(cycle: &Cycle, viewer: &Viewer) -> pb::Deadlock {
    let held = cycle.links.iter().cycle().skip(cycle.links.len() - 1);
    let links = cycle.links.iter().zip(held);
    pb::Deadlock {
        is_possible: cycle.is_possible,
        waits: links
            .map(|(link, held)| deadlocked(link, &held.name, viewer))
            .collect(),
    }
}

/// The viewer sees an owner that holds or waits for a name that it may describe.
fn deadlocked(link: &Link, held: &LockName, viewer: &Viewer) -> pb::DeadlockedWait {
    let wait = pb::DeadlockedWait {
        name: shown(&link.name, viewer),
        mode: link
            .mode
            .map_or(pb::LockMode::Unspecified, proto_mode)
            .into(),
        waiting_for: Some(elapsed(link.since)),
        ..pb::DeadlockedWait::default()
    };
    if !viewer.describes(held) && !viewer.describes(&link.name) {
        return wait;
    }
    pb::DeadlockedWait {
        session_digest: digest(&link.owner),
        owner: viewer.owner(&link.owner),
        client_name: link.client_name.clone(),
        ..wait
    }
}

fn shown(name: &LockName, viewer: &Viewer) -> String {
    if viewer.describes(name) {
        name.public().to_owned()
    } else {
        String::new()
    }
}

fn elapsed(since: Instant) -> prost_types::Duration {
    whole_millis(since.elapsed())
}
