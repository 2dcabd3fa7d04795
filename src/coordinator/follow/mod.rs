//! Following names: while callers want to know how a name changes, one task looks at it in the
//! store for all of them.

pub(crate) mod followed;
pub(crate) mod task;
