import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from lockkeeper.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PermitGrant(_message.Message):
    __slots__ = ("name", "session_id", "owner", "permits", "permit_ids", "lease", "valid_for", "watched", "replica_acks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    PERMIT_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    WATCHED_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    permits: int
    permit_ids: _containers.RepeatedScalarFieldContainer[str]
    lease: _duration_pb2.Duration
    valid_for: _duration_pb2.Duration
    watched: bool
    replica_acks: int
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., permits: _Optional[int] = ..., permit_ids: _Optional[_Iterable[str]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., watched: bool = ..., replica_acks: _Optional[int] = ...) -> None: ...

class AcquirePermitsRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "permits", "lease", "wait_timeout", "request_id", "min_replica_acks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    permits: int
    lease: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., permits: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ...) -> None: ...

class AcquirePermitsResponse(_message.Message):
    __slots__ = ("waiting", "granted", "not_granted")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    waiting: WaitingForPermits
    granted: PermitGrant
    not_granted: PermitsNotGranted
    def __init__(self, waiting: _Optional[_Union[WaitingForPermits, _Mapping]] = ..., granted: _Optional[_Union[PermitGrant, _Mapping]] = ..., not_granted: _Optional[_Union[PermitsNotGranted, _Mapping]] = ...) -> None: ...

class WaitingForPermits(_message.Message):
    __slots__ = ("position", "available", "next_lease_end")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_LEASE_END_FIELD_NUMBER: _ClassVar[int]
    position: int
    available: int
    next_lease_end: _duration_pb2.Duration
    def __init__(self, position: _Optional[int] = ..., available: _Optional[int] = ..., next_lease_end: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PermitsNotGranted(_message.Message):
    __slots__ = ("reason", "available")
    REASON_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    reason: _types_pb2.NotGrantedReason
    available: int
    def __init__(self, reason: _Optional[_Union[_types_pb2.NotGrantedReason, str]] = ..., available: _Optional[int] = ...) -> None: ...

class TryAcquirePermitsRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "permits", "lease", "request_id", "min_replica_acks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    permits: int
    lease: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., permits: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ...) -> None: ...

class TryAcquirePermitsResponse(_message.Message):
    __slots__ = ("acquired", "grant", "available")
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    acquired: bool
    grant: PermitGrant
    available: int
    def __init__(self, acquired: bool = ..., grant: _Optional[_Union[PermitGrant, _Mapping]] = ..., available: _Optional[int] = ...) -> None: ...

class ReleasePermitsRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "permit_ids", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMIT_IDS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    permit_ids: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., permit_ids: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReleasePermitsResponse(_message.Message):
    __slots__ = ("released", "available")
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    released: int
    available: int
    def __init__(self, released: _Optional[int] = ..., available: _Optional[int] = ...) -> None: ...

class RenewPermitsRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "permit_ids", "lease")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMIT_IDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    permit_ids: _containers.RepeatedScalarFieldContainer[str]
    lease: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., permit_ids: _Optional[_Iterable[str]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RenewPermitsResponse(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[PermitGrant]
    def __init__(self, grants: _Optional[_Iterable[_Union[PermitGrant, _Mapping]]] = ...) -> None: ...

class SetPermitsRequest(_message.Message):
    __slots__ = ("name", "permits", "only_if_absent")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    ONLY_IF_ABSENT_FIELD_NUMBER: _ClassVar[int]
    name: str
    permits: int
    only_if_absent: bool
    def __init__(self, name: _Optional[str] = ..., permits: _Optional[int] = ..., only_if_absent: bool = ...) -> None: ...

class SetPermitsResponse(_message.Message):
    __slots__ = ("created", "total", "available")
    CREATED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    created: bool
    total: int
    available: int
    def __init__(self, created: bool = ..., total: _Optional[int] = ..., available: _Optional[int] = ...) -> None: ...

class DescribeSemaphoreRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeSemaphoreResponse(_message.Message):
    __slots__ = ("name", "total", "available", "holders", "waiters", "waiter_count", "holder_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    total: int
    available: int
    holders: _containers.RepeatedCompositeFieldContainer[PermitHolder]
    waiters: _containers.RepeatedCompositeFieldContainer[PermitWaiter]
    waiter_count: int
    holder_count: int
    def __init__(self, name: _Optional[str] = ..., total: _Optional[int] = ..., available: _Optional[int] = ..., holders: _Optional[_Iterable[_Union[PermitHolder, _Mapping]]] = ..., waiters: _Optional[_Iterable[_Union[PermitWaiter, _Mapping]]] = ..., waiter_count: _Optional[int] = ..., holder_count: _Optional[int] = ...) -> None: ...

class PermitHolder(_message.Message):
    __slots__ = ("session_digest", "owner", "permits", "client_name", "remaining_lease")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PERMITS_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    owner: str
    permits: int
    client_name: str
    remaining_lease: _duration_pb2.Duration
    def __init__(self, session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., permits: _Optional[int] = ..., client_name: _Optional[str] = ..., remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class PermitWaiter(_message.Message):
    __slots__ = ("session_digest", "owner", "client_name", "position", "waiting_for")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    owner: str
    client_name: str
    position: int
    waiting_for: _duration_pb2.Duration
    def __init__(self, session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., client_name: _Optional[str] = ..., position: _Optional[int] = ..., waiting_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...
