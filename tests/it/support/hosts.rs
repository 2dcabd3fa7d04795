//! The hosts that scripts run on, as data: what holds on one has to hold on all.

use std::time::Duration;

use deadpool_redis::redis::{self, AsyncConnectionConfig, Cmd, aio::MultiplexedConnection};
use futures::future::join_all;
use lockkeeper_store::{
    host::{
        Connected, Value,
        embedded::{Clock, EmbeddedStore},
        redis::{RedisConfig, connect},
    },
    script::catalog,
};
use lockkeeper_testkit::expect;

use crate::{
    cluster::{Cluster, MASTERS},
    redis_server::RedisServer,
    sentinels::Sentinels,
};

/// Every host. One that cannot be started fails the test.
pub(crate) const HOSTS: [Host; 4] = [Host::Embedded, Host::Redis, Host::Sentinel, Host::Cluster];

/// Those that are compared with each other, call by call.
pub(crate) const TWINS: [Host; 2] = [Host::Embedded, Host::Redis];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Host {
    Embedded,
    Redis,
    /// The master of three servers that three sentinels watch over.
    Sentinel,
    /// Three masters, each with its share of the slots.
    Cluster,
}

/// A store of its own for one test, and how an operator gets at it.
pub(crate) enum Store {
    Embedded(EmbeddedStore),
    Redis {
        url: String,
        operator: MultiplexedConnection,
        /// The servers, which end with the store.
        _running: Box<dyn Send + Sync>,
    },
    Cluster(Cluster),
}

/// Long enough for a busy machine: no test waits for it.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Host ===

impl Host {
    /// An empty store.
    pub(crate) async fn start(self) -> Store {
        match self {
            Self::Embedded => Store::Embedded(EmbeddedStore::new(Clock::system())),
            Self::Redis => Store::on(RedisServer::start().await).await,
            Self::Sentinel => {
                let sentinels = Sentinels::start().await;
                sentinels.be_patient().await;
                Store::Redis {
                    url: sentinels.url(),
                    operator: operator_of(&sentinels.servers[0]).await,
                    _running: Box::new(sentinels),
                }
            }
            Self::Cluster => Store::Cluster(Cluster::start_without_replicas().await),
        }
    }
}

async fn operator_of(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(CALL_TIMEOUT));
    let connected = client.get_multiplexed_async_connection_with_config(&config);
    connected.await.unwrap()
}

// === impl Store ===

impl Store {
    pub(crate) async fn on(server: RedisServer) -> Self {
        Self::Redis {
            url: server.url(),
            operator: operator_of(&server).await,
            _running: Box::new(server),
        }
    }

    /// A client of the store.
    pub(crate) fn connect(&self) -> Connected {
        match self {
            Self::Embedded(store) => store.connect(),
            Self::Redis { url, .. } => connect_to(url.clone()),
            Self::Cluster(cluster) => connect_to(cluster.url()),
        }
    }

    /// Runs a command past all clients, on the master of the key that comes first if it names one;
    /// an error is its text.
    pub(crate) async fn try_command(&self, words: &[&[u8]]) -> Result<Value, String> {
        match self {
            Self::Embedded(store) => store.command(words).map_err(|error| error.to_string()),
            Self::Redis { operator, .. } => {
                let reply = operator.clone().send_packed_command(&cmd_of(words)).await;
                read(reply)
            }
            Self::Cluster(cluster) => {
                let master = match words.get(1) {
                    Some(key) => cluster.first_master_of(key).await,
                    None => 0,
                };
                read(cluster.node(master).execute(&cmd_of(words)).await)
            }
        }
    }

    /// The same, for commands that cannot fail.
    pub(crate) async fn command(&self, words: &[&str]) -> Value {
        let bytes: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        match self.try_command(&bytes).await {
            Ok(reply) => reply,
            Err(error) => panic!("{words:?}: {error}"),
        }
    }

    /// Removes all keys.
    pub(crate) async fn flush(&self) {
        match self {
            Self::Embedded(store) => store.flush_all(),
            Self::Redis { .. } | Self::Cluster(_) => drop(self.everywhere(&["FLUSHALL"]).await),
        }
    }

    /// Makes the server forget the scripts that it has loaded.
    pub(crate) async fn forget_scripts(&self) {
        match self {
            Self::Embedded(_) => {}
            Self::Redis { .. } | Self::Cluster(_) => {
                self.everywhere(&["SCRIPT", "FLUSH"]).await;
            }
        }
    }

    pub(crate) async fn key_count(&self) -> usize {
        match self {
            Self::Embedded(store) => store.key_count(),
            Self::Redis { .. } | Self::Cluster(_) => {
                let counts = self.everywhere(&["DBSIZE"]).await.into_iter();
                let counts =
                    counts.map(|count| usize::try_from(expect!(count, Value::Int)).unwrap());
                counts.sum()
            }
        }
    }

    /// Runs a command on every master.
    async fn everywhere(&self, words: &[&str]) -> Vec<Value> {
        let Self::Cluster(cluster) = self else {
            return vec![self.command(words).await];
        };
        let nodes = (0..MASTERS).map(|number| cluster.node(number).command(words));
        join_all(nodes).await.into_iter().map(value).collect()
    }

    pub(crate) async fn set_out_of_memory(&self, out_of_memory: bool) {
        match self {
            Self::Embedded(store) => store.set_out_of_memory(out_of_memory),
            Self::Redis { .. } | Self::Cluster(_) => {
                let bytes = if out_of_memory { "1" } else { "0" };
                let set = ["CONFIG", "SET", "maxmemory", bytes];
                self.everywhere(&set).await;
            }
        }
    }

    /// What the store's clock shows, in microseconds.
    pub(crate) async fn now_micros(&self) -> i64 {
        let parts = expect!(self.command(&["TIME"]).await, Value::Array);
        let part = |part: &Value| {
            let digits = str::from_utf8(expect!(part, Value::Bytes)).unwrap();
            digits.parse::<i64>().unwrap()
        };
        part(&parts[0]) * 1_000_000 + part(&parts[1])
    }
}

pub(crate) fn connect_to(url: String) -> Connected {
    let config = RedisConfig {
        url,
        call_timeout: CALL_TIMEOUT,
        scripts: &catalog::ALL,
        ..RedisConfig::default()
    };
    connect(&config).unwrap()
}

fn cmd_of(words: &[&[u8]]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

fn read(reply: redis::RedisResult<redis::Value>) -> Result<Value, String> {
    let reply = reply.and_then(redis::Value::extract_error);
    reply.map(value).map_err(|error| error.to_string())
}

fn value(reply: redis::Value) -> Value {
    match reply {
        redis::Value::Nil => Value::Nil,
        redis::Value::Int(number) => Value::Int(number),
        redis::Value::BulkString(bytes) => Value::Bytes(bytes.into()),
        redis::Value::SimpleString(text) => Value::Bytes(text.into()),
        redis::Value::Okay => Value::Bytes("OK".into()),
        redis::Value::Array(items) => Value::Array(items.into_iter().map(value).collect()),
        other => panic!("{other:?}"),
    }
}
