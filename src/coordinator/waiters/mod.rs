//! Who waits for which lock at this coordinator, and who of them tries next.
//!
//! Those who wait for the same thing on one channel stand in a line, and its head alone tries: when
//! a message comes, when the holder's lease is over, and at a bounded interval, because messages
//! are only hints. So an unlock costs one attempt however many wait. The rule that keeps wake-ups
//! from getting lost: a line with waiters always has a head that will try again after the last
//! hint; a hint that comes while nobody looks stays with the line, and a head that leaves without a
//! grant, or with one that leaves room for more, leaves a hint behind for the next.
//!
//! Readers and writers of a lock stand in two lines, so that neither keeps the others from trying.
//! A waiter of a fair lock has a channel and a line of its own, because the store knows who comes
//! next; see [`fair`].

pub(crate) mod fair;
pub(crate) mod handover;
pub(crate) mod line;
pub(crate) mod own_releases;
pub(crate) mod place;
pub(crate) mod queue;
