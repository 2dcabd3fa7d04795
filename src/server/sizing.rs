//! Limits that follow the memory that the process may use. docs/configuration.md has the formula.

use crate::config::{AccessQuotas, Settings};

/// What one of each takes at most, in bytes, measured with room to spare.
const CONNECTION: u64 = 32 << 10;
const SESSION: u64 = 32 << 10;
const WAITER: u64 = 8 << 10;
const GRANT: u64 = 2 << 10;

/// The parts of the memory that all of each may take: one of these. The rest is for everything
/// else.
const CONNECTIONS_PART: u64 = 8;
const SESSIONS_PART: u64 = 4;
const WAITERS_PART: u64 = 8;
const GRANTS_PART: u64 = 8;

/// More of each is not sensible, however much memory there is.
const CONNECTIONS_MOST: usize = 20_000;
const SESSIONS_MOST: usize = 100_000;
const WAITERS_MOST: usize = 200_000;
const WAITERS_PER_LOCK_MOST: usize = 20_000;
const GRANTS_MOST: u32 = 1_000_000;

/// The part of a limit that one address or identity has.
const SHARE: usize = 4;

/// A session that is resumed has the old stream and the new one for a moment.
const STREAMS_PER_SESSION: u32 = 2;

/// Sets the limits that are zero, for so much memory.
pub(crate) fn set_limits(settings: &mut Settings, memory: Option<u64>) {
    let memory = memory.unwrap_or(u64::MAX);
    let fitting = |part, each, most: usize| {
        let fitting = memory / part / each;
        usize::try_from(fitting).map_or(most, |fitting| fitting.clamp(1, most))
    };
    let connections = fitting(CONNECTIONS_PART, CONNECTION, CONNECTIONS_MOST);
    set(&mut settings.server.connections_max, connections);
    let limits = &mut settings.limits;
    let per_peer = (settings.server.connections_max / SHARE).max(1);
    set(&mut limits.connections_per_peer_max, per_peer);
    let sessions = fitting(SESSIONS_PART, SESSION, SESSIONS_MOST);
    set(&mut limits.sessions_max, sessions);
    set(
        &mut limits.waiters_max,
        fitting(WAITERS_PART, WAITER, WAITERS_MOST),
    );
    let per_lock = limits.waiters_max.min(WAITERS_PER_LOCK_MOST);
    set(&mut limits.waiters_per_lock_max, per_lock);
}

/// The quotas of each identity, those that are zero set: a quarter of the limits.
pub(crate) fn quotas(settings: &Settings, memory: Option<u64>) -> AccessQuotas {
    let share = |limit: usize| u32::try_from((limit / SHARE).max(1)).unwrap_or(u32::MAX);
    let grants = memory.unwrap_or(u64::MAX) / GRANTS_PART / GRANT;
    let grants = u32::try_from(grants).map_or(GRANTS_MOST, |all| all.clamp(1, GRANTS_MOST));
    let limits = &settings.limits;
    let mut quotas = settings.access.quotas;
    let shares = [
        (&mut quotas.sessions, share(limits.sessions_max)),
        (&mut quotas.waiters, share(limits.waiters_max)),
        (
            &mut quotas.waiters_per_lock,
            share(limits.waiters_per_lock_max),
        ),
        (&mut quotas.grants, grants),
    ];
    for (quota, share) in shares {
        if *quota == 0 {
            *quota = share;
        }
    }
    if quotas.streams == 0 {
        quotas.streams = quotas.sessions.saturating_mul(STREAMS_PER_SESSION);
    }
    quotas
}

fn set(limit: &mut usize, value: usize) {
    if *limit == 0 {
        *limit = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_memory_unless_they_are_set() {
        let sized = |memory| {
            let mut settings = Settings::default();
            settings.limits.waiters_max = 8;
            set_limits(&mut settings, memory);
            let quotas = quotas(&settings, memory);
            let limits = &settings.limits;
            (
                settings.server.connections_max,
                limits.connections_per_peer_max,
                [limits.sessions_max, limits.waiters_per_lock_max],
                [quotas.sessions, quotas.waiters, quotas.grants],
                [quotas.waiters_per_lock, quotas.streams],
            )
        };
        let small = (2048, 512, [4096, 8], [1024, 2, 32_768], [2, 2048]);
        assert_eq!(sized(Some(512 << 20)), small);
        let large = (
            20_000,
            5000,
            [100_000, 8],
            [25_000, 2, 1_000_000],
            [2, 50_000],
        );
        assert_eq!(sized(Some(64 << 30)), large);
        assert_eq!(sized(None), large);
    }
}
