//! Converts between proto and domain, for several locks at once.

use lockkeeper_access::Right;
use lockkeeper_coordinator::{
    AcquireAll, DeliveryAll, Error, Grant, LockName, Locks, ReleaseAll, ReleasedLock, TriedAll,
    Waiting,
};

use super::{
    convert::{self, Requests},
    convert_note, pb,
};

/// The common fields of `AcquireAll` and `TryAcquireAll`.
macro_rules! acquire_all {
    ($requests:ident, $request:ident) => {{
        let locks = $requests.locks(&$request.locks, Right::Acquire)?;
        let request_id = $requests.request_id(&$request.request_id)?;
        AcquireAll {
            owner: $requests.owner_or_made(
                &$request.session_id,
                &$request.owner,
                locks.first(),
                request_id.as_ref(),
            )?,
            locks,
            lease: $requests.lease($request.lease)?,
            wait: None,
            request_id,
            min_replica_acks: $request.min_replica_acks,
            note: convert_note::of_request($request.note.as_ref())?,
            end_on_deadlock: false,
            account: $requests.account.clone(),
        }
    }};
}

// === impl Requests ===

impl Requests<'_> {
    pub(super) fn acquire_all(&self, request: &pb::AcquireAllRequest) -> Result<AcquireAll, Error> {
        let wait = convert::wait(request.wait_timeout)?;
        Ok(AcquireAll {
            wait,
            end_on_deadlock: request.end_on_deadlock,
            ..acquire_all!(self, request)
        })
    }

    pub(super) fn try_acquire_all(
        &self,
        request: &pb::TryAcquireAllRequest,
    ) -> Result<AcquireAll, Error> {
        Ok(acquire_all!(self, request))
    }

    pub(super) fn release_all(&self, request: &pb::ReleaseAllRequest) -> Result<ReleaseAll, Error> {
        let session = self.session(&request.session_id)?;
        Ok(ReleaseAll {
            locks: self.locks(&request.locks, Right::Release)?,
            owner: self.owner(session, &request.owner)?,
            request_id: self.request_id(&request.request_id)?,
        })
    }

    fn locks(&self, specs: &[pb::LockSpec], right: Right) -> Result<Locks, Error> {
        let limits = self.coordinator.limits();
        let named = specs.iter().map(|spec| {
            let name = LockName::parse(&spec.name, limits)?;
            Ok((name, convert::mode(spec.mode)?))
        });
        let locks = Locks::new(named, limits)?;
        for (name, _) in locks.iter() {
            self.may(right, name)?;
        }
        Ok(locks)
    }
}

pub(super) fn waiting(name: &LockName, waiting: &Waiting) -> pb::WaitingForAll {
    pb::WaitingForAll {
        name: name.public().to_owned(),
        waiting: Some(convert::waiting(waiting)),
    }
}

/// The last answer of `AcquireAll`. The grants count as delivered from here on.
pub(super) fn granted(delivery: DeliveryAll) -> Result<pb::GrantedAll, Error> {
    let grants = grants(&delivery.take()?);
    Ok(pb::GrantedAll { grants })
}

/// The answer to `TryAcquireAll`. The grants count as delivered from here on.
pub(super) fn tried(tried: TriedAll) -> Result<pb::TryAcquireAllResponse, Error> {
    Ok(match tried {
        TriedAll::Acquired(delivery) => pb::TryAcquireAllResponse {
            acquired: true,
            grants: grants(&delivery.take()?),
            ..pb::TryAcquireAllResponse::default()
        },
        TriedAll::Busy { name, holder } => pb::TryAcquireAllResponse {
            busy_name: name.public().to_owned(),
            holder_remaining_lease: convert::remaining(holder.until),
            holder_note: convert_note::of_holder(&holder),
            ..pb::TryAcquireAllResponse::default()
        },
    })
}

pub(super) fn released(locks: Vec<ReleasedLock>) -> pb::ReleaseAllResponse {
    let locks = locks.into_iter().map(|lock| pb::ReleasedLock {
        name: lock.name.public().to_owned(),
        mode: convert::proto_mode(lock.mode).into(),
        held: lock.left.is_some(),
        hold_count: lock.left.unwrap_or(0),
    });
    pb::ReleaseAllResponse {
        locks: locks.collect(),
    }
}

fn grants(grants: &[Grant]) -> Vec<pb::Grant> {
    grants.iter().map(convert::grant).collect()
}
