//! The command, in its own process group.

use std::{
    ffi::OsString, future::pending, io, os::unix::process::ExitStatusExt as _, process::ExitStatus,
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::{
    process::{self, Command},
    signal::unix::{self, SignalKind},
    time::sleep,
};

use super::terminal::{Terminal, with_stops};
use crate::{exit, failure::Failure};

/// How often a command that wants the terminal looks for it: a shell does not say that it has put
/// a process into the foreground.
const FOREGROUND_INTERVAL: Duration = Duration::from_millis(100);

/// A command that was started.
pub(super) struct Child {
    process: process::Child,
    group: Pid,
    /// Its group is kept, because processes that it started may outlive it.
    is_running: bool,
    terminal: Option<Terminal>,
    /// SIGCHLD: the command was stopped or continues.
    changes: unix::Signal,
    /// It is stopped because it uses the terminal in the background.
    wants_terminal: bool,
}

/// What became of the command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// It does nothing until it gets CONT.
    Stopped(Signal),
    Continued,
    Exited(u8),
}

// === impl Child ===

impl Child {
    /// Starts it, in the foreground if this process is there. Fails with the codes that shells use.
    pub(super) fn start(
        command: &[OsString],
        environment: Vec<(&str, String)>,
    ) -> Result<Self, Failure> {
        let (program, arguments) = command
            .split_first()
            .expect("the command line requires one");
        let terminal = Terminal::open();
        let changes = unix::signal(SignalKind::child())
            .map_err(|error| Failure::local(exit::INTERNAL, error.to_string()))?;
        let mut started = Command::new(program);
        started.args(arguments).envs(environment).process_group(0);
        let process = with_stops(|| started.spawn()).map_err(|error| {
            let code = match error.kind() {
                io::ErrorKind::NotFound => exit::COMMAND_NOT_FOUND,
                _ => exit::CANNOT_EXECUTE,
            };
            Failure::local(code, format!("{}: {error}", program.display()))
        })?;
        let id = process.id().expect("not waited for yet");
        let group = Pid::from_raw(i32::try_from(id).expect("process ids are small"));
        let child = Self {
            process,
            group,
            is_running: true,
            terminal,
            changes,
            wants_terminal: false,
        };
        if let Some(terminal) = &child.terminal {
            terminal.give(group);
        }
        // It may have been stopped for want of the terminal. Linux reports that, and a CONT without
        // need would hide a Ctrl-Z that came before it.
        if cfg!(not(target_os = "linux")) {
            child.signal(Signal::SIGCONT);
        }
        Ok(child)
    }

    /// What becomes of it; pending forever once it has exited. Cancel safe.
    pub(super) async fn changed(&mut self) -> Change {
        while self.is_running {
            tokio::select! {
                biased;
                status = self.process.wait() => {
                    self.is_running = false;
                    return Change::Exited(self.on_exit(status));
                }
                Some(()) = self.changes.recv() => {
                    if let Some(change) = self.change() {
                        return change;
                    }
                }
                () = sleep(FOREGROUND_INTERVAL), if self.wants_terminal => {
                    self.come_to_front();
                }
            }
        }
        pending().await
    }

    fn on_exit(&self, status: io::Result<ExitStatus>) -> u8 {
        let status = status.map(|it| (it.code(), it.signal()));
        if let Some(terminal) = &self.terminal {
            terminal.take_back(self.group);
            if matches!(status, Ok((None, _))) {
                terminal.reset();
            }
        }
        match status {
            Ok((Some(code), _)) => u8::try_from(code).unwrap_or(u8::MAX),
            Ok((None, Some(signal))) => exit::by_signal(signal),
            _ => exit::INTERNAL,
        }
    }

    /// Gives it the terminal if this process has it. It may have been stopped for want of it.
    fn come_to_front(&mut self) -> bool {
        let is_in_front = self.terminal.as_ref().is_some_and(|it| it.give(self.group));
        if is_in_front {
            self.wants_terminal = false;
            self.signal(Signal::SIGCONT);
        }
        is_in_front
    }

    /// Whether it was stopped or continues, unless this has been reported.
    #[cfg(target_os = "linux")]
    fn change(&mut self) -> Option<Change> {
        use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
        let flags = WaitPidFlag::WSTOPPED | WaitPidFlag::WCONTINUED | WaitPidFlag::WNOHANG;
        match waitid(Id::Pid(self.group), flags) {
            Ok(WaitStatus::Stopped(_, signal)) => {
                self.wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU);
                let is_over = self.wants_terminal && self.come_to_front();
                (!is_over).then_some(Change::Stopped(signal))
            }
            Ok(WaitStatus::Continued(_)) => Some(Change::Continued),
            _ => None,
        }
    }

    /// Elsewhere a process cannot be asked without taking its exit code away from the runtime.
    #[cfg(not(target_os = "linux"))]
    fn change(&mut self) -> Option<Change> {
        None
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
