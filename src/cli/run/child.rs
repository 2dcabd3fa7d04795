//! The command, in its own process group.

use std::{ffi::OsString, io, os::unix::process::ExitStatusExt as _, process::ExitStatus};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::process::{self, Command};

use crate::{exit, failure::Failure};

/// A command that was started.
pub(super) struct Child {
    process: process::Child,
    group: Pid,
    /// Its group is kept, because processes that it started may outlive it.
    is_running: bool,
}

impl Child {
    /// Starts it. Fails with the codes that shells use.
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(&str, String)>,
    ) -> Result<Self, Failure> {
        let (program, arguments) = command
            .split_first()
            .expect("the command line requires one");
        let process = Command::new(program)
            .args(arguments)
            .envs(environment)
            .process_group(0)
            .spawn()
            .map_err(|error| {
                let code = match error.kind() {
                    io::ErrorKind::NotFound => exit::COMMAND_NOT_FOUND,
                    _ => exit::CANNOT_EXECUTE,
                };
                Failure::local(code, format!("{}: {error}", program.display()))
            })?;
        let id = process.id().expect("not waited for yet");
        let group = Pid::from_raw(i32::try_from(id).expect("process ids are small"));
        Ok(Self {
            process,
            group,
            is_running: true,
        })
    }

    /// The exit code; pending forever once it was returned. Cancel safe.
    pub(super) async fn ended(&mut self) -> u8 {
        if !self.is_running {
            return std::future::pending().await;
        }
        let status = self.process.wait().await;
        self.is_running = false;
        status.map_or(exit::INTERNAL, exit_code)
    }

    /// Signals all processes of the group, if any are left.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = killpg(self.group, signal);
    }

    /// Whether no process of the group is left.
    pub(super) fn is_group_empty(&self) -> bool {
        killpg(self.group, None) == Err(Errno::ESRCH)
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, Some(signal)) => exit::by_signal(signal),
        (None, None) => exit::INTERNAL,
    }
}
