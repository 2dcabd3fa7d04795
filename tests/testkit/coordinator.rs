//! A coordinator as it is used: the real binary in a process of its own, which belongs to one test
//! and ends with it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use lockkeeper_base::tasks::spawn_detached;
use lockkeeper_server::config;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic::transport::{Channel, Endpoint};

use crate::{
    client::Client,
    redis_server::{eventually, freeze},
};

/// How long anything that should happen may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(15);

/// A coordinator that is this old is killed, so that a test which waits for it in vain fails and
/// does not hang.
const AGE_MAX: Duration = Duration::from_secs(600);

/// Between two looks at something that should happen.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// What a coordinator is to do, as its environment says it.
#[derive(Clone, Debug)]
pub struct Settings {
    environment: Vec<(String, String)>,
    /// Where it listens; at any port.
    host: String,
    /// Words before the binary: a program that becomes it.
    launcher: Vec<String>,
    /// More arguments.
    arguments: Vec<String>,
    age_max: Duration,
    /// Another binary than was built with the tests.
    binary: Option<PathBuf>,
}

/// A running coordinator.
pub struct Coordinator {
    process: Arc<Mutex<Child>>,
    settings: Settings,
    address: SocketAddr,
    directory: TempDir,
    _limit: AbortOnDropHandle<()>,
}

// === impl Settings ===

impl Settings {
    /// The defaults on a store; `NATIVE=on` for commands without scripts.
    pub fn on(store: &str) -> Self {
        let settings = Self::on_none().with("store.url", store);
        if std::env::var("NATIVE").is_ok_and(|native| native == "on") {
            return settings.with("store.native_commands", "true");
        }
        settings
    }

    /// The defaults, with no word of a store.
    pub fn on_none() -> Self {
        Self {
            environment: Vec::new(),
            host: "127.0.0.1".to_owned(),
            launcher: Vec::new(),
            arguments: Vec::new(),
            age_max: AGE_MAX,
            // A release, for figures.
            binary: std::env::var_os("COORDINATOR_BINARY").map(PathBuf::from),
        }
    }

    /// The defaults on a quorum of stores, with blanks between them.
    pub fn on_quorum(stores: &str) -> Self {
        Self::on_none().with("store.quorum", stores)
    }

    /// Sets a key, named as in the file.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        let variable = format!("LOCKKEEPER__{}", key.to_uppercase().replace('.', "__"));
        self.environment.push((variable, value.to_owned()));
        self
    }

    /// Starts it with these limits of open files, the one in force and the one that it may be
    /// raised to.
    pub fn with_files(self, soft: u32, hard: u32) -> Self {
        self.started_by(&["prlimit", &format!("--nofile={soft}:{hard}")])
    }

    /// Starts it by another program, which becomes the coordinator.
    pub fn started_by<W: ToString>(mut self, launcher: &[W]) -> Self {
        self.launcher
            .extend(launcher.iter().map(ToString::to_string));
        self
    }

    /// Listens at another address than this machine's own, where it asks nobody who they are.
    pub fn listening_at(mut self, host: Ipv4Addr) -> Self {
        self.host = host.to_string();
        self.with("server.allow_unauthenticated", "true")
    }

    /// Reads this file of settings too.
    pub fn with_file(mut self, path: &Path) -> Self {
        self.arguments = vec!["--config".to_owned(), path.display().to_string()];
        self
    }

    pub fn of_binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = Some(binary.into());
        self
    }

    /// For a test that takes long.
    pub fn with_age_max(mut self, age_max: Duration) -> Self {
        self.age_max = age_max;
        self
    }
}

// === impl Coordinator ===

impl Coordinator {
    /// Starts one on a free port and waits until it listens.
    pub async fn start(settings: &Settings) -> Self {
        let directory = TempDir::new().unwrap();
        let listen = format!("{}:0", settings.host);
        let mut process = spawn(settings, &listen, &directory);
        let Some(address) = listening(&mut process, &directory).await else {
            panic!("the coordinator does not start: {}", log(&directory));
        };
        let process = Arc::new(Mutex::new(process));
        let limited = Arc::clone(&process);
        let age_max = settings.age_max;
        let limit = spawn_detached("age-limit", async move {
            sleep(age_max).await;
            let _ = limited.lock().kill();
        });
        Self {
            process,
            settings: settings.clone(),
            address,
            directory,
            _limit: AbortOnDropHandle::new(limit),
        }
    }

    /// Starts it again where it was, after its end.
    pub async fn restart_on_same_address(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let listen = self.address.to_string();
        loop {
            let mut process = spawn(&self.settings, &listen, &self.directory);
            let is_up = listening(&mut process, &self.directory).await.is_some();
            *self.process.lock() = process;
            if is_up {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "it does not start again: {}",
                self.log()
            );
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client with a connection of its own.
    pub async fn client(&self) -> Client {
        client_at(self.address).await
    }

    /// Sends a signal to its process.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&self) {
        let mut process = self.process.lock();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Freezes it: its connections stay open and nothing is answered.
    pub fn stop(&self) {
        freeze(self.pid());
    }

    /// Lets it go on.
    pub fn cont(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Waits for its end.
    pub async fn exit(&self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.lock().try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.log());
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Fails if its process has ended.
    pub fn assert_alive(&self) {
        assert!(self.is_alive(), "it has ended: {}", self.log());
    }

    pub fn is_alive(&self) -> bool {
        self.process.lock().try_wait().unwrap().is_none()
    }

    /// Where its admin port is, once it listens.
    pub async fn admin_address(&self) -> SocketAddr {
        let address = || address_of(&self.directory, "admin port");
        eventually("the admin port listens", || async { address().is_some() }).await;
        address().unwrap()
    }

    /// All connections for calls to so many stores are open, so that what happens to a store
    /// happens to all of its connections.
    pub async fn until_connected(&self, stores: usize) {
        let connections = stores * config::Settings::default().store.connections;
        eventually("the coordinator is connected", || async {
            self.log().matches("\"message\":\"connected\"").count() == connections
        })
        .await;
    }

    /// Waits until its log, which a thread of its own writes, has this text.
    pub async fn until_logged(&self, text: &str) {
        eventually(text, || async { self.log().contains(text) }).await;
    }

    /// When it last wrote a message, by its own clock, which is that of the whole machine.
    pub fn logged_at(&self, message: &str) -> Option<SystemTime> {
        let log = self.log();
        let lines = log.lines().rev();
        let mut events = lines.filter_map(|line| serde_json::from_str(line).ok());
        let event: serde_json::Value =
            events.find(|it: &serde_json::Value| it["message"] == message)?;
        humantime::parse_rfc3339(event["timestamp"].as_str()?).ok()
    }

    /// The memory that it has, in bytes.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory that it has had, in bytes.
    #[allow(dead_code, reason = "only some tests look at it")]
    pub fn peak_memory(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let size = status.lines().find_map(|it| it.strip_prefix(line));
        let kilobytes = size.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().unwrap() * 1024
    }

    /// How many files, connections among them, it has open.
    pub fn open_files(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid()));
        files.unwrap().count()
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.process.lock().id().try_into().unwrap())
    }

    /// What it has written since it was last started.
    pub fn log(&self) -> String {
        log(&self.directory)
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let mut process = self.process.lock();
        // SIGKILL also ends a process that is stopped. Failing means that it has ended already.
        let _ = process.kill();
        let _ = process.wait();
        if std::thread::panicking() {
            #[expect(
                clippy::print_stderr,
                reason = "what a failed test shows, and the only way to show it"
            )]
            {
                eprintln!("--- log of the coordinator at {}", self.address);
                eprintln!("{}", log(&self.directory));
            }
        }
    }
}

/// A client of whatever listens there.
pub async fn client_at(address: SocketAddr) -> Client {
    Client::new(channel_to(address).await, CancellationToken::new())
}

async fn channel_to(address: SocketAddr) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    endpoint.tcp_nodelay(true).connect().await.unwrap()
}

/// The binary that cargo built for these tests, in the folder above theirs.
fn built_binary() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().with_file_name("lockkeeper")
}

fn spawn(settings: &Settings, listen: &str, directory: &TempDir) -> Child {
    let log = File::create(log_path(directory)).unwrap();
    let binary = settings.binary.clone().unwrap_or_else(built_binary);
    let launcher = settings.launcher.iter().map(OsStr::new);
    let mut words = launcher.chain([binary.as_os_str()]);
    Command::new(words.next().unwrap())
        .args(words)
        .args(["serve", "--listen", listen])
        .args(&settings.arguments)
        .env_clear()
        .env("LOCKKEEPER__LOG__FORMAT", "json")
        .env("LOCKKEEPER__LOG__LEVEL", "info,lockkeeper=debug")
        .envs(settings.environment.iter().cloned())
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Where it listens, from its own words: no other process can be taken for it, as it could if it
/// were asked. None if it ended instead.
async fn listening(process: &mut Child, directory: &TempDir) -> Option<SocketAddr> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ended = process.try_wait().unwrap().is_some();
        if let Some(address) = address_of(directory, "serving") {
            return Some(address);
        }
        if ended {
            return None;
        }
        assert!(Instant::now() < deadline, "it does not say where it is");
        sleep(LOOK_INTERVAL).await;
    }
}

/// The address in the first message of the log that is this one.
fn address_of(directory: &TempDir, message: &str) -> Option<SocketAddr> {
    let log = log(directory);
    let mut events = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let event: serde_json::Value =
        events.find(|it: &serde_json::Value| it["message"] == message)?;
    event["address"].as_str()?.parse().ok()
}

fn log(directory: &TempDir) -> String {
    String::from_utf8_lossy(&fs::read(log_path(directory)).unwrap_or_default()).into_owned()
}

fn log_path(directory: &TempDir) -> std::path::PathBuf {
    directory.path().join("stderr")
}
