//! The hosts that scripts run on, as data: what holds on one has to hold on all.

use std::time::Duration;

use deadpool_redis::redis::{self, Cmd, aio::MultiplexedConnection};
use lockkeeper::{
    host::{
        Connected, Value,
        embedded::{Clock, EmbeddedStore},
        redis::{RedisConfig, connect},
    },
    script::catalog,
};

use crate::{redis_server::RedisServer, sentinels::Sentinels};

/// Every host. One that cannot be started fails the test.
pub(crate) const HOSTS: [Host; 3] = [Host::Embedded, Host::Redis, Host::Sentinel];

#[derive(Clone, Copy, Debug)]
pub(crate) enum Host {
    Embedded,
    Redis,
    /// The master of three servers that three sentinels watch over.
    Sentinel,
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
        }
    }
}

async fn operator_of(server: &RedisServer) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
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
            Self::Redis { url, .. } => connect(&RedisConfig {
                url: url.clone(),
                call_timeout: CALL_TIMEOUT,
                scripts: &catalog::ALL,
                ..RedisConfig::default()
            })
            .unwrap(),
        }
    }

    /// Runs a command past all clients; an error is its text.
    pub(crate) async fn try_command(&self, words: &[&[u8]]) -> Result<Value, String> {
        match self {
            Self::Embedded(store) => store.command(words).map_err(|error| error.to_string()),
            Self::Redis { operator, .. } => {
                let mut command = Cmd::new();
                for word in words {
                    command.arg(*word);
                }
                let reply = operator.clone().send_packed_command(&command).await;
                let reply = reply.and_then(redis::Value::extract_error);
                reply.map(value).map_err(|error| error.to_string())
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
            Self::Redis { .. } => drop(self.command(&["FLUSHALL"]).await),
        }
    }

    /// Makes the server forget the scripts that it has loaded.
    pub(crate) async fn forget_scripts(&self) {
        match self {
            Self::Embedded(_) => {}
            Self::Redis { .. } => drop(self.command(&["SCRIPT", "FLUSH"]).await),
        }
    }

    pub(crate) async fn key_count(&self) -> usize {
        match self {
            Self::Embedded(store) => store.key_count(),
            Self::Redis { .. } => match self.command(&["DBSIZE"]).await {
                Value::Int(count) => count.try_into().unwrap(),
                other => panic!("{other:?}"),
            },
        }
    }

    pub(crate) async fn set_out_of_memory(&self, out_of_memory: bool) {
        match self {
            Self::Embedded(store) => store.set_out_of_memory(out_of_memory),
            Self::Redis { .. } => {
                let bytes = if out_of_memory { "1" } else { "0" };
                self.command(&["CONFIG", "SET", "maxmemory", bytes]).await;
            }
        }
    }

    /// What the store's clock shows, in microseconds.
    pub(crate) async fn now_micros(&self) -> i64 {
        let Value::Array(parts) = self.command(&["TIME"]).await else {
            panic!("a time has parts")
        };
        let part = |part: &Value| match part {
            Value::Bytes(digits) => str::from_utf8(digits).unwrap().parse::<i64>().unwrap(),
            other => panic!("{other:?}"),
        };
        part(&parts[0]) * 1_000_000 + part(&parts[1])
    }
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
