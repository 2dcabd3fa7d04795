//! The signals that ask a coordinator to stop.

use std::{future::Future, io};

use futures::future::select_all;
use lockkeeper_base::signals;
use tokio::signal::unix::{SignalKind, signal};

/// Handles SIGTERM, SIGINT and SIGHUP from now on; resolves at the first. A closed terminal sends
/// SIGHUP, unless `nohup` has it ignored.
pub(crate) fn first() -> io::Result<impl Future<Output = ()> + Send> {
    let hangup = SignalKind::hangup();
    let mut kinds = vec![SignalKind::terminate(), SignalKind::interrupt()];
    if !signals::is_ignored(hangup.as_raw_value()) {
        kinds.push(hangup);
    }
    let streams = kinds.into_iter().map(signal);
    let mut streams = streams.collect::<io::Result<Vec<_>>>()?;
    Ok(async move {
        select_all(streams.iter_mut().map(|it| Box::pin(it.recv()))).await;
    })
}
