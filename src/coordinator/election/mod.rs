//! Elections: a fair lock with a value that its holder proclaims. The term is the fencing token, so
//! leadership is won, kept and lost as any lock is. The values of all terms stand in a record in
//! the store, which observers of any coordinator read in order.

pub(crate) mod follow;
pub(crate) mod lead;
pub(crate) mod observe;
pub(crate) mod outcome;
pub(crate) mod request;
pub(crate) mod shown;
#[cfg(test)]
mod tests;
