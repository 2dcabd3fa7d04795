//! Walks through the keys of all masters, one after the other in the order of their first slots, so
//! that a replica that takes over has the place of its master.

use tokio::time::Instant;

use super::{super::address::Address, router::Router};
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
    let scanned = node.scanner.scan(position, containing, work).await;
    let (keys, position) = scanned.map_err(|error| named(error, address))?;
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

/// An error with the node that it came from: the walk ends there.
fn named(error: HostError, node: &Address) -> HostError {
    match error {
        HostError::Unavailable(why) => HostError::Unavailable(format!("{node}: {why}")),
        HostError::OutcomeUnknown(why) => HostError::OutcomeUnknown(format!("{node}: {why}")),
        HostError::Rejected { code, message } => HostError::Rejected {
            code,
            message: format!("{message} ({node})"),
        },
        HostError::OutOfMemory => HostError::OutOfMemory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_node_that_it_came_from() {
        let node = Address::parse("10.0.0.1:7000").unwrap();
        for error in [
            HostError::Unavailable("refused".into()),
            HostError::OutcomeUnknown("late".into()),
            HostError::Rejected {
                code: "NOPERM".into(),
                message: "no".into(),
            },
        ] {
            let text = named(error, &node).to_string();
            assert!(text.contains("10.0.0.1:7000"), "{text}");
        }
    }
}
