//! A clock that steps: a library, preloaded into a process, adds an offset to the time of day.

use std::{
    fs::{self, OpenOptions},
    os::unix::fs::FileExt as _,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicI64, Ordering},
};

use nix::unistd::Pid;
use tempfile::TempDir;

const SOURCE: &str = include_str!("clock.c");

/// The clock of the processes that run with its variables.
pub struct Clock {
    directory: TempDir,
    offset: AtomicI64,
}

// === impl Clock ===

impl Clock {
    /// Builds the library. Says what it needs if that is missing.
    pub fn build() -> Result<Self, String> {
        let directory = TempDir::new().expect("a temporary directory");
        let this = Self {
            directory,
            offset: AtomicI64::new(0),
        };
        let source = this.file("clock.c");
        fs::write(&source, SOURCE).expect("written");
        let mut compiler = Command::new("cc");
        let compiler = compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]);
        let output = compiler.arg(this.library()).arg(source).output();
        let output = output.map_err(|error| format!("needs a C compiler: {error}"))?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        fs::write(this.file("offset"), 0_i64.to_ne_bytes()).expect("written");
        Ok(this)
    }

    /// What a process needs in its environment.
    pub fn environment(&self) -> [(String, String); 2] {
        [
            ("LD_PRELOAD", self.library()),
            ("CLOCK_OFFSET", self.file("offset")),
        ]
        .map(|(name, path)| (name.to_owned(), path.display().to_string()))
    }

    /// The same as the words that start a program with it.
    pub fn launcher(&self) -> Vec<String> {
        let variables = self
            .environment()
            .map(|(name, path)| format!("{name}={path}"));
        [&["env".to_owned()], &variables[..]].concat()
    }

    /// Steps forward by so many seconds, or back.
    pub fn step(&self, seconds: i64) {
        let offset = self.offset.fetch_add(seconds, Ordering::Relaxed) + seconds;
        // In place: the file is mapped.
        let file = OpenOptions::new().write(true).open(self.file("offset"));
        let file = file.expect("it is there");
        file.write_all_at(&offset.to_ne_bytes(), 0)
            .expect("written");
    }

    /// Fails if a process goes by another clock: what cannot be preloaded is only warned of.
    pub fn assert_is_of(&self, process: Pid) {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("its maps");
        let library = self.library().display().to_string();
        assert!(maps.contains(&library), "{process} has another clock");
    }

    fn library(&self) -> PathBuf {
        self.file("clock.so")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

#[test]
fn a_step_is_seen_by_those_that_run_with_it() {
    let clock = Clock::build().expect("a C compiler");
    let ahead = || {
        let time = |command: &mut Command| {
            let output = command.arg("+%s").output().expect("it runs").stdout;
            let text = String::from_utf8(output).expect("text");
            text.trim().parse::<i64>().expect("a number")
        };
        let own = time(&mut Command::new("date"));
        time(Command::new("date").envs(clock.environment())) - own
    };
    assert!((0..5).contains(&ahead()));
    clock.step(60);
    assert!((60..65).contains(&ahead()));
    clock.step(-3660);
    assert!((-3600..-3595).contains(&ahead()));
}
