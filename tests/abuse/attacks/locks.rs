//! A tenant with many holders, locks or waiters.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use lockkeeper_api::pb::{
    self, LockMode, lock_admin_service_client::LockAdminServiceClient, session_request::Request,
    session_response::Response,
};
use lockkeeper_testkit::several::{release_all, spec_in, try_all};

use super::Did;
use crate::{
    client::{Session, try_request},
    prelude::*,
    scene::Who,
    target::Target,
    time::secs,
};

/// Requests that are under way at once in one session.
const AT_ONCE: usize = 500;

/// The first answers to requests, as long as the session lasts.
async fn answers(session: &mut Session, mut sent: BTreeSet<u64>) -> Vec<Response> {
    let mut answers = Vec::new();
    while !sent.is_empty() {
        let Ok(Some(frame)) = session.next().await else {
            break;
        };
        if sent.remove(&frame.op_id) {
            answers.extend(frame.response);
        }
    }
    answers
}

/// How many of these a session acquires before one is refused.
async fn acquired(
    session: &mut Session,
    count: usize,
    request: impl Fn(usize) -> pb::TryAcquireRequest,
) -> usize {
    let mut held = 0;
    for first in (0..count).step_by(AT_ONCE) {
        let some = first..count.min(first + AT_ONCE);
        let wanted = some.len();
        let sent = some.map(|number| session.send(Request::TryAcquire(request(number))));
        let sent = sent.collect();
        let tried = answers(session, sent).await;
        let is_held = |it: &&Response| matches!(it, Response::Tried(tried) if tried.acquired);
        let more = tried.iter().filter(is_held).count();
        held += more;
        if more < wanted {
            break;
        }
    }
    held
}

/// As many readers of one lock as the limits allow, and four tasks that describe it.
pub(crate) async fn readers_described(target: Target) -> Did {
    let name = "tenant/read";
    let mut session = target.client(Who::Tenant).await.open().await;
    let reader = |number: usize| try_request(name, &number.to_string()).in_mode(LockMode::Read);
    let held = acquired(&mut session, target.form.size(60_000), reader).await;
    let client = target.client(Who::Tenant).await;
    let described = target.storm(4, |_| {
        let mut api = client.api.clone();
        let name = name.to_owned();
        async move { api.describe(pb::DescribeRequest { name }).await.is_ok() }
    });
    Ok(format!("{held} readers; Describe: {}", described.await))
}

/// As many waits as the quota allows, again and again.
pub(crate) async fn waiters(target: Target) -> Did {
    let name = "tenant/contended";
    let mut client = target.client(Who::Tenant).await;
    let mut holder = client.open().await;
    holder.acquire(name).await;
    let count = target.form.size(10_000);
    let most = AtomicUsize::new(0);
    let rounds = target.storm(1, |_| async {
        let Ok(mut session) = client.clone().open_with(pb::OpenSession::default()).await else {
            return false;
        };
        let sent = (0..count).map(|number| session.send_acquire(name, &number.to_string()));
        let sent = sent.collect();
        let answers = answers(&mut session, sent).await;
        let waiting = answers
            .iter()
            .filter(|it| matches!(it, Response::Waiting(_)));
        most.fetch_max(waiting.count(), Ordering::Relaxed);
        session.close().await.is_ok()
    });
    let rounds = rounds.await;
    let most = most.into_inner();
    Ok(format!("{most} waiters at once; rounds: {rounds}"))
}

/// As many locks at once as a request may have, from many tasks.
pub(crate) async fn many_at_once(target: Target) -> Did {
    const LOCKS: usize = 250;
    let client = target.client(Who::Tenant).await;
    let taken = target.storm(64, |task| {
        let mut api = client.api.clone();
        async move {
            let names = (0..LOCKS).map(|number| format!("tenant/{task}/{number}"));
            let specs = names.map(|name| spec_in(&name, LockMode::Exclusive));
            let locks: Vec<_> = specs.collect();
            let owner = task.to_string();
            let request = try_all(locks.clone(), &owner).lasting(secs(10));
            let tried = api.try_acquire_all(request).await;
            let released = api.release_all(release_all(locks, &owner)).await;
            tried.is_ok_and(|it| it.into_inner().acquired) && released.is_ok()
        }
    });
    Ok(format!("TryAcquireAll of {LOCKS}: {}", taken.await))
}

/// Lists of the tenant's locks, of which there are many, and of sessions.
pub(crate) async fn lists(target: Target) -> Did {
    let mut session = target.client(Who::Tenant).await.open().await;
    let request = |number: usize| try_request(&format!("tenant/listed/{number}"), "");
    let held = acquired(&mut session, target.form.size(10_000), request).await;
    let client = target.client(Who::Tenant).await;
    let listed = target.storm(16, |task| {
        let mut admin = LockAdminServiceClient::new(client.caller());
        async move {
            if task % 2 == 0 {
                let request = pb::ListLocksRequest {
                    prefix: "tenant/".to_owned(),
                    page_size: 1000,
                    ..Default::default()
                };
                admin.list_locks(request).await.is_ok()
            } else {
                let request = pb::ListSessionsRequest {
                    page_size: 1000,
                    ..Default::default()
                };
                admin.list_sessions(request).await.is_ok()
            }
        }
    });
    Ok(format!("{held} locks; lists: {}", listed.await))
}
