//! The masters of a cluster as one host.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{ConfigError, RedisConfig, url::ClusterUrl},
    calls,
    channels::Channels,
    refresher::Refresher,
    router::Router,
    slot::{hash_tag, slot, tag_of},
    walk,
};
use crate::host::{
    Acks, Call, Connected, HostError, Partition, Replication, ScanCursor, Scanned, ScriptHost,
    Server, Value, WakeSender,
};

struct Cluster {
    router: Arc<Router>,
    channels: Arc<Channels>,
    _refresher: AbortOnDropHandle<()>,
}

/// A client of all masters of a cluster.
pub(in super::super) fn connect(config: &RedisConfig) -> Result<Connected, ConfigError> {
    if config.connections == 0 {
        return Err(ConfigError::NoConnections);
    }
    let url = ClusterUrl::parse(&config.url)?;
    let (wakes, incoming) = WakeSender::channel();
    let router = Arc::new(Router::new(config.clone(), url, wakes));
    let channels = Arc::new(Channels::new(Arc::clone(&router)));
    let refresher = Refresher::new(Arc::clone(&router), Arc::clone(&channels))?;
    let refresher = spawn_detached("redis-cluster", refresher.run());
    let host = Arc::new(Cluster {
        router,
        channels,
        _refresher: AbortOnDropHandle::new(refresher),
    });
    Ok((host, incoming))
}

// === impl Cluster ===

#[async_trait]
impl ScriptHost for Cluster {
    async fn eval(&self, call: Call) -> Result<Value, HostError> {
        let deadline = Instant::now() + self.router.config().call_timeout;
        let (value, _) = calls::evaluate(&self.router, &call, deadline).await?;
        Ok(value)
    }

    async fn eval_replicated(
        &self,
        call: Call,
        replication: Replication,
    ) -> Result<(Value, Option<Acks>), HostError> {
        let deadline = Instant::now() + self.router.config().call_timeout;
        let (value, ran) = calls::evaluate(&self.router, &call, deadline).await?;
        let (true, Some(ran), Some(key)) =
            ((replication.wanted_if)(&value), ran, call.keys.first())
        else {
            return Ok((value, None));
        };
        // What is written for the replicas to acknowledge has to be written where the script ran.
        let tag = String::from_utf8_lossy(hash_tag(key));
        let marker = format!("{}:{{{tag}}}", self.router.config().replica_marker).into();
        let acknowledger = &ran.node.acknowledger;
        let acks = acknowledger.wait(ran.run_id.as_deref(), replication.replicas, &marker);
        Ok((value, Some(acks.await)))
    }

    async fn subscribe(&self, channel: &str) -> Result<(), HostError> {
        let deadline = Instant::now() + self.router.config().call_timeout;
        self.channels.subscribe(channel, deadline).await
    }

    fn unsubscribe(&self, channel: &str) {
        self.channels.unsubscribe(channel);
    }

    async fn scan(
        &self,
        from: ScanCursor,
        containing: &[u8],
        work: u32,
    ) -> Result<Scanned, HostError> {
        walk::scan(&self.router, from, containing, work).await
    }

    fn partition(&self, key: &[u8]) -> Partition {
        slot(key)
    }

    fn servers(&self) -> Vec<Server> {
        let topology = self.router.known_topology().unwrap_or_default();
        let masters = topology.masters_by_first_slot().into_iter();
        let servers = masters.map(|(slot, address)| Server {
            name: address.to_string(),
            tag: tag_of(slot),
        });
        servers.collect()
    }

    fn has_partition_messages(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<Arc<str>> {
        self.router.first_run_id()
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("router", &self.router)
            .finish_non_exhaustive()
    }
}
