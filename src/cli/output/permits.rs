//! Semaphores in words.

use lockkeeper_api::pb::{
    DescribeSemaphoreResponse, PermitGrant, PermitHolder, PermitWaiter, WaitingForPermits,
};

use super::words::{duration, more, shown};

/// A grant in words. The ids come last, because they are long.
pub(crate) fn grant(grant: &PermitGrant) -> String {
    format!(
        "{} owner={} permits={} lease={} valid_for={} permit_ids={}",
        grant.name,
        grant.owner,
        grant.permits,
        duration(grant.lease.as_ref()),
        duration(grant.valid_for.as_ref()),
        grant.permit_ids.join(","),
    )
}

/// A wait in words.
pub(crate) fn waiting(name: &str, waiting: &WaitingForPermits) -> String {
    let next = match &waiting.next_lease_end {
        Some(_) => format!(
            "the next lease ends in {}",
            duration(waiting.next_lease_end.as_ref())
        ),
        None => "no lease ends".to_owned(),
    };
    let (position, available) = (waiting.position, waiting.available);
    format!("waiting for {name} at position {position}, available={available}, {next}")
}

/// A semaphore in words: its numbers, then a line for each holder, then one for each waiter.
pub(crate) fn description(answer: &DescribeSemaphoreResponse) -> String {
    let mut lines = vec![format!(
        "semaphore {} total={} available={} holders={}",
        answer.name, answer.total, answer.available, answer.holder_count
    )];
    lines.extend(answer.holders.iter().map(holder_line));
    lines.extend(more(answer.holder_count, answer.holders.len(), "holders"));
    lines.extend(answer.waiters.iter().map(waiter_line));
    lines.extend(more(answer.waiter_count, answer.waiters.len(), "waiters"));
    lines.join("\n")
}

fn holder_line(holder: &PermitHolder) -> String {
    format!(
        "  holder owner={} permits={} remaining_lease={} session_digest={} client_name={}",
        shown(&holder.owner),
        holder.permits,
        duration(holder.remaining_lease.as_ref()),
        holder.session_digest,
        shown(&holder.client_name)
    )
}

fn waiter_line(waiter: &PermitWaiter) -> String {
    format!(
        "  waiter position={} owner={} waiting_for={} session_digest={} client_name={}",
        waiter.position,
        shown(&waiter.owner),
        duration(waiter.waiting_for.as_ref()),
        waiter.session_digest,
        shown(&waiter.client_name)
    )
}
