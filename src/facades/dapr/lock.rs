//! The lock calls of `dapr.proto.runtime.v1.Dapr`.

use std::time::Duration;

use lockkeeper_access::{Account, Right};
use lockkeeper_coordinator::{Acquire, Error, Invalid, Lease, LockName, Mode, Ownership, Tried};
use tonic::{Request, Response, Status};

use super::v1::{
    TryLockRequest, TryLockResponse, UnlockRequest, UnlockResponse, dapr_server::Dapr,
    unlock_response::Status as Unlocked,
};
use crate::{
    Door,
    door::{account, release},
};

/// Serves the lock calls of Dapr.
#[derive(Clone, Debug)]
pub(super) struct DaprService(pub(super) Door);

// === impl DaprService ===

impl DaprService {
    /// The lock of a resource in a store.
    fn name(
        &self,
        account: &Account,
        (store, resource): (&str, &str),
        right: Right,
    ) -> Result<LockName, Error> {
        for (field, text) in [("store_name", store), ("resource_id", resource)] {
            if text.is_empty() {
                return Err(Invalid::new(field, "must not be empty").into());
            }
        }
        let name = format!("{store}/{resource}");
        self.0.name(account, name.as_bytes(), right)
    }

    /// Whether the lock was free. Its holder does not get it a second time, as in Dapr.
    async fn try_lock(&self, account: &Account, request: &TryLockRequest) -> Result<bool, Error> {
        let coordinator = &self.0.coordinator;
        let about = (&*request.store_name, &*request.resource_id);
        let name = self.name(account, about, Right::Acquire)?;
        let field = "expiry_in_seconds";
        let expiry = u64::try_from(request.expiry_in_seconds);
        let expiry = expiry.map_err(|_| Invalid::new(field, "must not be negative"))?;
        let lease = Lease::named(field, Duration::from_secs(expiry), coordinator.limits())?;
        let owner = self.0.sessionless(account, &request.lock_owner)?;
        if coordinator.describe(name.clone()).await?.mode.is_some() {
            return Ok(false);
        }
        let acquire = Acquire {
            lease: Some(lease),
            ..Acquire::new(name, Mode::Exclusive, owner, account)
        };
        let Tried::Acquired(delivery) = coordinator.try_acquire(acquire).await? else {
            return Ok(false);
        };
        let grant = delivery.take()?;
        if grant.hold_count > 1 {
            // Another call of the same owner came first.
            let release = release(grant.name, Mode::Exclusive, grant.owner);
            coordinator.release(release).await?;
            return Ok(false);
        }
        Ok(true)
    }

    async fn unlock(&self, account: &Account, request: &UnlockRequest) -> Result<Unlocked, Error> {
        let about = (&*request.store_name, &*request.resource_id);
        let name = self.name(account, about, Right::Release)?;
        let owner = self.0.sessionless(account, &request.lock_owner)?;
        let release = release(name, Mode::Exclusive, owner);
        match self.0.release_all(release).await {
            Ok(()) => Ok(Unlocked::Success),
            Err(Error::NotOwner(Ownership::Expired | Ownership::NeverHeld)) => {
                Ok(Unlocked::LockDoesNotExist)
            }
            Err(Error::NotOwner(Ownership::HeldByAnother | Ownership::HeldInAnotherMode)) => {
                Ok(Unlocked::LockBelongsToOthers)
            }
            Err(error) => Err(error),
        }
    }
}

#[tonic::async_trait]
impl Dapr for DaprService {
    async fn try_lock_alpha1(
        &self,
        request: Request<TryLockRequest>,
    ) -> Result<Response<TryLockResponse>, Status> {
        let account = account(request.extensions());
        let success = self.try_lock(&account, request.get_ref()).await;
        let success = success.map_err(|error| (self.0.status)(&error))?;
        Ok(Response::new(TryLockResponse { success }))
    }

    async fn unlock_alpha1(
        &self,
        request: Request<UnlockRequest>,
    ) -> Result<Response<UnlockResponse>, Status> {
        let account = account(request.extensions());
        let status = self.unlock(&account, request.get_ref()).await;
        let status = status.map_err(|error| (self.0.status)(&error))?.into();
        Ok(Response::new(UnlockResponse { status }))
    }
}
