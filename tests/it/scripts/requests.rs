//! What scripts are asked, in few words.

use lockkeeper_store::script::{
    AttemptAll, Hold, Member, Members, Mode, PermitAttempt, PermitId, PermitRenewal, Renewal,
};

use crate::support::prelude::*;

pub(super) fn renewal_of(hold: Hold<'_>, lease: Duration) -> Renewal {
    Renewal {
        name: hold.name.into(),
        mode: hold.mode,
        owner: hold.owner.into(),
        lease,
        noted: false,
    }
}

/// One lock of several, of whose holds nothing is known.
pub(super) fn member(name: &str, mode: Mode) -> Member<'_> {
    Member {
        name,
        mode,
        known_holds: None,
        serial: None,
    }
}

pub(super) fn members<'a>(owner: &'a str, locks: &'a [Member<'a>]) -> Members<'a> {
    Members { owner, locks }
}

/// An attempt that is found by this record.
pub(super) fn attempt_all(record: &str) -> AttemptAll<'_> {
    AttemptAll {
        record,
        attempt: "a",
        fresh_serial: 1,
        note: None,
    }
}

pub(super) fn permit_attempt<'a>(
    ids: &'a [PermitId],
    request_id: Option<&'a str>,
    attempt: &'a str,
) -> PermitAttempt<'a> {
    PermitAttempt {
        request_id,
        attempt,
        ids,
    }
}

pub(super) fn permit_renewal(
    name: &str,
    owner: &str,
    lease: Duration,
    ids: impl Into<Arc<[PermitId]>>,
) -> PermitRenewal {
    PermitRenewal {
        name: name.into(),
        owner: owner.into(),
        lease,
        ids: ids.into(),
    }
}
