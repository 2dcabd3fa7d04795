//! Several locks at once, held only if all are held.
//!
//! Where no lock is fair, one script takes all or none, and a call that waits holds nothing
//! meanwhile: it stands in the line of one lock that somebody else holds, and tries all when that
//! may be free. A fair lock is taken by whoever stands first in its queue, so a call with one of
//! those takes the locks one after the other, as does a call whose locks are in different parts of
//! the store; see [`in_order`]. Either way no two calls can each hold what the other waits for.
//!
//! Once granted, each lock is a grant of its own: renewed, lost, resumed and given back as any
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
