import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from lockkeeper.v1 import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GrantEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRANT_END_UNSPECIFIED: _ClassVar[GrantEnd]
    GRANT_END_RELEASED: _ClassVar[GrantEnd]
    GRANT_END_EXPIRED: _ClassVar[GrantEnd]
    GRANT_END_FORCE_RELEASED: _ClassVar[GrantEnd]
    GRANT_END_PREEMPTED: _ClassVar[GrantEnd]
    GRANT_END_UNANNOUNCED: _ClassVar[GrantEnd]

class LockGapReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOCK_GAP_REASON_UNSPECIFIED: _ClassVar[LockGapReason]
    LOCK_GAP_REASON_FOLDED: _ClassVar[LockGapReason]
    LOCK_GAP_REASON_UNHEARD: _ClassVar[LockGapReason]
    LOCK_GAP_REASON_STORE_UNREACHABLE: _ClassVar[LockGapReason]
    LOCK_GAP_REASON_BEHIND: _ClassVar[LockGapReason]
GRANT_END_UNSPECIFIED: GrantEnd
GRANT_END_RELEASED: GrantEnd
GRANT_END_EXPIRED: GrantEnd
GRANT_END_FORCE_RELEASED: GrantEnd
GRANT_END_PREEMPTED: GrantEnd
GRANT_END_UNANNOUNCED: GrantEnd
LOCK_GAP_REASON_UNSPECIFIED: LockGapReason
LOCK_GAP_REASON_FOLDED: LockGapReason
LOCK_GAP_REASON_UNHEARD: LockGapReason
LOCK_GAP_REASON_STORE_UNREACHABLE: LockGapReason
LOCK_GAP_REASON_BEHIND: LockGapReason

class AcquireRequest(_message.Message):
    __slots__ = ("name", "mode", "session_id", "owner", "lease", "wait_timeout", "request_id", "min_replica_acks", "note", "hold_at_least", "lock_delay", "end_on_deadlock", "preferred")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    HOLD_AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    END_ON_DEADLOCK_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    hold_at_least: _duration_pb2.Duration
    lock_delay: _duration_pb2.Duration
    end_on_deadlock: bool
    preferred: bool
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ..., hold_at_least: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lock_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., end_on_deadlock: bool = ..., preferred: bool = ...) -> None: ...

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
    __slots__ = ("name", "mode", "session_id", "owner", "lease", "request_id", "min_replica_acks", "note", "hold_at_least", "lock_delay")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    HOLD_AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    hold_at_least: _duration_pb2.Duration
    lock_delay: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ..., hold_at_least: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lock_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("locks", "session_id", "owner", "lease", "wait_timeout", "request_id", "min_replica_acks", "note", "end_on_deadlock")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    END_ON_DEADLOCK_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LockSpec]
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    end_on_deadlock: bool
    def __init__(self, locks: _Optional[_Iterable[_Union[LockSpec, _Mapping]]] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ..., end_on_deadlock: bool = ...) -> None: ...

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

class ExplainRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("locks", "truncated", "deadlocks")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    DEADLOCKS_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[ExplainedLock]
    truncated: bool
    deadlocks: _containers.RepeatedCompositeFieldContainer[Deadlock]
    def __init__(self, locks: _Optional[_Iterable[_Union[ExplainedLock, _Mapping]]] = ..., truncated: bool = ..., deadlocks: _Optional[_Iterable[_Union[Deadlock, _Mapping]]] = ...) -> None: ...

class ExplainedLock(_message.Message):
    __slots__ = ("name", "mode", "is_semaphore", "holders", "holder_count", "waiter_count", "last_fencing_token")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    IS_SEMAPHORE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    mode: _types_pb2.LockMode
    is_semaphore: bool
    holders: _containers.RepeatedCompositeFieldContainer[ExplainedHolder]
    holder_count: int
    waiter_count: int
    last_fencing_token: int
    def __init__(self, name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., is_semaphore: bool = ..., holders: _Optional[_Iterable[_Union[ExplainedHolder, _Mapping]]] = ..., holder_count: _Optional[int] = ..., waiter_count: _Optional[int] = ..., last_fencing_token: _Optional[int] = ...) -> None: ...

class ExplainedHolder(_message.Message):
    __slots__ = ("holder", "held_for", "waits")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    HELD_FOR_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    holder: _types_pb2.Holder
    held_for: _duration_pb2.Duration
    waits: _containers.RepeatedCompositeFieldContainer[ExplainedWait]
    def __init__(self, holder: _Optional[_Union[_types_pb2.Holder, _Mapping]] = ..., held_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waits: _Optional[_Iterable[_Union[ExplainedWait, _Mapping]]] = ...) -> None: ...

class ExplainedWait(_message.Message):
    __slots__ = ("name", "is_hidden", "owner", "is_holder", "mode", "waiting_for")
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    IS_HOLDER_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    name: str
    is_hidden: bool
    owner: str
    is_holder: bool
    mode: _types_pb2.LockMode
    waiting_for: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., is_hidden: bool = ..., owner: _Optional[str] = ..., is_holder: bool = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., waiting_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Deadlock(_message.Message):
    __slots__ = ("waits", "is_possible")
    WAITS_FIELD_NUMBER: _ClassVar[int]
    IS_POSSIBLE_FIELD_NUMBER: _ClassVar[int]
    waits: _containers.RepeatedCompositeFieldContainer[DeadlockedWait]
    is_possible: bool
    def __init__(self, waits: _Optional[_Iterable[_Union[DeadlockedWait, _Mapping]]] = ..., is_possible: bool = ...) -> None: ...

class DeadlockedWait(_message.Message):
    __slots__ = ("session_digest", "owner", "client_name", "name", "mode", "waiting_for")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    owner: str
    client_name: str
    name: str
    mode: _types_pb2.LockMode
    waiting_for: _duration_pb2.Duration
    def __init__(self, session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., client_name: _Optional[str] = ..., name: _Optional[str] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., waiting_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RequestYieldRequest(_message.Message):
    __slots__ = ("name", "reason", "within", "client_name", "preempt", "grace_period")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    within: _duration_pb2.Duration
    client_name: str
    preempt: bool
    grace_period: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., client_name: _Optional[str] = ..., preempt: bool = ..., grace_period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class RequestYieldResponse(_message.Message):
    __slots__ = ("reached", "unreached", "holder_count", "reached_count")
    REACHED_FIELD_NUMBER: _ClassVar[int]
    UNREACHED_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    REACHED_COUNT_FIELD_NUMBER: _ClassVar[int]
    reached: _containers.RepeatedCompositeFieldContainer[_types_pb2.Holder]
    unreached: _containers.RepeatedCompositeFieldContainer[_types_pb2.Holder]
    holder_count: int
    reached_count: int
    def __init__(self, reached: _Optional[_Iterable[_Union[_types_pb2.Holder, _Mapping]]] = ..., unreached: _Optional[_Iterable[_Union[_types_pb2.Holder, _Mapping]]] = ..., holder_count: _Optional[int] = ..., reached_count: _Optional[int] = ...) -> None: ...

class OfferRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "within")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    within: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class OfferResponse(_message.Message):
    __slots__ = ("ticket", "within")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    ticket: str
    within: _duration_pb2.Duration
    def __init__(self, ticket: _Optional[str] = ..., within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "ticket", "lease")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    ticket: str
    lease: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., ticket: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ClaimResponse(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: _types_pb2.Grant
    def __init__(self, grant: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ...) -> None: ...

class AwaitFreeRequest(_message.Message):
    __slots__ = ("name", "session_id", "wait_timeout")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    wait_timeout: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AwaitFreeResponse(_message.Message):
    __slots__ = ("waiting", "free", "not_free")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    NOT_FREE_FIELD_NUMBER: _ClassVar[int]
    waiting: Waiting
    free: LockFree
    not_free: NotGranted
    def __init__(self, waiting: _Optional[_Union[Waiting, _Mapping]] = ..., free: _Optional[_Union[LockFree, _Mapping]] = ..., not_free: _Optional[_Union[NotGranted, _Mapping]] = ...) -> None: ...

class WatchLockRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WatchLockResponse(_message.Message):
    __slots__ = ("state", "granted", "ended", "free", "waiters", "gap")
    STATE_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    FREE_FIELD_NUMBER: _ClassVar[int]
    WAITERS_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    state: LockState
    granted: LockGranted
    ended: LockEnded
    free: LockFree
    waiters: LockWaiters
    gap: LockGap
    def __init__(self, state: _Optional[_Union[LockState, _Mapping]] = ..., granted: _Optional[_Union[LockGranted, _Mapping]] = ..., ended: _Optional[_Union[LockEnded, _Mapping]] = ..., free: _Optional[_Union[LockFree, _Mapping]] = ..., waiters: _Optional[_Union[LockWaiters, _Mapping]] = ..., gap: _Optional[_Union[LockGap, _Mapping]] = ...) -> None: ...

class LockState(_message.Message):
    __slots__ = ("holders", "holder_count", "waiter_count", "last_fencing_token")
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    holders: _containers.RepeatedCompositeFieldContainer[_types_pb2.Holder]
    holder_count: int
    waiter_count: int
    last_fencing_token: int
    def __init__(self, holders: _Optional[_Iterable[_Union[_types_pb2.Holder, _Mapping]]] = ..., holder_count: _Optional[int] = ..., waiter_count: _Optional[int] = ..., last_fencing_token: _Optional[int] = ...) -> None: ...

class LockGranted(_message.Message):
    __slots__ = ("holder", "fencing_token")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    holder: _types_pb2.Holder
    fencing_token: int
    def __init__(self, holder: _Optional[_Union[_types_pb2.Holder, _Mapping]] = ..., fencing_token: _Optional[int] = ...) -> None: ...

class LockEnded(_message.Message):
    __slots__ = ("holder", "fencing_token", "end", "detail")
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    holder: _types_pb2.Holder
    fencing_token: int
    end: GrantEnd
    detail: str
    def __init__(self, holder: _Optional[_Union[_types_pb2.Holder, _Mapping]] = ..., fencing_token: _Optional[int] = ..., end: _Optional[_Union[GrantEnd, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class LockWaiters(_message.Message):
    __slots__ = ("waiter_count",)
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    waiter_count: int
    def __init__(self, waiter_count: _Optional[int] = ...) -> None: ...

class LockGap(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: LockGapReason
    def __init__(self, reason: _Optional[_Union[LockGapReason, str]] = ...) -> None: ...

class LockFree(_message.Message):
    __slots__ = ("last_fencing_token",)
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    last_fencing_token: int
    def __init__(self, last_fencing_token: _Optional[int] = ...) -> None: ...
