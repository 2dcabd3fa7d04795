//! One Redis server.

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;

use super::{
    ConfigError, RedisConfig, endpoint::Endpoint, eval::evaluate, link::Link, settings,
    subscriber::Subscriber,
};
use crate::{
    host::{Call, Connected, HostError, ScriptHost, Value, WakeSender},
    shutdown::spawn_detached,
};

struct Single {
    endpoint: Endpoint,
    links: Vec<Link>,
    subscriber: Subscriber,
    call_timeout: Duration,
}

pub(super) fn connect(config: &RedisConfig) -> Result<Connected, ConfigError> {
    let endpoint = Endpoint::new(config)?;
    let pool = endpoint.pool(1)?;
    let links: Vec<_> = (0..config.connections)
        .map(|_| Link::open(endpoint.clone()))
        .collect();
    let first_up = links.first().ok_or(ConfigError::NoConnections)?.first_up();
    spawn_detached("redis-settings", async move {
        if first_up.await {
            settings::check(pool).await;
        }
    });

    let (sender, wakes) = WakeSender::channel();
    let subscriber = Subscriber::new(endpoint.clone(), config.ping_interval, sender);
    let host = Single {
        endpoint,
        links,
        subscriber,
        call_timeout: config.call_timeout,
    };
    Ok((Arc::new(host), wakes))
}

// === impl Single ===

impl Single {
    /// Calls that concern the same key take the same connection, and so run in the order in which they were sent, also after some of them
    /// have not been answered in time.
    fn link(&self, call: &Call) -> &Link {
        let mut hasher = DefaultHasher::new();
        call.keys.first().hash(&mut hasher);
        let links = self.links.len() as u64;
        let index = usize::try_from(hasher.finish() % links).unwrap_or_default();
        &self.links[index]
    }
}

#[async_trait]
impl ScriptHost for Single {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let deadline = Instant::now() + self.call_timeout;
        let live = self.link(&call).live(deadline).await?;
        evaluate(&live, &call, deadline).await
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.subscriber.subscribe(channel, self.call_timeout).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.subscriber.unsubscribe(channel);
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("endpoint", &self.endpoint)
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}
