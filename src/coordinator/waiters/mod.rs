//! The waiters at this coordinator, and the head of each line.
//!
//! The waiters for one goal on one channel form a line, and only its head tries. It tries on a
//! message, at the end of the holder's lease, and at a bounded interval, because messages are only
//! hints. So an unlock costs one attempt, however many wait.
//!
//! One rule prevents lost wake-ups: a line with waiters always has a head that will try again after
//! the last hint. A hint that arrives while nobody looks stays with the line. A head that leaves
//! without a grant, or with one that leaves room for more, leaves a hint for the next.
//!
//! Readers and writers of a lock have separate lines, so that neither blocks the other's tries. A
//! waiter of a fair lock has a channel and a line of its own, because the store knows the next
//! waiter; see [`fair`].

pub(crate) mod callers;
pub(crate) mod fair;
pub(crate) mod handover;
pub(crate) mod line;
pub(crate) mod own_releases;
pub(crate) mod place;
pub(crate) mod queue;
pub(crate) mod seen;

#[cfg(test)]
mod tests;
