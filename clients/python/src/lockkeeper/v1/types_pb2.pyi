import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LockMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_MODE_UNSPECIFIED: _ClassVar[LockMode]
    LOCK_MODE_EXCLUSIVE: _ClassVar[LockMode]
    LOCK_MODE_FAIR: _ClassVar[LockMode]
    LOCK_MODE_READ: _ClassVar[LockMode]
    LOCK_MODE_WRITE: _ClassVar[LockMode]

class LostReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOST_REASON_UNSPECIFIED: _ClassVar[LostReason]
    LOST_REASON_EXPIRED: _ClassVar[LostReason]
    LOST_REASON_TAKEN_OVER: _ClassVar[LostReason]
    LOST_REASON_STORE_UNREACHABLE: _ClassVar[LostReason]
    LOST_REASON_FORCE_RELEASED: _ClassVar[LostReason]
    LOST_REASON_CLOCK_STEPPED: _ClassVar[LostReason]
    LOST_REASON_PREEMPTED: _ClassVar[LostReason]
    LOST_REASON_HANDED_OVER: _ClassVar[LostReason]

class NotGrantedReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOT_GRANTED_REASON_UNSPECIFIED: _ClassVar[NotGrantedReason]
    NOT_GRANTED_REASON_WAIT_TIMEOUT: _ClassVar[NotGrantedReason]
    NOT_GRANTED_REASON_CANCELLED: _ClassVar[NotGrantedReason]
    NOT_GRANTED_REASON_DEADLOCK: _ClassVar[NotGrantedReason]
LOCK_MODE_UNSPECIFIED: LockMode
LOCK_MODE_EXCLUSIVE: LockMode
LOCK_MODE_FAIR: LockMode
LOCK_MODE_READ: LockMode
LOCK_MODE_WRITE: LockMode
LOST_REASON_UNSPECIFIED: LostReason
LOST_REASON_EXPIRED: LostReason
LOST_REASON_TAKEN_OVER: LostReason
LOST_REASON_STORE_UNREACHABLE: LostReason
LOST_REASON_FORCE_RELEASED: LostReason
LOST_REASON_CLOCK_STEPPED: LostReason
LOST_REASON_PREEMPTED: LostReason
LOST_REASON_HANDED_OVER: LostReason
NOT_GRANTED_REASON_UNSPECIFIED: NotGrantedReason
NOT_GRANTED_REASON_WAIT_TIMEOUT: NotGrantedReason
NOT_GRANTED_REASON_CANCELLED: NotGrantedReason
NOT_GRANTED_REASON_DEADLOCK: NotGrantedReason

class Grant(_message.Message):
    __slots__ = ("name", "mode", "session_id", "owner", "hold_count", "fencing_token", "lease", "valid_for", "watched", "replica_acks")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_FIELD_NUMBER: _ClassVar[int]
    WATCHED_FIELD_NUMBER: _ClassVar[int]
    REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: LockMode
    session_id: str
    owner: str
    hold_count: int
    fencing_token: int
    lease: _duration_pb2.Duration
    valid_for: _duration_pb2.Duration
    watched: bool
    replica_acks: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[LockMode, str]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., hold_count: _Optional[int] = ..., fencing_token: _Optional[int] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., valid_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., watched: bool = ..., replica_acks: _Optional[int] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ("reason", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REASON_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, reason: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Holder(_message.Message):
    __slots__ = ("session_digest", "owner", "hold_count", "client_name", "mode", "remaining_lease", "note", "held_for")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    owner: str
    hold_count: int
    client_name: str
    mode: LockMode
    remaining_lease: _duration_pb2.Duration
    note: Note
    held_for: _duration_pb2.Duration
    def __init__(self, session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., hold_count: _Optional[int] = ..., client_name: _Optional[str] = ..., mode: _Optional[_Union[LockMode, str]] = ..., remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., note: _Optional[_Union[Note, _Mapping]] = ..., held_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Waiter(_message.Message):
    __slots__ = ("session_digest", "owner", "client_name", "position", "waiting_for", "mode")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    owner: str
    client_name: str
    position: int
    waiting_for: _duration_pb2.Duration
    mode: LockMode
    def __init__(self, session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., client_name: _Optional[str] = ..., position: _Optional[int] = ..., waiting_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mode: _Optional[_Union[LockMode, str]] = ...) -> None: ...
