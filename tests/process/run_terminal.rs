//! `lockkeeper run` on a terminal: the command has it as a shell would give it, and a command that
//! is stopped is not silently kept under the lock.

use std::{fs, process::ExitStatus};

use pty_process::{Command, OwnedReadPty, OwnedWritePty};

use crate::prelude::*;

const PATIENCE: Duration = Duration::from_secs(20);

const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";

/// A program on a terminal of its own.
struct Terminal {
    process: Child,
    output: OwnedReadPty,
    input: OwnedWritePty,
    seen: String,
}

impl Terminal {
    fn start(coordinator: &Coordinator, program: &str, arguments: &[&str]) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        // A test that was started in the background may ignore INT, and programs inherit that.
        let process = Command::new("env")
            .args(["--default-signal=INT", program])
            .args(arguments)
            .env("LOCKKEEPER_SERVER", coordinator.url())
            .env("LOCKKEEPER", env!("CARGO_BIN_EXE_lockkeeper"))
            .env("PS1", "prompt> ")
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        let (output, input) = pty.into_split();
        Self {
            process,
            output,
            input,
            seen: String::new(),
        }
    }

    /// `lockkeeper run orders -- sh -c SCRIPT`.
    fn run(coordinator: &Coordinator, script: &str) -> Self {
        let arguments = ["run", "orders", "--", "sh", "-c", script];
        Self::start(coordinator, env!("CARGO_BIN_EXE_lockkeeper"), &arguments)
    }

    /// An interactive shell.
    fn shell(coordinator: &Coordinator) -> Self {
        Self::start(coordinator, "bash", &["--norc", "--noprofile", "-i"])
    }

    async fn send(&mut self, text: &str) {
        self.input.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads on until this text has come; the next call looks behind it.
    async fn until(&mut self, text: &str) {
        let mut bytes = [0; 1024];
        while !self.seen.contains(text) {
            let read = timeout(PATIENCE, self.output.read(&mut bytes)).await;
            let read = read.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            let read = read.unwrap_or_else(|_| panic!("ended without {text:?}: {:?}", self.seen));
            self.seen += &String::from_utf8_lossy(&bytes[..read]);
        }
        let at = self.seen.find(text).unwrap() + text.len();
        self.seen.drain(..at);
    }

    async fn ended(&mut self) -> ExitStatus {
        let ended = timeout(PATIENCE, self.process.wait()).await;
        ended.expect("it ends").unwrap()
    }
}

async fn coordinator() -> Coordinator {
    Coordinator::start(&Settings::on_none()).await
}

#[tokio::test]
async fn a_command_reads_from_the_terminal() {
    let coordinator = coordinator().await;
    let mut terminal = Terminal::run(&coordinator, "echo ready; read x; echo got $x");
    terminal.until("ready").await;
    terminal.send("abc\n").await;
    terminal.until("got abc").await;
    assert!(terminal.ended().await.success());
}

#[tokio::test]
async fn ctrl_c_reaches_the_command() {
    let coordinator = coordinator().await;
    let script = "trap 'exit 7' INT; echo ready; while :; do read x; done";
    let mut terminal = Terminal::run(&coordinator, script);
    terminal.until("ready").await;
    terminal.send(CTRL_C).await;
    assert_eq!(terminal.ended().await.code(), Some(7));
}

#[tokio::test]
async fn ctrl_c_ends_a_wait() {
    let coordinator = coordinator().await;
    let mut holder = Terminal::run(&coordinator, "echo ready; read x");
    holder.until("ready").await;
    let mut waiter = Terminal::run(&coordinator, "echo started");
    until_waiting(&coordinator.client().await, "orders", 1).await;
    waiter.send(CTRL_C).await;
    assert_eq!(waiter.ended().await.code(), Some(130));
    holder.send("\n").await;
    assert!(holder.ended().await.success());
}

#[tokio::test]
async fn a_command_that_holds_a_lock_cannot_be_suspended() {
    let coordinator = coordinator().await;
    let script = "read y; echo ready; read x; echo got $x";
    let mut terminal = Terminal::run(&coordinator, script);
    // When it has read something, it is in the foreground. A command that wants to read before that
    // is stopped, and the CONT that ends this hides a Ctrl-Z that came before it.
    terminal.send("\n").await;
    terminal.until("ready").await;
    terminal.send(CTRL_Z).await;
    terminal.until("cannot be suspended").await;
    terminal.send("abc\n").await;
    terminal.until("got abc").await;
    assert!(terminal.ended().await.success());
}

#[tokio::test]
async fn a_command_in_the_background_gets_the_terminal_with_the_foreground() {
    let coordinator = coordinator().await;
    let mut shell = Terminal::shell(&coordinator);
    shell.until("prompt> ").await;
    let run = "\"$LOCKKEEPER\" run orders -- sh -c 'read x; echo got-$x' &\n";
    shell.send(run).await;
    shell.until("it uses the terminal in the background").await;
    shell.send("fg\n").await;
    shell.until("the command continues").await;
    shell.send("abc\n").await;
    shell.until("got-abc").await;
    // The shell has the terminal again.
    shell.until("prompt> ").await;
    shell.send("exit 5\n").await;
    assert_eq!(shell.ended().await.code(), Some(5));
}

#[tokio::test]
async fn a_script_has_the_terminal_again_after_the_command() {
    let coordinator = coordinator().await;
    let script = "\"$LOCKKEEPER\" run orders sh -c 'read x; echo one $x'; read x; echo two $x";
    let mut terminal = Terminal::start(&coordinator, "sh", &["-c", script]);
    terminal.send("a\n").await;
    terminal.until("one a").await;
    terminal.send("b\n").await;
    terminal.until("two b").await;
    assert!(terminal.ended().await.success());
}

#[tokio::test]
async fn a_terminal_that_stops_who_writes_stops_the_command_only() {
    let coordinator = coordinator().await;
    let mut shell = Terminal::shell(&coordinator);
    shell.until("prompt> ").await;
    shell.send("stty tostop\n").await;
    shell.until("prompt> ").await;
    // Of the command no signal is blocked.
    let run = "\"$LOCKKEEPER\" run masks -- grep SigBlk /proc/self/status\n";
    shell.send(run).await;
    shell.until("0000000000000000").await;
    shell.until("prompt> ").await;
    let script = "'echo run-$((1 + 1)); read x; echo got-$x'";
    let run = format!("\"$LOCKKEEPER\" run orders --lease 3s -- sh -c {script}\n");
    shell.send(&run).await;
    // It may write, so it has the foreground, and messages are written in the background.
    shell.until("run-2").await;
    let arguments = ["yield", "orders", "--reason", "a fix waits"];
    let asked = lockkeeper(&coordinator, &arguments).output().await.unwrap();
    assert!(asked.status.success(), "{asked:?}");
    shell.until("a fix waits").await;
    // It goes on renewing.
    let coordinator = &coordinator;
    let left = || async {
        let seen = coordinator.client().await.describe("orders").await;
        std_duration(seen.remaining_lease)
    };
    eventually("time passes", || async { left().await < millis(2500) }).await;
    eventually("it is renewed", || async { left().await > millis(2500) }).await;
    shell.send("abc\n").await;
    shell.until("got-abc").await;
    shell.until("prompt> ").await;
    shell.send("exit 5\n").await;
    assert_eq!(shell.ended().await.code(), Some(5));
}

#[tokio::test]
async fn a_stopped_command_is_reported() {
    let coordinator = coordinator().await;
    let script = "echo ready; kill -STOP $$; echo done";
    let mut terminal = Terminal::run(&coordinator, script);
    terminal.until("the command is stopped by SIGSTOP").await;
    let run = terminal.process.id().unwrap();
    let children = fs::read_to_string(format!("/proc/{run}/task/{run}/children"));
    let command = Pid::from_raw(children.unwrap().trim().parse().unwrap());
    kill(command, Signal::SIGCONT).unwrap();
    terminal.until("done").await;
    assert!(terminal.ended().await.success());
}
