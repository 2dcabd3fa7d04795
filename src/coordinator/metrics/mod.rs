//! What is counted of sessions, grants and waits. The names are those of docs/metrics.md.

pub(crate) mod ended;
pub(crate) mod families;
pub(crate) mod labels;
pub(crate) mod tokens;
