//! Following locks: waiting until one is free, and watching its grants wherever they are made.

pub(crate) mod changes;
pub(crate) mod follow;
pub(crate) mod free;
pub(crate) mod look;
#[cfg(test)]
mod tests;
pub(crate) mod watcher;
