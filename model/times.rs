//! Time in ticks, as the code computes it.

use std::time::Duration;

use lockkeeper_coordinator::modelling::relied_on;

/// An instant or a number of ticks.
pub(crate) type Ticks = u8;

/// Twice as long as the fixed part of the drift margin would be of use to nobody: a lease of four
/// ticks is relied on for a fraction less than three.
const TICK: Duration = Duration::from_millis(2);

/// The time to live of each grant.
pub(crate) const LEASE: Ticks = 4;

/// The store's clock runs ahead by this in the course of a lease.
pub(crate) const DRIFT: Ticks = 1;

/// The bound on the difference between the clocks of two masters.
pub(crate) const SKEW: Ticks = 1;

/// How long a failover takes: longer than the clocks differ.
pub(crate) const FAILOVER: Ticks = 2;

/// A waiter tries again after this, whatever messages it missed.
pub(crate) const POLL: Ticks = 2;

/// A token for each tick and grant.
const TOKENS: u16 = 8;

/// For how long a grant with this lease is relied on from before its request was sent: what the
/// coordinator answers as `valid_for`, in begun ticks.
pub(crate) fn relied(lease: Ticks) -> Ticks {
    let relied = relied_on(TICK * u32::from(lease));
    let ticks = relied.as_micros().div_ceil(TICK.as_micros());
    ticks.try_into().expect("a few ticks")
}

/// What the store's clock shows in the unit of fencing tokens.
pub(crate) fn clock(now: Ticks, behind: Ticks) -> u16 {
    u16::from(now.saturating_sub(behind)) * TOKENS
}
