//! Requests that read as prose: `acquire_request("a", "x").lasting(secs(5)).within(secs(1))`.

use std::time::Duration;

use lockkeeper_api::pb::{self, LockMode};

use crate::client::proto;

macro_rules! fields {
    ($(
        $Trait:ident { fn $method:ident($value:ident: $Type:ty) }
        sets $field:ident: $set:expr, of $($Message:ident)*;
    )*) => {$(
        pub trait $Trait: Sized {
            fn $method(self, $value: $Type) -> Self;
        }

        $(
            impl $Trait for pb::$Message {
                fn $method(self, $value: $Type) -> Self {
                    Self { $field: $set, ..self }
                }
            }
        )*
    )*};
}

fields! {
    Lasting { fn lasting(lease: Duration) } sets lease: Some(proto(lease)),
        of OpenSession TryAcquireRequest AcquireRequest RenewRequest TryAcquireAllRequest
            AcquireAllRequest TryAcquirePermitsRequest AcquirePermitsRequest RenewPermitsRequest;

    Within { fn within(wait: Duration) } sets wait_timeout: Some(proto(wait)),
        of AcquireRequest AcquireAllRequest AcquirePermitsRequest AwaitLatchRequest
            AwaitFreeRequest CampaignRequest;

    InMode { fn in_mode(mode: LockMode) } sets mode: mode.into(),
        of TryAcquireRequest AcquireRequest RenewRequest ReleaseRequest;

    WithId { fn with_id(id: impl Into<String>) } sets request_id: id.into(),
        of TryAcquireRequest AcquireRequest ReleaseRequest TryAcquireAllRequest AcquireAllRequest
            ReleaseAllRequest TryAcquirePermitsRequest AcquirePermitsRequest ReleasePermitsRequest
            SetCountRequest CountDownRequest;

    OfSession { fn of_session(id: impl Into<String>) } sets session_id: id.into(),
        of TryAcquireRequest AcquireRequest RenewRequest ReleaseRequest TryAcquireAllRequest
            AcquireAllRequest ReleaseAllRequest TryAcquirePermitsRequest AcquirePermitsRequest
            ReleasePermitsRequest RenewPermitsRequest AwaitLatchRequest AwaitFreeRequest
            CampaignRequest ProclaimRequest ResignRequest OfferRequest ClaimRequest;

    By { fn by(owner: impl Into<String>) } sets owner: owner.into(),
        of TryAcquireRequest AcquireRequest RenewRequest ReleaseRequest TryAcquireAllRequest
            AcquireAllRequest ReleaseAllRequest TryAcquirePermitsRequest AcquirePermitsRequest
            ReleasePermitsRequest RenewPermitsRequest;

    AckedBy { fn acked_by(replicas: u32) } sets min_replica_acks: replicas,
        of TryAcquireRequest AcquireRequest TryAcquireAllRequest AcquireAllRequest
            TryAcquirePermitsRequest AcquirePermitsRequest;

    Noted { fn noted(note: pb::Note) } sets note: Some(note),
        of TryAcquireRequest AcquireRequest TryAcquireAllRequest AcquireAllRequest;

    OfLocks { fn of_locks(locks: Vec<pb::LockSpec>) } sets locks: locks,
        of TryAcquireAllRequest AcquireAllRequest ReleaseAllRequest;

    HoldAtLeast { fn hold_at_least(time: Duration) } sets hold_at_least: Some(proto(time)),
        of TryAcquireRequest AcquireRequest;

    LockDelay { fn lock_delay(time: Duration) } sets lock_delay: Some(proto(time)),
        of TryAcquireRequest AcquireRequest CampaignRequest;

    WithValue { fn value(value: impl Into<String>) } sets value: value.into(),
        of CampaignRequest ProclaimRequest;

    Because { fn because(reason: impl Into<String>) } sets reason: reason.into(),
        of RequestYieldRequest ForceReleaseRequest EndSessionRequest;

    WithPrefix { fn prefix(prefix: impl Into<String>) } sets prefix: prefix.into(),
        of ListLocksRequest WatchRequest;

    UponDisconnect { fn upon_disconnect(then: pb::OnDisconnect) } sets on_disconnect: then.into(),
        of OpenSession;

    Called { fn called(name: impl Into<String>) } sets client_name: name.into(),
        of OpenSession RequestYieldRequest;

    Permits { fn permits(count: u32) } sets permits: count,
        of TryAcquirePermitsRequest AcquirePermitsRequest SetPermitsRequest;

    Ids { fn ids(ids: &[String]) } sets permit_ids: ids.to_vec(),
        of ReleasePermitsRequest RenewPermitsRequest;

    Count { fn count(count: u32) } sets count: count,
        of SetCountRequest;

    CountBy { fn count_by(by: u32) } sets by: by,
        of CountDownRequest;
}

/// A request about something, and nothing else in it.
pub trait Named: Default {
    fn named(name: impl Into<String>) -> Self;
}

macro_rules! named {
    ($($Message:ident)*) => {$(
        impl Named for pb::$Message {
            #[allow(clippy::needless_update, reason = "some have no other field")]
            fn named(name: impl Into<String>) -> Self {
                Self { name: name.into(), ..Self::default() }
            }
        }
    )*};
}

named! {
    TryAcquireRequest AcquireRequest RenewRequest ReleaseRequest
    TryAcquirePermitsRequest AcquirePermitsRequest ReleasePermitsRequest RenewPermitsRequest
    SetPermitsRequest SetCountRequest CountDownRequest AwaitLatchRequest AwaitFreeRequest
    DescribeRequest CheckTokenRequest ExplainRequest WatchLockRequest DescribeSemaphoreRequest
    CampaignRequest ProclaimRequest ResignRequest LeaderRequest ObserveRequest OfferRequest
    ClaimRequest RequestYieldRequest ForceReleaseRequest
}
