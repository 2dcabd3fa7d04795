//! A log that nobody reads.

use std::fs;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::Did;
use crate::{redis_server::freeze, scene::Who, target::Target, time::secs};

/// The reader of a pipe, which reads on when this ends.
struct Frozen(Pid);

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// Calls without credentials, while the reader of the log has stopped.
pub(crate) async fn unread(target: Target) -> Did {
    let reader = fs::read_to_string(target.folder.path().join("reader")).unwrap();
    let reader = Frozen(Pid::from_raw(reader.trim().parse().unwrap()));
    freeze(reader.0);
    let client = target.client(Who::Stranger).await;
    let refused = target.storm(16, |task| {
        let mut client = client.clone();
        async move {
            let name = format!("victim/{task}");
            client.try_acquire(&name, "s", secs(9)).await.is_ok()
        }
    });
    Ok(format!("calls without credentials: {}", refused.await))
}
