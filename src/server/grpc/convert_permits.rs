//! Converts between proto and domain, for semaphores.

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    AcquirePermits, Error, Invalid, Operation, Owner, PermitAnswer, PermitCount, PermitDelivery,
    PermitGrant, PermitId, PermitOperation, PermitsNotGranted, PermitsSet, ReleasePermits,
    RenewPermits, ResumedPermits, SemaphoreDescription, SessionId, SetPermits, WaitingForPermits,
};
use tonic::Status;

use super::{
    audit,
    convert::{Requests, duration, proto_wait_end, remaining, whole_millis},
    pb::{self, session_response::Response},
    status::{message, status},
    viewer::Viewer,
};

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn acquire_permits(
        &self,
        request: pb::AcquirePermitsRequest,
    ) -> Result<AcquirePermits, Error> {
        let pb::AcquirePermitsRequest {
            name,
            session_id,
            owner,
            permits,
            lease,
            wait_timeout,
            request_id,
            min_replica_acks,
        } = request;
        let wait = wait_timeout
            .map(|wait| duration("wait_timeout", wait))
            .transpose()?;
        let request = pb::TryAcquirePermitsRequest {
            name,
            session_id,
            owner,
            permits,
            lease,
            request_id,
            min_replica_acks,
        };
        Ok(AcquirePermits {
            wait,
            ..self.try_acquire_permits(&request)?
        })
    }

    pub(super) fn try_acquire_permits(
        &self,
        request: &pb::TryAcquirePermitsRequest,
    ) -> Result<AcquirePermits, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let permits = PermitCount::new(request.permits)?;
        let request_id = self.request_id(&request.request_id)?;
        let owner = match self.session(&request.session_id)? {
            None if request.owner.is_empty() => self.made(&name, request_id.as_ref()),
            session => self.owner(session, &request.owner)?,
        };
        Ok(AcquirePermits {
            name,
            owner,
            permits,
            lease: self.lease(request.lease)?,
            wait: None,
            request_id,
            min_replica_acks: request.min_replica_acks,
        })
    }

    pub(super) fn release_permits(
        &self,
        request: &pb::ReleasePermitsRequest,
    ) -> Result<Operation, Error> {
        let name = self.name(&request.name, Right::Release)?;
        let session = self.session(&request.session_id)?;
        let operation = PermitOperation::Release(ReleasePermits {
            name,
            owner: self.owner(session, &request.owner)?,
            ids: permit_ids(&request.permit_ids)?,
            request_id: self.request_id(&request.request_id)?,
        });
        Ok(Operation::Permits(operation))
    }

    pub(super) fn renew_permits(
        &self,
        request: &pb::RenewPermitsRequest,
    ) -> Result<Operation, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let session = self.session(&request.session_id)?;
        let operation = PermitOperation::Renew(RenewPermits {
            name,
            owner: self.owner(session, &request.owner)?,
            ids: permit_ids(&request.permit_ids)?,
            lease: self.lease(request.lease)?,
        });
        Ok(Operation::Permits(operation))
    }

    pub(super) fn set_permits(&self, request: &pb::SetPermitsRequest) -> Result<Operation, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        audit::allowed(self.account, "SetPermits", name.told());
        let operation = PermitOperation::Set(SetPermits {
            name,
            permits: request.permits,
            only_if_absent: request.only_if_absent,
        });
        Ok(Operation::Permits(operation))
    }

    pub(super) fn describe_semaphore(
        &self,
        request: &pb::DescribeSemaphoreRequest,
    ) -> Result<Operation, Error> {
        let name = self.name(&request.name, Right::Describe)?;
        Ok(Operation::Permits(PermitOperation::Describe(name)))
    }

    /// The permits that a resuming client names.
    pub(super) fn resumed_permits(
        &self,
        id: &SessionId,
        grants: Vec<pb::PermitGrant>,
    ) -> Result<Vec<ResumedPermits>, Error> {
        let limits = self.coordinator.limits();
        let resumed = grants.into_iter().map(|grant| {
            let ids = permit_ids(&grant.permit_ids)?;
            if ids.is_empty() {
                return Err(Invalid::new("permit_ids", "must not be empty").into());
            }
            Ok(ResumedPermits {
                name: self.name(&grant.name, Right::Acquire)?,
                owner: Owner::in_session(id.clone(), &grant.owner, limits)?,
                ids: ids.into(),
                watched: grant.watched,
            })
        });
        resumed.collect()
    }
}

/// Permit ids as issued: 32 hexadecimal digits, no duplicates.
fn permit_ids(texts: &[String]) -> Result<Vec<PermitId>, Invalid> {
    let refuse = |why: String| Err(Invalid::new("permit_ids", why));
    if texts.len() > PermitCount::MAX as usize {
        return refuse(format!("must not be more than {}", PermitCount::MAX));
    }
    let mut ids = Vec::with_capacity(texts.len());
    for text in texts {
        let mut id = PermitId::default();
        if hex::decode_to_slice(text, &mut id).is_err() {
            return refuse("must have 32 hexadecimal digits each".to_owned());
        }
        ids.push(id);
    }
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < ids.len() {
        return refuse("must not name a permit twice".to_owned());
    }
    Ok(ids)
}

pub(super) fn permit_grant(grant: &PermitGrant) -> pb::PermitGrant {
    let session = grant.owner.session.as_ref();
    pb::PermitGrant {
        name: grant.name.told().to_owned(),
        session_id: session.map_or("", SessionId::as_str).to_owned(),
        owner: grant.owner.label.as_ref().to_owned(),
        permits: u32::try_from(grant.ids.len()).unwrap_or(u32::MAX),
        permit_ids: grant.ids.iter().map(hex::encode).collect(),
        lease: Some(whole_millis(grant.lease)),
        valid_for: remaining(Some(grant.safe_until)),
        watched: grant.watched,
        replica_acks: grant.replica_acks,
    }
}

/// A grant; counts as delivered from here on.
pub(super) fn delivered(delivery: PermitDelivery) -> Result<pb::PermitGrant, Status> {
    let grant = delivery.take().map_err(|error| status(&error))?;
    Ok(permit_grant(&grant))
}

pub(super) fn waiting(waiting: WaitingForPermits) -> pb::WaitingForPermits {
    pb::WaitingForPermits {
        position: waiting.position,
        available: waiting.available,
        next_lease_end: remaining(waiting.next_end),
    }
}

pub(super) fn not_granted(ended: PermitsNotGranted) -> pb::PermitsNotGranted {
    pb::PermitsNotGranted {
        reason: proto_wait_end(ended.cancelled).into(),
        available: ended.available,
    }
}

pub(super) fn acquired(delivery: PermitDelivery) -> Result<pb::TryAcquirePermitsResponse, Status> {
    Ok(pb::TryAcquirePermitsResponse {
        acquired: true,
        grant: Some(delivered(delivery)?),
        available: 0,
    })
}

pub(super) fn busy(available: u32) -> pb::TryAcquirePermitsResponse {
    pb::TryAcquirePermitsResponse {
        acquired: false,
        grant: None,
        available,
    }
}

pub(super) fn released(permits: u32, available: u32) -> pb::ReleasePermitsResponse {
    pb::ReleasePermitsResponse {
        released: permits,
        available,
    }
}

pub(super) fn renewed(grants: &[PermitGrant]) -> pb::RenewPermitsResponse {
    pb::RenewPermitsResponse {
        grants: grants.iter().map(permit_grant).collect(),
    }
}

pub(super) fn set(set: PermitsSet) -> pb::SetPermitsResponse {
    pb::SetPermitsResponse {
        created: set.created,
        total: set.total,
        available: set.available,
    }
}

pub(super) fn described(
    seen: SemaphoreDescription,
    viewer: &Viewer,
) -> pb::DescribeSemaphoreResponse {
    let digest = |owner: &Owner| {
        let session = owner.session.as_ref();
        session.map_or_else(String::new, SessionId::digest)
    };
    let holders = seen.holders.into_iter().map(|holder| {
        let owner = holder.owner.as_ref();
        pb::PermitHolder {
            session_digest: owner.map_or_else(String::new, digest),
            owner: owner.map_or_else(String::new, |owner| viewer.owner(owner)),
            permits: holder.permits,
            client_name: holder.client_name,
            remaining_lease: holder.remaining.map(whole_millis),
        }
    });
    let waiters = seen.waiters.into_iter().zip(1..);
    let waiters = waiters.map(|(waiter, position)| pb::PermitWaiter {
        session_digest: digest(&waiter.owner),
        owner: viewer.owner(&waiter.owner),
        client_name: waiter.client_name,
        position,
        waiting_for: Some(whole_millis(waiter.since.elapsed())),
    });
    pb::DescribeSemaphoreResponse {
        name: seen.name.told().to_owned(),
        total: seen.total,
        available: seen.available,
        holders: holders.collect(),
        waiters: waiters.collect(),
        waiter_count: u32::try_from(seen.waiter_count).unwrap_or(u32::MAX),
        holder_count: u32::try_from(seen.holder_count).unwrap_or(u32::MAX),
    }
}

/// An answer as a frame.
pub(super) fn response(answer: PermitAnswer, viewer: &Viewer) -> Response {
    let or_failed = |result: Result<Response, Status>| {
        result.unwrap_or_else(|status| Response::Failed(message(&status)))
    };
    match answer {
        PermitAnswer::Waiting(it) => Response::WaitingForPermits(waiting(it)),
        PermitAnswer::Granted(delivery) => {
            or_failed(delivered(delivery).map(Response::PermitsGranted))
        }
        PermitAnswer::NotGranted(ended) => Response::PermitsNotGranted(not_granted(ended)),
        PermitAnswer::Acquired(delivery) => {
            or_failed(acquired(delivery).map(Response::PermitsTried))
        }
        PermitAnswer::Busy { available } => Response::PermitsTried(busy(available)),
        PermitAnswer::Released { permits, available } => {
            Response::PermitsReleased(released(permits, available))
        }
        PermitAnswer::Renewed(grants) => Response::PermitsRenewed(renewed(&grants)),
        PermitAnswer::Set(it) => Response::PermitsSet(set(it)),
        PermitAnswer::Described(seen) => Response::SemaphoreDescribed(described(seen, viewer)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permit_ids_are_taken_only_as_they_were_given() {
        let good = "00ff0a0d00257d7b203f80fe00313278".to_owned();
        let ids = permit_ids(std::slice::from_ref(&good)).unwrap();
        assert_eq!(hex::encode(ids[0]), good);
        for bad in [
            vec![String::new()],
            vec![good[1..].to_owned()],
            vec![good.replace('f', "g")],
            vec![good.clone(), good.clone()],
            vec![good.clone(); 1001],
        ] {
            assert_eq!(permit_ids(&bad).unwrap_err().field, "permit_ids");
        }
        assert!(permit_ids(&[]).unwrap().is_empty());
    }
}
