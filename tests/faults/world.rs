//! What breaks: a store as it is deployed, and two coordinators on it, of which the first may be cut off from the store.

use std::time::Duration;

use futures::future::join_all;

use crate::{
    cluster::Cluster,
    contender::name,
    coordinator::{Coordinator, Settings},
    history::Name,
    redis_server::{RedisServer, eventually, free_port as reserved_port},
    sentinels::{Sentinel, Sentinels},
    tcp_proxy::TcpProxy,
};

/// The lock whose shard is broken, where there are several.
pub(crate) const WITNESS: Name = 0;

/// The lease of sessions: longer than a failover takes here, and soon over.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// How a store is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Single,
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
    /// Five servers of which a majority decides.
    Quorum,
}

/// How many servers a quorum has.
const MEMBERS: usize = 5;

/// What a row starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) kind: Kind,
    /// For every redis-server, besides what the file in `deploy/` says.
    pub(crate) server: &'static [&'static str],
    /// For the coordinators.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// The first coordinator reaches the store through proxies.
    pub(crate) is_proxied: bool,
}

/// A running store.
pub(crate) enum Store {
    Single(Box<RedisServer>),
    Sentinel(Sentinels),
    Cluster(Cluster),
    Quorum(Vec<RedisServer>),
}

/// All of it.
pub(crate) struct World {
    pub(crate) store: Store,
    /// In front of each server, for the first coordinator.
    pub(crate) proxies: Vec<TcpProxy>,
    _sentinel_proxies: Vec<TcpProxy>,
    pub(crate) coordinators: Vec<Coordinator>,
}

// === impl Store ===

impl Store {
    async fn start(setup: &Setup) -> Self {
        match setup.kind {
            Kind::Single => {
                let server = RedisServer::start_from("single.conf", setup.server).await;
                Self::Single(Box::new(server))
            }
            Kind::Sentinel => Self::Sentinel(Sentinels::start_with(setup.server).await),
            Kind::Cluster => Self::Cluster(Cluster::start_with(setup.server).await),
            Kind::Quorum => {
                let member = || RedisServer::start_from("single.conf", setup.server);
                Self::Quorum(join_all((0..MEMBERS).map(|_| member())).await)
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Single(_) => 1,
            Self::Sentinel(sentinels) => sentinels.servers.len(),
            Self::Cluster(cluster) => cluster.len(),
            Self::Quorum(members) => members.len(),
        }
    }

    pub(crate) fn server(&self, number: usize) -> &RedisServer {
        match self {
            Self::Single(server) => server,
            Self::Sentinel(sentinels) => &sentinels.servers[number],
            Self::Cluster(cluster) => cluster.node(number),
            Self::Quorum(members) => &members[number],
        }
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &RedisServer> {
        (0..self.len()).map(|number| self.server(number))
    }

    pub(crate) fn kill(&mut self, number: usize) {
        match self {
            Self::Single(server) => server.kill(),
            Self::Sentinel(sentinels) => sentinels.servers[number].kill(),
            Self::Cluster(cluster) => cluster.kill(number),
            Self::Quorum(members) => members[number].kill(),
        }
    }

    /// Starts it again, with what it has on disk.
    pub(crate) async fn restart(&mut self, number: usize) {
        match self {
            Self::Single(server) => server.restart_on_same_port().await,
            Self::Sentinel(sentinels) => sentinels.servers[number].restart_on_same_port().await,
            Self::Cluster(cluster) => cluster.restart(number).await,
            Self::Quorum(members) => members[number].restart_on_same_port().await,
        }
    }

    /// Freezes it.
    pub(crate) fn stop(&self, number: usize) {
        match self {
            Self::Cluster(cluster) => cluster.stop(number),
            other => other.server(number).stop(),
        }
    }

    pub(crate) fn cont(&self, number: usize) {
        match self {
            Self::Cluster(cluster) => cluster.cont(number),
            other => other.server(number).cont(),
        }
    }

    /// The server that has the lock on which most is seen; of a quorum any.
    pub(crate) async fn master(&self) -> usize {
        match self {
            Self::Single(_) | Self::Quorum(_) => 0,
            Self::Sentinel(sentinels) => {
                let is_known = || async { sentinels.master().await.is_some() };
                eventually("the sentinels name a master", is_known).await;
                sentinels.master().await.expect("a master")
            }
            Self::Cluster(cluster) => {
                let is_served = || async { cluster.master_of(&name(WITNESS)).await.is_some() };
                eventually("the slot is served", is_served).await;
                let master = cluster.master_of(&name(WITNESS)).await;
                master.expect("a master")
            }
        }
    }

    /// Whether another server takes over when one is gone.
    pub(crate) fn fails_over(&self) -> bool {
        matches!(self, Self::Sentinel(_) | Self::Cluster(_))
    }

    /// Resolves when another server has the locks that this one had.
    pub(crate) async fn until_taken_over(&self, before: usize) {
        match self {
            Self::Single(_) | Self::Quorum(_) => panic!("nobody takes over"),
            Self::Sentinel(sentinels) => {
                sentinels.until_another_than(before).await;
            }
            Self::Cluster(cluster) => {
                // Not by the dead one's word.
                let slot = cluster.slot(&name(WITNESS)).await;
                cluster.until_another_serves(slot, before).await;
            }
        }
    }

    /// Resolves when every replica follows its master.
    pub(crate) async fn until_replicated(&self) {
        let sentinels = match self {
            Self::Sentinel(sentinels) => sentinels,
            Self::Cluster(cluster) => return cluster.until_settled().await,
            Self::Single(_) | Self::Quorum(_) => return,
        };
        let replicas = sentinels.servers.len() - 1;
        eventually("the replicas follow", || async {
            let Some(master) = sentinels.master().await else {
                return false;
            };
            let master = &sentinels.servers[master];
            master.connect_anew().await;
            let info = master.info("replication").await;
            info.matches("state=online").count() == replicas
        })
        .await;
    }

    /// What a coordinator is told, with other ports in the place of the servers' own.
    fn settings(&self, ports: &[u16], sentinels: &[u16]) -> Settings {
        let url = |port: &u16| format!("127.0.0.1:{port}");
        match self {
            Self::Single(_) => Settings::on(&format!("redis://{}", url(&ports[0]))),
            Self::Sentinel(_) => Settings::on(&Sentinels::url_at(sentinels.iter().copied())),
            Self::Cluster(_) => {
                let seeds: Vec<_> = ports.iter().map(url).collect();
                Settings::on(&format!("redis+cluster://{}", seeds.join(",")))
            }
            Self::Quorum(_) => {
                let urls = ports.iter().map(|port| format!("redis://{}", url(port)));
                let urls: Vec<_> = urls.collect();
                Settings::on_none().with("store.quorum", &urls.join(" "))
            }
        }
    }
}

// === impl World ===

impl World {
    /// Calls that must not fail get the time that they have by default; the others' outcome counts as unknown sooner, so that a run is short.
    pub(crate) async fn start(setup: &Setup, may_fail: bool) -> Self {
        let store = Store::start(setup).await;
        let call_timeout = if may_fail { "500ms" } else { "2s" };
        let ports: Vec<_> = store.servers().map(RedisServer::port).collect();
        let sentinels = match &store {
            Store::Sentinel(sentinels) => sentinels.sentinels.iter().map(Sentinel::port).collect(),
            _ => Vec::new(),
        };
        let (mut proxies, mut sentinel_proxies) = (Vec::new(), Vec::new());
        let (mut first, mut first_sentinels) = (ports.clone(), sentinels.clone());
        if setup.is_proxied {
            // Servers of a cluster name each other, and sentinels name servers: the first coordinator hears of proxies only.
            first = ports.iter().map(|_| reserved_port()).collect();
            let renamed: Vec<_> = ports.iter().copied().zip(first.iter().copied()).collect();
            let named = match &store {
                Store::Cluster(_) => renamed.as_slice(),
                _ => &[],
            };
            for (port, at) in &renamed {
                proxies.push(TcpProxy::at(*at, *port, named).await);
            }
            for port in &sentinels {
                sentinel_proxies.push(TcpProxy::renaming(*port, &renamed).await);
            }
            let of_proxies = sentinel_proxies.iter().map(|it| it.address().port());
            first_sentinels = of_proxies.collect();
        }
        let mut coordinators = Vec::new();
        for (ports, sentinels) in [(&first, &first_sentinels), (&ports, &sentinels)] {
            let settings = settings(store.settings(ports, sentinels), setup);
            let settings = settings.with("store.call_timeout", call_timeout);
            coordinators.push(Coordinator::start(&settings).await);
        }
        Self {
            store,
            proxies,
            _sentinel_proxies: sentinel_proxies,
            coordinators,
        }
    }
}

fn settings(store: Settings, setup: &Setup) -> Settings {
    let settings = store
        .with("session.secret", "a secret of all coordinators")
        .with("session.lease", &format!("{}s", LEASE.as_secs()))
        .with("log.level", "info");
    let more = setup.settings.iter();
    more.fold(settings, |it, (key, value)| it.with(key, value))
}
