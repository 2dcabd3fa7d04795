//! The identity of an attempt on several locks, and what is known without it.

use lockkeeper_store::script::{AttemptAll, Member};

use crate::{multi::locks::Locks, types::Owner};

/// The owner's holds on a lock, as known without the attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    pub(crate) holds: Option<u32>,
    /// The serial of the grant that it would add a hold to.
    pub(crate) serial: Option<u64>,
}

/// Distinguishes an attempt from all others.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) locks: Locks,
    pub(crate) owner: Owner,
    /// The id of the record that shows later whether this attempt ran.
    pub(crate) record: String,
    pub(crate) attempt: String,
    /// The serial of new read grants.
    pub(crate) fresh_serial: u64,
}

// === impl Identity ===

impl Identity {
    pub(crate) fn members(&self, known: &[Known]) -> Vec<Member<'_>> {
        let members = self.locks.iter().zip(known);
        members
            .map(|((name, mode), known)| Member {
                name: name.store_key(),
                mode,
                known_holds: known.holds,
                serial: known.serial,
            })
            .collect()
    }

    pub(crate) fn script_members<'a>(
        &'a self,
        locks: &'a [Member<'a>],
    ) -> lockkeeper_store::script::Members<'a> {
        lockkeeper_store::script::Members {
            owner: self.owner.field(),
            locks,
        }
    }

    pub(crate) fn attempt(&self) -> AttemptAll<'_> {
        AttemptAll {
            record: &self.record,
            attempt: &self.attempt,
            fresh_serial: self.fresh_serial,
            note: None,
        }
    }

    /// Whether the record is the attempt's own, so that no repeat of the request can have found it.
    pub(crate) fn has_own_record(&self) -> bool {
        self.record == self.attempt
    }
}
