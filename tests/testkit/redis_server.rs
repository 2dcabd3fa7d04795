//! A real redis-server that belongs to one test: it has a free port, a directory of its own, and
//! ends with the test.

use std::{
    fs,
    io::ErrorKind,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value, aio::MultiplexedConnection,
    cmd,
};
use futures::StreamExt as _;
use lockkeeper_base::tasks::spawn_detached;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

/// How long anything that should happen may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(15);

/// Between two looks at something that should happen.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Ports that are tried, because another process may take a free one first.
pub const PORTS_TRIED_MAX: usize = 10;

/// A server's own copy of its configuration file.
const CONFIGURATION: &str = "redis.conf";

/// Only this machine reaches it. Of two values the later counts.
const LOCAL: [&str; 2] = ["--bind", "127.0.0.1"];

/// What makes a server name this address to others; see also `cluster-announce-ip`.
pub const ANNOUNCE: &str = "--replica-announce-ip";

/// Where a server or a sentinel listens with TLS.
pub const TLS_PORT: &str = "--tls-port";

/// A running redis-server.
pub struct RedisServer {
    child: Child,
    port: u16,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: TempDir,
    /// The test's own connection, opened once: it works when no more clients are let in.
    connection: tokio::sync::Mutex<Option<MultiplexedConnection>>,
}

/// The commands that a server executes, from [`RedisServer::monitor`] on.
pub struct Monitor {
    lines: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

/// Waits until something is true, and fails with its name if it does not become true.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut is: impl FnMut() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !is().await {
        assert!(Instant::now() < deadline, "this did not happen: {what}");
        sleep(LOOK_INTERVAL).await;
    }
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    listener.local_addr().expect("it has an address").port()
}

/// Sends SIGSTOP and waits until every thread has taken note of it: on a busy machine that takes a
/// while, and the others go on meanwhile.
pub fn freeze(process: Pid) {
    kill(process, Signal::SIGSTOP).expect("stopped");
    while !is_frozen(process) {
        thread::yield_now();
    }
}

fn is_frozen(process: Pid) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
    threads.flatten().all(|thread| {
        // A thread that has ended meanwhile does not run either.
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses and may contain others.
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

// === impl RedisServer ===

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts a server with more arguments.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let forgets = ["--save", "", "--appendonly", "no"];
        Self::start_as(None, &[&LOCAL, &forgets[..], arguments].concat()).await
    }

    /// Starts a server as it is run elsewhere: from a file in `deploy/redis/`, with arguments that
    /// go before what it says. It keeps what the file says it keeps, until it is dropped.
    pub async fn start_from(file: &str, arguments: &[&str]) -> Self {
        let arguments = [&[CONFIGURATION], &LOCAL[..], arguments].concat();
        Self::start_as(Some(deployed(file)), &arguments).await
    }

    async fn start_as(file: Option<PathBuf>, arguments: &[&str]) -> Self {
        let arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        for _ in 0..PORTS_TRIED_MAX {
            let directory = in_memory().expect("a temporary directory");
            if let Some(file) = &file {
                // A server rewrites its file when sentinels tell it whom to follow.
                fs::copy(file, directory.path().join(CONFIGURATION)).expect("copied");
            }
            let port = free_port();
            let mut arguments = arguments.clone();
            if arguments.iter().any(|word| word == "--tls-cert-file") {
                arguments.extend([TLS_PORT.to_owned(), free_port().to_string()]);
            }
            let child = spawn(port, &arguments, &[], &directory);
            let connection = tokio::sync::Mutex::default();
            let mut server = Self {
                child,
                port,
                arguments,
                environment: Vec::new(),
                directory,
                connection,
            };
            if server.answers().await {
                return server;
            }
        }
        panic!("redis-server does not start with {arguments:?}");
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Where others find it: the address that it announces, if it does.
    pub fn host(&self) -> &str {
        let mut words = self.arguments.iter().map(String::as_str);
        words.find(|word| *word == ANNOUNCE);
        words.next().unwrap_or("127.0.0.1")
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its port with TLS, if it was started with a certificate.
    pub fn tls_port(&self) -> Option<u16> {
        let mut words = self.arguments.iter().map(String::as_str);
        words.find(|word| *word == TLS_PORT)?;
        words.next()?.parse().ok()
    }

    /// The port at which clients, replicas and other nodes find it: that with TLS if it has one.
    pub fn service_port(&self) -> u16 {
        self.tls_port().unwrap_or(self.port)
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id().try_into().expect("a process id"))
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }

    /// False after [`Self::kill`].
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Freezes it: its connections stay open and nothing is answered.
    pub fn stop(&self) {
        freeze(self.pid());
    }

    /// Lets it go on.
    pub fn cont(&self) {
        kill(self.pid(), Signal::SIGCONT).expect("continued");
    }

    /// Starts it again after [`Self::kill`], with what it has on disk: nothing, unless it was
    /// started from a file.
    pub async fn restart_on_same_port(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (arguments, environment) = (&self.arguments, &self.environment);
            self.child = spawn(self.port, arguments, environment, &self.directory);
            if self.answers().await {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "redis-server does not start again"
            );
        }
    }

    /// Starts it again with these variables.
    pub async fn restart_in(&mut self, environment: &[(String, String)]) {
        self.environment = environment.to_vec();
        self.kill();
        self.restart_on_same_port().await;
    }

    /// What is left of a lock's lease, by the store's count; none if it is free.
    pub async fn lease_left(&self, name: &str) -> Option<Duration> {
        match self.command(&["PTTL", name]).await {
            Value::Int(-2) => None,
            Value::Int(left) => Some(Duration::from_millis(left.try_into().unwrap())),
            other => panic!("{other:?}"),
        }
    }

    /// Executes a command on the test's own connection; again on a new one if the server has cut
    /// it, as sentinels make one do that changes its role, and until the server has loaded what it
    /// has on disk or is sent by its master.
    pub async fn command(&self, words: &[&str]) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut answer = self.try_command(words).await;
        if answer.as_ref().is_err_and(RedisError::is_io_error) {
            answer = self.try_command(words).await;
        }
        while answer.as_ref().is_err_and(is_loading) && Instant::now() < deadline {
            sleep(LOOK_INTERVAL).await;
            answer = self.try_command(words).await;
        }
        match answer {
            Ok(answer) => answer,
            Err(error) => panic!("{words:?}: {error}"),
        }
    }

    /// The same, for commands that may be refused or not answered.
    pub async fn try_command(&self, words: &[&str]) -> RedisResult<Value> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(*word);
        }
        self.execute(&command).await.and_then(Value::extract_error)
    }

    /// Like [`Self::command`], for answers that are text or numbers.
    pub async fn text(&self, words: &[&str]) -> String {
        match self.command(words).await {
            Value::BulkString(bytes) => String::from_utf8(bytes).expect("text"),
            Value::SimpleString(text) => text,
            Value::Okay => "OK".to_owned(),
            Value::Int(number) => number.to_string(),
            Value::Nil => "nil".to_owned(),
            other => panic!("{words:?}: {other:?}"),
        }
    }

    /// Sentinels cut all clients of a server that changes its role.
    pub async fn connect_anew(&self) {
        *self.connection.lock().await = None;
    }

    /// A section of its `INFO`.
    pub async fn info(&self, section: &str) -> String {
        match self.command(&["INFO", section]).await {
            Value::VerbatimString { text, .. } => text,
            Value::BulkString(text) => String::from_utf8(text).expect("text"),
            other => panic!("{other:?}"),
        }
    }

    /// Starts watching what it executes.
    pub async fn monitor(&self) -> Monitor {
        let client = Client::open(self.url()).expect("a URL");
        let monitor = client.get_async_monitor().await.expect("monitoring");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let collected = lines.clone();
        let task = spawn_detached("monitor", async move {
            let mut incoming = monitor.into_on_message::<String>();
            while let Some(line) = incoming.next().await {
                collected.lock().push(line);
            }
        });
        Monitor {
            lines,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// The same, for commands whose words are bytes. An error reply is a value.
    pub async fn execute(&self, command: &Cmd) -> RedisResult<Value> {
        let mut slot = self.connection.lock().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => connect(self.port).await?,
        };
        let answer = connection.send_packed_command(command).await;
        // Kept unless it is broken.
        *slot = answer.is_ok().then_some(connection);
        answer
    }

    /// Whether it is this process that answers, and not another that was faster to take the port.
    async fn answers_itself(&self) -> bool {
        let info = match self.execute(cmd("INFO").arg("server")).await {
            Ok(Value::VerbatimString { text, .. }) => text,
            Ok(Value::BulkString(text)) => String::from_utf8(text).expect("text"),
            _ => return false,
        };
        let is_itself = info.contains(&format!("process_id:{}\r\n", self.child.id()));
        if !is_itself {
            self.connect_anew().await;
        }
        is_itself
    }

    /// False if the process ended instead.
    async fn answers(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !self.answers_itself().await {
            if self.child.try_wait().expect("its state").is_some() {
                return false;
            }
            assert!(
                Instant::now() < deadline,
                "redis-server does not answer on port {}",
                self.port
            );
            sleep(LOOK_INTERVAL).await;
        }
        true
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // SIGKILL also ends a process that is stopped. Failing means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration file that is also used elsewhere.
pub fn deployed(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/redis");
    folder.join(file)
}

/// A file comes first among the arguments; what follows goes before it. A directory in memory,
/// where there is such a place: what the nodes of a cluster agree on they write down, and answer
/// nobody until the disk has it.
fn in_memory() -> std::io::Result<TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| TempDir::new())
}

fn spawn(
    port: u16,
    arguments: &[String],
    environment: &[(String, String)],
    directory: &TempDir,
) -> Child {
    let spawned = Command::new("redis-server")
        .args(arguments)
        .args(["--port", &port.to_string()])
        .envs(environment.iter().cloned())
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!("redis-server is not installed: apt-get install redis-server")
        }
        Err(error) => panic!("redis-server cannot be started: {error}"),
    }
}

fn is_loading(error: &RedisError) -> bool {
    error.code() == Some("LOADING")
}

async fn connect(port: u16) -> Result<MultiplexedConnection, RedisError> {
    let client = Client::open(format!("redis://127.0.0.1:{port}"))?;
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

// === impl Monitor ===

impl Monitor {
    /// What has been executed before this call, by anybody.
    pub async fn lines(&self, server: &RedisServer) -> Vec<String> {
        let mark = format!("mark-{}", uuid::Uuid::new_v4());
        server.command(&["ECHO", &mark]).await;
        eventually("the monitor sees the mark", || async {
            self.lines.lock().iter().any(|line| line.contains(&mark))
        })
        .await;
        let lines = self.lines.lock();
        lines
            .iter()
            .take_while(|line| !line.contains(&mark))
            .cloned()
            .collect()
    }
}
