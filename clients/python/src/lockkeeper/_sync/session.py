"""The session of the synchronous client: one background thread, and one that reads the stream."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, Callable, NamedTuple, Union

import grpc

from lockkeeper import _clock, _tracing
from lockkeeper._connect import Address, Connector, error_of
from lockkeeper._machine import NEVER
from lockkeeper._machine import events as ev
from lockkeeper._machine.events import Message
from lockkeeper._session import MAX_SLEEP, Acquisition, Held, Hooks, SessionCore, logger
from lockkeeper.errors import Error, SessionEnded
from lockkeeper.v1 import session_pb2

_METHOD = "/lockkeeper.v1.LockService/Session"


class _Cancel(NamedTuple):
    """End a wait of another thread."""

    op_id: int


_Event = Union[ev.Event, _Cancel]


class Session(SessionCore):
    """A session whose machine runs in a thread. The methods are for other threads.

    An exception such as `KeyboardInterrupt` can hit a caller's thread anywhere, but never the
    machine.
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        connector: Connector,
        open_session: session_pb2.OpenSession,
        hooks: Hooks,
    ) -> None:
        _check_running()
        super().__init__(addresses, open_session, hooks)
        self._connector = connector
        self._queue: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._stream: _Stream | None = None
        self._thread = _Thread("lockkeeper-session", self._run)
        self._thread.start()

    # --- for callers

    def connect(self) -> None:
        """Wait until the session is open."""
        op_id = -next(self._ids)
        future = self._future(op_id)
        if self.is_over:
            self._fail_left()
        elif self.state != "opening":
            self._resolve(op_id, None)
        self._wait(op_id, future)

    def acquire(self, acquisition: Acquisition, waits: set[Any]) -> Held:
        """Acquire something. Meanwhile `waits` has what `cancel` ends."""
        op_id = next(self._ids)
        wait = (self, op_id)
        call = self._listen(op_id, acquisition)
        try:
            held = self._run_event(op_id, call, lambda: waits.add(wait))
        finally:
            waits.discard(wait)
            self._listeners.pop(op_id, None)
        assert isinstance(held, Held)
        return held

    def call(self, kind: str, request: Message, wait_until: float | None = None) -> Message:
        """Run an operation that acquires nothing."""
        op_id = next(self._ids)
        traceparent = _tracing.traceparent()
        call = ev.Call(op_id, kind, request, wait_until, traceparent=traceparent)
        return self._run_event(op_id, call)

    def release(self, held: Held) -> None:
        """Release a guard. A lost one is released in the background."""
        held.is_released = True
        self._held.pop(held.guard, None)
        op_id = next(self._ids)
        event = ev.Release(op_id, held.guard, _tracing.traceparent())
        self._give_back(op_id, event, held.check)

    def close(self) -> None:
        """Close the session and wait for its end."""
        if not self.is_over:
            op_id = next(self._ids)
            self._give_back(op_id, ev.Close(op_id))

    def cancel(self, op_id: int) -> None:
        """End a wait of another thread."""
        self._queue.put(_Cancel(op_id))

    def _give_back(
        self, op_id: int, event: ev.Event, then: Callable[[], None] = lambda: None
    ) -> None:
        """Run an event, without an outcome where nothing may wait.

        The garbage collector may run a finalizer in the threads of the session, also while they
        are being started: `threading.current_thread` does not know them then.
        """
        if any(it and it.is_here() for it in (self._thread, self._stream)):
            self._queue.put(event)
        else:
            self._run_event(op_id, event, then)

    def _run_event(
        self, op_id: int, event: ev.Event, then: Callable[[], None] = lambda: None
    ) -> Any:
        """Deliver an event and wait for its outcome; `then` is called in between."""
        future = self._future(op_id)
        try:
            self._queue.put(event)
            if self.is_over:
                self._fail_left()  # The thread may not have seen it.
            then()
            return future.result()
        except (Error, CancelledError):
            raise
        except BaseException:
            # Also if the future has a result: the caller does not get it.
            self._queue.put(ev.GiveUp(op_id))
            raise

    def _wait(self, op_id: int, future: _Outcome) -> None:
        try:
            future.result()
        finally:
            self._futures.pop(op_id, None)

    def _future(self, op_id: int) -> _Outcome:
        _check_running()
        future = self._futures[op_id] = _Outcome()
        return future

    # --- the thread

    def _run(self) -> None:
        try:
            self._run_machine()
        except BaseException as failure:  # Nobody else would see that the thread ends.
            self._crash(failure)

    def _run_machine(self) -> None:
        self._step(ev.Open())
        while not self.is_over:
            event = self._next_event()
            if isinstance(event, _Cancel):
                future = self._futures.pop(event.op_id, None)
                if future is None:
                    continue
                future.set_exception(CancelledError())
                event = ev.GiveUp(event.op_id)
            if isinstance(event, ev.GiveUp):
                self._held.pop(event.op_id, None)
            self._step(event)

    def _next_event(self) -> _Event:
        wake_at = self._machine.alarm.at
        if wake_at == NEVER:
            return self._queue.get()
        try:
            return self._queue.get(timeout=min(max(0.0, wake_at - _clock.now()), MAX_SLEEP))
        except queue.Empty:
            return ev.Tick()

    def _open_stream(self, effect: ev.OpenStream) -> None:
        address = self._addresses[effect.endpoint]
        self._stream = _Stream(self._connector, address, effect, self._queue.put)
        self._stream.start()

    def _send(self, effect: ev.Send) -> None:
        assert self._stream
        self._stream.send(effect.frame)

    def _cancel_stream(self, effect: ev.CancelStream) -> None:
        if self._stream and self._stream.number == effect.stream:
            self._stream.cancel()


class _Outcome:
    """What one thread waits for.

    A `concurrent.futures.Future` has a mutex: if a handler of a signal interrupts its owner, and
    waits for the session, the session waits for the mutex.
    """

    __slots__ = ("_error", "_pending", "_result")

    def __init__(self) -> None:
        self._pending = threading.Lock()
        self._pending.acquire()
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        return not self._pending.locked()

    def set_result(self, result: Any) -> None:
        self._result = result
        self._pending.release()

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._pending.release()

    def result(self) -> Any:
        self._pending.acquire()
        if self._error is not None:
            raise self._error
        return self._result


def _check_running() -> None:
    """Fail at the exit of Python, as in a finalizer, where no thread is left that would answer."""
    if sys.is_finalizing():
        raise SessionEnded("Python exits; what is held ends with its lease")


class _Thread(threading.Thread):
    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, target=work, daemon=True)
        self._has_ended = False

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._has_ended = True

    def is_here(self) -> bool:
        """Tell whether this is the current thread, not a later one with its number."""
        return threading.get_ident() == self.ident and not self._has_ended


class _Stream(_Thread):
    """Connects, and reads frames until the stream ends."""

    def __init__(
        self,
        connector: Connector,
        address: Address,
        effect: ev.OpenStream,
        deliver: Callable[[ev.Event], None],
    ) -> None:
        super().__init__(f"lockkeeper-stream-{effect.stream}", self._carry)
        self.number = effect.stream
        self._connector = connector
        self._address = address
        self._deliver = deliver
        self._frames: queue.SimpleQueue[session_pb2.SessionRequest | None] = queue.SimpleQueue()
        self._frames.put(effect.frame)
        self._call: Any = None
        self._is_cancelled = False

    def send(self, frame: session_pb2.SessionRequest) -> None:
        """Send a frame. If the stream has ended, that was delivered.

        After `close` it is half-closed: some proxies pass on the coordinator's end of a stream when
        they have the client's.
        """
        self._frames.put(frame)
        if frame.HasField("close"):
            self._frames.put(None)

    def cancel(self) -> None:
        """Break the stream."""
        # Without a mutex: to begin a call waits for threads of gRPC, which may run a finalizer.
        self._is_cancelled = True
        if self._call is not None:
            self._call.cancel()

    def _carry(self) -> None:
        """Deliver frames, then the end."""
        error: Error | None = None
        try:
            channel = self._connector.channel(self._address)
            try:
                self._read(channel)
            finally:
                channel.close()
                # Only now may gRPC's thread that sends come to an end: the end of the requests
                # half-closes a stream that is still open, which releases everything.
                self._frames.put(None)
        except Exception as failure:
            if not isinstance(failure, (Error, grpc.RpcError)):
                logger.exception("the stream to %s failed", self._address.text)
            error = error_of(self._address, failure)
        self._deliver(ev.StreamEnded(self.number, error))

    def _read(self, channel: grpc.Channel) -> None:
        method = channel.stream_stream(
            _METHOD,
            session_pb2.SessionRequest.SerializeToString,
            session_pb2.SessionResponse.FromString,
        )
        metadata = self._connector.metadata()
        if self._is_cancelled:
            return
        frames: Iterator[session_pb2.SessionRequest] = iter(self._frames.get, None)
        self._call = method(frames, metadata=metadata)
        if self._is_cancelled:
            self._call.cancel()
        for frame in self._call:
            self._deliver(ev.Received(self.number, frame))
