//! Freezing a process, so that nothing of it runs any more when that is said to be done.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Sends SIGSTOP and waits until every thread has taken note of it: on a busy machine that takes a while, and the others go on meanwhile.
pub(crate) fn freeze(process: Pid) {
    kill(process, Signal::SIGSTOP).expect("stopped");
    while !is_frozen(process) {
        std::thread::yield_now();
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
