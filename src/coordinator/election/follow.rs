//! Following elections that are observed here: for each one task, which notices changes. Observers
//! read them by themselves.

use std::{pin::pin, sync::Arc};

use lockkeeper_store::script::keys;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    core::Core,
    election::followed::{Followed, Shown},
    error::Error,
    types::LockName,
};

/// Counts one more observer, which must [`leave`](super::followed::Elections::leave), and returns
/// what shows it changes.
pub(crate) fn follow(core: &Arc<Core>, name: &LockName) -> Result<watch::Receiver<Shown>, Error> {
    let channel: Arc<str> = keys::election(name.store_key()).into();
    let (changes, new) = core.elections.join(&channel)?;
    if let Some(followed) = new {
        let (core, name) = (Arc::clone(core), name.clone());
        core.tasks.clone().spawn("follow-election", async move {
            look_for_changes(&core, &name, &channel, &followed).await;
        });
    }
    Ok(changes)
}

/// Looks at an election on each message, at the end of the leader's lease, and at an interval,
/// until nobody observes it.
async fn look_for_changes(core: &Core, name: &LockName, channel: &str, followed: &Followed) {
    let host = &core.elections.host;
    let (stop, mut subscribed) = (core.tasks.stop(), false);
    let mut subscribing = pin!(host.subscribe(channel));
    loop {
        let check_at = match core.scripts.inspect_election(name.store_key(), None).await {
            Ok(seen) => {
                let newest = seen.recorded.last().map_or(0, |it| it.revision);
                let shown = Some((newest, seen.leads));
                followed.shown.send_if_modified(|before| {
                    let is_news = *before != shown;
                    *before = shown;
                    is_news
                });
                let lease = seen.remaining.filter(|_| seen.leads);
                core.check_at(lease.map(|left| Instant::now() + left))
            }
            Err(error) => {
                tracing::debug!(%name, %error, "an election cannot be looked at now");
                core.check_at(None)
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = followed.shown.closed() => if core.elections.forget(channel) {
                break;
            },
            // An error means that it is not confirmed yet: a gap follows when it is.
            _ = &mut subscribing, if !subscribed => subscribed = true,
            () = followed.hint.notified() => {}
            () = sleep_until(check_at) => {}
        }
    }
    if !subscribed {
        let _ = subscribing.await;
    }
    host.unsubscribe(channel);
}
