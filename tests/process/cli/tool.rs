//! The command line as a child process, and the folder it works in.

use std::{
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
};

use crate::fake::Fake;
use crate::prelude::*;

const DEADLINE: Duration = Duration::from_secs(20);

/// Long enough for a loaded machine to renew in time.
const LEASE: Duration = Duration::from_secs(3);

/// A folder for what commands leave behind. Commands that would run for ever end when it goes.
pub(super) struct Place(pub(super) TempDir);

/// A command that was started, ended with this value.
pub(super) struct Started(pub(super) Option<Child>);

pub(super) fn lockkeeper(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockkeeper"));
    command
        .args(arguments)
        .env_remove("LOCKKEEPER_SERVER")
        .env_remove("LOCKKEEPER_CONTEXT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

pub(super) fn fake() -> Fake {
    Fake::start(LEASE)
}

pub(super) fn ask(fake: &Fake, arguments: &[&str]) -> Output {
    let server = format!("http://{}", fake.address);
    lockkeeper(arguments)
        .env("LOCKKEEPER_SERVER", server)
        .output()
        .unwrap()
}

/// `lockkeeper run orders FLAGS -- sh -c SCRIPT` in `place`.
pub(super) fn start(fake: &Fake, place: &Place, flags: &[&str], script: &str) -> Started {
    let server = fake.address.to_string();
    let mut command = lockkeeper(&["run", "orders", "--server", &server]);
    command
        .args(flags)
        .args(["--", "sh", "-c", script])
        .current_dir(place.0.path());
    Started(Some(command.spawn().unwrap()))
}

/// A script that says it runs, and ends when the test does.
pub(super) fn for_ever(prelude: &str) -> String {
    format!("{prelude}; touch alive started; while [ -e alive ]; do sleep 0.02; done")
}

pub(super) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
pub(super) fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
}

impl Place {
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    #[track_caller]
    pub(super) fn wait_for(&self, name: &str) {
        eventually(name, || self.has(name));
    }
}

impl Started {
    pub(super) fn signal(&self, signal: Signal) {
        let id = self.0.as_ref().unwrap().id();
        kill(Pid::from_raw(i32::try_from(id).unwrap()), signal).unwrap();
    }

    #[track_caller]
    pub(super) fn end(mut self) -> Output {
        let mut child = self.0.take().unwrap();
        eventually("the end of lockkeeper", || {
            child.try_wait().unwrap().is_some()
        });
        child.wait_with_output().unwrap()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
