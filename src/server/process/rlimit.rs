//! Open files: each connection is one, and so is what this process needs for itself.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

/// Kept for stores, listeners, the admin port, and files that are read again; of many files a
/// tenth, because a cluster has many stores.
const KEPT: u64 = 64;
const KEPT_PART: u64 = 10;

/// How many connections of clients there may be, where the configuration says so many. Whoever
/// comes when there is no room is then told so at once, and the store can still be reached.
pub(crate) fn connections_max(configured: usize) -> usize {
    let Some(files) = raised() else {
        return configured;
    };
    let room = usize::try_from(room(files)).unwrap_or(usize::MAX);
    if room < configured {
        warn!(
            files,
            connections = room,
            configured,
            "the limit of open files leaves room for fewer connections than server.connections_max"
        );
    }
    configured.min(room)
}

/// The limit of this process, which is as high as it may be from here on: lower ones are for
/// programs that use `select`.
fn raised() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        info!(
            before = soft,
            files = hard,
            "the limit of open files was raised"
        );
        return Some(hard);
    }
    Some(soft)
}

/// How many of these files may be connections.
fn room(files: u64) -> u64 {
    let kept = KEPT.max(files / KEPT_PART);
    files.saturating_sub(kept).max(files / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_never_connections() {
        let rooms = [64, 100, 128, 1024, 20_000, 1 << 20].map(room);
        assert_eq!(rooms, [32, 50, 64, 922, 18_000, 943_719]);
    }
}
