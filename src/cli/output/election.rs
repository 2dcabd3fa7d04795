//! Elections in words.

use lockkeeper_api::pb::{LeaderResponse, Leadership, TransferResponse};
use lockkeeper_client::Observed;

use super::words::{duration, shown};

pub(crate) fn leader_seen(name: &str, seen: &LeaderResponse) -> String {
    match &seen.leader {
        Some(leader) => {
            let lease = duration(seen.remaining_lease.as_ref());
            format!("{} remaining_lease={lease}", leadership(name, leader))
        }
        None => no_leader(name),
    }
}

pub(crate) fn observed(name: &str, event: &Observed) -> String {
    match event {
        Observed::Leader(leader) => leadership(name, leader),
        Observed::NoLeader(_) => no_leader(name),
        Observed::Missed(_) => format!("missed some terms of {name}"),
    }
}

pub(crate) fn transfer_requested(name: &str, answer: TransferResponse) -> String {
    if answer.held {
        format!("asked the leader of {name} reached={}", answer.reached)
    } else {
        no_leader(name)
    }
}

fn leadership(name: &str, leader: &Leadership) -> String {
    format!(
        "leader {name} term={} value={} revision={} owner={} session_digest={} client_name={}",
        leader.term,
        shown(&leader.value),
        leader.revision,
        shown(&leader.owner),
        leader.session_digest,
        shown(&leader.client_name)
    )
}

fn no_leader(name: &str) -> String {
    format!("no leader {name}")
}
