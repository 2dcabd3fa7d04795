//! What only a single store has: semaphores and latches.

use std::time::Duration;

use super::{Scripts, Unsupported};
use crate::script::{
    Batch, CallError, CountSet, CountedDown, LatchInspected, PermitAttempt, PermitId,
    PermitRenewal, PermitRenewals, PermitsAcquired, PermitsReleased, PermitsSet,
    SemaphoreInspected,
};

// === impl Scripts ===

impl Scripts {
    /// Takes permits for the owner. With a request id a repeat gets the first answer;
    /// `record_refusal` says whether being busy counts as an answer.
    pub async fn acquire_permits(
        &self,
        name: &str,
        owner: &str,
        lease: Duration,
        attempt: PermitAttempt<'_>,
        record_refusal: bool,
    ) -> Result<PermitsAcquired, CallError> {
        self.only(Unsupported::Semaphores)?
            .acquire_permits(name, owner, lease, attempt, record_refusal)
            .await
    }

    /// Gives permits back, all that are named or none; without ids all that the owner has. With a
    /// request id a repeat gets the first answer.
    pub async fn release_permits(
        &self,
        name: &str,
        owner: &str,
        ids: &[PermitId],
        request_id: Option<&str>,
    ) -> Result<PermitsReleased, CallError> {
        self.only(Unsupported::Semaphores)?
            .release_permits(name, owner, ids, request_id)
            .await
    }

    /// Undoes an attempt, whether or not it ran. True if permits were taken back.
    pub async fn undo_permits(
        &self,
        name: &str,
        attempt: PermitAttempt<'_>,
    ) -> Result<bool, CallError> {
        self.only(Unsupported::Semaphores)?
            .undo_permits(name, attempt)
            .await
    }

    /// Extends the leases of many grants; never shortens one.
    pub async fn renew_permits(&self, renewals: &[PermitRenewal]) -> PermitRenewals {
        match self.only(Unsupported::Semaphores) {
            Ok(scripts) => scripts.renew_permits(renewals).await,
            Err(error) => Batch::failed(renewals.len(), error),
        }
    }

    /// Makes a semaphore or changes its size; `only_if_absent` leaves one that there is as it is.
    pub async fn set_permits(
        &self,
        name: &str,
        total: u32,
        only_if_absent: bool,
    ) -> Result<PermitsSet, CallError> {
        self.only(Unsupported::Semaphores)?
            .set_permits(name, total, only_if_absent)
            .await
    }

    /// How many permits a semaphore has and who holds them. Changes nothing.
    pub async fn inspect_semaphore(&self, name: &str) -> Result<SemaphoreInspected, CallError> {
        self.only(Unsupported::Semaphores)?
            .inspect_semaphore(name)
            .await
    }

    /// Gives a latch its count if it has none; without `ttl` it stays. With a request id a repeat
    /// gets the first answer.
    pub async fn set_count(
        &self,
        name: &str,
        count: u32,
        ttl: Option<Duration>,
        request_id: Option<&str>,
    ) -> Result<CountSet, CallError> {
        self.only(Unsupported::Latches)?
            .set_count(name, count, ttl, request_id)
            .await
    }

    /// Lowers a count. With a request id a repeat gets the first answer.
    pub async fn count_down(
        &self,
        name: &str,
        by: u32,
        request_id: Option<&str>,
    ) -> Result<CountedDown, CallError> {
        self.only(Unsupported::Latches)?
            .count_down(name, by, request_id)
            .await
    }

    /// A latch's count. Changes nothing.
    pub async fn inspect_latch(&self, name: &str) -> Result<LatchInspected, CallError> {
        self.only(Unsupported::Latches)?.inspect_latch(name).await
    }

    /// Deletes a latch. True if there was one.
    pub async fn delete_latch(&self, name: &str) -> Result<bool, CallError> {
        self.only(Unsupported::Latches)?.delete_latch(name).await
    }
}
