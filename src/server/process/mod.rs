//! What the operating system is asked and told.

pub(crate) mod rlimit;
pub(crate) mod systemd;
