//! One store, some coordinators, and connections to them that can be cut.

use std::{cell::Cell, io, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use lockkeeper_access::{Access, Identity};
use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_coordinator::{self, Coordinator, Limits, SessionId, SessionSecrets};
use lockkeeper_facades::Facades;
use lockkeeper_server::{
    fleet::{self, Fleet},
    grpc::{self, Peer, Usage},
    pages::Samples,
    probe::StoreProbe,
};
use lockkeeper_store::{
    host::{
        Connected, Replicas, Value,
        embedded::{Clock, EmbeddedStore},
    },
    script,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::transport::Endpoint;

use super::{
    Faults, FaultyHost, Network,
    arrived::{Arrived, BUFFER, pump},
    client::{Client, Session},
    roads::Roads,
};

/// What a test may want otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) coordinators: usize,
    /// More than one are a quorum.
    pub(crate) stores: usize,
    pub(crate) limits: Limits,
    pub(crate) call_timeout: Duration,
    pub(crate) replica_acks: Option<Replicas>,
    pub(crate) secret: &'static str,
    pub(crate) unix_seconds: fn() -> u64,
    pub(crate) operations_per_session_max: usize,
    pub(crate) access: Access,
    pub(crate) connection_age_max: Option<Duration>,
    /// Whether the coordinators announce themselves and ask each other.
    pub(crate) fleet: bool,
    /// The protocols of other systems that are served.
    pub(crate) facades: Facades,
}

/// The test's world.
pub(crate) struct World {
    /// The first, or the only one.
    pub(crate) store: EmbeddedStore,
    pub(crate) stores: Vec<EmbeddedStore>,
    /// How coordinators reach each other.
    pub(crate) roads: Roads,
    nodes: Vec<Node>,
}

struct Node {
    coordinator: Coordinator,
    connections: mpsc::UnboundedSender<io::Result<Arrived>>,
    announcing: Option<AbortOnDropHandle<()>>,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            coordinators: 1,
            stores: 1,
            limits: Limits {
                key_prefix: "".into(),
                name_bytes_max: 512,
                owner_bytes_max: 128,
                request_id_bytes_max: 128,
                client_name_bytes_max: 128,
                lease_min: Duration::from_millis(100),
                lease_max: Duration::from_secs(24 * 3600),
                waiters_per_lock_max: 20_000,
                waiters_max: 200_000,
                waits_per_session_max: 20_000,
                sessions_max: 1000,
                grants_per_session_max: 1000,
                locks_per_request_max: 1000,
            },
            call_timeout: Duration::from_secs(2),
            replica_acks: None,
            secret: "a secret of all the coordinators here",
            unix_seconds: || 1_800_000_000,
            operations_per_session_max: 1024,
            access: Access::open(),
            connection_age_max: None,
            fleet: false,
            facades: Facades::default(),
        }
    }
}

impl Options {
    /// The usual ones, changed.
    pub(crate) fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
}

// === impl World ===

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&Options::default())
    }

    pub(crate) fn with(options: &Options) -> Self {
        Self::on(options, Self::store(), EmbeddedStore::connect)
    }

    /// One coordinator and a client of it.
    pub(crate) async fn with_client() -> (Self, Client) {
        let world = Self::new();
        let client = world.client(0).await;
        (world, client)
    }

    /// The same with a session.
    pub(crate) async fn with_session() -> (Self, Client, Session) {
        let (world, mut client) = Self::with_client().await;
        let session = client.open().await;
        (world, client, session)
    }

    /// Several coordinators on one store.
    pub(crate) fn of(coordinators: usize) -> Self {
        Self::over(coordinators, 1)
    }

    /// Two of them, and a client of each.
    pub(crate) async fn two_with_clients() -> (Self, Client, Client) {
        let world = Self::of(2);
        let (first, second) = (world.client(0).await, world.client(1).await);
        (world, first, second)
    }

    /// Coordinators on so many stores.
    pub(crate) fn over(coordinators: usize, stores: usize) -> Self {
        Self::with(&Options::with(|it| {
            it.coordinators = coordinators;
            it.stores = stores;
        }))
    }

    /// One coordinator whose calls can fail.
    pub(crate) fn faulty() -> (Faults, Self) {
        Self::faulty_with(&Options::default())
    }

    /// Coordinators whose calls can fail, all at once.
    pub(crate) fn faulty_with(options: &Options) -> (Faults, Self) {
        let (faults, connect) = FaultyHost::connector();
        let world = Self::on(options, Self::store(), connect);
        (faults, world)
    }

    /// A coordinator that lives, and one that can be cut off from the store.
    pub(crate) fn one_mortal() -> (Faults, Self) {
        Self::one_mortal_with(&Options::default())
    }

    pub(crate) fn one_mortal_with(options: &Options) -> (Faults, Self) {
        let (faults, mortal) = FaultyHost::connector();
        let lives = Cell::new(true);
        let options = Options {
            coordinators: 2,
            ..options.clone()
        };
        let world = Self::on(&options, Self::store(), |store| {
            if lives.replace(false) {
                store.connect()
            } else {
                mortal(store)
            }
        });
        (faults, world)
    }

    /// The same with a client.
    pub(crate) async fn faulty_with_client() -> (Faults, Self, Client) {
        let (faults, world) = Self::faulty();
        let client = world.client(0).await;
        (faults, world, client)
    }

    /// A store whose clock starts at the same moment in every test.
    pub(crate) fn store() -> EmbeddedStore {
        EmbeddedStore::new(Clock::starting_at(1_700_000_000_000_000))
    }

    /// Coordinators that reach the store in a way of the test's own.
    pub(crate) fn on(
        options: &Options,
        store: EmbeddedStore,
        connect: impl Fn(&EmbeddedStore) -> Connected,
    ) -> Self {
        let stores: Vec<_> = std::iter::once(store.clone())
            .chain((1..options.stores).map(|_| Self::store()))
            .collect();
        let connected = || stores.iter().map(&connect).collect();
        let roads = Roads::default();
        let nodes = (0..options.coordinators)
            .map(|number| Node::start(options, connected(), &roads, number))
            .collect();
        Self {
            store,
            stores,
            roads,
            nodes,
        }
    }

    pub(crate) fn coordinator(&self, node: usize) -> &Coordinator {
        &self.nodes[node].coordinator
    }

    /// Starts one more coordinator and returns its number.
    pub(crate) fn add_coordinator(&mut self, options: &Options) -> usize {
        let connected = self.stores.iter().map(EmbeddedStore::connect);
        let (connected, number) = (connected.collect(), self.nodes.len());
        let node = Node::start(options, connected, &self.roads, number);
        self.nodes.push(node);
        number
    }

    /// A coordinator ends for the others, as by a crash: it announces itself no more, and cannot be
    /// reached.
    pub(crate) fn end(&mut self, node: usize) {
        self.nodes[node].announcing = None;
        self.roads.close(node);
    }

    /// A client with a connection of its own to a coordinator.
    pub(crate) async fn client(&self, node: usize) -> Client {
        self.client_of(node, Peer::default()).await
    }

    /// The same on connections that are closed at this age.
    pub(crate) async fn client_until(&self, node: usize, age: Duration) -> Client {
        let usage = Arc::new(Usage::until(Some(age)));
        let peer = Peer {
            usage,
            ..Peer::default()
        };
        self.client_of(node, peer).await
    }

    /// The same for one who has shown who they are.
    pub(crate) async fn client_as(&self, node: usize, identity: &str) -> Client {
        let identity = Some(Identity::named(identity));
        let peer = Peer {
            identity,
            ..Peer::default()
        };
        self.client_of(node, peer).await
    }

    async fn client_of(&self, node: usize, peer: Peer) -> Client {
        let cut = CancellationToken::new();
        let connections = self.nodes[node].connections.clone();
        let cut_by = cut.clone();
        let connector = tower::service_fn(move |_| {
            let (connections, cut) = (connections.clone(), cut_by.clone());
            let peer = peer.clone();
            async move {
                let (near, near_end) = tokio::io::duplex(BUFFER);
                let (far_end, far) = tokio::io::duplex(BUFFER);
                pump(near_end, far_end, cut);
                connections
                    .send(Ok(Arrived { stream: far, peer }))
                    .map_err(io::Error::other)?;
                Ok::<_, io::Error>(TokioIo::new(near))
            }
        });
        let endpoint = Endpoint::from_static("http://in-memory");
        let channel = endpoint.connect_with_connector(connector).await.unwrap();
        Client::new(channel, cut)
    }

    /// The ways to the coordinators, for clients that connect by themselves.
    pub(crate) fn network(&self) -> Network {
        Network::new(self.nodes.iter().map(|it| it.connections.clone()))
    }

    /// Runs a command as redis-cli would.
    pub(crate) fn redis(&self, command: &[&str]) -> Value {
        let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
        self.store.command(&words).unwrap()
    }

    pub(crate) async fn until_waiting(&self, node: usize, count: usize) {
        super::eventually("they wait", || async {
            self.coordinator(node).load().waiters == count
        })
        .await;
    }

    pub(crate) async fn until_listening(&self, channel: &str, count: usize) {
        super::eventually("they listen", || async {
            self.store.subscription_count(channel) == count
        })
        .await;
    }

    /// Waits until the store answers a command with a number.
    pub(crate) async fn until_answer(&self, command: &[&str], answer: i64) {
        super::eventually("the store answers so", || async {
            self.redis(command) == Value::Int(answer)
        })
        .await;
    }

    /// Nothing is left behind: no key but the fencing counters, no wait, no subscription, nothing
    /// for the watchdog.
    pub(crate) async fn expect_nothing_left(&self, names: &[&str]) {
        for node in &self.nodes {
            super::eventually("the coordinator has nothing to look after", || async {
                let load = node.coordinator.load();
                load.waiters == 0 && load.sessions == 0 && load.deadlines == 0
            })
            .await;
        }
        for name in names {
            super::eventually("the lock is free", || async {
                self.redis(&["EXISTS", name]) == Value::Int(0)
            })
            .await;
            let channel = script::keys::channel(name);
            super::eventually("nobody listens", || async {
                self.store.subscription_count(&channel) == 0
            })
            .await;
        }
    }
}

// === impl Node ===

impl Node {
    fn start(
        options: &Options,
        mut connected: Vec<Connected>,
        roads: &Roads,
        number: usize,
    ) -> Self {
        let config = lockkeeper_coordinator::Config {
            limits: options.limits.clone(),
            lease: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            poll_jitter: 0.2,
            call_timeout: options.call_timeout,
            replica_acks: options.replica_acks,
            metric_prefixes: Vec::new(),
            scripts: script::Config {
                idle_token_retention: Duration::from_secs(7 * 24 * 3600),
                request_retention: Duration::from_secs(60),
                fair_waiter_timeout: Duration::from_secs(5),
                writer_hold_back: Duration::from_secs(5),
                holders_per_lock_max: 10_000,
                permits_per_name_max: 10_000,
                adopts_counters: true,
                native_commands: true,
            },
            resume_max: Duration::from_secs(24 * 3600),
            session_secrets: SessionSecrets::new(vec![options.secret.as_bytes().to_vec()]),
            unix_seconds: options.unix_seconds,
            session_id: SessionId::random,
        };
        let coordinator = if connected.len() == 1 {
            Coordinator::start(config, connected.remove(0))
        } else {
            let names = (1..).map(|number| format!("store {number}"));
            Coordinator::start_on_quorum(config, names.zip(connected).collect())
        };
        let fleet = match options.fleet.then(|| fleet_config(roads, number)) {
            Some(config) => Fleet::new(&coordinator, config),
            None => Fleet::default(),
        };
        let config = grpc_config(options, &fleet);
        let metrics = grpc::Metrics::default();
        let probe = StoreProbe::new(coordinator.clone());
        let services =
            grpc::services(&coordinator, probe, config, &options.access, &metrics).unwrap();
        let (connections, incoming) = mpsc::unbounded_channel();
        roads.add(connections.clone());
        let incoming = UnboundedReceiverStream::new(incoming);
        spawn_detached("server", async move {
            services.serve_http2(incoming).await.unwrap();
        });
        Self {
            coordinator,
            connections,
            announcing: Some(AbortOnDropHandle::new(spawn_detached(
                "announce",
                fleet.announce(),
            ))),
        }
    }
}

fn grpc_config(options: &Options, fleet: &Fleet) -> grpc::Config {
    grpc::Config {
        fleet: fleet.clone(),
        samples: Samples::default(),
        facades: options.facades,
        keepalive_interval: Duration::from_secs(20),
        keepalive_timeout: Duration::from_secs(10),
        connection_age_max: options.connection_age_max,
        grpc_web: false,
        http_json: true,
        allowed_hosts: None,
        message_bytes_max: 1024 * 1024,
        unfinished_bytes_max: 32 * 1024 * 1024,
        connection_streams_max: 20_000,
        operations_per_session_max: options.operations_per_session_max,
        header_list_bytes_max: 16 * 1024,
    }
}

fn fleet_config(roads: &Roads, number: usize) -> fleet::Config {
    fleet::Config {
        address: format!("http://node:{number}"),
        allow_plaintext: true,
        connect: roads.connect(),
    }
}
