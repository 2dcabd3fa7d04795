"""The operations of a session that have no answer yet."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from typing import Callable

from lockkeeper._machine.events import Call, GiveUp, Message, Send
from lockkeeper._machine.messages import (
    ACQUIRES,
    PERMITS,
    WAITS,
    Request,
    kinds_with,
    name_of,
    possible_locks,
    release_of,
    set_seconds,
)
from lockkeeper._machine.timers import Alarm, Timers
from lockkeeper.errors import Error, Misconfigured, Refused
from lockkeeper.v1 import session_pb2, types_pb2

_WITH_REQUEST_ID = kinds_with("request_id")

#: The pause before an operation is sent again, if the coordinator names no other.
RETRY_PAUSE = 0.2

#: The largest frame. By default a coordinator ends the stream after a larger one.
_FRAME_BYTES_MAX = 1024 * 1024

#: What a frame has besides the request of a caller, at most: ids, a trace, and the rest of a wait.
_FRAME_BYTES = 256


class Purpose(enum.Enum):
    """What an answer is for."""

    CALLER = enum.auto()
    #: The renewal of the holding `target`.
    RENEWAL = enum.auto()
    #: The release of a guard.
    RELEASE = enum.auto()
    #: The release of a part of what was asked for. It is not repeated: the resume that follows a
    #: broken stream does not name that part, which releases it.
    CLEANUP = enum.auto()


class Operation:
    """An operation without an answer."""

    __slots__ = (
        "abandoned",
        "failing_since",
        "kind",
        "op_id",
        "patience",
        "purpose",
        "request",
        "sent_at",
        "target",
        "token",
        "traceparent",
        "uncertain",
        "wait_until",
    )

    def __init__(self, call: Call, purpose: Purpose, target: int = 0) -> None:
        self.op_id = call.op_id
        self.kind = call.kind
        self.request: Message = call.request
        self.wait_until = call.wait_until
        self.patience = call.patience
        self.traceparent = call.traceparent
        self.purpose = purpose
        self.target = target
        #: Of a renewal, the fencing token of the grant when it was sent.
        self.token = 0
        #: When it was sent on this stream.
        self.sent_at: float | None = None
        #: Whether it may have been executed.
        self.uncertain = False
        #: Whether its caller no longer waits.
        self.abandoned = False
        self.failing_since: float | None = None

    def frame(self, now: float) -> session_pb2.SessionRequest:
        """Return the frame to send now."""
        self.sent_at = now
        # Other requests have no such field: their limit holds only while there is no stream.
        if self.wait_until is not None and self.kind in WAITS:
            set_seconds(self.request.wait_timeout, max(0.0, self.wait_until - now))
        frame = session_pb2.SessionRequest(op_id=self.op_id, **{self.kind: self.request})
        if self.traceparent:
            frame.traceparent = self.traceparent
        return frame

    def is_late(self, now: float) -> bool:
        """Tell whether it pauses after a failure, and its caller waits no longer."""
        until = math.inf if self.wait_until is None else self.wait_until
        return self.sent_at is None and not self.abandoned and until <= now

    def name(self) -> str:
        """Return the names in its request, for people."""
        return name_of(self.kind, self.request)

    def possible_locks(self) -> list[types_pb2.Grant]:
        """Return the locks that it may hold already."""
        return possible_locks(self.kind, self.request) if self.uncertain else []


class Operations:
    """The operations without an answer, sent or to be sent."""

    def __init__(
        self,
        ids: Iterator[int],
        alarm: Alarm,
        new_id: Callable[[], str],
        random: Callable[[], float],
        emit: Callable[[Send], None],
    ) -> None:
        self._ids = ids
        self._alarm = alarm
        self._new_id = new_id
        self._random = random
        self._emit = emit
        self._by_id: dict[int, Operation] = {}
        self.timers = Timers(alarm)
        self._bytes_max = _FRAME_BYTES_MAX
        self.can_send = False

    def __contains__(self, op_id: int) -> bool:
        return op_id in self._by_id

    def get(self, op_id: int) -> Operation | None:
        """Return an operation."""
        return self._by_id.get(op_id)

    def sent(self, op_id: int) -> Operation | None:
        """Return an operation that was sent on this stream: another answer is a repeat."""
        operation = self._by_id.get(op_id)
        return None if operation is None or operation.sent_at is None else operation

    def take(self, op_id: int) -> Operation | None:
        """Remove and return the operation that is answered."""
        self.timers.cancel(op_id)
        return self._by_id.pop(op_id, None)

    def take_all(self) -> list[Operation]:
        """Remove and return all operations."""
        taken = list(self._by_id.values())
        self._by_id.clear()
        self.timers = Timers(self._alarm)
        return taken

    def take_callers(self) -> list[Operation]:
        """Remove and return the operations of callers."""
        callers = [it for it in self._by_id.values() if it.purpose is Purpose.CALLER]
        for operation in callers:
            self.take(operation.op_id)
        return callers

    def start(self, now: float, call: Call, purpose: Purpose, target: int = 0) -> Operation:
        """Start an operation: send it now, or when there is a stream."""
        if call.kind in _WITH_REQUEST_ID and not call.request.request_id:
            call.request.request_id = self._new_id()
        operation = self._by_id[call.op_id] = Operation(call, purpose, target)
        if self.can_send:
            self._emit(Send(operation.frame(now)))
        return operation

    def too_large(self, kind: str, request: Message) -> Misconfigured | None:
        """Return the error of a request that no coordinator takes."""
        size = request.ByteSize() + _FRAME_BYTES
        if size <= self._bytes_max:
            return None
        return Misconfigured(f"request: {kind} has {size} bytes, the limit is {self._bytes_max}")

    def limited_by(self, error: Error | None) -> Iterator[tuple[Operation, Misconfigured]]:
        """Take the operations of callers that are too large, if that has ended the stream.

        Each would end the next stream too.
        """
        if not isinstance(error, Refused) or error.reason != "MESSAGE_TOO_LARGE":
            return
        limit = error.metadata.get("bytes_max", "")
        if limit.isdecimal():
            self._bytes_max = min(self._bytes_max, int(limit))
        for operation in list(self._by_id.values()):
            too_large = self.too_large(operation.kind, operation.request)
            if operation.purpose is Purpose.CALLER and too_large:
                self.take(operation.op_id)
                yield operation, too_large

    def start_own(
        self, now: float, request: Request, purpose: Purpose, target: int = 0
    ) -> Operation:
        """Start an operation of the session itself."""
        return self.start(now, Call(next(self._ids), *request), purpose, target)

    def _send(self, now: float, operation: Operation) -> None:
        if not self.can_send:
            return
        self._emit(Send(operation.frame(now)))
        if operation.abandoned and operation.kind in WAITS:
            self._send_cancel(operation.op_id)

    def _send_cancel(self, op_id: int) -> None:
        cancel = session_pb2.CancelOperation()
        self._emit(Send(session_pb2.SessionRequest(op_id=op_id, cancel=cancel)))

    def give_up(self, event: GiveUp) -> None:
        """Abandon an operation. A release goes on."""
        operation = self._by_id[event.op_id]
        operation.abandoned = True
        if operation.purpose is not Purpose.CALLER:
            return
        if operation.sent_at is None and not operation.uncertain:
            self.take(event.op_id)
        elif operation.sent_at is not None and operation.kind in WAITS and self.can_send:
            self._send_cancel(event.op_id)

    def retried(self, now: float, operation: Operation, error: Error, lease: float) -> bool:
        """Send an operation that failed again, if that may help."""
        is_acquire = operation.kind in ACQUIRES
        if operation.purpose is Purpose.RENEWAL or not isinstance(error, Refused):
            return False
        is_unwanted = operation.abandoned and operation.purpose is Purpose.CALLER
        if is_unwanted and (not operation.uncertain or error.reason == "NOT_OWNER"):
            # What is uncertain may be held, and only its answer says so: then it is released.
            return False
        if is_acquire and operation.uncertain and error.reason == "NOT_OWNER":
            # What it acquired has been released since: this is a new attempt.
            self._renew_request_id(operation)
            self._send(now, operation)
            return True
        if not _may_retry(now, operation, error, lease):
            return False
        if operation.failing_since is None:
            operation.failing_since = now
        operation.uncertain = True
        operation.sent_at = None
        pause = RETRY_PAUSE if error.retry_delay is None else error.retry_delay
        self.timers.set(operation.op_id, now + pause * (0.5 + self._random() / 2))
        return True

    def retry_due(self, now: float) -> None:
        """Send again what has paused for long enough."""
        for op_id in self.timers.due(now):
            operation = self._by_id.get(op_id)  # type: ignore[call-overload]
            if operation:
                self._send(now, operation)

    def limit_wait(self, operation: Operation, after: float) -> None:
        """End a wait in time while there is no stream. On a stream, the coordinator does it."""
        self.timers.cancel(operation.op_id)
        until = operation.wait_until
        if until is not None and until > after and not operation.abandoned:
            self.timers.set(operation.op_id, until)

    def waits_over(self, now: float) -> list[int]:
        """Take the operations whose limit has passed while there is no stream."""
        return [op_id for op_id in self.timers.due(now) if op_id in self._by_id]

    def _renew_request_id(self, operation: Operation) -> None:
        operation.uncertain = False
        operation.request.request_id = self._new_id()

    # --- the stream

    def on_stream_ended(self) -> None:
        """Note that what was sent may have been executed. Renewals start anew."""
        for operation in list(self._by_id.values()):
            if operation.purpose in (Purpose.RENEWAL, Purpose.CLEANUP):
                self.take(operation.op_id)
            elif operation.sent_at is not None:
                operation.sent_at = None
                operation.uncertain = True
            # The next coordinator may not fail.
            operation.failing_since = None
            self.limit_wait(operation, after=-math.inf)

    def possible_locks(self) -> list[types_pb2.Grant]:
        """Return the locks that operations may hold, to be named in a resume."""
        operations = self._by_id.values()
        return [lock for operation in operations for lock in operation.possible_locks()]

    def on_resumed(
        self,
        now: float,
        confirmed: Sequence[types_pb2.Grant],
        is_held: Callable[[types_pb2.Grant], bool],
    ) -> None:
        """Send everything on a resumed stream.

        Permits start anew, because a resume cannot name them. So do several locks of which only
        some are held; those are released. `is_held` tells which locks other guards hold.
        """
        names = {(grant.name, grant.owner) for grant in confirmed}
        for operation in list(self._by_id.values()):
            locks = [lock for lock in operation.possible_locks() if not is_held(lock)]
            some = [lock for lock in locks if (lock.name, lock.owner) in names]
            if some and len(some) < len(locks):
                self.start_own(now, release_of(some), Purpose.CLEANUP)
                self._renew_request_id(operation)
            elif operation.uncertain and operation.kind in PERMITS:
                if operation.abandoned:
                    self.take(operation.op_id)  # The resume did not name them.
                else:
                    self._renew_request_id(operation)
        self.send_unsent(now)

    def send_unsent(self, now: float) -> None:
        """Send everything that was not sent on this stream."""
        for operation in list(self._by_id.values()):
            if operation.sent_at is None:
                self.timers.cancel(operation.op_id)
                self._send(now, operation)


def _may_retry(now: float, operation: Operation, error: Refused, lease: float) -> bool:
    if operation.purpose is Purpose.CLEANUP:
        return False
    if error.reason == "DRAINING":
        # The store does not matter, and the next coordinator is at hand.
        patience = lease
    elif error.reason in ("STORE_UNAVAILABLE", "OUTCOME_UNKNOWN"):
        patience = lease if operation.patience is None else operation.patience
    else:
        return False
    since = now if operation.failing_since is None else operation.failing_since
    return now < since + patience
