//! What breaks: a store as it is deployed, and two coordinators on it, of which the first may be
//! cut off from the store.

use std::time::Duration;

use futures::future::join_all;
use tokio::net::TcpListener;

use crate::{
    cluster::Cluster,
    contender::name,
    coordinator::{Coordinator, Settings},
    history::Name,
    redis_server::{RedisServer, eventually},
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
    pub(crate) network: Network,
}

/// What can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Nothing.
    Plain,
    /// All servers from the first coordinator. Sentinels tell both who the master is.
    OfFirst,
    /// The first master and the first coordinator from all others.
    Halves,
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
    /// Where the network can be cut.
    pub(crate) cuts: Vec<TcpProxy>,
    _others: Vec<TcpProxy>,
    pub(crate) coordinators: Vec<Coordinator>,
}

// === impl Store ===

impl Store {
    /// With what stands between the first master and the others, if that can be cut.
    async fn start(setup: &Setup) -> (Self, Option<TcpProxy>) {
        let mut between = None;
        let store = match setup.kind {
            Kind::Single => {
                let server = RedisServer::start_from("single.conf", setup.server).await;
                Self::Single(Box::new(server))
            }
            Kind::Sentinel => {
                let known_as = async |port| {
                    if setup.network != Network::Halves {
                        return port;
                    }
                    let proxy = between.insert(TcpProxy::to(port).await);
                    proxy.address().port()
                };
                Self::Sentinel(Sentinels::start_known_as(setup.server, known_as).await)
            }
            Kind::Cluster => Self::Cluster(Cluster::start_with(setup.server).await),
            Kind::Quorum => {
                let member = || RedisServer::start_from("single.conf", setup.server);
                Self::Quorum(join_all((0..MEMBERS).map(|_| member())).await)
            }
        };
        (store, between)
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
                sentinels.until_followed().await;
            }
            Self::Cluster(cluster) => {
                // Not by the dead one's word.
                let slot = cluster.slot(&name(WITNESS)).await;
                cluster.until_another_serves(slot, before).await;
            }
        }
    }

    /// Changes when another server takes over, if somebody counts that.
    pub(crate) async fn epoch(&self) -> Option<u64> {
        match self {
            Self::Sentinel(sentinels) => sentinels.epoch().await,
            Self::Single(_) | Self::Cluster(_) | Self::Quorum(_) => None,
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
    /// Calls that must not fail get the time that they have by default; the others' outcome counts
    /// as unknown sooner, so that a run is short.
    pub(crate) async fn start(setup: &Setup, may_fail: bool) -> Self {
        let (store, between) = Store::start(setup).await;
        let call_timeout = if may_fail { "500ms" } else { "2s" };
        let ports: Vec<_> = store.servers().map(RedisServer::port).collect();
        let sentinels = match &store {
            Store::Sentinel(sentinels) => sentinels.sentinels.iter().map(Sentinel::port).collect(),
            _ => Vec::new(),
        };
        let (mut cuts, mut others) = (Vec::new(), Vec::new());
        let (mut first, mut first_sentinels) = (ports.clone(), sentinels.clone());
        // Servers of a cluster name each other, and sentinels name servers: the first coordinator
        // has to hear of the ports that are meant for it.
        let mut renamed = Vec::new();
        if setup.network == Network::OfFirst {
            let listeners = join_all(ports.iter().map(|_| TcpProxy::listener())).await;
            let port = |it: &TcpListener| it.local_addr().expect("its address").port();
            first = listeners.iter().map(port).collect();
            renamed = ports.iter().copied().zip(first.iter().copied()).collect();
            let named = match &store {
                Store::Cluster(_) => renamed.as_slice(),
                _ => &[],
            };
            for (listener, port) in listeners.into_iter().zip(&ports) {
                cuts.push(TcpProxy::on(listener, *port, named));
            }
        }
        if let Some(between) = between {
            renamed = vec![(between.address().port(), ports[0])];
            cuts.push(between);
        }
        if !renamed.is_empty() {
            let mut proxies = Vec::new();
            for port in &sentinels {
                proxies.push(TcpProxy::renaming(*port, &renamed).await);
            }
            first_sentinels = proxies.iter().map(|it| it.address().port()).collect();
            match setup.network {
                Network::Halves => cuts.append(&mut proxies),
                Network::Plain | Network::OfFirst => others.append(&mut proxies),
            }
        }
        let mut coordinators = Vec::new();
        for (ports, sentinels) in [(&first, &first_sentinels), (&ports, &sentinels)] {
            let settings = settings(store.settings(ports, sentinels), setup);
            let settings = settings.with("store.call_timeout", call_timeout);
            coordinators.push(Coordinator::start(&settings).await);
        }
        Self {
            store,
            cuts,
            _others: others,
            coordinators,
        }
    }
}

fn settings(store: Settings, setup: &Setup) -> Settings {
    let settings = store
        .with("session.secret", "a secret of all the coordinators here")
        .with("session.lease", &format!("{}s", LEASE.as_secs()))
        .with("log.level", "info");
    let more = setup.settings.iter();
    more.fold(settings, |it, (key, value)| it.with(key, value))
}
