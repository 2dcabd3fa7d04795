//! A look at the server's settings when it is reached, and now and then: some of them endanger what
//! is stored, and an operator may change them.

use std::{collections::HashMap, time::Duration};

use deadpool_redis::redis::{self, aio::ConnectionLike};

use super::{endpoint::Endpoint, rights};
use crate::host::metrics::Share;

/// The only policy under which nothing is evicted. All our keys have a time to live, so the
/// `volatile-*` policies evict them too.
const NO_EVICTION: &str = "noeviction";

/// Between two looks at a server that stays connected.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// What was seen at the last look, so that only news is logged, and what metrics say of it.
#[derive(Debug, Default)]
pub(super) struct Seen {
    version: String,
    policy: String,
    missing: Vec<String>,
    evicts: Option<Share>,
    lacks: Option<Share>,
}

/// Warns of settings that endanger what is stored, and of commands that the user may not run. That
/// it may not look (`NOPERM`, managed servers without `CONFIG`) is no problem.
pub(super) async fn check(endpoint: &Endpoint, seen: &mut Seen) {
    let Ok(pool) = endpoint.pool(1, endpoint.connect_timeout()) else {
        return;
    };
    let connection = match pool.get().await {
        Ok(connection) => connection,
        Err(error) => {
            tracing::debug!(%error, "settings not checked");
            return;
        }
    };
    // Taken out of the pool, so that it is closed afterwards.
    let mut connection = deadpool_redis::Connection::take(connection);

    match redis::cmd("INFO")
        .arg("server")
        .query_async::<String>(&mut connection)
        .await
    {
        Ok(info) => {
            let version = info
                .lines()
                .find_map(|line| line.strip_prefix("redis_version:"));
            let version = version.unwrap_or("unknown");
            if news(&mut seen.version, version) {
                tracing::info!(version, "server reached");
            }
        }
        Err(error) => tracing::debug!(%error, "version not known"),
    }
    let mut policy = redis::cmd("CONFIG");
    policy.arg("GET").arg("maxmemory-policy");
    match policy
        .query_async::<HashMap<String, String>>(&mut connection)
        .await
    {
        Ok(found) => {
            let policy = found
                .get("maxmemory-policy")
                .map_or("unknown", String::as_str);
            let evicts = policy != NO_EVICTION;
            let of_server = || endpoint.metrics().evicts();
            let share = seen.evicts.get_or_insert_with(of_server);
            share.set(evicts.into());
            if news(&mut seen.policy, policy) && evicts {
                tracing::warn!(
                    policy,
                    "maxmemory-policy is not noeviction: keys may be evicted before their time"
                );
            }
        }
        Err(error) => tracing::debug!(%error, "maxmemory-policy not known"),
    }
    check_rights(endpoint, &mut connection, seen).await;
}

async fn check_rights(endpoint: &Endpoint, connection: &mut impl ConnectionLike, seen: &mut Seen) {
    match rights::missing(connection, endpoint.probe()).await {
        Ok(missing) => {
            let of_server = || endpoint.metrics().lacks();
            let share = seen.lacks.get_or_insert_with(of_server);
            share.set(missing.len());
            if seen.missing != missing {
                if !missing.is_empty() {
                    let missing = missing.join(" ");
                    tracing::error!(
                        missing,
                        "the store's user may not run these commands, and calls fail without \
                         them"
                    );
                }
                seen.missing = missing;
            }
        }
        Err(error) => tracing::debug!(%error, "rights not known"),
    }
}

/// Whether something else is to be remembered than before.
fn news(before: &mut String, now: &str) -> bool {
    let changed = before != now;
    if changed {
        now.clone_into(before);
    }
    changed
}
