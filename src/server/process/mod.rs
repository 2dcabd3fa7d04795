//! Requests and reports to the operating system.

pub(crate) mod dumps;
pub(crate) mod memory;
pub(crate) mod rlimit;
pub(crate) mod stop_signals;
pub(crate) mod systemd;
