"""What is followed over several coordinators, by both clients: elections, and locks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Generic, TypeVar

from lockkeeper import _clock
from lockkeeper._client_base import CALL_TIMEOUT
from lockkeeper._clock import Seconds, seconds_of
from lockkeeper._machine.events import Message
from lockkeeper._machine.messages import set_seconds
from lockkeeper._machine.stream import is_final
from lockkeeper.errors import Error, SessionEnded
from lockkeeper.v1 import lock_pb2

EventT = TypeVar("EventT")

#: The longest pause after each endpoint has been tried.
_PAUSE = 0.5


class Progress(Generic[EventT]):
    """What was seen of an answer that is a stream, and where to go on."""

    method: str
    response: type[Message]

    def __init__(self, endpoints: int) -> None:
        #: The endpoint in use, or the next to try.
        self.endpoint = 0
        self._endpoints = endpoints
        self._failures = 0
        self._has_begun = False
        self._is_new_stream = True

    def request(self) -> Message:
        """Return the request that goes on."""
        raise NotImplementedError

    def timeout(self) -> float | None:
        """Return how long the answer to this request may take."""
        return None

    def _events(self, response: Message, is_resumed: bool) -> Iterator[EventT]:
        """Return what an answer says; `is_resumed` if it is the first one after a break."""
        raise NotImplementedError

    def taken(self, response: Message) -> Iterator[EventT]:
        """Return what an answer says."""
        is_resumed = self._is_new_stream and self._has_begun
        self._is_new_stream, self._has_begun, self._failures = False, True, 0
        return self._events(response, is_resumed)

    def failed(self, error: Error) -> float:
        """Return the pause before the next endpoint is tried, or raise the error."""
        self._failures += 1
        is_round = self._failures % self._endpoints == 0
        is_over = isinstance(error, SessionEnded) or is_final(error)
        if is_over or (is_round and not self._has_begun):
            raise error
        self._is_new_stream = True
        self.endpoint = (self.endpoint + 1) % self._endpoints
        # Those that followed a coordinator that died must not come all at once.
        return _PAUSE * (0.5 + random.random() / 2) if is_round else 0.0  # noqa: S311


class Watching(Progress[lock_pb2.WatchLockResponse]):
    """A watch of one lock."""

    method = "LockService/WatchLock"
    response = lock_pb2.WatchLockResponse

    def __init__(self, name: str, endpoints: int) -> None:
        super().__init__(endpoints)
        self._name = name

    def request(self) -> Message:
        """Return the request."""
        return lock_pb2.WatchLockRequest(name=self._name)

    def _events(self, response: Message, is_resumed: bool) -> Iterator[lock_pb2.WatchLockResponse]:
        if is_resumed:
            gap = lock_pb2.LockGap(reason=lock_pb2.LOCK_GAP_REASON_UNHEARD)
            yield lock_pb2.WatchLockResponse(gap=gap)
        assert isinstance(response, lock_pb2.WatchLockResponse)
        yield response


class Freeing(Progress[bool]):
    """A wait until a lock is free. Its only event is whether it is."""

    method = "LockService/AwaitFree"
    response = lock_pb2.AwaitFreeResponse

    def __init__(self, name: str, timeout: Seconds | None, endpoints: int) -> None:
        super().__init__(endpoints)
        self._name = name
        self._until = None
        if timeout is not None:
            self._until = _clock.now() + seconds_of(timeout, "timeout")

    def _left(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - _clock.now())

    def request(self) -> Message:
        """Return the request, with what is left of the wait."""
        request = lock_pb2.AwaitFreeRequest(name=self._name)
        left = self._left()
        if left is not None:
            set_seconds(request.wait_timeout, left)
        return request

    def timeout(self) -> float | None:
        """Return how long a coordinator may be silent."""
        left = self._left()
        return None if left is None else left + CALL_TIMEOUT

    def failed(self, error: Error) -> float:
        """Also raise the error when the wait is over."""
        if self._left() == 0:
            raise error
        return super().failed(error)

    def _events(self, response: Message, is_resumed: bool) -> Iterator[bool]:
        del is_resumed
        if not response.HasField("waiting"):
            yield bool(response.HasField("free"))
