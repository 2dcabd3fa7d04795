//! A master with two replicas and three sentinels, real processes that belong to one test.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use deadpool_redis::redis::{Client, Cmd, Value, cmd, from_redis_value};
use futures::future::join_all;
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::redis_server::{
    PORTS_TRIED_MAX, RedisServer, TLS_PORT, deployed, eventually, free_port,
};

/// The file that the master and its replicas are started from, here as elsewhere.
const FILE: &str = "sentinel-master.conf";

/// What the sentinels call the master.
pub const SERVICE: &str = "locks";

/// A master sends its data to a replica as soon as that asks, and does not wait 5 s for others.
pub const AT_ONCE: [&str; 2] = ["--repl-diskless-sync-delay", "0"];

/// How long a server says nothing until it counts as down. A sentinel that goes over to a new
/// master connects to it up to a second and a tenth later, because it has just tried to reach the
/// old one, and takes it for silent meanwhile; and for 5 s what the other sentinels said of the old
/// one counts against the new one. With 1000 one election in thirty was followed by another.
const DOWN_AFTER_MILLIS: u32 = 1500;

const REPLICAS: usize = 2;
const SENTINELS: usize = 3;

/// A deployment of Redis that survives the loss of its master.
pub struct Sentinels {
    /// The first master and its replicas.
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<Sentinel>,
    /// By which port the others know the first master.
    known_as: u16,
}

/// One sentinel. It ends with this.
pub struct Sentinel {
    child: Child,
    host: String,
    port: u16,
    tls_port: Option<u16>,
    _directory: TempDir,
}

// === impl Sentinels ===

impl Sentinels {
    /// Starts all of them, with masters that do not mind being alone: most tests cut replicas off
    /// to see what that does.
    pub async fn start() -> Self {
        Self::start_with(&["--min-replicas-to-write", "0"]).await
    }

    /// The same with arguments for the servers; resolves when each sentinel knows all others and
    /// both replicas.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::start_known_as(arguments, &[], async |port| port).await
    }

    /// The same, with TLS for all of them if there are arguments for that, and with something at
    /// another port between the first master and all others.
    pub async fn start_known_as(
        arguments: &[&str],
        tls: &[&str],
        known_as: impl AsyncFnOnce(u16) -> u16,
    ) -> Self {
        let arguments = &[arguments, &AT_ONCE, tls].concat();
        let master = RedisServer::start_from(FILE, arguments).await;
        let known_as = known_as(master.service_port()).await;
        let (host, port) = (master.host().to_owned(), known_as.to_string());
        let mut servers = vec![master];
        for _ in 0..REPLICAS {
            let of_replica = ["--replicaof", &host, &port];
            let arguments = [arguments.as_slice(), &of_replica].concat();
            servers.push(RedisServer::start_from(FILE, &arguments).await);
        }
        let sentinels = join_all((0..SENTINELS).map(|_| Sentinel::start(&host, &port, tls))).await;
        let this = Self {
            servers,
            sentinels,
            known_as,
        };
        eventually("the replicas are connected", || async {
            let info = this.servers[0].info("replication").await;
            info.matches("state=online").count() == REPLICAS
        })
        .await;
        for sentinel in &this.sentinels {
            eventually("a sentinel answers", || async {
                sentinel.look_around_every(["50", "50"]).await
            })
            .await;
        }
        for sentinel in &this.sentinels {
            eventually("a sentinel knows all", || async {
                let master = sentinel.master().await.unwrap_or_default();
                let known = |field: &str, count: usize| {
                    let expected = format!("{field}={count};");
                    master.contains(&expected)
                };
                known("num-slaves", REPLICAS) && known("num-other-sentinels", SENTINELS - 1)
            })
            .await;
        }
        for sentinel in &this.sentinels {
            sentinel.look_around_every(["10000", "2000"]).await;
        }
        this
    }

    /// The store's address.
    pub fn url(&self) -> String {
        let scheme = self.servers[0].tls_port().map_or("redis", |_| "rediss");
        Self::url_at(scheme, self.sentinels.iter().map(Sentinel::address))
    }

    /// The same with others in the place of the sentinels.
    pub fn url_at(scheme: &str, addresses: impl Iterator<Item = String>) -> String {
        let hosts: Vec<_> = addresses.collect();
        format!("{scheme}+sentinel://{}/{SERVICE}", hosts.join(","))
    }

    /// Lets the servers be slow, for tests in which none of them dies.
    pub async fn be_patient(&self) {
        for sentinel in &self.sentinels {
            let mut set = cmd("SENTINEL");
            set.arg("SET").arg(SERVICE);
            set.arg("down-after-milliseconds").arg("30000");
            let answer = sentinel.ask(&set).await;
            assert_eq!(answer, Some(Value::Okay), "a sentinel takes the setting");
        }
    }

    /// The server that the sentinels name.
    pub async fn master(&self) -> Option<usize> {
        let master = self.sentinels[0].master().await?;
        let is = |port: u16| master.contains(&format!(";port={port};"));
        let named = self
            .servers
            .iter()
            .position(|server| is(server.service_port()));
        named.or_else(|| is(self.known_as).then_some(0))
    }

    /// Resolves when another server than this one is the master, and says which.
    pub async fn until_another_than(&self, before: usize) -> usize {
        let found = Mutex::new(None);
        eventually("another master is elected", || async {
            let Some(master) = self.master().await.filter(|master| *master != before) else {
                return false;
            };
            *found.lock() = Some(master);
            self.servers[master].connect_anew().await;
            let info = self.servers[master].info("replication").await;
            info.contains("role:master")
        })
        .await;
        let found = found.into_inner();
        found.expect("it was found")
    }

    /// Resolves when a replica follows the master: before that nobody acknowledges what is written
    /// there, and one that needs replicas takes no writes.
    pub async fn until_followed(&self) {
        eventually("a replica follows the master", || async {
            let Some(master) = self.master().await else {
                return false;
            };
            let master = &self.servers[master];
            master.connect_anew().await;
            let info = master.info("replication").await;
            info.contains("state=online")
        })
        .await;
    }

    /// The newest configuration that a sentinel knows of; each failover makes a newer one.
    pub async fn epoch(&self) -> Option<u64> {
        let known = join_all(self.sentinels.iter().map(Sentinel::master)).await;
        let epochs = known.iter().flatten().filter_map(|master| {
            let (_, rest) = master.split_once(";config-epoch=")?;
            rest.split(';').next()?.parse().ok()
        });
        epochs.max()
    }
}

// === impl Sentinel ===

impl Sentinel {
    /// Starts one. Another process may take a free port first, that of another sentinel too.
    async fn start(host: &str, master_port: &str, tls: &[&str]) -> Self {
        for _ in 0..PORTS_TRIED_MAX {
            let mut sentinel = Self::spawn(host, master_port, tls);
            if sentinel.answers().await {
                return sentinel;
            }
        }
        panic!("no sentinel starts");
    }

    fn spawn(host: &str, master_port: &str, tls: &[&str]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let port = free_port();
        let config = directory.path().join("sentinel.conf");
        // The file as it is used elsewhere, but for the addresses and less patience; of two values
        // the later counts.
        let deployed = fs::read_to_string(deployed("sentinel.conf")).expect("it is in the tree");
        let elsewhere = deployed
            .lines()
            .find(|line| line.starts_with("sentinel monitor "));
        let elsewhere = elsewhere.expect("a line that names the master");
        let here = format!("sentinel monitor {SERVICE} {host} {master_port} 2");
        let text = format!(
            "{}\nport {port}\nbind {host}\nprotected-mode no\ndir {}\n\
             sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MILLIS}\n\
             sentinel failover-timeout {SERVICE} 3000\n",
            deployed.replace(elsewhere, &here),
            directory.path().display()
        );
        fs::write(&config, text).expect("written");
        let tls_port = (!tls.is_empty()).then(free_port);
        let listen = tls_port.map(|port| [TLS_PORT.to_owned(), port.to_string()]);
        let child = Command::new("redis-server")
            .arg(&config)
            .arg("--sentinel")
            .args(tls)
            .args(listen.iter().flatten())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        Self {
            child,
            host: host.to_owned(),
            port,
            tls_port,
            _directory: directory,
        }
    }

    /// False if the process ended instead.
    async fn answers(&mut self) -> bool {
        let itself = format!("process_id:{}\r\n", self.child.id());
        let (host, port, child) = (&self.host, self.port, Mutex::new(&mut self.child));
        let has_ended = || child.lock().try_wait().expect("its state").is_some();
        eventually("a sentinel answers", || async {
            let info = ask_at(host, port, cmd("INFO").arg("server")).await;
            let info = info.and_then(|info| from_redis_value::<String>(info).ok());
            info.is_some_and(|info| info.contains(&itself)) || has_ended()
        })
        .await;
        !has_ended()
    }

    /// The port at which clients and other sentinels find it: that with TLS if it has one.
    pub fn service_port(&self) -> u16 {
        self.tls_port.unwrap_or(self.port)
    }

    /// Where clients find it.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.service_port())
    }

    /// What it knows of the master, as `;name=value;…`; none while it does not answer.
    async fn master(&self) -> Option<String> {
        let mut ask = cmd("SENTINEL");
        ask.arg("MASTER").arg(SERVICE);
        let Some(Value::Array(words)) = self.ask(&ask).await else {
            return None;
        };
        let words = words.chunks(2).map(|pair| match pair {
            [Value::BulkString(name), Value::BulkString(value)] => format!(
                "{}={}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            ),
            _ => String::new(),
        });
        Some(format!(";{};", words.collect::<Vec<_>>().join(";")))
    }

    /// How often it asks the servers about replicas and tells other sentinels of itself, in
    /// milliseconds; before Redis 7.0 that cannot be changed. False while it does not answer.
    async fn look_around_every(&self, [info, hello]: [&str; 2]) -> bool {
        let mut set = cmd("SENTINEL");
        set.arg("DEBUG").arg("INFO-PERIOD").arg(info);
        set.arg("PUBLISH-PERIOD").arg(hello);
        self.ask(&set).await.is_some()
    }

    /// None while it does not answer.
    async fn ask(&self, command: &Cmd) -> Option<Value> {
        ask_at(&self.host, self.port, command).await
    }

    /// Ends it.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

/// None while nobody answers there.
async fn ask_at(host: &str, port: u16, command: &Cmd) -> Option<Value> {
    let client = Client::open(format!("redis://{host}:{port}")).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    // An error is an answer, too.
    connection.send_packed_command(command).await.ok()
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
