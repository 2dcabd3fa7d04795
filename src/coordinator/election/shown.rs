//! What is followed of an election.

/// The newest revision, and whether its leader leads; none before the first look.
pub(crate) type ElectionShown = Option<(u64, bool)>;
