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

class NameKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NAME_KIND_UNSPECIFIED: _ClassVar[NameKind]
    NAME_KIND_LOCK: _ClassVar[NameKind]
    NAME_KIND_READ_WRITE_LOCK: _ClassVar[NameKind]
    NAME_KIND_SEMAPHORE: _ClassVar[NameKind]
    NAME_KIND_LATCH: _ClassVar[NameKind]

class SessionPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SESSION_PHASE_UNSPECIFIED: _ClassVar[SessionPhase]
    SESSION_PHASE_LIVE: _ClassVar[SessionPhase]
    SESSION_PHASE_DETACHED: _ClassVar[SessionPhase]

class WatchEvent(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WATCH_EVENT_UNSPECIFIED: _ClassVar[WatchEvent]
    WATCH_EVENT_GRANTED: _ClassVar[WatchEvent]
    WATCH_EVENT_RELEASED: _ClassVar[WatchEvent]
    WATCH_EVENT_LOST: _ClassVar[WatchEvent]
    WATCH_EVENT_WAIT_BEGAN: _ClassVar[WatchEvent]
    WATCH_EVENT_WAIT_ENDED: _ClassVar[WatchEvent]
    WATCH_EVENT_ABANDONED: _ClassVar[WatchEvent]
    WATCH_EVENT_DEADLOCK: _ClassVar[WatchEvent]
NAME_KIND_UNSPECIFIED: NameKind
NAME_KIND_LOCK: NameKind
NAME_KIND_READ_WRITE_LOCK: NameKind
NAME_KIND_SEMAPHORE: NameKind
NAME_KIND_LATCH: NameKind
SESSION_PHASE_UNSPECIFIED: SessionPhase
SESSION_PHASE_LIVE: SessionPhase
SESSION_PHASE_DETACHED: SessionPhase
WATCH_EVENT_UNSPECIFIED: WatchEvent
WATCH_EVENT_GRANTED: WatchEvent
WATCH_EVENT_RELEASED: WatchEvent
WATCH_EVENT_LOST: WatchEvent
WATCH_EVENT_WAIT_BEGAN: WatchEvent
WATCH_EVENT_WAIT_ENDED: WatchEvent
WATCH_EVENT_ABANDONED: WatchEvent
WATCH_EVENT_DEADLOCK: WatchEvent

class ListLocksRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token", "fleet", "waited_for_here", "holders_of")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FLEET_FIELD_NUMBER: _ClassVar[int]
    WAITED_FOR_HERE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_OF_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    fleet: bool
    waited_for_here: bool
    holders_of: _containers.RepeatedCompositeFieldContainer[LockSummary]
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., fleet: bool = ..., waited_for_here: bool = ..., holders_of: _Optional[_Iterable[_Union[LockSummary, _Mapping]]] = ...) -> None: ...

class ListLocksResponse(_message.Message):
    __slots__ = ("locks", "next_page_token", "unasked")
    LOCKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    locks: _containers.RepeatedCompositeFieldContainer[LockSummary]
    next_page_token: str
    unasked: _containers.RepeatedCompositeFieldContainer[UnaskedCoordinator]
    def __init__(self, locks: _Optional[_Iterable[_Union[LockSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., unasked: _Optional[_Iterable[_Union[UnaskedCoordinator, _Mapping]]] = ...) -> None: ...

class LockSummary(_message.Message):
    __slots__ = ("name", "kind", "mode", "holders", "holder_count", "remaining_lease", "last_fencing_token", "waiter_count", "total_permits", "available_permits", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    LAST_FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_PERMITS_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_PERMITS_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: NameKind
    mode: _types_pb2.LockMode
    holders: _containers.RepeatedCompositeFieldContainer[_types_pb2.Holder]
    holder_count: int
    remaining_lease: _duration_pb2.Duration
    last_fencing_token: int
    waiter_count: int
    total_permits: int
    available_permits: int
    count: int
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[_Union[NameKind, str]] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., holders: _Optional[_Iterable[_Union[_types_pb2.Holder, _Mapping]]] = ..., holder_count: _Optional[int] = ..., remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., last_fencing_token: _Optional[int] = ..., waiter_count: _Optional[int] = ..., total_permits: _Optional[int] = ..., available_permits: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ListCoordinatorsRequest(_message.Message):
    __slots__ = ("fleet",)
    FLEET_FIELD_NUMBER: _ClassVar[int]
    fleet: bool
    def __init__(self, fleet: bool = ...) -> None: ...

class ListCoordinatorsResponse(_message.Message):
    __slots__ = ("coordinators", "unasked")
    COORDINATORS_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    coordinators: _containers.RepeatedCompositeFieldContainer[CoordinatorSummary]
    unasked: _containers.RepeatedCompositeFieldContainer[UnaskedCoordinator]
    def __init__(self, coordinators: _Optional[_Iterable[_Union[CoordinatorSummary, _Mapping]]] = ..., unasked: _Optional[_Iterable[_Union[UnaskedCoordinator, _Mapping]]] = ...) -> None: ...

class CoordinatorSummary(_message.Message):
    __slots__ = ("coordinator", "version", "up_for", "not_ready_reason", "session_count", "waiter_count")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    UP_FOR_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_REASON_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    version: str
    up_for: _duration_pb2.Duration
    not_ready_reason: str
    session_count: int
    waiter_count: int
    def __init__(self, coordinator: _Optional[str] = ..., version: _Optional[str] = ..., up_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., not_ready_reason: _Optional[str] = ..., session_count: _Optional[int] = ..., waiter_count: _Optional[int] = ...) -> None: ...

class UnaskedCoordinator(_message.Message):
    __slots__ = ("coordinator", "version", "reason")
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    coordinator: str
    version: str
    reason: str
    def __init__(self, coordinator: _Optional[str] = ..., version: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "fleet")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FLEET_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    fleet: bool
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., fleet: bool = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token", "session_count", "unasked")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionSummary]
    next_page_token: str
    session_count: int
    unasked: _containers.RepeatedCompositeFieldContainer[UnaskedCoordinator]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., session_count: _Optional[int] = ..., unasked: _Optional[_Iterable[_Union[UnaskedCoordinator, _Mapping]]] = ...) -> None: ...

class SessionSummary(_message.Message):
    __slots__ = ("session_digest", "client_name", "identity", "phase", "age", "lease", "grant_count", "wait_count", "resumable_for", "peer_address", "coordinator")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    AGE_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    GRANT_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_FOR_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    client_name: str
    identity: str
    phase: SessionPhase
    age: _duration_pb2.Duration
    lease: _duration_pb2.Duration
    grant_count: int
    wait_count: int
    resumable_for: _duration_pb2.Duration
    peer_address: str
    coordinator: str
    def __init__(self, session_digest: _Optional[str] = ..., client_name: _Optional[str] = ..., identity: _Optional[str] = ..., phase: _Optional[_Union[SessionPhase, str]] = ..., age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., grant_count: _Optional[int] = ..., wait_count: _Optional[int] = ..., resumable_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., peer_address: _Optional[str] = ..., coordinator: _Optional[str] = ...) -> None: ...

class ForceReleaseRequest(_message.Message):
    __slots__ = ("name", "reason", "grace_period")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    grace_period: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., grace_period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ForceReleaseResponse(_message.Message):
    __slots__ = ("released", "holders", "holder_count", "closed_for")
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    HOLDER_COUNT_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FOR_FIELD_NUMBER: _ClassVar[int]
    released: bool
    holders: _containers.RepeatedCompositeFieldContainer[_types_pb2.Holder]
    holder_count: int
    closed_for: _duration_pb2.Duration
    def __init__(self, released: bool = ..., holders: _Optional[_Iterable[_Union[_types_pb2.Holder, _Mapping]]] = ..., holder_count: _Optional[int] = ..., closed_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class EndSessionRequest(_message.Message):
    __slots__ = ("session_digest", "identity", "reason", "fleet")
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    IDENTITY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FLEET_FIELD_NUMBER: _ClassVar[int]
    session_digest: str
    identity: str
    reason: str
    fleet: bool
    def __init__(self, session_digest: _Optional[str] = ..., identity: _Optional[str] = ..., reason: _Optional[str] = ..., fleet: bool = ...) -> None: ...

class EndSessionResponse(_message.Message):
    __slots__ = ("session_count", "grant_count", "unasked")
    SESSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    GRANT_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    session_count: int
    grant_count: int
    unasked: _containers.RepeatedCompositeFieldContainer[UnaskedCoordinator]
    def __init__(self, session_count: _Optional[int] = ..., grant_count: _Optional[int] = ..., unasked: _Optional[_Iterable[_Union[UnaskedCoordinator, _Mapping]]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("prefix", "fleet")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    FLEET_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    fleet: bool
    def __init__(self, prefix: _Optional[str] = ..., fleet: bool = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("snapshot", "delta", "unasked")
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    UNASKED_FIELD_NUMBER: _ClassVar[int]
    snapshot: WatchSnapshot
    delta: WatchDelta
    unasked: UnaskedCoordinator
    def __init__(self, snapshot: _Optional[_Union[WatchSnapshot, _Mapping]] = ..., delta: _Optional[_Union[WatchDelta, _Mapping]] = ..., unasked: _Optional[_Union[UnaskedCoordinator, _Mapping]] = ...) -> None: ...

class WatchSnapshot(_message.Message):
    __slots__ = ("first", "last", "entries", "coordinator")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    first: bool
    last: bool
    entries: _containers.RepeatedCompositeFieldContainer[WatchDelta]
    coordinator: str
    def __init__(self, first: bool = ..., last: bool = ..., entries: _Optional[_Iterable[_Union[WatchDelta, _Mapping]]] = ..., coordinator: _Optional[str] = ...) -> None: ...

class WatchDelta(_message.Message):
    __slots__ = ("event", "name", "kind", "mode", "session_digest", "owner", "client_name", "fencing_token", "hold_count", "reason", "detail", "note", "coordinator")
    EVENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    FENCING_TOKEN_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    COORDINATOR_FIELD_NUMBER: _ClassVar[int]
    event: WatchEvent
    name: str
    kind: NameKind
    mode: _types_pb2.LockMode
    session_digest: str
    owner: str
    client_name: str
    fencing_token: int
    hold_count: int
    reason: _types_pb2.LostReason
    detail: str
    note: _types_pb2.Note
    coordinator: str
    def __init__(self, event: _Optional[_Union[WatchEvent, str]] = ..., name: _Optional[str] = ..., kind: _Optional[_Union[NameKind, str]] = ..., mode: _Optional[_Union[_types_pb2.LockMode, str]] = ..., session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., client_name: _Optional[str] = ..., fencing_token: _Optional[int] = ..., hold_count: _Optional[int] = ..., reason: _Optional[_Union[_types_pb2.LostReason, str]] = ..., detail: _Optional[str] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ..., coordinator: _Optional[str] = ...) -> None: ...

class ListContentionRequest(_message.Message):
    __slots__ = ("prefix",)
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    def __init__(self, prefix: _Optional[str] = ...) -> None: ...

class ListContentionResponse(_message.Message):
    __slots__ = ("names",)
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedCompositeFieldContainer[ContendedName]
    def __init__(self, names: _Optional[_Iterable[_Union[ContendedName, _Mapping]]] = ...) -> None: ...

class ContendedName(_message.Message):
    __slots__ = ("name", "counted_for", "wait_count", "waited", "refusal_count", "hold_count", "held", "holders", "waiter_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FOR_FIELD_NUMBER: _ClassVar[int]
    WAIT_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAITED_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    counted_for: _duration_pb2.Duration
    wait_count: int
    waited: _duration_pb2.Duration
    refusal_count: int
    hold_count: int
    held: _duration_pb2.Duration
    holders: _containers.RepeatedCompositeFieldContainer[ContendedHolder]
    waiter_count: int
    def __init__(self, name: _Optional[str] = ..., counted_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_count: _Optional[int] = ..., waited: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., refusal_count: _Optional[int] = ..., hold_count: _Optional[int] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., holders: _Optional[_Iterable[_Union[ContendedHolder, _Mapping]]] = ..., waiter_count: _Optional[int] = ...) -> None: ...

class ContendedHolder(_message.Message):
    __slots__ = ("client_name", "hold_count", "held")
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    client_name: str
    hold_count: int
    held: _duration_pb2.Duration
    def __init__(self, client_name: _Optional[str] = ..., hold_count: _Optional[int] = ..., held: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ReadPageRequest(_message.Message):
    __slots__ = ("page", "query")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    page: str
    query: str
    def __init__(self, page: _Optional[str] = ..., query: _Optional[str] = ...) -> None: ...

class ReadPageResponse(_message.Message):
    __slots__ = ("json",)
    JSON_FIELD_NUMBER: _ClassVar[int]
    json: bytes
    def __init__(self, json: _Optional[bytes] = ...) -> None: ...
