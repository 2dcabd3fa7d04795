//! Several locks at once, held only if all are held.
//!
//! Without a fair lock, one script takes all or none, and a waiting call holds nothing. It joins
//! the line of one lock that another owner holds, and tries all when that lock may be free. A fair
//! lock goes to the head of its queue only, so a call with one takes the locks one after the other.
//! So does a call whose locks are in different parts of the store; see [`in_order`]. Either way no
//! two calls can each hold what the other waits for.
//!
//! Once granted, each lock is a grant of its own: renewed, lost, resumed and released like any
//! other.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod identity;
pub(crate) mod in_order;
pub(crate) mod locks;
pub(crate) mod outcome;
pub(crate) mod release;
pub(crate) mod request;
pub(crate) mod undo;
