//! The task of a followed name: it looks, and shows what it sees to all followers.

use std::{fmt, pin::pin, sync::Arc, time::Duration};

use futures::future::join_all;
use lockkeeper_access::Account;
use lockkeeper_store::script::CallError;
use tokio::time::{Instant, sleep_until};

use crate::{
    core::Core,
    error::Error,
    follow::followed::{Followed, Following, Follows, Heard},
    types::LockName,
};

/// What the store shows of a name that is followed; the default before the first look.
pub(crate) trait Shown:
    Clone + Default + PartialEq + fmt::Debug + Send + Sync + 'static
{
    /// The name of the task.
    const TASK: &'static str;
    /// The shortest time between two looks.
    const PAUSE: Duration;

    fn all(core: &Core) -> &Arc<Follows<Self>>;

    /// Maximum followers of one name; none: only all followers together are limited.
    fn per_name_max(core: &Core) -> Option<usize>;

    /// The channels with messages about a name; no other name has them.
    fn channels(name: &LockName) -> Vec<String>;

    /// Looks at the name in the store. Also returns what is left of its lease.
    fn look(
        core: &Core,
        name: &LockName,
        heard: Heard,
    ) -> impl Future<Output = Result<(Self, Option<Duration>), CallError>> + Send;
}

/// Follows a name until the follower is dropped.
pub(crate) fn follow<S: Shown>(
    core: &Arc<Core>,
    name: &LockName,
    account: &Account,
) -> Result<Following<S>, Error> {
    let channels: Vec<Arc<str>> = S::channels(name).into_iter().map(Into::into).collect();
    let max = S::per_name_max(core);
    let (following, new) = S::all(core).join((name, &channels), max, account)?;
    if let Some(followed) = new {
        let (core, name) = (Arc::clone(core), name.clone());
        core.tasks.clone().spawn(S::TASK, async move {
            look_for_changes(&core, &name, &channels, &followed).await;
        });
    }
    Ok(following)
}

/// Looks at a name on each message, at the end of its lease, and at an interval, until nobody
/// follows it.
async fn look_for_changes<S: Shown>(
    core: &Core,
    name: &LockName,
    channels: &[Arc<str>],
    followed: &Followed<S>,
) {
    let host = &S::all(core).host;
    let (stop, mut subscribed, mut number) = (core.tasks.stop(), false, 0);
    let mut subscribing = pin!(join_all(channels.iter().map(|it| host.subscribe(it))));
    loop {
        let begun = Instant::now();
        let heard = Heard {
            number,
            ..std::mem::take(&mut *followed.heard.lock())
        };
        number += 1;
        let check_at = match S::look(core, name, heard).await {
            Ok((shown, lease)) => {
                followed.shown.send_if_modified(|before| {
                    let is_news = *before != shown;
                    *before = shown;
                    is_news
                });
                core.check_at(lease.map(|left| Instant::now() + left))
            }
            Err(error) => {
                tracing::debug!(%name, %error, task = S::TASK, "a name cannot be looked at now");
                core.check_at(None)
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = followed.shown.closed() => if S::all(core).forget(channels) {
                break;
            },
            // An error means that it is not confirmed yet: a gap follows when it is.
            _ = &mut subscribing, if !subscribed => subscribed = true,
            () = followed.hint.notified() => {}
            () = sleep_until(check_at) => {}
        }
        if !S::PAUSE.is_zero() {
            sleep_until(begun + S::PAUSE).await;
        }
    }
    if !subscribed {
        let _ = subscribing.await;
    }
    for channel in channels {
        host.unsubscribe(channel);
    }
}
