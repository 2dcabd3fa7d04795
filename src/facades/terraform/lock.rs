//! Locks of states.

use std::time::Duration;

use lockkeeper_access::{Account, Audited, Right};
use lockkeeper_coordinator::{
    Acquire, Error, Invalid, Lease, LockName, Mode, Owner, Ownership, Tried,
};
use tonic::{Request, Response, Status};

use super::{
    info::{LockInfo, is_of_terraform, of_holder},
    v1::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, state_lock_server::StateLock},
};
use crate::{
    Door,
    door::{account, release},
};

/// Serves the locks of states.
#[derive(Clone, Debug)]
pub(super) struct StateLockService {
    pub(super) door: Door,
    /// Nothing renews it: Terraform has no heartbeat.
    pub(super) lease: Duration,
}

// === impl StateLockService ===

impl StateLockService {
    /// The lock info of the holder; none if that is the caller now.
    async fn acquire(
        &self,
        account: &Account,
        request: &LockRequest,
    ) -> Result<Option<Vec<u8>>, Error> {
        let (door, coordinator) = (&self.door, &self.door.coordinator);
        let name = door.name(account, request.name.as_bytes(), Right::Acquire)?;
        let info = LockInfo::parse(&request.lock_info)?;
        let info = info.ok_or_else(|| Invalid::new("lock_info", "must not be empty"))?;
        let limits = coordinator.limits();
        let owner = door.sessionless(account, info.id())?;
        let acquire = Acquire {
            lease: Some(Lease::named("lease", self.lease, limits)?),
            note: info.note()?,
            ..Acquire::new(name, Mode::Exclusive, owner, account)
        };
        match coordinator.try_acquire(acquire).await? {
            Tried::Busy { holder } => Ok(Some(of_holder(holder.note.as_deref()))),
            Tried::Acquired(delivery) => {
                // Terraform repeats a request whose answer it did not receive. One more hold does
                // no harm, as an unlock releases all. A release here could free the lock: the hold
                // of the first request may just be given back.
                delivery.take()?;
                Ok(None)
            }
        }
    }

    async fn release(&self, account: &Account, request: &UnlockRequest) -> Result<(), Error> {
        let door = &self.door;
        let name = door.name(account, request.name.as_bytes(), Right::Release)?;
        match LockInfo::parse(&request.lock_info)? {
            Some(info) => {
                let owner = door.sessionless(account, info.id())?;
                let release = release(name, Mode::Exclusive, owner);
                let request_id = door.request_id(account, &format!("unlock {}", info.id()));
                door.release_all_once(release, request_id).await
            }
            None => self.force(account, name).await,
        }
    }

    /// Releases the lock of the run that holds it, whose ever it is: `terraform force-unlock` does
    /// not send the ID that it was given.
    async fn force(&self, account: &Account, name: LockName) -> Result<(), Error> {
        name.permit(Right::Admin, &self.door.access, account)?;
        let call = Audited {
            identity: account.identity(),
            peer: account.peer(),
            operation: "ForceRelease",
            name: name.public(),
            reason: "terraform force-unlock",
        };
        let forced = async {
            let owner = self.holder(&name).await?;
            let release = release(name.clone(), Mode::Exclusive, owner);
            self.door.release_all(release).await
        };
        let forced = forced.await;
        match &forced {
            Ok(()) => call.done(),
            Err(error) => call.failed(error),
        }
        forced
    }

    /// The run of Terraform that holds a lock.
    async fn holder(&self, name: &LockName) -> Result<Owner, Error> {
        let seen = self.door.coordinator.describe(name.clone()).await?;
        let mut holders = seen.holders.into_iter();
        let holder = holders.find(|it| is_of_terraform(&it.owner, it.note.as_ref()));
        let owner = holder.map(|holder| holder.owner);
        owner.ok_or(Error::NotOwner(match seen.mode {
            None => Ownership::NeverHeld,
            Some(_) => Ownership::HeldByAnother,
        }))
    }
}

#[tonic::async_trait]
impl StateLock for StateLockService {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let account = account(request.extensions());
        let holder = self.acquire(&account, request.get_ref()).await;
        let holder = holder.map_err(|error| (self.door.status)(&error))?;
        Ok(Response::new(LockResponse {
            holder: holder.unwrap_or_default(),
        }))
    }

    async fn unlock(
        &self,
        request: Request<UnlockRequest>,
    ) -> Result<Response<UnlockResponse>, Status> {
        let account = account(request.extensions());
        let released = self.release(&account, request.get_ref()).await;
        released.map_err(|error| (self.door.status)(&error))?;
        Ok(Response::new(UnlockResponse {}))
    }
}
