//! A memory dump of this process has the secrets of its callers.

/// Asks the system for none, and keeps other processes of the same user from reading the memory.
pub(crate) fn refuse() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "core dumps cannot be disabled");
    }
}
