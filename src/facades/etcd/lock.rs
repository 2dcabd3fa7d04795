//! `v3lockpb.Lock`.

use lockkeeper_access::{Account, Right};
use lockkeeper_coordinator::{Answer, Error, Mode, Operation};
use tonic::{Request, Response, Status};

use super::{
    key::{header, key, parse, revision},
    leases::Leases,
    refused::{no_lease, refused},
    v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server},
};
use crate::{
    Door,
    door::{account, release},
};

/// Serves `v3lockpb.Lock`.
#[derive(Clone, Debug)]
pub(super) struct LockService {
    door: Door,
    leases: Leases,
}

// === impl LockService ===

impl LockService {
    pub(super) fn new(door: Door, leases: Leases) -> Self {
        Self { door, leases }
    }

    async fn acquire(
        &self,
        account: &Account,
        request: &LockRequest,
    ) -> Result<LockResponse, Status> {
        let door = &self.door;
        let status = |error| refused(door, &error);
        let name = door.name(account, &request.name, Right::Acquire);
        let name = name.map_err(status)?;
        let lease = self.leases.get(door, account, request.lease)?;
        let acquire = Operation::Acquire(lease.acquire(door, account, name)?);
        match door.wait(account, acquire).await.map_err(status)? {
            Answer::Granted(delivery) => {
                let grant = delivery.take().map_err(status)?;
                let covered = self.leases.cover(door, account, (&lease, &grant)).await;
                covered.map_err(status)?;
                Ok(LockResponse {
                    header: Some(header(revision(grant.fencing_token))),
                    key: key(grant.name.public(), lease.id),
                })
            }
            // Only the end of its session ends this wait without a grant.
            _ => Err(no_lease(door)),
        }
    }

    async fn release(&self, account: &Account, key: &[u8]) -> Result<(), Status> {
        let door = &self.door;
        let status = |error| refused(door, &error);
        let (name, id) = parse(key).map_err(status)?;
        let name = door.name(account, name.as_bytes(), Right::Release);
        let name = name.map_err(status)?;
        let owner = self.leases.get(door, account, id)?.owner(door)?;
        // A lease that locks twice has one key in etcd, and two holds here.
        match door.release_all(release(name, Mode::Fair, owner)).await {
            Ok(()) | Err(Error::NotOwner(_)) => Ok(()),
            Err(error) => Err(status(error)),
        }
    }
}

#[tonic::async_trait]
impl lock_server::Lock for LockService {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let account = account(request.extensions());
        let locked = self.acquire(&account, request.get_ref()).await;
        locked.map(Response::new)
    }

    async fn unlock(
        &self,
        request: Request<UnlockRequest>,
    ) -> Result<Response<UnlockResponse>, Status> {
        let account = account(request.extensions());
        self.release(&account, &request.get_ref().key).await?;
        Ok(Response::new(UnlockResponse {
            header: Some(header(0)),
        }))
    }
}
