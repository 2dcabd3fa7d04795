//! Requests and reports to the operating system.

pub(crate) mod rlimit;
pub(crate) mod systemd;
