//! One Redis server at a time.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    ConfigError, RedisConfig, acknowledger::Acknowledger, commands, endpoint::Endpoint,
    eval::evaluate, links::Links, scanner::Scanner, subscriber::Subscriber, target::Target,
};
use crate::host::{
    Acks, Call, Commands, Connected, HostError, Numbers, Replication, ScanCursor, Scanned,
    ScriptHost, Value, WakeSender,
};

struct Single {
    target: Target,
    links: Links,
    subscriber: Subscriber,
    acknowledger: Acknowledger,
    scanner: Scanner,
    replica_marker: Arc<str>,
    call_timeout: Duration,
    /// Asks the sentinels.
    _watcher: Option<AbortOnDropHandle<()>>,
}

/// A client of the server that the URL names.
pub(super) fn connect(config: &RedisConfig) -> Result<Connected, ConfigError> {
    let target = Target::Fixed(Box::new(Endpoint::new(config)?));
    let (sender, wakes) = WakeSender::channel();
    Ok((host(config, &target, sender, None)?, wakes))
}

/// A client of the server that the target names.
pub(super) fn host(
    config: &RedisConfig,
    target: &Target,
    wakes: WakeSender,
    watcher: Option<AbortOnDropHandle<()>>,
) -> Result<Arc<dyn ScriptHost>, ConfigError> {
    let links = Links::open(config.connections, target)?;
    let subscriber = Subscriber::new(target.clone(), config.ping_interval, wakes);
    Ok(Arc::new(Single {
        target: target.clone(),
        links,
        subscriber,
        acknowledger: Acknowledger::new(target.clone(), config.replica_ack_timeout),
        scanner: Scanner::new(target.clone(), config.call_timeout),
        replica_marker: config.replica_marker.as_str().into(),
        call_timeout: config.call_timeout,
        _watcher: watcher,
    }))
}

// === impl Single ===

#[async_trait]
impl ScriptHost for Single {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let deadline = Instant::now() + self.call_timeout;
        let live = self.links.of(&call).live(deadline).await?;
        evaluate(&live, &call, deadline).await
    }

    async fn eval_replicated(
        &self,
        call: Call,
        replication: Replication,
    ) -> Result<(Value, Option<Acks>), HostError> {
        let deadline = Instant::now() + self.call_timeout;
        let live = self.links.of(&call).live(deadline).await?;
        let value = evaluate(&live, &call, deadline).await?;
        if !(replication.wanted_if)(&value) {
            return Ok((value, None));
        }
        let acks = self
            .acknowledger
            .wait(
                live.run_id().as_deref(),
                replication.replicas,
                &self.replica_marker,
            )
            .await;
        Ok((value, Some(acks)))
    }

    fn runs_commands(&self) -> bool {
        self.links.run_commands()
    }

    fn run<'a>(
        &'a self,
        commands: &'a Commands<'a>,
        begun: Instant,
    ) -> BoxFuture<'a, Result<Numbers, HostError>> {
        // Made where it stays. `Box::pin` would copy it there.
        let room = Box::new_uninit();
        let running = Box::write(room, async move {
            let deadline = begun + self.call_timeout;
            let link = self.links.of_key(Some(commands.key()));
            let live = link.live(deadline).await?;
            commands::run(&live, commands, deadline).await
        });
        Box::into_pin(running)
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        self.subscriber.subscribe(channel, self.call_timeout).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.subscriber.unsubscribe(channel);
    }

    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        let (keys, position) = self.scanner.scan(from.position, containing, work).await?;
        let next = (position != 0).then_some(ScanCursor { part: 0, position });
        Ok(Scanned { keys, next })
    }

    async fn first_attempt(&self) {
        self.links.first_attempt().await;
    }

    fn identity(&self) -> Option<Arc<str>> {
        self.links.run_id()
    }
}

impl fmt::Debug for Single {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Single")
            .field("target", &self.target)
            .field("links", &self.links)
            .finish_non_exhaustive()
    }
}
