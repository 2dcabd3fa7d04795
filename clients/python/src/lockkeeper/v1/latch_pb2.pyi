import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from lockkeeper.v1 import types_pb2 as _types_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SetCountRequest(_message.Message):
    __slots__ = ("name", "count", "ttl", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    ttl: _duration_pb2.Duration
    request_id: str
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class SetCountResponse(_message.Message):
    __slots__ = ("set", "count")
    SET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    set: bool
    count: int
    def __init__(self, set: bool = ..., count: _Optional[int] = ...) -> None: ...

class CountDownRequest(_message.Message):
    __slots__ = ("name", "by", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    by: int
    request_id: str
    def __init__(self, name: _Optional[str] = ..., by: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class CountDownResponse(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class AwaitLatchRequest(_message.Message):
    __slots__ = ("name", "session_id", "wait_timeout")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WAIT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    session_id: str
    wait_timeout: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., session_id: _Optional[str] = ..., wait_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AwaitLatchResponse(_message.Message):
    __slots__ = ("waiting", "opened", "not_opened")
    WAITING_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    NOT_OPENED_FIELD_NUMBER: _ClassVar[int]
    waiting: WaitingForLatch
    opened: LatchOpened
    not_opened: LatchNotOpened
    def __init__(self, waiting: _Optional[_Union[WaitingForLatch, _Mapping]] = ..., opened: _Optional[_Union[LatchOpened, _Mapping]] = ..., not_opened: _Optional[_Union[LatchNotOpened, _Mapping]] = ...) -> None: ...

class WaitingForLatch(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class LatchOpened(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LatchNotOpened(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: _types_pb2.NotGrantedReason
    count: int
    def __init__(self, reason: _Optional[_Union[_types_pb2.NotGrantedReason, str]] = ..., count: _Optional[int] = ...) -> None: ...

class DescribeLatchRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DescribeLatchResponse(_message.Message):
    __slots__ = ("name", "count", "remaining_ttl", "waiter_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_TTL_FIELD_NUMBER: _ClassVar[int]
    WAITER_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    count: int
    remaining_ttl: _duration_pb2.Duration
    waiter_count: int
    def __init__(self, name: _Optional[str] = ..., count: _Optional[int] = ..., remaining_ttl: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., waiter_count: _Optional[int] = ...) -> None: ...

class DeleteLatchRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteLatchResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: bool = ...) -> None: ...
