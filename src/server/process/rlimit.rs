//! The limit of open files: each connection is one, and the process itself needs some.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tracing::{info, warn};

/// Reserved for stores, listeners, the admin port and reloaded files. With many files a tenth,
/// because a cluster has many stores.
const KEPT: u64 = 64;
const KEPT_PART: u64 = 10;

/// The limit of client connections, given the configured one. Clients above it are refused at once,
/// and the store stays reachable.
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

/// The limit of connections to the admin port: at most this many, and not more than half of the
/// reserved files.
pub(crate) fn admin_connections_max() -> usize {
    const MOST: u64 = 256;
    let files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
    let max = (kept(files) / 2).min(MOST);
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// Raises the process's limit to its maximum, and returns it. Lower limits are for programs that
/// use `select`.
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

/// The share of these files for connections.
fn room(files: u64) -> u64 {
    files.saturating_sub(kept(files)).max(files / 2)
}

fn kept(files: u64) -> u64 {
    KEPT.max(files / KEPT_PART)
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
