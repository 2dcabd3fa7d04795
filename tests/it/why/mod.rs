//! Why a lock is waited for, over all coordinators, and deadlocks.

mod chain;
mod deadlocks;
mod ended;
mod none;
mod random;
mod shared;
mod truncated;

use lockkeeper_coordinator::{Watched, Watcher, What};

use crate::support::prelude::*;

/// The owner of each session's holds.
const JOB: &str = "job";

/// A session that holds a lock as [`JOB`].
async fn holder(world: &World, node: usize, name: &str, holds: &str) -> Session {
    let open = pb::OpenSession::default().called(name);
    let mut session = world.client(node).await.open_with(open).await.unwrap();
    let op_id = session.send_acquire(holds, JOB);
    session.expect_granted(op_id).await;
    session
}

/// Sessions on all coordinators in turn, each of which holds a lock and waits for that of the next.
async fn ring(world: &World, nodes: usize, count: usize) -> Vec<Session> {
    let mut sessions = Vec::new();
    for number in 0..count {
        let (name, lock) = (format!("ci-{number}"), format!("lock{number}"));
        sessions.push(holder(world, number % nodes, &name, &lock).await);
    }
    for (number, session) in sessions.iter_mut().enumerate() {
        session.send_acquire(&format!("lock{}", (number + 1) % count), JOB);
    }
    sessions
}

fn wanting(name: &str, mode: LockMode) -> Request {
    Request::Acquire(acquire_request(name, JOB).in_mode(mode))
}

fn watch(world: &World, node: usize) -> Watcher {
    world.coordinator(node).watch(String::new()).unwrap()
}

/// The names of waits that are reported as part of a deadlock until then.
async fn deadlocks_until(watcher: &mut Watcher, until: Instant) -> Vec<String> {
    let mut names = Vec::new();
    while let Ok(told) = tokio::time::timeout_at(until, watcher.next()).await {
        if let Watched::Delta(event) = told.unwrap()
            && event.what == What::Deadlock
        {
            names.push(event.name.public().to_owned());
        }
    }
    names
}

async fn explain(client: &mut Client, name: &str) -> pb::ExplainResponse {
    let name = name.to_owned();
    let answer = client.api.explain(pb::ExplainRequest::named(name)).await;
    answer.unwrap().into_inner()
}
