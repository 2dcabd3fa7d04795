//! The JVM: one for each version of Redisson, shared by all tests, because starting one takes
//! seconds. It is told commands by lines on its standard input and does those of different threads
//! at the same time; `java/` has its side.

use std::{
    collections::{HashMap, VecDeque},
    io::{BufRead as _, BufReader, Read, Write as _},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::timeout};

/// How long an answer may take that must come. A whole contest is one command.
const PATIENCE: Duration = Duration::from_secs(80);

/// Lines of the JVM's log that are kept for a test that fails.
const LOG_LINES_MAX: usize = 40;

/// Which Redisson. `scripts/interop` says which versions these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Current,
    Older,
}

/// A running JVM. It ends when its standard input does, so at the latest with the process of the
/// tests.
pub(crate) struct Agent {
    process: Mutex<Child>,
    commands: Mutex<ChildStdin>,
    open: Open,
    log: Log,
    next: AtomicU64,
}

/// A command that was told and its answer, which may not be there yet.
#[derive(Debug)]
pub(crate) struct Told {
    what: String,
    answer: oneshot::Receiver<Answer>,
    log: Log,
}

/// What a command came to: its value, or the failure with the name of the exception first.
pub(crate) type Answer = Result<String, String>;

type Open = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;
type Log = Arc<Mutex<VecDeque<String>>>;

// === impl Version ===

impl Version {
    /// The JVM that all tests share.
    pub(crate) fn agent(self) -> &'static Arc<Agent> {
        static CURRENT: OnceLock<Arc<Agent>> = OnceLock::new();
        static OLDER: OnceLock<Arc<Agent>> = OnceLock::new();
        let agent = match self {
            Self::Current => &CURRENT,
            Self::Older => &OLDER,
        };
        agent.get_or_init(|| Agent::start(self))
    }

    fn folder(self) -> PathBuf {
        let built = std::env::var_os("LOCKKEEPER_INTEROP_AGENTS").map_or_else(
            || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target/interop"),
            PathBuf::from,
        );
        built.join(match self {
            Self::Current => "current",
            Self::Older => "older",
        })
    }
}

// === impl Agent ===

impl Agent {
    /// Starts a JVM.
    pub(crate) fn start(version: Version) -> Arc<Self> {
        let folder = version.folder();
        let classes = folder.join("agent.jar");
        assert!(
            classes.exists(),
            "{} is not built: make interop",
            classes.display()
        );
        let path = format!("{}:{}/*", classes.display(), folder.join("lib").display());
        let mut process = Command::new("java")
            // It starts faster than with all that a server of weeks would want.
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"])
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp"])
            .args([&path, "lockkeeper.interop.Agent"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("java starts");
        let commands = Mutex::new(process.stdin.take().unwrap());
        let (open, log) = (Open::default(), Log::default());
        follow(process.stdout.take().unwrap(), {
            let open = open.clone();
            move |line| take_answer(&open, &line)
        });
        follow(process.stderr.take().unwrap(), {
            let log = log.clone();
            move |line| {
                let mut lines = log.lock();
                lines.push_back(line);
                if lines.len() > LOG_LINES_MAX {
                    lines.pop_front();
                }
            }
        });
        Arc::new(Self {
            process: Mutex::new(process),
            commands,
            open,
            log,
            next: AtomicU64::new(1),
        })
    }

    /// Tells a thread of a client to do something. It begins at once, unless that thread is at
    /// something else.
    pub(crate) fn tell(&self, client: &str, thread: &str, words: &[&str]) -> Told {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let what = format!("{client} {thread} {}", words.join(" "));
        let (sender, answer) = oneshot::channel();
        self.open.lock().insert(id, sender);
        // A JVM that was killed answers nothing, which is what fails the test that asks for more.
        let _ = writeln!(self.commands.lock(), "{id} {what}");
        Told {
            what,
            answer,
            log: self.log.clone(),
        }
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&self) {
        let mut process = self.process.lock();
        kill(
            Pid::from_raw(process.id().try_into().unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
        process.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let mut process = self.process.lock();
        // Failing means that it has ended already.
        let _ = process.kill();
        let _ = process.wait();
    }
}

// === impl Told ===

impl Told {
    /// Its value, or how it failed.
    pub(crate) async fn answer(self) -> Answer {
        match timeout(PATIENCE, self.answer).await {
            Ok(Ok(answer)) => answer,
            // The JVM has ended, or does not answer.
            gone => {
                let log: Vec<_> = self.log.lock().iter().cloned().collect();
                panic!("{}: no answer, {gone:?}\n{}", self.what, log.join("\n"))
            }
        }
    }

    /// Its value.
    pub(crate) async fn value(self) -> String {
        let (what, log) = (self.what.clone(), self.log.clone());
        match self.answer().await {
            Ok(value) => value,
            Err(failure) => {
                let log: Vec<_> = log.lock().iter().cloned().collect();
                panic!("{what}: {failure}\n{}", log.join("\n"))
            }
        }
    }

    /// Succeeds with "yes" or "no".
    pub(crate) async fn yes(self) -> bool {
        let what = self.what.clone();
        match self.value().await.as_str() {
            "yes" => true,
            "no" => false,
            other => panic!("{what}: {other}"),
        }
    }

    /// The exception that it fails with.
    pub(crate) async fn exception(self) -> String {
        let what = self.what.clone();
        match self.answer().await {
            Ok(value) => panic!("{what}: did not fail, but said {value:?}"),
            Err(failure) => failure.split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

/// Reads lines in a thread of its own, because tests have runtimes of their own that end before it
/// does.
fn follow(from: impl Read + Send + 'static, mut take: impl FnMut(String) + Send + 'static) {
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            take(line);
        }
    });
}

/// `<id> ok <value>` or `<id> failed <exception> <message>`.
fn take_answer(open: &Open, line: &str) {
    let mut parts = line.splitn(3, ' ');
    let id: u64 = parts
        .next()
        .unwrap()
        .parse()
        .expect("an answer begins with its id");
    let outcome = parts.next();
    let text = parts.next().unwrap_or_default().to_owned();
    let answer = if outcome == Some("ok") {
        Ok(text)
    } else {
        Err(text)
    };
    if let Some(sender) = open.lock().remove(&id) {
        // Nobody may be interested any more.
        let _ = sender.send(answer);
    }
}
