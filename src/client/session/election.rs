//! Elections.

use lockkeeper_api::pb::{
    LeaderRequest, LeaderResponse, ProclaimRequest, TransferRequest, TransferResponse,
    session_request::Request, session_response::Response,
};
use tokio_util::sync::CancellationToken;

use super::{
    command::{Commands, call},
    requests::LockRequest,
};
use crate::{Error, Guard, LockMode};

/// An election by its name, see [`Session::election`](crate::Session::election): the fair lock of
/// the same name, with a value that its holder proclaims.
///
/// Its methods fail with [`Error::Refused`] and [`Error::SessionEnded`].
#[derive(Clone, Debug)]
pub struct Election {
    commands: Commands,
    name: String,
}

/// The leadership of an election. Dropping it resigns in the background;
/// [`resign`](Self::resign) waits for that.
#[derive(Debug)]
#[must_use = "a leadership that is dropped ends"]
pub struct Leadership {
    commands: Commands,
    guard: Guard,
}

// === impl Election ===

impl Election {
    pub(super) fn new(commands: Commands, name: String) -> Self {
        Self { commands, name }
    }

    /// Waits until this candidate leads, and proclaims its value: at most 1024 bytes without
    /// control characters. Candidates lead in order of arrival, but for those that are
    /// preferred. Dropping the future ends the wait.
    /// For a candidate that comes before the others, see [`LockRequest::preferred`] and
    /// [`lead`](Self::lead).
    ///
    /// Fails as [`LockRequest::acquire`] does.
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership, Error> {
        let lock = LockRequest::new(self.commands.clone(), self.name.clone());
        let guard = lock.mode(LockMode::Fair).acquire().await?;
        self.lead(guard, value).await
    }

    /// Leads with the guard of the election's lock, which was acquired in [`LockMode::Fair`]: for
    /// campaigns with the options of a [`LockRequest`]. The lock is released on a failure.
    ///
    /// Also fails with [`Error::Refused`] if the lock is no longer held, which
    /// [`Error::is_lost`] reports.
    pub async fn lead(&self, guard: Guard, value: impl Into<String>) -> Result<Leadership, Error> {
        let leadership = Leadership {
            commands: self.commands.clone(),
            guard,
        };
        leadership.proclaim(value).await?;
        Ok(leadership)
    }

    /// Asks the leader to resign in favour of a candidate that waits, see
    /// [`TransferRequest::to`]: the candidate becomes the first in line. The name of the request is
    /// this election's. The leader receives it as [`Guard::yield_requested`] does.
    ///
    /// Also fails with [`Error::Refused`] if no such candidate waits.
    pub async fn transfer(&self, request: TransferRequest) -> Result<TransferResponse, Error> {
        let name = self.name.clone();
        let request = TransferRequest { name, ..request };
        call!(self.commands, Request::Transfer(request) => TransferRequested)
    }

    /// Who leads now, with the newest value.
    pub async fn leader(&self) -> Result<LeaderResponse, Error> {
        let name = self.name.clone();
        call!(self.commands, Request::Leader(LeaderRequest { name }) => LeaderSeen)
    }
}

// === impl Leadership ===

impl Leadership {
    /// The term, which is the fencing token to send to what the leader works on. It increases with
    /// every leader.
    pub fn term(&self) -> u64 {
        self.guard.fencing_token()
    }

    /// Replaces the value for all observers, and returns its revision.
    ///
    /// Fails with [`Error::Refused`], which [`Error::is_lost`] reports if the leadership has ended,
    /// and with [`Error::SessionEnded`].
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<u64, Error> {
        let grant = self.guard.grants().first();
        let request = ProclaimRequest {
            name: grant.map_or_else(String::new, |it| it.name.clone()),
            owner: grant.map_or_else(String::new, |it| it.owner.clone()),
            term: self.term(),
            value: value.into(),
            ..ProclaimRequest::default()
        };
        call!(self.commands, Request::Proclaim(request) => Proclaimed).map(|it| it.revision)
    }

    /// A token that is cancelled when the leadership is lost, see [`Guard::lost`]. Work must stop
    /// then.
    pub fn lost(&self) -> &CancellationToken {
        self.guard.lost()
    }

    /// The guard of the election's lock, which tells how long the leadership is valid.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The guard alone; the leadership lasts as long.
    pub fn into_guard(self) -> Guard {
        self.guard
    }

    /// Ends the leadership, so that the next candidate leads. Fails as [`Guard::release`] does.
    pub async fn resign(self) -> Result<(), Error> {
        self.guard.release().await
    }
}
