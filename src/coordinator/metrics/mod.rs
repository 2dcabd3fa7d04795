//! Metrics of sessions, grants and waits, named as in docs/metrics.md.

pub(crate) mod contention;
pub(crate) mod ended;
pub(crate) mod families;
pub(crate) mod labels;
pub(crate) mod prefixes;
pub(crate) mod tokens;

#[cfg(test)]
mod tests;
