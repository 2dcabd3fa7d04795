"""What goes into the session machine, and what comes out of it.

Times are seconds on one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Union

from lockkeeper.errors import Error, LockLost
from lockkeeper.v1 import session_pb2

#: A message of the protocol.
Message = Any

# --- events


class Open(NamedTuple):
    """Open the session: the first event."""


class Received(NamedTuple):
    """A frame arrived."""

    stream: int
    frame: session_pb2.SessionResponse


class StreamEnded(NamedTuple):
    """A stream ended: with an error, or without one because the coordinator ended it."""

    stream: int
    error: Error | None


class Call(NamedTuple):
    """The user starts an operation. `kind` is the field of the request in `SessionRequest`."""

    op_id: int
    kind: str
    request: Message
    wait_until: float | None = None
    patience: float | None = None
    traceparent: str = ""


class GiveUp(NamedTuple):
    """The caller of an operation no longer waits. What it acquired is released."""

    op_id: int


class Release(NamedTuple):
    """The user releases a guard."""

    op_id: int
    guard: int
    traceparent: str = ""


class Close(NamedTuple):
    """The user closes the session."""

    op_id: int


class Tick(NamedTuple):
    """Time has passed; see `Machine.wake_at`."""


Event = Union[Open, Received, StreamEnded, Call, GiveUp, Release, Close, Tick]

# --- effects


class OpenStream(NamedTuple):
    """Connect to an endpoint and send the first frame."""

    stream: int
    endpoint: int
    frame: session_pb2.SessionRequest


class Send(NamedTuple):
    """Send a frame on the newest stream."""

    frame: session_pb2.SessionRequest


class CancelStream(NamedTuple):
    """Break a stream; nothing more is expected of it."""

    stream: int


class Granted(NamedTuple):
    """An operation acquired something. Its id is the id of the guard."""

    op_id: int
    grants: Sequence[Message]
    valid_until: float


class Answered(NamedTuple):
    """An operation that acquires nothing, a release or the close succeeded."""

    op_id: int
    kind: str
    response: Message


class Failed(NamedTuple):
    """An operation, a release or the close failed."""

    op_id: int
    error: Error


class Extended(NamedTuple):
    """A guard is valid for longer, or less long if its owner has a newer grant."""

    guard: int
    valid_until: float


class Lost(NamedTuple):
    """A guard is lost."""

    guard: int
    error: LockLost


class Asked(NamedTuple):
    """Another caller asks for a lock that a guard holds. The guard stays valid."""

    guard: int
    name: str
    by: str
    reason: str
    deadline: float
    preempts: bool


class Waits(NamedTuple):
    """An operation waits. `progress` is the coordinator's message."""

    op_id: int
    progress: Message


class Changed(NamedTuple):
    """The session is now ``connected``, ``at_risk``, ``resuming`` or ``ended``."""

    state: str
    cause: str = ""


Effect = Union[
    OpenStream, Send, CancelStream, Granted, Answered, Failed, Extended, Lost, Asked, Waits, Changed
]
