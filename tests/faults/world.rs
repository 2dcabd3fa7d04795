//! What breaks: a store as it is deployed, and two coordinators on it, of which the first may be cut off from the store.

use std::time::Duration;

use crate::{
    coordinator::{Coordinator, Settings},
    redis_server::{RedisServer, eventually},
    sentinels::Sentinels,
    tcp_proxy::TcpProxy,
};

/// The lease of sessions: longer than a failover takes here, and soon over.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// How a store is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Single,
    Sentinel,
}

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
        }
    }

    fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Sentinel(sentinels) => sentinels.url(),
        }
    }

    pub(crate) fn servers(&self) -> &[RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Sentinel(sentinels) => &sentinels.servers,
        }
    }

    pub(crate) fn server_mut(&mut self, number: usize) -> &mut RedisServer {
        match self {
            Self::Single(server) => server,
            Self::Sentinel(sentinels) => &mut sentinels.servers[number],
        }
    }

    /// The server that has the locks.
    pub(crate) async fn master(&self) -> usize {
        match self {
            Self::Single(_) => 0,
            Self::Sentinel(sentinels) => {
                let is_known = || async { sentinels.master().await.is_some() };
                eventually("the sentinels name a master", is_known).await;
                sentinels.master().await.expect("a master")
            }
        }
    }

    /// Resolves when another server has the locks, if there is one to take over.
    pub(crate) async fn until_taken_over(&self, before: usize) {
        match self {
            Self::Single(_) => panic!("nobody takes over from a single server"),
            Self::Sentinel(sentinels) => {
                sentinels.until_another_than(before).await;
            }
        }
    }

    /// Resolves when every replica follows the master.
    pub(crate) async fn until_replicated(&self) {
        let Self::Sentinel(sentinels) = self else {
            return;
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
}

// === impl World ===

impl World {
    pub(crate) async fn start(setup: &Setup) -> Self {
        let store = Store::start(setup).await;
        let mut proxies = Vec::new();
        let mut sentinel_proxies = Vec::new();
        let mut first = store.url();
        if setup.is_proxied {
            for server in store.servers() {
                proxies.push(TcpProxy::to(server.port()).await);
            }
            first = proxies[0].url();
            if let Store::Sentinel(sentinels) = &store {
                let servers = sentinels.servers.iter().zip(&proxies);
                let ports: Vec<_> = servers
                    .map(|(server, proxy)| (server.port(), proxy.address().port()))
                    .collect();
                for sentinel in &sentinels.sentinels {
                    let proxy = TcpProxy::renaming(sentinel.port(), &ports).await;
                    sentinel_proxies.push(proxy);
                }
                let ports = sentinel_proxies.iter().map(|it| it.address().port());
                first = Sentinels::url_at(ports);
            }
        }
        let mut coordinators = Vec::new();
        for url in [first, store.url()] {
            coordinators.push(Coordinator::start(&settings(&url, setup)).await);
        }
        Self {
            store,
            proxies,
            _sentinel_proxies: sentinel_proxies,
            coordinators,
        }
    }
}

fn settings(url: &str, setup: &Setup) -> Settings {
    let settings = Settings::on(url)
        .with("session.secret", "a secret of all coordinators")
        .with("session.lease", &format!("{}s", LEASE.as_secs()))
        .with("store.call_timeout", "500ms")
        .with("log.level", "info");
    let more = setup.settings.iter();
    more.fold(settings, |it, (key, value)| it.with(key, value))
}
