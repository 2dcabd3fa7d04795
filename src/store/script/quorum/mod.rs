//! Several stores that are independent of each other, as one: what a majority of them agrees on
//! holds (the Redlock algorithm).
//!
//! A store of the quorum is a *voter*. Every typed call goes to all voters at once, each within its
//! own short time limit, and their answers are combined. Unlike a host this knows what an acquire
//! is and how it is undone: a vote that decided nothing is taken back, exactly and as often as
//! needed, and so is one without an answer.
//!
//! - [`votes`]: who has won, if anyone; pure.
//! - [`acquire`]: an acquire, and the second phase that makes fencing tokens grow.
//! - [`give_back`], [`renew`], [`inspect`]: the other calls, each with its combination of answers.
//! - [`admin`]: what is held on any of them, and taking it away on all.
//! - [`holders`]: messages to the coordinators of holders.
//! - [`repair`]: what is brought to its end in the background; [`orders`]: what an acquire ends.
//! - [`voters`]: all of them, and how they are asked; [`voter`]: one, and what is known of it.

mod acquire;
mod admin;
mod answers;
mod ended;
mod fleet;
mod give_back;
mod holders;
mod inspect;
#[cfg(feature = "modelling")]
pub(super) mod modelling;
mod orders;
mod renew;
mod repair;
#[cfg(test)]
mod tests;
mod voter;
mod voters;
mod votes;
mod waits;

pub(super) use voters::Quorum;
pub use voters::QuorumMember;
