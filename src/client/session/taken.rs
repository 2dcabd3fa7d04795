//! Answers, by what they mean for what was asked.

use std::time::Duration;

use lockkeeper_api::pb::{NotGrantedReason, session_response::Response};

use crate::Thing;

/// What an answer means for what was asked.
pub(super) enum Taken {
    Things(Vec<Thing>),
    Nothing(NotGrantedReason, Busy),
    Other(Response),
}

/// What is in the way.
#[derive(Default)]
pub(super) struct Busy {
    pub(super) holder_remaining_lease: Option<Duration>,
    pub(super) available: Option<u32>,
}

// === impl Busy ===

impl Busy {
    fn lock(remaining: Option<prost_types::Duration>) -> Self {
        Self {
            holder_remaining_lease: remaining.and_then(|it| it.try_into().ok()),
            available: None,
        }
    }

    fn permits(available: u32) -> Self {
        Self {
            holder_remaining_lease: None,
            available: Some(available),
        }
    }
}

/// Sorts an answer.
pub(super) fn taken(response: Response) -> Taken {
    let things = |acquired: bool, things: Vec<Thing>, busy: Busy| {
        if acquired {
            Taken::Things(things)
        } else {
            Taken::Nothing(NotGrantedReason::WaitTimeout, busy)
        }
    };
    match response {
        Response::Granted(grant) => Taken::Things(vec![grant.into()]),
        Response::GrantedAll(all) => {
            Taken::Things(all.grants.into_iter().map(Thing::Lock).collect())
        }
        Response::PermitsGranted(grant) => Taken::Things(vec![grant.into()]),
        Response::Tried(it) => things(
            it.acquired,
            it.grant.into_iter().map(Thing::Lock).collect(),
            Busy::lock(it.holder_remaining_lease),
        ),
        Response::TriedAll(it) => things(
            it.acquired,
            it.grants.into_iter().map(Thing::Lock).collect(),
            Busy::lock(it.holder_remaining_lease),
        ),
        Response::PermitsTried(it) => things(
            it.acquired,
            it.grant.into_iter().map(Thing::Permits).collect(),
            Busy::permits(it.available),
        ),
        Response::NotGranted(it) => {
            Taken::Nothing(it.reason(), Busy::lock(it.holder_remaining_lease))
        }
        Response::PermitsNotGranted(it) => Taken::Nothing(it.reason(), Busy::permits(it.available)),
        other => Taken::Other(other),
    }
}
