//! Ways to break the protocol.

/// One rule that is not kept. Each is found by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// The client counts `valid_for` from the answer.
    ValidFromAnswer,
    /// The coordinator counts it from the store's answer.
    CoordinatorCountsFromAnswer,
    /// Leases are relied on to their end.
    NoDriftMargin,
    /// The holder relies on the lock until its release is confirmed.
    ReliesUntilReleased,
    /// The holder relies on the lock until a loss is announced.
    ReliesUntilNotice,
    /// The store does not record acquires.
    NoAcquireRecord,
    /// A retry of what was granted before is answered with the lease of a new grant.
    RepeatWithFullLease,
    /// A release names neither the grant nor the request.
    ReleasesByOwnerAlone,
    /// A retry has a new request id.
    NewRequestId,
    /// The store releases without comparing owners.
    AnyoneReleases,
    /// A renewal of an ended lease is answered as if it had succeeded.
    RenewsWhatEnded,
    /// A renewal makes the caller the holder, even if another one is.
    RenewalTakesOver,
    /// A lock that is handed over keeps its token.
    HandOverKeepsToken,
    /// Tokens count grants and do not follow the clock.
    TokensWithoutClock,
    /// A failover takes no longer than the clocks differ.
    FailoverWithinSkew,
    /// Waiters rely on messages alone.
    NoPoll,
}
