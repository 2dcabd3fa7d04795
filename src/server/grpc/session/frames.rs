//! The frames of operations and of their answers, one to one, and the first frame of a stream.

use std::time::Duration;

use lockkeeper_coordinator::{Answer, Error, Invalid, Opened, Operation};

use crate::grpc::{
    convert::{self, Requests},
    convert_permits as permits, election,
    explain::explained,
    latch, lock_watch, multi,
    pb::{self, session_request::Request, session_response::Response},
    tickets,
    viewer::Viewer,
};

/// Below the idle limits of usual proxies and NATs, whatever the lease.
const PING_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// The first frame to a client.
pub(super) fn opened(opened: &Opened) -> pb::SessionOpened {
    let lease = opened.stream.lease();
    pb::SessionOpened {
        session_id: opened.stream.id().as_str().to_owned(),
        resume_token: opened.resume_token.clone(),
        lease: Some(convert::proto_duration(lease)),
        ping_interval: Some(convert::proto_duration(ping_interval(lease))),
        renew_interval: Some(convert::proto_duration(lease * 3 / 10)),
        grants: opened.grants.iter().map(convert::grant).collect(),
        permits: opened.permits.iter().map(permits::permit_grant).collect(),
    }
}

/// How often an idle client asks for a sign of life: a dead coordinator is noticed while there is
/// time to resume elsewhere.
pub(super) fn ping_interval(lease: Duration) -> Duration {
    (lease / 6).min(PING_INTERVAL_MAX)
}

/// Converts a frame by the method of [`Requests`].
macro_rules! operations {
    ($requests:ident, $request:expr; $($Frame:ident: $method:ident,)*; $($other:tt)*) => {
        match $request {
            $(Some(Request::$Frame(it)) => $requests.$method(it).map(Operation::$Frame),)*
            $($other)*
        }
    };
}

/// The operation that a frame requests.
pub(in crate::grpc) fn operation(
    requests: &Requests<'_>,
    request: Option<&Request>,
) -> Result<Operation, Error> {
    let refused = |why| Err(Invalid::new("request", why).into());
    operations! { requests, request;
        Acquire: acquire,
        TryAcquire: try_acquire,
        AcquireAll: acquire_all,
        TryAcquireAll: try_acquire_all,
        Release: release,
        ReleaseAll: release_all,
        Renew: renew,
        Describe: describe,
        Explain: explain,
        AwaitFree: await_free,
        CheckToken: check_token,
        AcquirePermits: acquire_permits,
        TryAcquirePermits: try_acquire_permits,
        ReleasePermits: release_permits,
        RenewPermits: renew_permits,
        SetPermits: set_permits,
        DescribeSemaphore: describe_semaphore,
        SetCount: set_count,
        CountDown: count_down,
        AwaitLatch: await_latch,
        DescribeLatch: describe_latch,
        DeleteLatch: delete_latch,
        Campaign: campaign,
        Proclaim: proclaim,
        Resign: resign,
        Transfer: transfer,
        Leader: leader,
        Offer: offer,
        Claim: claim,
        ;
        Some(Request::Open(_) | Request::Resume(_)) => {
            refused("the session of this stream is open already")
        }
        Some(Request::Close(_) | Request::Cancel(_) | Request::Ping(_)) | None => {
            refused("must be set to a known operation")
        }
    }
}

/// The frame of an answer. A grant counts as delivered from here on.
pub(in crate::grpc) fn response(answer: Answer, viewer: &Viewer) -> Result<Response, Error> {
    Ok(match answer {
        Answer::Waiting(it) => Response::Waiting(convert::waiting(&it)),
        Answer::Granted(it) => Response::Granted(convert::granted(it)?),
        Answer::NotGranted(it) => Response::NotGranted(convert::not_granted(&it)),
        Answer::Tried(it) => Response::Tried(convert::tried(it)?),
        Answer::WaitingForAll(name, it) => Response::WaitingForAll(multi::waiting(&name, &it)),
        Answer::GrantedAll(it) => Response::GrantedAll(multi::granted(it)?),
        Answer::TriedAll(it) => Response::TriedAll(multi::tried(it)?),
        Answer::Released(left) => Response::Released(convert::released(left)),
        Answer::ReleasedAll(locks) => Response::ReleasedAll(multi::released(locks)),
        Answer::Renewed(grant) => Response::Renewed(convert::renewed(&grant)),
        Answer::Described(seen) => Response::Described(convert::described(seen, viewer)),
        Answer::Explained(seen) => Response::Explained(explained(seen, viewer)),
        Answer::LockFree(it) => Response::LockFree(lock_watch::free(it.fencing_token)),
        Answer::TokenChecked(it) => Response::TokenChecked(convert::token_checked(it)),
        Answer::WaitingForPermits(it) => Response::WaitingForPermits(permits::waiting(it)),
        Answer::PermitsGranted(it) => Response::PermitsGranted(permits::granted(it)?),
        Answer::PermitsNotGranted(it) => Response::PermitsNotGranted(permits::not_granted(it)),
        Answer::PermitsTried(it) => Response::PermitsTried(permits::tried(it)?),
        Answer::PermitsReleased(it) => Response::PermitsReleased(permits::released(it)),
        Answer::PermitsRenewed(grants) => Response::PermitsRenewed(permits::renewed(&grants)),
        Answer::PermitsSet(it) => Response::PermitsSet(permits::set(it)),
        Answer::SemaphoreDescribed(seen) => {
            Response::SemaphoreDescribed(permits::described(seen, viewer))
        }
        Answer::CountSet(it) => Response::CountSet(latch::count_set(it)),
        Answer::CountedDown(count) => Response::CountedDown(pb::CountDownResponse { count }),
        Answer::WaitingForLatch(count) => Response::WaitingForLatch(pb::WaitingForLatch { count }),
        Answer::LatchOpened(_) => Response::LatchOpened(pb::LatchOpened {}),
        Answer::LatchNotOpened(it) => Response::LatchNotOpened(latch::not_opened(it)),
        Answer::LatchDescribed(seen) => Response::LatchDescribed(latch::described(&seen)),
        Answer::LatchDeleted(deleted) => {
            Response::LatchDeleted(pb::DeleteLatchResponse { deleted })
        }
        Answer::Elected(it) => Response::Elected(election::elected(it)?),
        Answer::Proclaimed(revision) => Response::Proclaimed(pb::ProclaimResponse { revision }),
        Answer::Resigned(left) => Response::Resigned(election::resigned(left)),
        Answer::TransferRequested(it) => {
            Response::TransferRequested(election::transfer_requested(&it))
        }
        Answer::LeaderSeen(seen) => Response::LeaderSeen(election::leader_seen(seen, viewer)),
        Answer::Offered(it) => Response::Offered(tickets::offered(it)),
        Answer::Claimed(it) => Response::Claimed(tickets::claimed(it)?),
        Answer::Failed(error) => return Err(error),
    })
}
