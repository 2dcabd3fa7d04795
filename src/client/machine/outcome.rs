//! What a response means for the request that it answers.

use std::time::Duration;

use lockkeeper_api::pb::{NotGrantedReason, Note, session_response::Response};

use crate::{Error, holding::Holding};

/// What a response means for the request that it answers.
pub(super) enum Outcome {
    Granted(Vec<Holding>),
    NotGranted(NotGranted),
    /// What was renewed.
    Renewed(Vec<Holding>, Response),
    /// The request was not about acquiring or renewing something.
    Other(Response),
}

/// Why nothing was granted.
pub(super) struct NotGranted {
    reason: NotGrantedReason,
    holder_remaining_lease: Option<Duration>,
    holder_note: Option<Box<Note>>,
    available: Option<u32>,
}

// === impl Outcome ===

impl From<Response> for Outcome {
    fn from(response: Response) -> Self {
        let timeout = NotGrantedReason::WaitTimeout;
        match response {
            Response::Granted(grant) => Self::Granted(vec![grant.into()]),
            Response::Claimed(it) => Self::Granted(holdings(it.grant)),
            Response::GrantedAll(all) => Self::Granted(holdings(all.grants)),
            Response::PermitsGranted(grant) => Self::Granted(vec![grant.into()]),
            Response::Tried(it) if it.acquired => Self::Granted(holdings(it.grant)),
            Response::Tried(it) => {
                NotGranted::lock(timeout, it.holder_remaining_lease, it.holder_note)
            }
            Response::TriedAll(it) if it.acquired => Self::Granted(holdings(it.grants)),
            Response::TriedAll(it) => {
                NotGranted::lock(timeout, it.holder_remaining_lease, it.holder_note)
            }
            Response::PermitsTried(it) if it.acquired => Self::Granted(holdings(it.grant)),
            Response::PermitsTried(it) => NotGranted::permits(timeout, it.available),
            Response::NotGranted(it) => {
                NotGranted::lock(it.reason(), it.holder_remaining_lease, it.holder_note)
            }
            Response::PermitsNotGranted(it) => NotGranted::permits(it.reason(), it.available),
            Response::LatchNotOpened(it) => NotGranted::lock(it.reason(), None, None),
            Response::Renewed(it) => {
                Self::Renewed(holdings(it.grant.clone()), Response::Renewed(it))
            }
            Response::PermitsRenewed(it) => {
                Self::Renewed(holdings(it.grants.clone()), Response::PermitsRenewed(it))
            }
            other => Self::Other(other),
        }
    }
}

fn holdings<G: Into<Holding>>(grants: impl IntoIterator<Item = G>) -> Vec<Holding> {
    grants.into_iter().map(Into::into).collect()
}

// === impl NotGranted ===

impl NotGranted {
    fn lock(
        reason: NotGrantedReason,
        remaining: Option<prost_types::Duration>,
        note: Option<Note>,
    ) -> Outcome {
        Outcome::NotGranted(Self {
            reason,
            holder_remaining_lease: remaining.and_then(|it| it.try_into().ok()),
            holder_note: note.map(Box::new),
            available: None,
        })
    }

    fn permits(reason: NotGrantedReason, available: u32) -> Outcome {
        Outcome::NotGranted(Self {
            reason,
            holder_remaining_lease: None,
            holder_note: None,
            available: Some(available),
        })
    }

    pub(super) fn of(self, name: String) -> Error {
        Error::NotGranted {
            name,
            reason: self.reason,
            holder_remaining_lease: self.holder_remaining_lease,
            holder_note: self.holder_note,
            available: self.available,
        }
    }
}
