//! Signals that this process ignores.

use std::fs;

/// Whether the signal of this number, from 1 to 64, is ignored now. Before it is handled, `nohup`
/// or a shell's background has it so. False where the system does not report it.
pub fn is_ignored(number: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or_default() & (1 << (number - 1)) != 0
}
