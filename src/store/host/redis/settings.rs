//! A look at the server's settings, once, when it is first reached: some of them endanger what is
//! stored.

use deadpool_redis::redis;

use super::endpoint::Endpoint;

/// The only policy under which nothing is evicted. All our keys have a time to live, so the
/// `volatile-*` policies evict them too.
const NO_EVICTION: &str = "noeviction";

/// Warns of settings that endanger what is stored. That it may not look (`NOPERM`, managed servers
/// without `CONFIG`) is no problem.
pub(super) async fn check(endpoint: &Endpoint) {
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
            tracing::info!(version = version.unwrap_or("unknown"), "server reached");
        }
        Err(error) => tracing::debug!(%error, "version not known"),
    }
    let mut policy = redis::cmd("CONFIG");
    policy.arg("GET").arg("maxmemory-policy");
    match policy
        .query_async::<std::collections::HashMap<String, String>>(&mut connection)
        .await
    {
        Ok(found) => {
            let policy = found
                .get("maxmemory-policy")
                .map_or("unknown", String::as_str);
            if policy != NO_EVICTION {
                tracing::warn!(
                    policy,
                    "maxmemory-policy is not noeviction: keys may be evicted before their time"
                );
            }
        }
        Err(error) => tracing::debug!(%error, "maxmemory-policy not known"),
    }
}
