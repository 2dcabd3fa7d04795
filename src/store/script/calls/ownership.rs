//! Why an owner has no hold.

const HELD_BY_ANOTHER: i64 = 1;
const EXPIRED: i64 = 2;
const NEVER_HELD: i64 = 3;
const HELD_IN_ANOTHER_MODE: i64 = 4;

/// What the store knows of a lock that the caller does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Another owner holds it.
    HeldByAnother,
    /// It is free, but it has been granted before: the lease ran out, or it was given back.
    Expired,
    /// No grant of the name is known.
    NeverHeld,
    /// The caller holds the other side of the read/write lock.
    HeldInAnotherMode,
}

/// Why a release found no hold of the owner, if the number is known.
pub(crate) fn ownership(why: i64) -> Option<Ownership> {
    match why {
        HELD_BY_ANOTHER => Some(Ownership::HeldByAnother),
        EXPIRED => Some(Ownership::Expired),
        NEVER_HELD => Some(Ownership::NeverHeld),
        HELD_IN_ANOTHER_MODE => Some(Ownership::HeldInAnotherMode),
        _ => None,
    }
}
