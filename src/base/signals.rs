//! Signals that this process ignores.

use std::fs;

/// A set of signals, as a mask with signal 1 lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals(u64);

/// The signals that are ignored now: before any is handled, those of `nohup` and of a shell's
/// background. None where the system does not report it.
pub fn ignored() -> Signals {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    Signals(mask.unwrap_or_default())
}

// === impl Signals ===

impl Signals {
    /// Whether the set has the signal of this number, from 1 to 64.
    pub fn contains(self, number: i32) -> bool {
        self.0 & (1 << (number - 1)) != 0
    }
}
