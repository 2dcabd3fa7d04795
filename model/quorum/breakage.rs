//! Ways to break the quorum.

/// One rule that is not kept. Each is found by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// One vote is enough.
    OneVote,
    /// The counters of a majority are not raised to the grant's token.
    NoRaise,
    /// The grant's token is the smallest of the majority's.
    SmallestToken,
    /// `valid_for` is counted from the last vote.
    ValidFromLastVote,
    /// The holder relies on the lock while it is being released.
    ReliesUntilReleased,
}
