//! A store as it is deployed, and what can be done to its servers.

use futures::future::join_all;

use crate::{
    clock::Clock,
    cluster::Cluster,
    contender::name,
    coordinator::Settings,
    redis_server::{ANNOUNCE, RedisServer, eventually},
    redisson,
    sentinels::Sentinels,
    tcp_proxy::TcpProxy,
    tls::Certificate,
    wire::Wire,
    world::{Kind, Network, Setup, WITNESS},
};

/// How many servers a quorum has.
const MEMBERS: usize = 5;

/// A running store.
pub(crate) enum Store {
    Single(Box<RedisServer>),
    Sentinel(Sentinels),
    Cluster(Cluster),
    Quorum(Vec<RedisServer>),
}

// === impl Store ===

impl Store {
    /// With what stands between the first master and the others, if that can be cut.
    pub(crate) async fn start(
        setup: &Setup,
        wire: Option<&Wire>,
        certificate: Option<&Certificate>,
    ) -> (Self, Option<TcpProxy>) {
        let near = wire.map(|wire| wire.near.to_string());
        let near = near.as_deref();
        let announced = near.map(|near| {
            let (bind, announce) = (["--bind", "127.0.0.1", near], "--cluster-announce-ip");
            let names = ["--protected-mode", "no", ANNOUNCE, near, announce, near];
            [&bind[..], &names].concat()
        });
        let tls = certificate.map_or(Vec::new(), |it| it.arguments(false).to_vec());
        let tls: Vec<_> = tls.iter().map(String::as_str).collect();
        let apart = [setup.server, &announced.unwrap_or_default()].concat();
        let server = &[apart.as_slice(), &tls].concat();
        let mut between = None;
        let store = match setup.kind {
            Kind::Single => {
                let server = RedisServer::start_from("single.conf", server).await;
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
                Self::Sentinel(Sentinels::start_known_as(&apart, &tls, known_as).await)
            }
            Kind::Cluster => Self::Cluster(Cluster::start_with(server).await),
            Kind::Quorum => {
                let member = || RedisServer::start_from("single.conf", server);
                Self::Quorum(join_all((0..MEMBERS).map(|_| member())).await)
            }
        };
        (store, between)
    }

    /// Starts the first so many servers again, with this clock.
    pub(crate) async fn go_by(&mut self, clock: &Clock, count: usize) {
        for number in 0..count {
            let server = match self {
                Self::Single(server) => server,
                Self::Sentinel(sentinels) => &mut sentinels.servers[number],
                Self::Cluster(cluster) => cluster.node_mut(number),
                Self::Quorum(members) => &mut members[number],
            };
            server.restart_in(&clock.environment()).await;
            clock.assert_is_of(server.pid());
        }
        self.until_replicated().await;
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

    /// The sentinels' configuration epoch, which grows with each failover; none without sentinels.
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

    /// The words that tell a program with Redisson of it.
    pub(crate) fn in_java(&self) -> Vec<String> {
        match self {
            Self::Single(server) => redisson::single(server),
            Self::Sentinel(sentinels) => redisson::sentinels(sentinels),
            Self::Cluster(cluster) => redisson::cluster(cluster, "default"),
            Self::Quorum(_) => panic!("for Redisson they are several stores"),
        }
    }

    /// The settings of a coordinator that reaches servers and sentinels at these ports.
    pub(crate) fn settings(&self, ports: &[u16], sentinels: &[u16]) -> Settings {
        let host = self.server(0).host();
        let url = |port: &u16| format!("{host}:{port}");
        let scheme = self.server(0).tls_port().map_or("redis", |_| "rediss");
        match self {
            Self::Single(_) => Settings::on(&format!("{scheme}://{}", url(&ports[0]))),
            Self::Sentinel(_) => {
                Settings::on(&Sentinels::url_at(scheme, sentinels.iter().map(url)))
            }
            Self::Cluster(_) => {
                let seeds: Vec<_> = ports.iter().map(url).collect();
                Settings::on(&format!("{scheme}+cluster://{}", seeds.join(",")))
            }
            Self::Quorum(_) => {
                let urls = ports.iter().map(|port| format!("{scheme}://{}", url(port)));
                let urls: Vec<_> = urls.collect();
                Settings::on_none().with("store.quorum", &urls.join(" "))
            }
        }
    }
}
