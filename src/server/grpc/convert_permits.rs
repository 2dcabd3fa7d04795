//! Converts between proto and domain, for semaphores.

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    AcquirePermits, Error, Invalid, LockName, Owner, PermitCount, PermitDelivery, PermitGrant,
    PermitId, PermitsNotGranted, PermitsSet, ReleasePermits, ReleasedPermits, RenewPermits,
    ResumedPermits, SemaphoreDescription, SessionId, SetPermits, TriedPermits, WaitingForPermits,
};

use super::{
    audit,
    convert::{Requests, count, digest, proto_wait_end, remaining, wait, whole_millis},
    pb,
    viewer::Viewer,
};

/// The common fields of `AcquirePermits` and `TryAcquirePermits`.
macro_rules! acquire_permits {
    ($requests:ident, $request:ident) => {{
        let name = $requests.name(&$request.name, Right::Acquire)?;
        let permits = PermitCount::new($request.permits)?;
        let request_id = $requests.request_id(&$request.request_id)?;
        AcquirePermits {
            owner: $requests.owner_or_made(
                &$request.session_id,
                &$request.owner,
                &name,
                request_id.as_ref(),
            )?,
            name,
            permits,
            lease: $requests.lease($request.lease)?,
            wait: None,
            request_id,
            min_replica_acks: $request.min_replica_acks,
            account: $requests.account.clone(),
        }
    }};
}

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn acquire_permits(
        &self,
        request: &pb::AcquirePermitsRequest,
    ) -> Result<AcquirePermits, Error> {
        let wait = wait(request.wait_timeout)?;
        Ok(AcquirePermits {
            wait,
            ..acquire_permits!(self, request)
        })
    }

    pub(super) fn try_acquire_permits(
        &self,
        request: &pb::TryAcquirePermitsRequest,
    ) -> Result<AcquirePermits, Error> {
        Ok(acquire_permits!(self, request))
    }

    pub(super) fn release_permits(
        &self,
        request: &pb::ReleasePermitsRequest,
    ) -> Result<ReleasePermits, Error> {
        let name = self.name(&request.name, Right::Release)?;
        let session = self.session(&request.session_id)?;
        Ok(ReleasePermits {
            name,
            owner: self.owner(session, &request.owner)?,
            ids: permit_ids(&request.permit_ids)?,
            request_id: self.request_id(&request.request_id)?,
        })
    }

    pub(super) fn renew_permits(
        &self,
        request: &pb::RenewPermitsRequest,
    ) -> Result<RenewPermits, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        let session = self.session(&request.session_id)?;
        Ok(RenewPermits {
            name,
            owner: self.owner(session, &request.owner)?,
            ids: permit_ids(&request.permit_ids)?,
            lease: self.lease(request.lease)?,
        })
    }

    pub(super) fn set_permits(&self, request: &pb::SetPermitsRequest) -> Result<SetPermits, Error> {
        let name = self.name(&request.name, Right::Acquire)?;
        audit::allowed(self.account, "SetPermits", name.public());
        Ok(SetPermits {
            name,
            permits: request.permits,
            only_if_absent: request.only_if_absent,
        })
    }

    pub(super) fn describe_semaphore(
        &self,
        request: &pb::DescribeSemaphoreRequest,
    ) -> Result<LockName, Error> {
        self.name(&request.name, Right::Describe)
    }

    /// The permits that a resuming client names. An invalid entry is left out, as with locks.
    pub(super) fn resumed_permits(
        &self,
        id: &SessionId,
        grants: Vec<pb::PermitGrant>,
    ) -> Vec<ResumedPermits> {
        let limits = self.coordinator.limits();
        let resumed = grants.into_iter().filter_map(|grant| {
            let ids = permit_ids(&grant.permit_ids).ok()?;
            if ids.is_empty() {
                return None;
            }
            let name = LockName::parse(&grant.name, limits).ok()?;
            Some(ResumedPermits {
                is_permitted: self.may(Right::Acquire, &name).is_ok(),
                name,
                owner: Owner::in_session(id.clone(), &grant.owner, limits).ok()?,
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
        name: grant.name.public().to_owned(),
        session_id: session.map_or("", SessionId::as_str).to_owned(),
        owner: grant.owner.label.as_ref().to_owned(),
        permits: count(grant.ids.len()),
        permit_ids: grant.ids.iter().map(hex::encode).collect(),
        lease: Some(whole_millis(grant.lease)),
        valid_for: remaining(Some(grant.safe_until)),
        watched: grant.watched,
        replica_acks: grant.replica_acks,
    }
}

/// A grant; counts as delivered from here on.
pub(super) fn granted(delivery: PermitDelivery) -> Result<pb::PermitGrant, Error> {
    delivery.take().map(|grant| permit_grant(&grant))
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
        reason: proto_wait_end(ended.why).into(),
        available: ended.available,
    }
}

/// The answer to `TryAcquirePermits`. A grant counts as delivered from here on.
pub(super) fn tried(tried: TriedPermits) -> Result<pb::TryAcquirePermitsResponse, Error> {
    Ok(match tried {
        TriedPermits::Acquired(delivery) => pb::TryAcquirePermitsResponse {
            acquired: true,
            grant: Some(granted(delivery)?),
            available: 0,
        },
        TriedPermits::Busy { available } => pb::TryAcquirePermitsResponse {
            acquired: false,
            grant: None,
            available,
        },
    })
}

pub(super) fn released(released: ReleasedPermits) -> pb::ReleasePermitsResponse {
    pb::ReleasePermitsResponse {
        released: released.permits,
        available: released.available,
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
        name: seen.name.public().to_owned(),
        total: seen.total,
        available: seen.available,
        holders: holders.collect(),
        waiters: waiters.collect(),
        waiter_count: count(seen.waiter_count),
        holder_count: count(seen.holder_count),
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
            (0..=1000).map(|it| format!("{it:032x}")).collect(),
        ] {
            assert_eq!(permit_ids(&bad).unwrap_err().field, "permit_ids");
        }
        assert!(permit_ids(&[]).unwrap().is_empty());
    }
}
