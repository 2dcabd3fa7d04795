import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from lockkeeper.v1 import lock_pb2 as _lock_pb2
from lockkeeper.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CampaignRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "lease", "wait_timeout", "request_id", "min_replica_acks", "note", "value", "lock_delay", "preferred")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_REPLICA_ACKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LOCK_DELAY_FIELD_NUMBER: _ClassVar[int]
    PREFERRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    lease: _duration_pb2.Duration
    wait_timeout: _duration_pb2.Duration
    request_id: str
    min_replica_acks: int
    note: _types_pb2.Note
    value: str
    lock_delay: _duration_pb2.Duration
    preferred: bool
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ..., min_replica_acks: _Optional[int] = ..., note: _Optional[_Union[_types_pb2.Note, _Mapping]] = ..., value: _Optional[str] = ..., lock_delay: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., preferred: bool = ...) -> None: ...

class CampaignResponse(_message.Message):
    __slots__ = ("waiting", "elected", "not_elected")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    ELECTED_FIELD_NUMBER: _ClassVar[int]
    NOT_ELECTED_FIELD_NUMBER: _ClassVar[int]
    waiting: _lock_pb2.Waiting
    elected: Elected
    not_elected: _lock_pb2.NotGranted
    def __init__(self, waiting: _Optional[_Union[_lock_pb2.Waiting, _Mapping]] = ..., elected: _Optional[_Union[Elected, _Mapping]] = ..., not_elected: _Optional[_Union[_lock_pb2.NotGranted, _Mapping]] = ...) -> None: ...

class Elected(_message.Message):
    __slots__ = ("grant", "revision")
    GRANT_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    grant: _types_pb2.Grant
    revision: int
    def __init__(self, grant: _Optional[_Union[_types_pb2.Grant, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class ProclaimRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "term", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    term: int
    value: str
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., term: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...

class ProclaimResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class ResignRequest(_message.Message):
    __slots__ = ("name", "session_id", "owner", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    owner: str
    request_id: str
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., owner: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ResignResponse(_message.Message):
    __slots__ = ("resigned", "hold_count")
    RESIGNED_FIELD_NUMBER: _ClassVar[int]
    HOLD_COUNT_FIELD_NUMBER: _ClassVar[int]
    resigned: bool
    hold_count: int
    def __init__(self, resigned: bool = ..., hold_count: _Optional[int] = ...) -> None: ...

class TransferRequest(_message.Message):
    __slots__ = ("name", "to", "reason", "within", "client_name", "preempt", "grace_period")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    PREEMPT_FIELD_NUMBER: _ClassVar[int]
    GRACE_PERIOD_FIELD_NUMBER: _ClassVar[int]
    name: str
    to: str
    reason: str
    within: _duration_pb2.Duration
    client_name: str
    preempt: bool
    grace_period: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., to: _Optional[str] = ..., reason: _Optional[str] = ..., within: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., client_name: _Optional[str] = ..., preempt: bool = ..., grace_period: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class TransferResponse(_message.Message):
    __slots__ = ("held", "reached")
    HELD_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    held: bool
    reached: bool
    def __init__(self, held: bool = ..., reached: bool = ...) -> None: ...

class LeaderRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class LeaderResponse(_message.Message):
    __slots__ = ("leader", "remaining_lease")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    REMAINING_LEASE_FIELD_NUMBER: _ClassVar[int]
    leader: Leadership
    remaining_lease: _duration_pb2.Duration
    def __init__(self, leader: _Optional[_Union[Leadership, _Mapping]] = ..., remaining_lease: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Leadership(_message.Message):
    __slots__ = ("term", "value", "revision", "session_digest", "owner", "client_name")
    TERM_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SESSION_DIGEST_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CLIENT_NAME_FIELD_NUMBER: _ClassVar[int]
    term: int
    value: str
    revision: int
    session_digest: str
    owner: str
    client_name: str
    def __init__(self, term: _Optional[int] = ..., value: _Optional[str] = ..., revision: _Optional[int] = ..., session_digest: _Optional[str] = ..., owner: _Optional[str] = ..., client_name: _Optional[str] = ...) -> None: ...

class ObserveRequest(_message.Message):
    __slots__ = ("name", "after_revision")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    name: str
    after_revision: int
    def __init__(self, name: _Optional[str] = ..., after_revision: _Optional[int] = ...) -> None: ...

class ObserveResponse(_message.Message):
    __slots__ = ("leader", "no_leader", "missed")
    LEADER_FIELD_NUMBER: _ClassVar[int]
    NO_LEADER_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    leader: Leadership
    no_leader: NoLeader
    missed: TermsMissed
    def __init__(self, leader: _Optional[_Union[Leadership, _Mapping]] = ..., no_leader: _Optional[_Union[NoLeader, _Mapping]] = ..., missed: _Optional[_Union[TermsMissed, _Mapping]] = ...) -> None: ...

class NoLeader(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TermsMissed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
