//! Walks through the keys of all masters, one after the other in the order of their first slots, so
//! that a replica that takes over has the place of its master.

use tokio::time::Instant;

use super::router::Router;
use crate::host::{HostError, ScanCursor, Scanned};

/// Some keys of the master that the cursor says, and where to go on.
pub(super) async fn scan(
    router: &Router,
    from: ScanCursor,
    containing: &[u8],
    work: u32,
) -> Result<Scanned, HostError> {
    let deadline = Instant::now() + router.config().call_timeout;
    let topology = router.topology(deadline).await?;
    let masters = topology.masters_by_first_slot();
    let at_or_behind = |(slot, _): &&(u16, _)| u32::from(*slot) >= from.part;
    let Some((slot, address)) = masters.iter().find(at_or_behind) else {
        return Ok(Scanned::default());
    };
    // Another master has the beginning by now: its walk begins there.
    let position = if u32::from(*slot) == from.part {
        from.position
    } else {
        0
    };
    let node = router.node(address)?;
    let (keys, position) = node.scanner.scan(position, containing, work).await?;
    let last = masters.last().is_some_and(|(it, _)| it == slot);
    let next = match position {
        0 if last => None,
        0 => Some(ScanCursor {
            part: u32::from(*slot) + 1,
            position: 0,
        }),
        position => Some(ScanCursor {
            part: u32::from(*slot),
            position,
        }),
    };
    Ok(Scanned { keys, next })
}
