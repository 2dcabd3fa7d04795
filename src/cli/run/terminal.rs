//! The terminal: the command's while it runs in the foreground, as a shell would give it.

use std::fs::File;

use nix::{
    sys::{
        signal::{SigSet, Signal, raise},
        termios::{SetArg, Termios, tcgetattr, tcsetattr},
    },
    unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp},
};

/// The controlling terminal of this process.
pub(super) struct Terminal {
    device: File,
    own_group: Pid,
    modes: Option<Termios>,
}

/// Else the terminal stops this process, and with it the renewals, when it takes the terminal back
/// or writes a message while the command is in the foreground. The terminal looks at the thread
/// that writes, so this comes before any other thread is started: they inherit it.
pub(super) fn block_stops() {
    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
}

/// Starts a program that the terminal can stop as any other: it would inherit what is blocked.
pub(super) fn with_stops<T>(start: impl FnOnce() -> T) -> T {
    let stops = SigSet::from(Signal::SIGTTOU);
    // Drops a stop that came while it was blocked, and would stop this process now.
    let _ = raise(Signal::SIGCONT);
    let _ = stops.thread_unblock();
    let started = start();
    let _ = stops.thread_block();
    started
}

// === impl Terminal ===

impl Terminal {
    /// That of this process; `None` without one, as under cron.
    pub(super) fn open() -> Option<Self> {
        let device = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        Some(Self {
            own_group: getpgrp(),
            modes: tcgetattr(&device).ok(),
            device,
        })
    }

    /// Puts a group into the foreground. Returns whether it is there: that of a process in the
    /// background is not its to give.
    pub(super) fn give(&self, group: Pid) -> bool {
        match tcgetpgrp(&self.device) {
            Ok(foreground) if foreground == group => true,
            Ok(foreground) if foreground == self.own_group => {
                tcsetpgrp(&self.device, group).is_ok()
            }
            _ => false,
        }
    }

    /// Takes it back from a group that has ended.
    pub(super) fn take_back(&self, group: Pid) {
        if tcgetpgrp(&self.device) == Ok(group) {
            let _ = tcsetpgrp(&self.device, self.own_group);
        }
    }

    /// Sets it as it was at the start, after a command that could not do so itself.
    pub(super) fn reset(&self) {
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(&self.device, SetArg::TCSADRAIN, modes);
        }
    }
}
