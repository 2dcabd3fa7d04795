//! Programs with the real Redisson that contend for one lock and write down what they see.
//! `scripts/build-redisson-agent` builds them.

use std::{
    env, io,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    time::timeout,
};

use crate::{
    cluster::Cluster,
    redis_server::RedisServer,
    sentinels::{SERVICE, Sentinel, Sentinels},
};

/// How long one may take to end after its time.
const PATIENCE: Duration = Duration::from_secs(15);

/// Running programs; they are killed with this value.
pub struct Contenders(Vec<(String, Child)>);

/// The folder of the programs: in `LOCKKEEPER_INTEROP_AGENTS`, else in cargo's target folder, if
/// they were built there. Where the variable says that they are there, they have to be.
pub fn built() -> Option<PathBuf> {
    if let Some(named) = env::var_os("LOCKKEEPER_INTEROP_AGENTS") {
        return Some(Path::new(&named).join("current"));
    }
    let test = env::current_exe().ok()?;
    let folder = test.ancestors().nth(3)?.join("interop/current");
    folder.join("agent.jar").exists().then_some(folder)
}

/// The words that tell a program of this server.
pub fn single(server: &RedisServer) -> Vec<String> {
    vec!["single".to_owned(), server.url()]
}

/// The words that tell a program of these sentinels.
pub fn sentinels(sentinels: &Sentinels) -> Vec<String> {
    let urls = sentinels.sentinels.iter().map(Sentinel::address);
    let urls = urls.map(|address| format!("redis://{address}"));
    let words = ["sentinel", SERVICE].map(str::to_owned);
    words.into_iter().chain(urls).collect()
}

/// The words that tell a program of this cluster, and in which way it is to subscribe.
pub fn cluster(cluster: &Cluster, subscription: &str) -> Vec<String> {
    let urls = (0..cluster.len()).map(|number| cluster.node(number).url());
    let words = ["cluster", subscription].map(str::to_owned);
    words.into_iter().chain(urls).collect()
}

// === impl Contenders ===

impl Contenders {
    /// Starts two on a store, which contend for so long, hold the lock for `hold` each time, and
    /// append to the history.
    pub fn start(
        folder: &Path,
        store: &[String],
        lock: &str,
        [time, hold]: [Duration; 2],
        history: &Path,
    ) -> io::Result<Self> {
        let path = format!("{0}/agent.jar:{0}/lib/*", folder.display());
        let started = ["redisson-1", "redisson-2"].map(|client| {
            let process = Command::new("java")
                .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"])
                .args([&path, "lockkeeper.interop.Contender", lock])
                .arg(time.as_secs().to_string())
                .arg(hold.as_millis().to_string())
                .arg(client)
                .arg(history)
                .args(store)
                .kill_on_drop(true)
                .spawn()?;
            Ok((client.to_owned(), process))
        });
        Ok(Self(started.into_iter().collect::<io::Result<_>>()?))
    }

    /// What they are called in the history.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Waits until all have ended by themselves.
    ///
    /// # Errors
    ///
    /// If one does not end after its time, or fails.
    pub async fn end(self) -> Result<(), String> {
        for (name, mut process) in self.0 {
            let status = timeout(PATIENCE, process.wait()).await;
            let status = status.map_err(|_| format!("{name} does not end"))?;
            let status = status.map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("{name} ended with {status}"));
            }
        }
        Ok(())
    }
}
