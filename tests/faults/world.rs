//! What breaks: a store as it is deployed, and two coordinators on it, of which the first may be
//! cut off from the store.

use std::{net::Ipv4Addr, time::Duration};

use futures::future::join_all;
use tokio::net::TcpListener;

use crate::{
    clock::Clock,
    coordinator::{Coordinator, Settings},
    history::Name,
    redis_server::RedisServer,
    row::fault_seconds,
    sentinels::Sentinel,
    store::Store,
    tcp_proxy::TcpProxy,
    time::say,
    tls::Certificate,
    wire::{Impairment, Wire},
};

/// The lock whose shard is broken, where there are several.
pub(crate) const WITNESS: Name = 0;

/// The lease of sessions: longer than a failover takes here, and soon over.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// A coordinator is killed that is this much older than the time of faults.
const AGE_MAX: Duration = Duration::from_secs(600);

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

/// What a row starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) kind: Kind,
    /// For every redis-server, besides what the file in `deploy/` says.
    pub(crate) server: &'static [&'static str],
    /// For the coordinators.
    pub(crate) settings: &'static [(&'static str, &'static str)],
    pub(crate) network: Network,
    pub(crate) clocks: Clocks,
    /// Servers, sentinels and coordinators speak TLS to each other.
    pub(crate) tls: bool,
    /// Programs with the real Redisson contend for the lock on which most is seen.
    pub(crate) redisson: bool,
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
    /// Between the first coordinator and all others, servers and clients, is a wire.
    OverWire,
}

/// Whose clocks can step. Sentinels go by that of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// Nobody's.
    Steady,
    /// The common one of the first so many servers.
    OfServers(usize),
    /// The first coordinator's.
    OfCoordinator,
}

/// All of it.
pub(crate) struct World {
    pub(crate) store: Store,
    /// Where the network can be cut.
    pub(crate) cuts: Vec<TcpProxy>,
    _others: Vec<TcpProxy>,
    pub(crate) coordinators: Vec<Coordinator>,
    wire: Option<Wire>,
    clock: Option<Clock>,
    _certificate: Option<Certificate>,
}

/// The proxies between the first coordinator and the servers, if there are any.
struct Proxies {
    /// Where the network can be cut.
    cuts: Vec<TcpProxy>,
    others: Vec<TcpProxy>,
    /// The ports by which the first coordinator finds the servers, and the sentinels.
    first: Vec<u16>,
    first_sentinels: Vec<u16>,
}

// === impl Setup ===

impl Setup {
    /// How many replicas must acknowledge a grant.
    pub(crate) fn replica_acks(&self) -> u32 {
        let mut settings = self.settings.iter();
        let acks = settings.find(|(key, _)| *key == "store.replica_acks");
        acks.map_or(0, |(_, acks)| acks.parse().expect("a number"))
    }
}

// === impl World ===

impl World {
    /// Calls that must not fail get the time that they have by default; the others' outcome counts
    /// as unknown sooner, so that a run is short. Says what it needs if that is missing.
    pub(crate) async fn start(setup: &Setup, may_fail: bool) -> Result<Self, String> {
        let wire = (setup.network == Network::OverWire).then(Wire::lay);
        let wire = wire.transpose()?;
        let clock = (setup.clocks != Clocks::Steady).then(Clock::build);
        let clock = clock.transpose()?;
        let near = wire.as_ref().map(|it| it.near);
        let addresses: Vec<_> = near.into_iter().chain([Ipv4Addr::LOCALHOST]).collect();
        let certificate = setup.tls.then(|| Certificate::of(&addresses));
        let started = Store::start(setup, wire.as_ref(), certificate.as_ref());
        let (mut store, between) = started.await;
        if let (Clocks::OfServers(count), Some(clock)) = (setup.clocks, &clock) {
            store.go_by(clock, count).await;
        }
        let call_timeout = if may_fail { "500ms" } else { "2s" };
        let has_tls = |it: &RedisServer| it.tls_port().is_some() == setup.tls;
        assert!(store.servers().all(has_tls), "not as the row says");
        let ports: Vec<_> = store.servers().map(RedisServer::service_port).collect();
        let sentinels = match &store {
            Store::Sentinel(it) => it.sentinels.iter().map(Sentinel::service_port).collect(),
            _ => Vec::new(),
        };
        let Proxies {
            cuts,
            others,
            first,
            first_sentinels,
        } = Proxies::start(setup, &store, between, &ports, &sentinels).await;
        let mut coordinators = Vec::new();
        for (ports, sentinels) in [(&first, &first_sentinels), (&ports, &sentinels)] {
            let settings = settings(store.settings(ports, sentinels), setup);
            let settings = settings.with("store.call_timeout", call_timeout);
            let settings = match &certificate {
                Some(it) => settings.with("store.tls.ca_file", &it.certificate()),
                None => settings,
            };
            coordinators.push(if coordinators.is_empty() {
                let clock = clock
                    .as_ref()
                    .filter(|_| setup.clocks == Clocks::OfCoordinator);
                start_first(settings, wire.as_ref(), clock).await
            } else {
                Coordinator::start(&settings).await
            });
        }
        Ok(Self {
            store,
            cuts,
            _others: others,
            coordinators,
            wire,
            clock,
            _certificate: certificate,
        })
    }

    /// What the first coordinator sends suffers this, and what it is sent that, meanwhile.
    pub(crate) async fn impaired(
        &mut self,
        [sent, received]: [Impairment; 2],
        meanwhile: impl AsyncFnOnce(&mut Store),
    ) {
        let wire = self.wire.as_ref().expect("a row with a wire");
        let before = wire.impaired();
        wire.impair(sent, received);
        meanwhile(&mut self.store).await;
        wire.impair(Impairment::NONE, Impairment::NONE);
        let impaired = wire.impaired() - before;
        say(&format!("the wire impaired {impaired} packets"));
        assert!(impaired > 0, "the first coordinator is not behind it");
    }

    pub(crate) fn step_clocks(&self, seconds: i64) {
        let clock = self.clock.as_ref().expect("a row with a clock");
        clock.step(seconds);
    }
}

// === impl Proxies ===

impl Proxies {
    /// Without any, the first coordinator finds the servers by their own ports.
    async fn start(
        setup: &Setup,
        store: &Store,
        between: Option<TcpProxy>,
        ports: &[u16],
        sentinels: &[u16],
    ) -> Self {
        let (mut cuts, mut others) = (Vec::new(), Vec::new());
        let (mut first, mut first_sentinels) = (ports.to_vec(), sentinels.to_vec());
        // Servers of a cluster name each other, and sentinels name servers: the first coordinator
        // has to hear of the ports that are meant for it.
        let mut renamed = Vec::new();
        if setup.network == Network::OfFirst {
            let listeners = join_all(ports.iter().map(|_| TcpProxy::listener())).await;
            let port = |it: &TcpListener| it.local_addr().expect("its address").port();
            first = listeners.iter().map(port).collect();
            renamed = ports.iter().copied().zip(first.iter().copied()).collect();
            let named = match store {
                Store::Cluster(_) => renamed.as_slice(),
                _ => &[],
            };
            for (listener, port) in listeners.into_iter().zip(ports) {
                cuts.push(TcpProxy::on(listener, *port, named));
            }
        }
        if let Some(between) = between {
            renamed = vec![(between.address().port(), ports[0])];
            cuts.push(between);
        }
        if !renamed.is_empty() {
            let mut proxies = Vec::new();
            for port in sentinels {
                proxies.push(TcpProxy::renaming(*port, &renamed).await);
            }
            first_sentinels = proxies.iter().map(|it| it.address().port()).collect();
            match setup.network {
                Network::Halves => cuts.append(&mut proxies),
                _ => others.append(&mut proxies),
            }
        }
        Self {
            cuts,
            others,
            first,
            first_sentinels,
        }
    }
}

/// Starts the first coordinator, which may be behind the wire, or have a clock of its own.
async fn start_first(
    mut settings: Settings,
    wire: Option<&Wire>,
    clock: Option<&Clock>,
) -> Coordinator {
    if let Some(wire) = wire {
        let launcher = wire.launcher();
        settings = settings.listening_at(wire.far).started_by(&launcher);
    }
    if let Some(clock) = clock {
        settings = settings.started_by(&clock.launcher());
    }
    let coordinator = Coordinator::start(&settings).await;
    if let Some(clock) = clock {
        clock.assert_is_of(coordinator.pid());
    }
    coordinator
}

fn settings(store: Settings, setup: &Setup) -> Settings {
    let settings = store
        .with("session.secret", "a secret of all the coordinators here")
        .with("session.lease", &format!("{}s", LEASE.as_secs()))
        .with("log.level", "info")
        .with_age_max(AGE_MAX + fault_seconds());
    let more = setup.settings.iter();
    more.fold(settings, |it, (key, value)| it.with(key, value))
}
