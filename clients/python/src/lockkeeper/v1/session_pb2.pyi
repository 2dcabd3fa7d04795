import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.rpc import status_pb2 as _status_pb2
from lockkeeper.v1 import election_pb2 as _election_pb2
from lockkeeper.v1 import latch_pb2 as _latch_pb2
from lockkeeper.v1 import lock_pb2 as _lock_pb2
from lockkeeper.v1 import semaphore_pb2 as _semaphore_pb2
from lockkeeper.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DISCONNECT_UNSPECIFIED: _ClassVar[OnDisconnect]
    ON_DISCONNECT_KEEP: _ClassVar[OnDisconnect]
    ON_DISCONNECT_RELEASE: _ClassVar[OnDisconnect]
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
ON_DISCONNECT_KEEP: OnDisconnect
ON_DISCONNECT_RELEASE: OnDisconnect

class SessionRequest(_message.Message):
    __slots__ = ("op_id", "open", "resume", "close", "acquire", "try_acquire", "release", "renew", "describe", "check_token", "cancel", "acquire_all", "try_acquire_all", "release_all", "ping", "acquire_permits", "try_acquire_permits", "release_permits", "renew_permits", "set_permits", "describe_semaphore", "set_count", "count_down", "await_latch", "describe_latch", "delete_latch", "campaign", "proclaim", "resign", "leader", "explain", "offer", "claim", "await_free", "transfer", "traceparent")
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    TRY_ACQUIRE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    RENEW_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    CHECK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_ALL_FIELD_NUMBER: _ClassVar[int]
    TRY_ACQUIRE_ALL_FIELD_NUMBER: _ClassVar[int]
    RELEASE_ALL_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    ACQUIRE_PERMITS_FIELD_NUMBER: _ClassVar[int]
    TRY_ACQUIRE_PERMITS_FIELD_NUMBER: _ClassVar[int]
    RELEASE_PERMITS_FIELD_NUMBER: _ClassVar[int]
    RENEW_PERMITS_FIELD_NUMBER: _ClassVar[int]
    SET_PERMITS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_SEMAPHORE_FIELD_NUMBER: _ClassVar[int]
    SET_COUNT_FIELD_NUMBER: _ClassVar[int]
    COUNT_DOWN_FIELD_NUMBER: _ClassVar[int]
    AWAIT_LATCH_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_LATCH_FIELD_NUMBER: _ClassVar[int]
    DELETE_LATCH_FIELD_NUMBER: _ClassVar[int]
    CAMPAIGN_FIELD_NUMBER: _ClassVar[int]
    PROCLAIM_FIELD_NUMBER: _ClassVar[int]
    RESIGN_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    OFFER_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    AWAIT_FREE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    op_id: int
    open: OpenSession
    resume: ResumeSession
    close: CloseSession
    acquire: _lock_pb2.AcquireRequest
    try_acquire: _lock_pb2.TryAcquireRequest
    release: _lock_pb2.ReleaseRequest
    renew: _lock_pb2.RenewRequest
    describe: _lock_pb2.DescribeRequest
    check_token: _lock_pb2.CheckTokenRequest
    cancel: CancelOperation
    acquire_all: _lock_pb2.AcquireAllRequest
    try_acquire_all: _lock_pb2.TryAcquireAllRequest
    release_all: _lock_pb2.ReleaseAllRequest
    ping: Ping
    acquire_permits: _semaphore_pb2.AcquirePermitsRequest
    try_acquire_permits: _semaphore_pb2.TryAcquirePermitsRequest
    release_permits: _semaphore_pb2.ReleasePermitsRequest
    renew_permits: _semaphore_pb2.RenewPermitsRequest
    set_permits: _semaphore_pb2.SetPermitsRequest
    describe_semaphore: _semaphore_pb2.DescribeSemaphoreRequest
    set_count: _latch_pb2.SetCountRequest
    count_down: _latch_pb2.CountDownRequest
    await_latch: _latch_pb2.AwaitLatchRequest
    describe_latch: _latch_pb2.DescribeLatchRequest
    delete_latch: _latch_pb2.DeleteLatchRequest
    campaign: _election_pb2.CampaignRequest
    proclaim: _election_pb2.ProclaimRequest
    resign: _election_pb2.ResignRequest
    leader: _election_pb2.LeaderRequest
    explain: _lock_pb2.ExplainRequest
    offer: _lock_pb2.OfferRequest
    claim: _lock_pb2.ClaimRequest
    await_free: _lock_pb2.AwaitFreeRequest
    transfer: _election_pb2.TransferRequest
    traceparent: str
    def __init__(self, op_id: _Optional[int] = ..., open: _Optional[_Union[OpenSession, _Mapping]] = ..., resume: _Optional[_Union[ResumeSession, _Mapping]] = ..., close: _Optional[_Union[CloseSession, _Mapping]] = ..., acquire: _Optional[_Union[_lock_pb2.AcquireRequest, _Mapping]] = ..., try_acquire: _Optional[_Union[_lock_pb2.TryAcquireRequest, _Mapping]] = ..., release: _Optional[_Union[_lock_pb2.ReleaseRequest, _Mapping]] = ..., renew: _Optional[_Union[_lock_pb2.RenewRequest, _Mapping]] = ..., describe: _Optional[_Union[_lock_pb2.DescribeRequest, _Mapping]] = ..., check_token: _Optional[_Union[_lock_pb2.CheckTokenRequest, _Mapping]] = ..., cancel: _Optional[_Union[CancelOperation, _Mapping]] = ..., acquire_all: _Optional[_Union[_lock_pb2.AcquireAllRequest, _Mapping]] = ..., try_acquire_all: _Optional[_Union[_lock_pb2.TryAcquireAllRequest, _Mapping]] = ..., release_all: _Optional[_Union[_lock_pb2.ReleaseAllRequest, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., acquire_permits: _Optional[_Union[_semaphore_pb2.AcquirePermitsRequest, _Mapping]] = ..., try_acquire_permits: _Optional[_Union[_semaphore_pb2.TryAcquirePermitsRequest, _Mapping]] = ..., release_permits: _Optional[_Union[_semaphore_pb2.ReleasePermitsRequest, _Mapping]] = ..., renew_permits: _Optional[_Union[_semaphore_pb2.RenewPermitsRequest, _Mapping]] = ..., set_permits: _Optional[_Union[_semaphore_pb2.SetPermitsRequest, _Mapping]] = ..., describe_semaphore: _Optional[_Union[_semaphore_pb2.DescribeSemaphoreRequest, _Mapping]] = ..., set_count: _Optional[_Union[_latch_pb2.SetCountRequest, _Mapping]] = ..., count_down: _Optional[_Union[_latch_pb2.CountDownRequest, _Mapping]] = ..., await_latch: _Optional[_Union[_latch_pb2.AwaitLatchRequest, _Mapping]] = ..., describe_latch: _Optional[_Union[_latch_pb2.DescribeLatchRequest, _Mapping]] = ..., delete_latch: _Optional[_Union[_latch_pb2.DeleteLatchRequest, _Mapping]] = ..., campaign: _Optional[_Union[_election_pb2.CampaignRequest, _Mapping]] = ..., proclaim: _Optional[_Union[_election_pb2.ProclaimRequest, _Mapping]] = ..., resign: _Optional[_Union[_election_pb2.ResignRequest, _Mapping]] = ..., leader: _Optional[_Union[_election_pb2.LeaderRequest, _Mapping]] = ..., explain: _Optional[_Union[_lock_pb2.ExplainRequest, _Mapping]] = ..., offer: _Optional[_Union[_lock_pb2.OfferRequest, _Mapping]] = ..., claim: _Optional[_Union[_lock_pb2.ClaimRequest, _Mapping]] = ..., await_free: _Optional[_Union[_lock_pb2.AwaitFreeRequest, _Mapping]] = ..., transfer: _Optional[_Union[_election_pb2.TransferRequest, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class OpenSession(_message.Message):
    __slots__ = ("lease", "client_name", "on_disconnect", "sends_pings", "sends_close")
    LEASE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    SENDS_PINGS_FIELD_NUMBER: _ClassVar[int]
    SENDS_CLOSE_FIELD_NUMBER: _ClassVar[int]
    lease: _duration_pb2.Duration
    client_name: str
    on_disconnect: OnDisconnect
    sends_pings: bool
    sends_close: bool
    def __init__(self, lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., client_name: _Optional[str] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., sends_pings: bool = ..., sends_close: bool = ...) -> None: ...

class ResumeSession(_message.Message):
    __slots__ = ("session_id", "resume_token", "grants", "permits", "sends_pings", "sends_close")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    SENDS_PINGS_FIELD_NUMBER: _ClassVar[int]
    SENDS_CLOSE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    resume_token: bytes
    grants: _containers.RepeatedCompositeFieldContainer[_types_pb2.Grant]
    permits: _containers.RepeatedCompositeFieldContainer[_semaphore_pb2.PermitGrant]
    sends_pings: bool
    sends_close: bool
    def __init__(self, session_id: _Optional[str] = ..., resume_token: _Optional[bytes] = ..., grants: _Optional[_Iterable[_Union[_types_pb2.Grant, _Mapping]]] = ..., permits: _Optional[_Iterable[_Union[_semaphore_pb2.PermitGrant, _Mapping]]] = ..., sends_pings: bool = ..., sends_close: bool = ...) -> None: ...

class CloseSession(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CancelOperation(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Ping(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Pong(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionResponse(_message.Message):
    __slots__ = ("op_id", "opened", "lost", "at_risk", "recovered", "going_away", "waiting", "granted", "not_granted", "tried", "released", "renewed", "described", "token_checked", "failed", "waiting_for_all", "granted_all", "tried_all", "released_all", "waiting_for_permits", "permits_granted", "permits_not_granted", "permits_tried", "permits_released", "permits_renewed", "permits_set", "semaphore_described", "permits_lost", "count_set", "counted_down", "waiting_for_latch", "latch_opened", "latch_not_opened", "latch_described", "latch_deleted", "pong", "elected", "proclaimed", "resigned", "leader_seen", "explained", "yield_requested", "offered", "claimed", "lock_free", "transfer_requested")
    OP_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    AT_RISK_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    GOING_AWAY_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    TRIED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_CHECKED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_ALL_FIELD_NUMBER: _ClassVar[int]
    GRANTED_ALL_FIELD_NUMBER: _ClassVar[int]
    TRIED_ALL_FIELD_NUMBER: _ClassVar[int]
    RELEASED_ALL_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_PERMITS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_GRANTED_FIELD_NUMBER: _ClassVar[int]
    PERMITS_NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    PERMITS_TRIED_FIELD_NUMBER: _ClassVar[int]
    PERMITS_RELEASED_FIELD_NUMBER: _ClassVar[int]
    PERMITS_RENEWED_FIELD_NUMBER: _ClassVar[int]
    PERMITS_SET_FIELD_NUMBER: _ClassVar[int]
    SEMAPHORE_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    PERMITS_LOST_FIELD_NUMBER: _ClassVar[int]
    COUNT_SET_FIELD_NUMBER: _ClassVar[int]
    COUNTED_DOWN_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_LATCH_FIELD_NUMBER: _ClassVar[int]
    LATCH_OPENED_FIELD_NUMBER: _ClassVar[int]
    LATCH_NOT_OPENED_FIELD_NUMBER: _ClassVar[int]
    LATCH_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    LATCH_DELETED_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    ELECTED_FIELD_NUMBER: _ClassVar[int]
    PROCLAIMED_FIELD_NUMBER: _ClassVar[int]
    RESIGNED_FIELD_NUMBER: _ClassVar[int]
    LEADER_SEEN_FIELD_NUMBER: _ClassVar[int]
    EXPLAINED_FIELD_NUMBER: _ClassVar[int]
    YIELD_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    LOCK_FREE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    op_id: int
    opened: SessionOpened
    lost: GrantLost
    at_risk: SessionAtRisk
    recovered: SessionRecovered
    going_away: SessionGoingAway
    waiting: _lock_pb2.Waiting
    granted: _types_pb2.Grant
    not_granted: _lock_pb2.NotGranted
    tried: _lock_pb2.TryAcquireResponse
    released: _lock_pb2.ReleaseResponse
    renewed: _lock_pb2.RenewResponse
    described: _lock_pb2.DescribeResponse
    token_checked: _lock_pb2.CheckTokenResponse
    failed: _status_pb2.Status
    waiting_for_all: _lock_pb2.WaitingForAll
    granted_all: _lock_pb2.GrantedAll
    tried_all: _lock_pb2.TryAcquireAllResponse
    released_all: _lock_pb2.ReleaseAllResponse
    waiting_for_permits: _semaphore_pb2.WaitingForPermits
    permits_granted: _semaphore_pb2.PermitGrant
    permits_not_granted: _semaphore_pb2.PermitsNotGranted
    permits_tried: _semaphore_pb2.TryAcquirePermitsResponse
    permits_released: _semaphore_pb2.ReleasePermitsResponse
    permits_renewed: _semaphore_pb2.RenewPermitsResponse
    permits_set: _semaphore_pb2.SetPermitsResponse
    semaphore_described: _semaphore_pb2.DescribeSemaphoreResponse
    permits_lost: PermitsLost
    count_set: _latch_pb2.SetCountResponse
    counted_down: _latch_pb2.CountDownResponse
    waiting_for_latch: _latch_pb2.WaitingForLatch
    latch_opened: _latch_pb2.LatchOpened
    latch_not_opened: _latch_pb2.LatchNotOpened
    latch_described: _latch_pb2.DescribeLatchResponse
    latch_deleted: _latch_pb2.DeleteLatchResponse
    pong: Pong
    elected: _election_pb2.Elected
    proclaimed: _election_pb2.ProclaimResponse
    resigned: _election_pb2.ResignResponse
    leader_seen: _election_pb2.LeaderResponse
    explained: _lock_pb2.ExplainResponse
    yield_requested: YieldRequested
    offered: _lock_pb2.OfferResponse
    claimed: _lock_pb2.ClaimResponse
    lock_free: _lock_pb2.LockFree
    transfer_requested: _election_pb2.TransferResponse
    def __init__(self, op_id: _Optional[int] = ..., opened: _Optional[_Union[SessionOpened, _Mapping]] = ..., lost: _Optional[_Union[GrantLost, _Mapping]] = ..., at_risk: _Optional[_Union[SessionAtRisk, _Mapping]] = ..., recovered: _Optional[_Union[SessionRecovered, _Mapping]] = ..., going_away: _Optional[_Union[SessionGoingAway, _Mapping]] = ..., waiting: _Optional[_Union[_lock_pb2.Waiting, _Mapping]] = ..., granted: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ..., not_granted: _Optional[_Union[_lock_pb2.NotGranted, _Mapping]] = ..., tried: _Optional[_Union[_lock_pb2.TryAcquireResponse, _Mapping]] = ..., released: _Optional[_Union[_lock_pb2.ReleaseResponse, _Mapping]] = ..., renewed: _Optional[_Union[_lock_pb2.RenewResponse, _Mapping]] = ..., described: _Optional[_Union[_lock_pb2.DescribeResponse, _Mapping]] = ..., token_checked: _Optional[_Union[_lock_pb2.CheckTokenResponse, _Mapping]] = ..., failed: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., waiting_for_all: _Optional[_Union[_lock_pb2.WaitingForAll, _Mapping]] = ..., granted_all: _Optional[_Union[_lock_pb2.GrantedAll, _Mapping]] = ..., tried_all: _Optional[_Union[_lock_pb2.TryAcquireAllResponse, _Mapping]] = ..., released_all: _Optional[_Union[_lock_pb2.ReleaseAllResponse, _Mapping]] = ..., waiting_for_permits: _Optional[_Union[_semaphore_pb2.WaitingForPermits, _Mapping]] = ..., permits_granted: _Optional[_Union[_semaphore_pb2.PermitGrant, _Mapping]] = ..., permits_not_granted: _Optional[_Union[_semaphore_pb2.PermitsNotGranted, _Mapping]] = ..., permits_tried: _Optional[_Union[_semaphore_pb2.TryAcquirePermitsResponse, _Mapping]] = ..., permits_released: _Optional[_Union[_semaphore_pb2.ReleasePermitsResponse, _Mapping]] = ..., permits_renewed: _Optional[_Union[_semaphore_pb2.RenewPermitsResponse, _Mapping]] = ..., permits_set: _Optional[_Union[_semaphore_pb2.SetPermitsResponse, _Mapping]] = ..., semaphore_described: _Optional[_Union[_semaphore_pb2.DescribeSemaphoreResponse, _Mapping]] = ..., permits_lost: _Optional[_Union[PermitsLost, _Mapping]] = ..., count_set: _Optional[_Union[_latch_pb2.SetCountResponse, _Mapping]] = ..., counted_down: _Optional[_Union[_latch_pb2.CountDownResponse, _Mapping]] = ..., waiting_for_latch: _Optional[_Union[_latch_pb2.WaitingForLatch, _Mapping]] = ..., latch_opened: _Optional[_Union[_latch_pb2.LatchOpened, _Mapping]] = ..., latch_not_opened: _Optional[_Union[_latch_pb2.LatchNotOpened, _Mapping]] = ..., latch_described: _Optional[_Union[_latch_pb2.DescribeLatchResponse, _Mapping]] = ..., latch_deleted: _Optional[_Union[_latch_pb2.DeleteLatchResponse, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., elected: _Optional[_Union[_election_pb2.Elected, _Mapping]] = ..., proclaimed: _Optional[_Union[_election_pb2.ProclaimResponse, _Mapping]] = ..., resigned: _Optional[_Union[_election_pb2.ResignResponse, _Mapping]] = ..., leader_seen: _Optional[_Union[_election_pb2.LeaderResponse, _Mapping]] = ..., explained: _Optional[_Union[_lock_pb2.ExplainResponse, _Mapping]] = ..., yield_requested: _Optional[_Union[YieldRequested, _Mapping]] = ..., offered: _Optional[_Union[_lock_pb2.OfferResponse, _Mapping]] = ..., claimed: _Optional[_Union[_lock_pb2.ClaimResponse, _Mapping]] = ..., lock_free: _Optional[_Union[_lock_pb2.LockFree, _Mapping]] = ..., transfer_requested: _Optional[_Union[_election_pb2.TransferResponse, _Mapping]] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session_id", "resume_token", "lease", "grants", "permits", "ping_interval", "renew_interval")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    PING_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RENEW_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    resume_token: bytes
    lease: _duration_pb2.Duration
    grants: _containers.RepeatedCompositeFieldContainer[_types_pb2.Grant]
    permits: _containers.RepeatedCompositeFieldContainer[_semaphore_pb2.PermitGrant]
    ping_interval: _duration_pb2.Duration
    renew_interval: _duration_pb2.Duration
    def __init__(self, session_id: _Optional[str] = ..., resume_token: _Optional[bytes] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., grants: _Optional[_Iterable[_Union[_types_pb2.Grant, _Mapping]]] = ..., permits: _Optional[_Iterable[_Union[_semaphore_pb2.PermitGrant, _Mapping]]] = ..., ping_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., renew_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class GrantLost(_message.Message):
    __slots__ = ("grant", "reason", "detail", "valid_for")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    grant: _types_pb2.Grant
    reason: _types_pb2.LostReason
    detail: str
    valid_for: _duration_pb2.Duration
    def __init__(self, grant: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ..., reason: _Optional[_Union[_types_pb2.LostReason, str]] = ..., detail: _Optional[str] = ..., valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class YieldRequested(_message.Message):
    __slots__ = ("grant", "by", "reason", "within", "preempt")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_FIELD_NUMBER: _ClassVar[int]
    grant: _types_pb2.Grant
    by: str
    reason: str
    within: _duration_pb2.Duration
    preempt: bool
    def __init__(self, grant: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ..., by: _Optional[str] = ..., reason: _Optional[str] = ..., within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., preempt: bool = ...) -> None: ...

class PermitsLost(_message.Message):
    __slots__ = ("grant", "reason")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    grant: _semaphore_pb2.PermitGrant
    reason: _types_pb2.LostReason
    def __init__(self, grant: _Optional[_Union[_semaphore_pb2.PermitGrant, _Mapping]] = ..., reason: _Optional[_Union[_types_pb2.LostReason, str]] = ...) -> None: ...

class SessionAtRisk(_message.Message):
    __slots__ = ("valid_for",)
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    valid_for: _duration_pb2.Duration
    def __init__(self, valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class SessionRecovered(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SessionGoingAway(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
