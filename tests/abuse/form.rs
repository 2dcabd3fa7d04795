//! How long, how much and on what the rows run.

use std::{env, fmt, time::Duration};

use crate::{
    cgroup::Cgroup,
    time::{millis, secs},
};

const MIB: u64 = 1 << 20;

/// The memory that the coordinator may have at most, half of its control group. A build for
/// debugging has more code and larger frames.
const MEMORY_MAX: u64 = 256 * MIB;
const MEMORY_DEBUG_MAX: u64 = 320 * MIB;

/// How often a row is repeated that shows nothing, if the environment does not say.
const REPEATS: usize = 2;

/// The long form, or the short one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// For how long the victim is measured without an attack.
    pub(crate) quiet: Duration,
    /// For how long an attack goes on at the least, once it has what it needs.
    pub(crate) attack: Duration,
    /// The lease of the lock that must not be lost: shorter than an attack.
    pub(crate) lease: Duration,
    /// So often a row is repeated that shows nothing.
    pub(crate) repeats: usize,
    pub(crate) memory_max: u64,
    /// What the victim's 99th percentile may be at least. The short form runs a debug build, whose
    /// times say only that calls are answered.
    pub(crate) p99_max: Duration,
    pub(crate) is_short: bool,
    /// Whether the coordinator has a control group of its own.
    pub(crate) has_cgroup: bool,
}

// === impl Form ===

impl Form {
    pub(crate) fn of_environment() -> Self {
        let is_set = |variable| env::var_os(variable).is_some_and(|it| it == "1");
        let repeats = env::var("ABUSE_REPEATS").ok();
        let is_release = env::var_os("COORDINATOR_BINARY").is_some();
        let has_cgroup = match Cgroup::new() {
            Ok(_removed) => true,
            Err(_) if is_set("ABUSE_WITHOUT_CGROUP") => false,
            Err(why) => panic!("{why}; with ABUSE_WITHOUT_CGROUP=1 its size alone is judged"),
        };
        let is_short = is_set("ABUSE_SHORT");
        assert!(
            is_short || is_release,
            "the long form judges a release: `make abuse` builds one"
        );
        let (quiet, attack, lease) = if is_short {
            (secs(1), secs(2), secs(2))
        } else {
            (secs(3), secs(10), secs(6))
        };
        Self {
            quiet,
            attack,
            lease,
            repeats: repeats.map_or(REPEATS, |it| it.parse().expect("a number")),
            memory_max: if is_release {
                MEMORY_MAX
            } else {
                MEMORY_DEBUG_MAX
            },
            p99_max: if is_short { secs(5) } else { millis(50) },
            is_short,
            has_cgroup,
        }
    }

    /// This many, or fewer in the short form.
    pub(crate) fn size(&self, many: usize) -> usize {
        if self.is_short { many / 5 } else { many }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = if self.is_short { "short" } else { "long" };
        let max = self.memory_max / MIB;
        write!(f, "{length} form, memory below {max} MiB, ")?;
        f.write_str(if self.has_cgroup {
            "in a control group of 512 MiB"
        } else {
            "WITHOUT a control group: its size alone is judged"
        })
    }
}
