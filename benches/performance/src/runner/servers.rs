//! The servers that are measured, each started for one measurement, so that none finds what another
//! left.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::process::Command;

use super::process::{Server, free_port};

/// Memory that looks like a disk: there etcd's fsync costs nothing.
const MEMORY: &str = "/dev/shm";

/// What etcd calls itself.
const ETCD_MEMBER: &str = "bench";

/// What runs instead of the Redis of PATH.
#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    /// In the file of results.
    pub(super) name: &'static str,
    /// For people.
    pub(super) title: &'static str,
    /// The environment variable with the folder of its `redis-server`.
    pub(super) variable: &'static str,
}

pub(super) const REDIS_8: Store = Store {
    name: "redis-8",
    title: "Redis 8",
    variable: "BENCH_REDIS_8",
};

pub(super) const VALKEY_9: Store = Store {
    name: "valkey-9",
    title: "Valkey 9",
    variable: "BENCH_VALKEY_9",
};

pub(super) const OTHER_STORES: [Store; 2] = [REDIS_8, VALKEY_9];

/// The programs of this run.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// `lockkeeper`, built like this program.
    pub(crate) coordinator: PathBuf,
    /// This program.
    pub(crate) own: PathBuf,
    pub(super) redis: PathBuf,
    /// Servers besides that, by the name of the store.
    pub(super) other_stores: BTreeMap<&'static str, PathBuf>,
    pub(super) etcd: Option<PathBuf>,
    /// The folder with the Java program that uses Redisson, and Java.
    pub(super) redisson: Option<(PathBuf, PathBuf)>,
}

/// A server with the folder it writes to.
#[derive(Debug)]
pub(crate) struct InFolder {
    pub(super) server: Server,
    _folder: TempDir,
}

// === impl Programs ===

impl Programs {
    /// Looks where they are; the second is what is missing, by its name, and why.
    pub(crate) fn find() -> anyhow::Result<(Self, Vec<(String, String)>)> {
        let own = env::current_exe()?;
        let coordinator = own.with_file_name("lockkeeper");
        let coordinator = coordinator
            .is_file()
            .then_some(coordinator)
            .context("lockkeeper is not built: `make bench` does it")?;
        let redis = in_path("redis-server")
            .context("redis-server is missing: scripts/install-test-tools installs it")?;
        let mut missing = Vec::new();
        let mut miss = |name: &str, why: &str| missing.push((name.to_owned(), why.to_owned()));
        let mut other_stores = BTreeMap::new();
        for store in OTHER_STORES {
            let folder = env::var_os(store.variable).map(PathBuf::from);
            let server = folder.map(|folder| folder.join("redis-server"));
            if let Some(server) = server.filter(|server| server.is_file()) {
                other_stores.insert(store.name, server);
            } else {
                miss(store.name, "its wheel is not installed");
            }
        }
        let mut etcd = in_path("etcd");
        if etcd.is_none() {
            miss("etcd", "etcd-server is not installed");
        } else if !Path::new(MEMORY).is_dir() {
            etcd = None;
            miss("etcd", "there is no tmpfs for its data");
        }
        let agent = env::var_os("BENCH_REDISSON").map(PathBuf::from);
        let agent = agent.filter(|folder| folder.join("agent.jar").is_file());
        let redisson = in_path("java")
            .zip(agent)
            .map(|(java, agent)| (agent, java));
        if redisson.is_none() {
            miss("redisson", "Java or Maven is not installed");
        }
        let programs = Self {
            coordinator,
            own,
            redis,
            other_stores,
            etcd,
            redisson,
        };
        Ok((programs, missing))
    }

    /// A Redis that writes nothing to a disk.
    pub(crate) async fn redis(&self) -> anyhow::Result<InFolder> {
        self.store(None).await
    }

    /// The same, or another store instead.
    pub(super) async fn store(&self, other: Option<Store>) -> anyhow::Result<InFolder> {
        let program = match other {
            None => &self.redis,
            Some(store) => {
                let server = self.other_stores.get(store.name);
                server.with_context(|| format!("{} is not installed", store.title))?
            }
        };
        let folder = TempDir::new()?;
        let port = free_port().await?;
        let mut command = Command::new(program);
        command
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(folder.path());
        InFolder::start("redis-server", port, &mut command, folder).await
    }

    /// A coordinator on a store, with settings that deviate from the defaults.
    pub(super) async fn coordinator(
        &self,
        store: &str,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Server> {
        let port = free_port().await?;
        let mut command = Command::new(&self.coordinator);
        command
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(["--store", store]);
        for (key, value) in settings {
            command.env(environment_variable(key), value);
        }
        Server::start("the coordinator", port, &mut command).await
    }

    /// The server that does nothing but answer.
    pub(super) async fn bare(&self) -> anyhow::Result<Server> {
        let port = free_port().await?;
        let mut command = Command::new(&self.own);
        command.args(["bare", "--listen", &format!("127.0.0.1:{port}")]);
        Server::start("the bare server", port, &mut command).await
    }

    /// An etcd of one member with its data on tmpfs.
    pub(super) async fn etcd(&self) -> anyhow::Result<InFolder> {
        let program = self.etcd.as_ref().context("etcd is not installed")?;
        let folder = tempfile::tempdir_in(MEMORY)?;
        let (port, peers) = (free_port().await?, free_port().await?);
        let [clients, peers] = [port, peers].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(program);
        command
            .args(["--name", ETCD_MEMBER, "--log-level", "error"])
            .args(["--logger", "zap"])
            .args([OsStr::new("--data-dir"), folder.path().as_os_str()])
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("{ETCD_MEMBER}={peers}")]);
        InFolder::start("etcd", port, &mut command, folder).await
    }
}

fn environment_variable(key: &str) -> String {
    format!("LOCKKEEPER__{}", key.to_uppercase().replace('.', "__"))
}

pub(crate) fn in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let candidates = env::split_paths(&path).map(|folder| folder.join(program));
    candidates.into_iter().find(|file| file.is_file())
}

// === impl InFolder ===

impl InFolder {
    async fn start(
        name: &'static str,
        port: u16,
        command: &mut Command,
        folder: TempDir,
    ) -> anyhow::Result<Self> {
        let server = Server::start(name, port, command).await?;
        Ok(Self {
            server,
            _folder: folder,
        })
    }

    /// Ends it, and then its folder.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.server.end().await
    }

    /// For clients of Redis.
    pub(crate) fn redis_url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.server.port())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_becomes_a_variable_that_the_coordinator_reads() {
        assert_eq!(
            environment_variable("limits.waiters_max"),
            "LOCKKEEPER__LIMITS__WAITERS_MAX"
        );
    }

    #[test]
    fn a_program_that_is_nowhere_is_not_found() {
        assert_eq!(in_path("no-such-program-anywhere"), None);
        assert!(in_path("sh").is_some());
    }
}
