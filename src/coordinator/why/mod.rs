//! Why a lock is waited for: the chain from a waiter to the holder that it really waits for, over
//! all coordinators, and cycles of such waits.
//!
//! A wait matters here only if its owner holds something: nobody can wait for others. Such a wait,
//! once it is older than a second, is *shared*: a short-lived key of its session, or of its owner
//! without one, says what is waited for. Any coordinator that finds the owner among the holders of
//! a lock reads that key. Shorter waits cost the store nothing.
//!
//! A cycle is a *deadlock* only if each of its owners is one task, as far as its coordinator knows:
//! the owner was named by its caller and waits for one thing. It is named once it was seen twice in
//! the same state, and each wait was alive between; then it existed at the end of the first look.

mod board;
mod cycle;
mod detect;
mod explain;
mod own;
mod share;
mod shared;
mod wait;
mod walk;

pub use self::board::Deadlocked;
pub(crate) use self::{board::Board, detect::run, explain::explain};
pub use self::{
    cycle::{Cycle, Link},
    explain::Explanation,
    walk::{HolderExplained, LockExplained, WaitExplained},
};

#[cfg(test)]
mod tests;
