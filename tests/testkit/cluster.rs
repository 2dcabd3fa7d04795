//! A cluster of three masters with a replica each, real processes that belong to one test.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
};

use deadpool_redis::redis::{RedisResult, Value, cmd};
use futures::future::join_all;

use crate::{
    expect,
    redis_server::{RedisServer, eventually},
};

/// Nodes `0..MASTERS` start as masters; node `n + MASTERS` as the replica of node `n`.
pub const MASTERS: usize = 3;

/// How many slots every cluster has.
pub const SLOTS: u16 = 16384;

/// How many slots each master has at the start; the last also has what is left.
const SHARE: usize = SLOTS as usize / MASTERS;

/// The file that the nodes are started from, here as elsewhere. After the timeout that it names
/// nodes take one that is silent for dead.
const FILE: &str = "cluster.conf";

/// Besides: replicas follow as soon as they can, and nobody adopts another's replica.
const SETTINGS: [&str; 8] = [
    "--cluster-allow-replica-migration",
    "no",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "1",
    "--appendfsync",
    "no",
];

/// A cluster of [`RedisServer`]s.
pub struct Cluster {
    nodes: Vec<Node>,
}

struct Node {
    server: RedisServer,
    id: String,
    /// It neither was killed nor is frozen.
    runs: AtomicBool,
}

/// The command that has a node serve these slots; Redis 6 has no `ADDSLOTSRANGE`.
pub fn add_slots(slots: Range<usize>) -> Vec<String> {
    let words = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter();
    words.chain(slots.map(|slot| slot.to_string())).collect()
}

// === impl Cluster ===

impl Cluster {
    /// Starts all nodes; resolves when every one of them says that all slots are served and every
    /// replica follows its master.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with more arguments for every node.
    pub async fn start_with(arguments: &[&str]) -> Self {
        Self::start_of(2 * MASTERS, arguments).await
    }

    /// The masters alone, for tests in which nobody dies.
    pub async fn start_without_replicas() -> Self {
        Self::start_of(MASTERS, &[]).await
    }

    async fn start_of(nodes: usize, arguments: &[&str]) -> Self {
        let this = Self::start_apart(nodes, arguments).await;
        for (number, node) in this.nodes.iter().enumerate() {
            let epoch = (number + 1).to_string();
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
        }
        for master in 0..MASTERS {
            let from = master * SHARE;
            let end = if master + 1 == MASTERS {
                usize::from(SLOTS)
            } else {
                from + SHARE
            };
            let add = add_slots(from..end);
            let add: Vec<_> = add.iter().map(String::as_str).collect();
            this.nodes[master].command(&add).await;
        }
        this.introduce().await;
        for replica in MASTERS..this.nodes.len() {
            let master = &this.nodes[replica - MASTERS].id;
            let node = &this.nodes[replica];
            node.command(&["CLUSTER", "REPLICATE", master]).await;
        }
        this.until_settled().await;
        this
    }

    /// Starts nodes that know nothing of each other and serve nothing.
    pub async fn start_apart(nodes: usize, arguments: &[&str]) -> Self {
        let nodes = (0..nodes).map(|_| Node::start(arguments));
        let nodes = join_all(nodes).await;
        Self { nodes }
    }

    /// The store's address: all nodes are seeds.
    pub fn url(&self) -> String {
        let all: Vec<_> = (0..self.nodes.len()).collect();
        self.url_of(&all)
    }

    /// The store's address, with these nodes as seeds.
    pub fn url_of(&self, seeds: &[usize]) -> String {
        let hosts: Vec<_> = seeds
            .iter()
            .map(|&seed| format!("127.0.0.1:{}", self.nodes[seed].server.port()))
            .collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A node.
    pub fn node(&self, number: usize) -> &RedisServer {
        &self.nodes[number].server
    }

    /// A node, to start it again before anybody takes it for dead.
    pub fn node_mut(&mut self, number: usize) -> &mut RedisServer {
        &mut self.nodes[number].server
    }

    /// The nodes that run.
    pub fn running(&self) -> Vec<usize> {
        let runs = |number: &usize| self.nodes[*number].runs.load(Ordering::Relaxed);
        (0..self.nodes.len()).filter(runs).collect()
    }

    /// Ends a node at once, as a crash would.
    pub fn kill(&mut self, number: usize) {
        self.nodes[number].runs.store(false, Ordering::Relaxed);
        self.nodes[number].server.kill();
    }

    /// Freezes a node: its connections stay open and nothing is answered.
    pub fn stop(&self, number: usize) {
        self.nodes[number].runs.store(false, Ordering::Relaxed);
        self.nodes[number].server.stop();
    }

    /// Lets a frozen node go on.
    pub fn cont(&self, number: usize) {
        self.nodes[number].server.cont();
        self.nodes[number].runs.store(true, Ordering::Relaxed);
    }

    /// Starts a killed node again, with what it has on disk: it still knows who it is.
    pub async fn restart(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.server.connect_anew().await;
        node.server.restart_on_same_port().await;
        node.runs.store(true, Ordering::Relaxed);
    }

    /// The slot of a key, by a node's own word.
    pub async fn slot(&self, key: &str) -> u16 {
        let node = &self.nodes[self.running()[0]];
        let slot = node.text(&["CLUSTER", "KEYSLOT", key]).await;
        slot.parse().expect("a slot")
    }

    /// Names that begin with `prefix`, one in the slots of each master at the start.
    pub async fn name_on_each_master(&self, prefix: &str) -> [String; MASTERS] {
        let mut found = [const { String::new() }; MASTERS];
        for number in 0.. {
            let name = format!("{prefix}-{number}");
            let master = self.master_of(&name).await.expect("every slot is served");
            if found[master].is_empty() {
                found[master] = name;
            }
            if !found.iter().any(String::is_empty) {
                break;
            }
        }
        found
    }

    /// The running node that says of itself that it is the master of a key's slot.
    pub async fn master_of(&self, key: &str) -> Option<usize> {
        let slot = self.slot(key).await;
        self.master_of_slot(slot).await
    }

    /// The running node that says of itself that it is the master of a slot.
    pub async fn master_of_slot(&self, slot: u16) -> Option<usize> {
        for number in self.running() {
            let Ok(views) = self.nodes[number].views().await else {
                continue;
            };
            let itself = views.iter().find(|view| view.is_asked);
            if itself.is_some_and(|view| view.is_master && view.serves(slot)) {
                return Some(number);
            }
        }
        None
    }

    /// Resolves when another running node than this one is the master of a slot, and says which.
    pub async fn until_another_serves(&self, slot: u16, before: usize) -> usize {
        let found = parking_lot::Mutex::new(None);
        eventually("a replica is promoted", || async {
            let master = self.master_of_slot(slot).await;
            let other = master.filter(|master| *master != before);
            *found.lock() = other;
            other.is_some()
        })
        .await;
        let found = found.into_inner();
        found.expect("it was found")
    }

    /// The node that is the master of a key's slot as long as nothing has moved.
    pub async fn first_master_of(&self, key: &[u8]) -> usize {
        let mut ask = cmd("CLUSTER");
        ask.arg("KEYSLOT").arg(key);
        match self.nodes[0].server.execute(&ask).await {
            Ok(Value::Int(slot)) => {
                let share = usize::try_from(slot).expect("a slot") / SHARE;
                share.min(MASTERS - 1)
            }
            other => panic!("{other:?}"),
        }
    }

    /// Executes a command on the master of a key.
    pub async fn command_on(&self, key: &str, words: &[&str]) -> Value {
        let master = self.master_of(key).await.expect("the slot is served");
        self.nodes[master].server.command(words).await
    }

    /// Like [`Self::command_on`], for answers that are text or numbers.
    pub async fn text_on(&self, key: &str, words: &[&str]) -> String {
        let master = self.master_of(key).await.expect("the slot is served");
        self.nodes[master].text(words).await
    }

    /// Moves a slot with all its keys, as an operator's tool does while clients use it.
    pub async fn migrate(&self, slot: u16, to: usize) {
        let from = self.begin_migration(slot, to).await;
        self.move_keys(slot, from, to).await;
        self.end_migration(slot, from, to).await;
    }

    /// The first step: from here on keys that are missing are asked for at the new master. Says who
    /// the old one is.
    pub async fn begin_migration(&self, slot: u16, to: usize) -> usize {
        let from = self.master_of_slot(slot).await.expect("it is served");
        assert_ne!(from, to, "it is there already");
        let number = slot.to_string();
        let (old, new) = (&self.nodes[from], &self.nodes[to]);
        let importing = ["CLUSTER", "SETSLOT", &number, "IMPORTING", &old.id];
        new.command(&importing).await;
        let migrating = ["CLUSTER", "SETSLOT", &number, "MIGRATING", &new.id];
        old.command(&migrating).await;
        from
    }

    /// Another master that serves slots. Which nodes are masters changes with each failover.
    pub async fn other_master(&self, than: usize) -> usize {
        let id = &self.nodes[than].id;
        let views = self.nodes[than].views().await.expect("it answers");
        let serves = |it: &&View| it.is_master && !it.slots.is_empty() && it.id != *id;
        let other = views.iter().find(serves).expect("there are several");
        let is_it = |node: &Node| node.id == other.id;
        self.nodes.iter().position(is_it).expect("all are known")
    }

    /// The second step: moves the keys one by one, until none is left.
    pub async fn move_keys(&self, slot: u16, from: usize, to: usize) {
        while self.move_one_key(slot, from, to).await {}
    }

    /// Moves one key; false if there is none.
    pub async fn move_one_key(&self, slot: u16, from: usize, to: usize) -> bool {
        let (old, number) = (&self.nodes[from], slot.to_string());
        let ask = ["CLUSTER", "GETKEYSINSLOT", &number, "1"];
        let keys = expect!(old.server.command(&ask).await, Value::Array);
        let Some(Value::BulkString(key)) = keys.first() else {
            return false;
        };
        let key = str::from_utf8(key).expect("keys of tests are text");
        let port = self.nodes[to].server.service_port().to_string();
        // One that has expired meanwhile is no error: NOKEY.
        let migrate = ["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
        old.command(&migrate).await;
        true
    }

    /// The third step: the slot is the new master's; resolves when all running nodes know.
    pub async fn end_migration(&self, slot: u16, from: usize, to: usize) {
        let (number, id) = (slot.to_string(), &self.nodes[to].id);
        for node in [to, from] {
            let assign = ["CLUSTER", "SETSLOT", &number, "NODE", id];
            self.nodes[node].command(&assign).await;
        }
        eventually("all nodes know the slot's new master", || async {
            let knows = self.running().into_iter().map(|node| async move {
                let views = self.nodes[node].views().await.unwrap_or_default();
                let master = views.iter().find(|view| view.serves(slot));
                master.is_some_and(|view| view.id == *id)
            });
            join_all(knows).await.into_iter().all(|knows| knows)
        })
        .await;
    }

    /// Resolves when all running nodes agree on who serves what, say that they serve, and all
    /// running replicas follow.
    pub async fn until_settled(&self) {
        eventually("the cluster is settled", || async {
            let running = self.running();
            let nodes = running.iter().map(|&number| self.nodes[number].state());
            let Some(states) = join_all(nodes)
                .await
                .into_iter()
                .collect::<Option<Vec<_>>>()
            else {
                return false;
            };
            states.windows(2).all(|pair| pair[0] == pair[1])
        })
        .await;
    }

    /// Has all nodes meet all others, which is faster than to let them gossip.
    async fn introduce(&self) {
        for node in &self.nodes {
            for other in self.nodes.iter().filter(|other| other.id != node.id) {
                let host = other.server.host();
                let port = other.server.service_port().to_string();
                node.command(&["CLUSTER", "MEET", host, &port]).await;
            }
        }
        eventually("all nodes know each other", || async {
            let views = self.nodes.iter().map(Node::views);
            let views = join_all(views).await;
            views.iter().flatten().all(|known| {
                // Not yet those whose name is made up until they have answered.
                let real = |view: &View| self.nodes.iter().any(|node| node.id == view.id);
                known.len() == self.nodes.len() && known.iter().all(real)
            })
        })
        .await;
    }
}

// === impl Node ===

impl Node {
    /// Its port for other nodes is 10,000 higher, because Redis 6 lets nobody choose it. If that is
    /// taken, or too high, the server ends and is started with another.
    async fn start(arguments: &[&str]) -> Self {
        let arguments = [&SETTINGS[..], arguments].concat();
        let server = RedisServer::start_from(FILE, &arguments).await;
        let id = server.text(&["CLUSTER", "MYID"]).await;
        Self {
            server,
            id,
            runs: AtomicBool::new(true),
        }
    }

    async fn command(&self, words: &[&str]) {
        self.server.command(words).await;
    }

    async fn text(&self, words: &[&str]) -> String {
        self.server.text(words).await
    }

    /// Which masters serve what, by its word, if it serves and, being a replica, follows.
    async fn state(&self) -> Option<BTreeMap<String, Vec<String>>> {
        let info = self.text(&["CLUSTER", "INFO"]).await;
        let replication = self.server.info("replication").await;
        let follows = replication.contains("role:master")
            || replication.contains("master_link_status:up")
                && replication.contains("master_sync_in_progress:0");
        if !info.contains("cluster_state:ok") || !follows {
            return None;
        }
        let views = self.views().await.ok()?;
        let masters = views.into_iter().filter(|view| view.is_master);
        Some(masters.map(|view| (view.id, view.slots)).collect())
    }

    async fn views(&self) -> RedisResult<Vec<View>> {
        let answer = self.server.try_command(&["CLUSTER", "NODES"]).await?;
        let lines = match answer {
            Value::BulkString(bytes) => String::from_utf8(bytes).expect("text"),
            Value::VerbatimString { text, .. } => text,
            other => panic!("{other:?}"),
        };
        Ok(lines.lines().map(View::parse).collect())
    }
}

/// A node as one of them sees it.
struct View {
    id: String,
    is_asked: bool,
    is_master: bool,
    /// Such as `0-5460`.
    slots: Vec<String>,
}

// === impl View ===

impl View {
    fn parse(line: &str) -> Self {
        let mut words = line.split(' ');
        let id = words.next().unwrap_or_default().to_owned();
        let flags: Vec<_> = words.nth(1).unwrap_or_default().split(',').collect();
        // Slots that are under way are in brackets.
        let slots = words.skip(5).filter(|slots| !slots.starts_with('['));
        Self {
            id,
            is_asked: flags.contains(&"myself"),
            is_master: flags.contains(&"master") && !flags.contains(&"fail"),
            slots: slots.map(str::to_owned).collect(),
        }
    }

    fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.parse::<u16>().expect("a slot");
            (number(from)..=number(to)).contains(&slot)
        })
    }
}
