//! The deployments that locks can be kept in, as data: what holds on one has to hold on all.

use deadpool_redis::redis::Value;
use futures::future::join_all;

use crate::{
    cluster::Cluster,
    coordinator::Settings,
    quorum::Quorum,
    redis_server::{Monitor, RedisServer, eventually},
    redisson,
    sentinels::{AT_ONCE, Sentinels},
};

/// How many servers a quorum has.
const MEMBERS: usize = 5;

/// A kind of deployment. Each of them runs every story of `tests/process/on_every_store/`, which
/// `tests/tidy/mission.rs` checks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Store {
    /// In the coordinator's own process.
    Embedded,
    /// One server.
    Single,
    /// A master, whose address is known, and a replica of it.
    Replicated,
    /// The same, with a replica that must know of a grant before it counts.
    Acknowledged,
    /// A master that sentinels name.
    Sentinel,
    /// Three masters with a replica each, which share the names.
    Cluster,
    /// Five servers that know nothing of each other, of which a majority decides.
    Quorum,
}

/// A running deployment, which ends with this.
pub enum Deployment {
    Embedded,
    /// The first one is the master.
    Servers(Vec<RedisServer>),
    /// The same, and the others have to know.
    Acknowledged(Vec<RedisServer>),
    Sentinels(Sentinels),
    Cluster(Cluster),
    Quorum(Quorum),
}

/// The servers that have a key, watched from [`Deployment::watch`] on.
pub struct Watch<'a>(Vec<(&'a RedisServer, Monitor)>);

// === impl Store ===

impl Store {
    /// Starts one that is empty, on free ports.
    pub async fn start(self) -> Deployment {
        match self {
            Self::Embedded => Deployment::Embedded,
            Self::Single => Deployment::Servers(vec![RedisServer::start().await]),
            Self::Replicated => Deployment::Servers(master_and_replica().await),
            Self::Acknowledged => Deployment::Acknowledged(master_and_replica().await),
            Self::Sentinel => {
                let sentinels = Sentinels::start().await;
                sentinels.be_patient().await;
                Deployment::Sentinels(sentinels)
            }
            Self::Cluster => Deployment::Cluster(patient_cluster().await),
            Self::Quorum => Deployment::Quorum(Quorum::start(MEMBERS).await),
        }
    }

    /// Whether it has what needs one order that all see: fair locks, semaphores and latches.
    pub fn has_queues(self) -> bool {
        self != Self::Quorum
    }

    /// Whether several coordinators can share it.
    pub fn is_shared(self) -> bool {
        self != Self::Embedded
    }
}

async fn master_and_replica() -> Vec<RedisServer> {
    let master = RedisServer::start_with(&AT_ONCE).await;
    let port = master.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &port]).await;
    eventually("the replica is connected", || async {
        master.info("replication").await.contains("state=online")
    })
    .await;
    vec![master, replica]
}

/// Nobody dies here, but on a busy machine somebody may be slow.
async fn patient_cluster() -> Cluster {
    let cluster = Cluster::start().await;
    for node in cluster.running() {
        let set = ["CONFIG", "SET", "cluster-node-timeout", "30000"];
        cluster.node(node).command(&set).await;
    }
    cluster
}

// === impl Deployment ===

impl Deployment {
    /// What a coordinator on it is told.
    pub fn settings(&self) -> Settings {
        match self {
            Self::Embedded => Settings::on("embedded:"),
            Self::Servers(servers) => Settings::on(&servers[0].url()),
            Self::Acknowledged(servers) => {
                Settings::on(&servers[0].url()).with("store.replica_acks", "1")
            }
            Self::Sentinels(sentinels) => Settings::on(&sentinels.url()),
            Self::Cluster(cluster) => Settings::on(&cluster.url()),
            Self::Quorum(quorum) => {
                let urls: Vec<_> = quorum.members.iter().map(RedisServer::url).collect();
                // As patient as with any other store: here all members answer, however busy the
                // machine is.
                Settings::on_quorum(&urls.join(" ")).with("store.quorum_member_timeout", "2s")
            }
        }
    }

    /// How a Redisson client is told of it, in the words of the tests' agent; of a cluster also in
    /// which way it is to subscribe.
    pub fn in_java(&self, subscription: &str) -> Vec<String> {
        match self {
            Self::Embedded => panic!("no other client gets at it"),
            Self::Servers(servers) | Self::Acknowledged(servers) => redisson::single(&servers[0]),
            Self::Sentinels(sentinels) => redisson::sentinels(sentinels),
            Self::Cluster(cluster) => redisson::cluster(cluster, subscription),
            Self::Quorum(_) => panic!("for Redisson they are several deployments"),
        }
    }

    /// The server on which a key is written, where it is one.
    pub async fn keeper(&self, key: &str) -> &RedisServer {
        let keepers = self.keepers(key).await;
        assert_eq!(keepers.len(), 1, "one server keeps a key");
        keepers[0]
    }

    /// The servers on which a key is written: none that could be asked, the one that is its master,
    /// or all members of a quorum.
    async fn keepers(&self, key: &str) -> Vec<&RedisServer> {
        match self {
            Self::Embedded => Vec::new(),
            Self::Servers(servers) | Self::Acknowledged(servers) => vec![&servers[0]],
            Self::Sentinels(sentinels) => {
                let master = sentinels.master().await.expect("there is a master");
                vec![&sentinels.servers[master]]
            }
            Self::Cluster(cluster) => {
                let master = cluster.master_of(key).await.expect("the slot is served");
                vec![cluster.node(master)]
            }
            Self::Quorum(quorum) => quorum.members.iter().collect(),
        }
    }

    /// Whether somebody listens to a channel of a name, at each of those who may hear what is said
    /// about it.
    async fn are_listened_to(&self, name: &str, channel: &str) -> Vec<bool> {
        if let Self::Cluster(cluster) = self {
            let mut is_heard = false;
            for node in cluster.running() {
                let node = cluster.node(node);
                is_heard |= hears(node, channel).await || hears_in_shard(node, channel).await;
            }
            // What is said is heard wherever one listens.
            return vec![is_heard];
        }
        let keepers = self.keepers(name).await.into_iter();
        join_all(keepers.map(|server| hears(server, channel))).await
    }

    /// What those that have the key answer. Nothing from the embedded store, into which `tests/it`
    /// looks.
    pub async fn ask(&self, key: &str, words: &[&str]) -> Vec<String> {
        let mut answers = Vec::new();
        for server in self.keepers(key).await {
            answers.push(server.text(words).await);
        }
        answers
    }

    /// Waits until most of those that have the key answer so.
    pub async fn until(&self, key: &str, words: &[&str], is: impl Fn(&str) -> bool) {
        let what = format!("{words:?} is as it should be");
        eventually(&what, || async {
            let answers = self.ask(key, words).await;
            let as_wanted = answers.iter().filter(|answer| is(answer)).count();
            2 * as_wanted > answers.len() || answers.is_empty()
        })
        .await;
    }

    /// Whether an operator gets at what is in it.
    pub fn is_open(&self) -> bool {
        !matches!(self, Self::Embedded)
    }

    /// Waits until somebody, or nobody, listens to a channel of a name.
    pub async fn until_listened_to(&self, name: &str, channel: &str, wanted: bool) {
        eventually("the channel is listened to as it should be", || async {
            let listened = self.are_listened_to(name, channel).await;
            listened.into_iter().all(|is| is == wanted)
        })
        .await;
    }

    /// Watches what is executed where a key is.
    pub async fn watch(&self, key: &str) -> Watch<'_> {
        let mut watched = Vec::new();
        for server in self.keepers(key).await {
            watched.push((server, server.monitor().await));
        }
        Watch(watched)
    }
}

async fn hears(server: &RedisServer, channel: &str) -> bool {
    let channels = server.command(&["PUBSUB", "CHANNELS", channel]).await;
    channels != Value::Array(Vec::new())
}

/// Redis 6 does not know the question: it has no channels of shards.
async fn hears_in_shard(server: &RedisServer, channel: &str) -> bool {
    let ask = ["PUBSUB", "SHARDCHANNELS", channel];
    let channels = server.try_command(&ask).await;
    channels.is_ok_and(|channels| channels != Value::Array(Vec::new()))
}

// === impl Watch ===

impl Watch<'_> {
    /// The keys of each script that clients have called and that has a key like this, server by
    /// server.
    pub async fn scripts_with(&self, key: &str) -> Vec<Vec<Vec<String>>> {
        let commands = self.commands(|line| !line.contains(" lua] ")).await;
        let keys_of = |words: &Vec<String>| {
            let is_script = words[0].to_uppercase().starts_with("EVAL");
            let count: usize = is_script.then(|| words[2].parse().expect("a number"))?;
            let keys = words[3..3 + count].to_vec();
            keys.iter().any(|it| it == key).then_some(keys)
        };
        let servers = commands.iter();
        servers
            .map(|words| words.iter().filter_map(keys_of).collect())
            .collect()
    }

    /// What scripts have published to a channel, server by server.
    pub async fn published_to(&self, channel: &str) -> Vec<Vec<String>> {
        let published = self.published(|it| it == channel).await.into_iter();
        let messages = |messages: Vec<(String, String)>| {
            let messages = messages.into_iter().map(|(_, message)| message);
            messages.collect()
        };
        published.map(messages).collect()
    }

    /// Channels and what scripts have published to them, in order, server by server; on a cluster
    /// what is said in both of its ways is said once.
    pub async fn published(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Vec<(String, String)>> {
        let commands = self.commands(|line| line.contains(" lua] ")).await;
        let message = |words: &Vec<String>| {
            let is_one = words[0].eq_ignore_ascii_case("publish") && is_wanted(&words[1]);
            is_one.then(|| (words[1].clone(), words[2].clone()))
        };
        let servers = commands.iter();
        servers
            .map(|words| words.iter().filter_map(message).collect())
            .collect()
    }

    async fn commands(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Vec<Vec<String>>> {
        let mut all = Vec::new();
        for (server, monitor) in &self.0 {
            let lines = monitor.lines(server).await;
            let wanted = lines.iter().filter(|line| is_wanted(line));
            all.push(wanted.map(|line| words(line)).collect());
        }
        all
    }
}

/// The words of a command, as MONITOR shows it.
fn words(line: &str) -> Vec<String> {
    let (_, quoted) = line.split_once("] ").expect("a command");
    let words = quoted.split("\" \"");
    words
        .map(|word| word.trim_matches('"').to_owned())
        .collect()
}
