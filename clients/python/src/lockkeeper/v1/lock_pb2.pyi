import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from lockkeeper.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcquireRequest(_message.Message):
    __slots__ = ("name", "mode", "session_id", "owner", "lease", "wait_timeout", "request_id", "min_replica_acks", "note")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class AcquireResponse(_message.Message):
    __slots__ = ("waiting", "granted", "not_granted")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    waiting: Waiting
    granted: _types_pb2.Grant
    not_granted: NotGranted
    def __init__(self, waiting: _Optional[_Union[Waiting, _Mapping]] = ..., granted: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ..., not_granted: _Optional[_Union[NotGranted, _Mapping]] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("position", "holder_remaining_lease", "holder_note")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    HOLDER_REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_NOTE_FIELD_NUMBER: _ClassVar[int]
    position: int
    holder_remaining_lease: _duration_pb2.Duration
    holder_note: _types_pb2.Note
    def __init__(self, position: _Optional[int] = ..., holder_remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., holder_note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class NotGranted(_message.Message):
    __slots__ = ("reason", "holder_remaining_lease", "holder_note")
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLDER_REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_NOTE_FIELD_NUMBER: _ClassVar[int]
    reason: _types_pb2.NotGrantedReason
    holder_remaining_lease: _duration_pb2.Duration
    holder_note: _types_pb2.Note
    def __init__(self, reason: _Optional[_Union[_types_pb2.NotGrantedReason, str]] = ..., holder_remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., holder_note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class TryAcquireRequest(_message.Message):
    __slots__ = ("name", "mode", "session_id", "owner", "lease", "request_id", "min_replica_acks", "note")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class TryAcquireResponse(_message.Message):
    __slots__ = ("acquired", "grant", "holder_remaining_lease", "holder_note")
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    HOLDER_REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_NOTE_FIELD_NUMBER: _ClassVar[int]
    acquired: bool
    grant: _types_pb2.Grant
    holder_remaining_lease: _duration_pb2.Duration
    holder_note: _types_pb2.Note
    def __init__(self, acquired: bool = ..., grant: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ..., holder_remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., holder_note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "request_id", "mode")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    request_id: str
    mode: _types_pb2.LockMode
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., request_id: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ("released", "hold_count")
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    released: bool
    hold_count: int
    def __init__(self, released: bool = ..., hold_count: _Optional[int] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "lease", "mode")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    mode: _types_pb2.LockMode
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ...) -> None: ...

class RenewResponse(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: _types_pb2.Grant
    def __init__(self, grant: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ...) -> None: ...

class LockSpec(_message.Message):
    __slots__ = ("name", "mode")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ...) -> None: ...

class AcquireAllRequest(_message.Message):
    __slots__ = ("locks", "session_id", "owner", "lease", "wait_timeout", "request_id", "min_replica_acks", "note")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LockSpec]
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    def __init__(self, locks: _Optional[_Iterable[_Union[LockSpec, _Mapping]]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class AcquireAllResponse(_message.Message):
    __slots__ = ("waiting", "granted", "not_granted")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    NOT_GRANTED_FIELD_NUMBER: _ClassVar[int]
    waiting: WaitingForAll
    granted: GrantedAll
    not_granted: NotGranted
    def __init__(self, waiting: _Optional[_Union[WaitingForAll, _Mapping]] = ..., granted: _Optional[_Union[GrantedAll, _Mapping]] = ..., not_granted: _Optional[_Union[NotGranted, _Mapping]] = ...) -> None: ...

class WaitingForAll(_message.Message):
    __slots__ = ("name", "waiting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    name: str
    waiting: Waiting
    def __init__(self, name: _Optional[str] = ..., waiting: _Optional[_Union[Waiting, _Mapping]] = ...) -> None: ...

class GrantedAll(_message.Message):
    __slots__ = ("grants",)
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[_types_pb2.Grant]
    def __init__(self, grants: _Optional[_Iterable[_Union[_types_pb2.Grant, _Mapping]]] = ...) -> None: ...

class TryAcquireAllRequest(_message.Message):
    __slots__ = ("locks", "session_id", "owner", "lease", "request_id", "min_replica_acks", "note")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LockSpec]
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    def __init__(self, locks: _Optional[_Iterable[_Union[LockSpec, _Mapping]]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class TryAcquireAllResponse(_message.Message):
    __slots__ = ("acquired", "grants", "busy_name", "holder_remaining_lease", "holder_note")
    ACQUIRED_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    BUSY_NAME_FIELD_NUMBER: _ClassVar[int]
    HOLDER_REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    HOLDER_NOTE_FIELD_NUMBER: _ClassVar[int]
    acquired: bool
    grants: _containers.RepeatedCompositeFieldContainer[_types_pb2.Grant]
    busy_name: str
    holder_remaining_lease: _duration_pb2.Duration
    holder_note: _types_pb2.Note
    def __init__(self, acquired: bool = ..., grants: _Optional[_Iterable[_Union[_types_pb2.Grant, _Mapping]]] = ..., busy_name: _Optional[str] = ..., holder_remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., holder_note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ...) -> None: ...

class ReleaseAllRequest(_message.Message):
    __slots__ = ("locks", "session_id", "owner", "request_id")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LockSpec]
    session_id: str
    owner: str
    request_id: str
    def __init__(self, locks: _Optional[_Iterable[_Union[LockSpec, _Mapping]]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ReleaseAllResponse(_message.Message):
    __slots__ = ("locks",)
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[ReleasedLock]
    def __init__(self, locks: _Optional[_Iterable[_Union[ReleasedLock, _Mapping]]] = ...) -> None: ...

class ReleasedLock(_message.Message):
    __slots__ = ("name", "mode", "held", "hold_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    held: bool
    hold_count: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., held: bool = ..., hold_count: _Optional[int] = ...) -> None: ...

class DescribeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeResponse(_message.Message):
    __slots__ = ("name", "mode", "holders", "remaining_lease", "last_fencing_token", "waiters", "waiter_count", "holder_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    holders: _containers.RepeatedCompositeFieldContainer[_types_pb2.Holder]
    remaining_lease: _duration_pb2.Duration
    last_fencing_token: int
    waiters: _containers.RepeatedCompositeFieldContainer[_types_pb2.Waiter]
    waiter_count: int
    holder_count: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., holders: _Optional[_Iterable[_Union[_types_pb2.Holder, _Mapping]]] = ..., remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., last_fencing_token: _Optional[int] = ..., waiters: _Optional[_Iterable[_Union[_types_pb2.Waiter, _Mapping]]] = ..., waiter_count: _Optional[int] = ..., holder_count: _Optional[int] = ...) -> None: ...

class CheckTokenRequest(_message.Message):
    __slots__ = ("name", "fencing_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    fencing_token: int
    def __init__(self, name: _Optional[str] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class CheckTokenResponse(_message.Message):
    __slots__ = ("current", "last_fencing_token", "held")
    CURRENT_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    current: bool
    last_fencing_token: int
    held: bool
    def __init__(self, current: bool = ..., last_fencing_token: _Optional[int] = ..., held: bool = ...) -> None: ...
