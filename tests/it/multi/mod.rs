//! Several locks at once: all or none, however the attempt ends.

mod fair;
mod input;
mod kept;
mod session;
mod together;
mod undone;

use crate::support::prelude::*;
use crate::support::several::{self, AllCall as Call, specs};

fn all(words: &[&str], owner: &str, wait: Duration) -> pb::AcquireAllRequest {
    pb::AcquireAllRequest::default()
        .of_locks(specs(words))
        .by(owner)
        .within(wait)
}

fn try_all(words: &[&str], owner: &str) -> pb::TryAcquireAllRequest {
    several::try_all(specs(words), owner)
}

fn back(words: &[&str], owner: &str) -> pb::ReleaseAllRequest {
    several::release_all(specs(words), owner)
}

async fn tried(
    client: &mut Client,
    request: pb::TryAcquireAllRequest,
) -> pb::TryAcquireAllResponse {
    client.try_all(request).await.unwrap()
}

/// What became of each: `a=0`, or `a lost`.
async fn released(client: &mut Client, request: pb::ReleaseAllRequest) -> Vec<String> {
    let answer = client.api.release_all(request).await.unwrap();
    told(answer.into_inner())
}

fn told(answer: pb::ReleaseAllResponse) -> Vec<String> {
    let each = answer.locks.into_iter().map(|lock| {
        if lock.held {
            format!("{}={}", lock.name, lock.hold_count)
        } else {
            format!("{} lost", lock.name)
        }
    });
    each.collect()
}

/// The names of grants, with the holds where they are more than one.
fn names(grants: &[pb::Grant]) -> Vec<String> {
    let each = grants.iter().map(|grant| match grant.hold_count {
        1 => grant.name.clone(),
        count => format!("{}x{count}", grant.name),
    });
    each.collect()
}

/// Takes locks in a session and waits for them.
async fn take(session: &mut Session, words: &[&str]) -> Vec<pb::Grant> {
    session.take_all(&specs(words)).await
}

/// Who holds a lock: `y=1`, in order.
async fn holders(client: &mut Client, name: &str) -> Vec<String> {
    let seen = client.describe(name).await;
    let each = seen.holders.iter();
    each.map(|holder| format!("{}={}", holder.owner, holder.hold_count))
        .collect()
}

/// Nobody holds or waits for any of these, in the end.
async fn expect_free(world: &World, names: &[&str]) {
    let client = world.client(0).await;
    for name in names {
        eventually("free, and nobody waits", || async {
            let seen = client.clone().describe(name).await;
            seen.holders.is_empty() && seen.waiter_count == 0
        })
        .await;
    }
}
