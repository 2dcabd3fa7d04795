//! Calls without credentials, or of an identity that may do nothing.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use tokio::sync::RwLock;
use tonic::Code;

use super::{Did, http2::floods};
use crate::{
    calls::{CHECK, TRY, WATCH, framed},
    frames::{DATA, END_HEADERS, END_STREAM, Flood, HEADERS, call_of, frame},
    scene::Who,
    target::{Tally, Target},
    time::secs,
};

/// Watches of the health, 20,000 on each of four connections, as small as they can be.
pub(crate) async fn health_watches(target: Target) -> Did {
    const WATCHES: u32 = 20_000;
    let floods = floods(&target, 4, true, || {
        let block = call_of(WATCH);
        (0..WATCHES).map(move |number| {
            let stream = 2 * number + 1;
            let mut call = frame(HEADERS, END_HEADERS, stream, &block);
            call.extend(frame(DATA, END_STREAM, stream, &framed(false, 0, &[])));
            call
        })
    });
    let floods = floods.await;
    Ok(format!("floods of {WATCHES} watches: {floods}"))
}

/// Calls on some connections, each of which is opened again when it is closed.
async fn calls<'a>(
    target: &Target,
    tasks: usize,
    token: Option<&str>,
    body: impl Fn(usize) -> (&'a str, Bytes),
) -> Tally {
    const CONNECTIONS: usize = 4;
    let open = || async { RwLock::new(Arc::new(target.connection().await)) };
    let connections = join_all((0..CONNECTIONS).map(|_| open())).await;
    let call = async |task: usize| {
        let slot = &connections[task % CONNECTIONS];
        let connection = Arc::clone(&*slot.read().await);
        let (path, body) = body(task);
        let code = connection.call(path, token, body, false, secs(15)).await;
        if code == Some(Code::Unavailable) {
            let mut slot = slot.write().await;
            if Arc::ptr_eq(&slot, &connection) {
                *slot = Arc::new(target.connection().await);
            }
        }
        code == Some(Code::Ok)
    };
    target.storm(tasks, call).await
}

/// Checks of the health whose message is announced with 4 MiB and has some of them, or lacks one
/// byte.
pub(crate) async fn unfinished_checks(target: Target) -> Did {
    let large = framed(false, 4 << 20, &vec![0; 60_000]);
    let small = framed(false, 100, &[0; 99]);
    let body = |task| if task % 2 == 0 { &large } else { &small };
    let calls = calls(&target, 300, None, |task| (CHECK, body(task).clone()));
    Ok(format!("checks: {}", calls.await))
}

/// The same of an identity that no rule allows anything, with a method that needs credentials.
pub(crate) async fn unfinished_bodies(target: Target) -> Did {
    const LENGTH: u32 = 1_000_000;
    let token = Who::Ruleless.token();
    let all_but_a_byte = framed(false, LENGTH, &vec![0; LENGTH as usize - 1]);
    let body = |_| (TRY, all_but_a_byte.clone());
    let calls = calls(&target, 400, token.as_deref(), body);
    Ok(format!("bodies of {LENGTH} bytes: {}", calls.await))
}

/// Calls without credentials of methods whose names are as long as headers may be.
pub(crate) async fn long_paths(target: Target) -> Did {
    const CALLS: u32 = 1000;
    const LENGTH: usize = 14_000;
    let floods = floods(&target, 2, true, || {
        let block = call_of(&format!("/{}", "x".repeat(LENGTH)));
        let flags = END_HEADERS | END_STREAM;
        (0..CALLS).map(move |number| frame(HEADERS, flags, 2 * number + 1, &block))
    });
    let floods = floods.await;
    Ok(format!(
        "floods of {CALLS} paths of {LENGTH} bytes: {floods}"
    ))
}

/// A flood counts if the server took all of it.
pub(crate) fn is_taken(flood: Flood) -> bool {
    flood == Flood::Taken
}
