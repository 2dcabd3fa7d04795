"""The session of the asyncio client."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from lockkeeper import _clock, _tracing
from lockkeeper._connect import Address, Connector, error_of
from lockkeeper._machine import NEVER
from lockkeeper._machine import events as ev
from lockkeeper._machine.events import Message
from lockkeeper._session import MAX_SLEEP, Acquisition, Held, Hooks, SessionCore, logger
from lockkeeper.errors import Error
from lockkeeper.v1 import session_pb2

_METHOD = "/lockkeeper.v1.LockService/Session"

#: What grpcio says of a stream that was refused while its first frame was sent. It hides why, which
#: another stream shows.
_WRITE_FAILED = "Internal error from Core"


class Session(SessionCore):
    """A session whose machine runs in the event loop."""

    def __init__(
        self,
        addresses: Sequence[Address],
        connector: Connector,
        open_session: session_pb2.OpenSession,
        hooks: Hooks,
    ) -> None:
        super().__init__(addresses, open_session, hooks)
        self._connector = connector
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._frames = _Frames()
        self._stream: asyncio.Task[None] | None = None
        self._stream_number = 0
        #: Cancelled streams that have not ended.
        self._leaving: set[asyncio.Task[None]] = set()
        self._advance(ev.Open())

    # --- for callers

    async def connect(self) -> None:
        """Wait until the session is open."""
        if self.is_over or self.state == "opening":
            # An event without effect: the state of the session resolves it.
            await self._run(-next(self._ids), ev.Tick())

    async def acquire(self, acquisition: Acquisition) -> Held:
        """Acquire something."""
        op_id = next(self._ids)
        try:
            held: Held = await self._run(op_id, self._listen(op_id, acquisition))
        finally:
            self._listeners.pop(op_id, None)
        return held

    async def call(self, kind: str, request: Message, wait_until: float | None = None) -> Message:
        """Run an operation that acquires nothing."""
        traceparent = _tracing.traceparent()
        op_id = next(self._ids)
        call = ev.Call(op_id, kind, request, wait_until, traceparent=traceparent)
        return await self._run(op_id, call)

    async def release(self, held: Held) -> None:
        """Release a guard. It goes on if the caller is cancelled."""
        held.is_released = True
        self._held.pop(held.guard, None)
        op_id = next(self._ids)
        await self._run(op_id, ev.Release(op_id, held.guard, _tracing.traceparent()))

    async def close(self) -> None:
        """Close the session and wait for its end."""
        if not self.is_over:
            op_id = next(self._ids)
            await self._run(op_id, ev.Close(op_id))
        # What is cancelled has to see it before the loop may be closed.
        await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _run(self, op_id: int, event: ev.Event) -> Any:
        """Take over an event and wait for its outcome."""
        future = self._futures[op_id] = self._loop.create_future()
        self._advance(event)
        try:
            return await future
        except Error:
            raise
        except BaseException:
            self._futures.pop(op_id, None)
            self._held.pop(op_id, None)
            # Also if the future has a result: the caller does not get it.
            self._advance(ev.GiveUp(op_id))
            raise

    # --- the machine

    def _advance(self, event: ev.Event) -> None:
        try:
            self._step(event)
        except Exception as failure:
            # Not for the caller, which may be a timer, or take it for the end of the stream.
            self._crash(failure)
        wake_at = self._machine.alarm.at
        # A timer that wakes in time is set again then.
        if not self._timer_at <= wake_at < NEVER:
            self._set_timer(wake_at)

    def _set_timer(self, wake_at: float) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer, self._timer_at = None, NEVER
        if wake_at < NEVER:
            now = _clock.now()
            self._timer_at = min(wake_at, now + MAX_SLEEP)
            self._timer = self._loop.call_later(max(0.0, self._timer_at - now), self._tick)

    def _tick(self) -> None:
        self._timer, self._timer_at = None, NEVER
        self._advance(ev.Tick())

    def _open_stream(self, effect: ev.OpenStream) -> None:
        self._frames = _Frames()
        self._frames.put(effect.frame)
        address = self._addresses[effect.endpoint]
        carry = self._carry(effect.stream, address, self._frames)
        self._stream = self._loop.create_task(carry, name=f"lockkeeper-stream-{effect.stream}")
        self._stream_number = effect.stream

    def _send(self, effect: ev.Send) -> None:
        self._frames.put(effect.frame)

    def _cancel_stream(self, effect: ev.CancelStream) -> None:
        stream = self._stream
        if stream and effect.stream == self._stream_number and not stream.done():
            self._leaving.add(stream)
            stream.add_done_callback(self._leaving.discard)
            stream.cancel()

    # --- a stream

    async def _carry(self, number: int, address: Address, frames: _Frames) -> None:
        """Connect, send and read frames until the stream ends, and report its end.

        That is also what an error of a callback for tokens is: the next attempt may do without.
        """
        error: Error | None = None
        try:
            await self._read(number, address, frames)
        except Exception as failure:
            if not isinstance(failure, (Error, grpc.RpcError)):
                logger.exception("the stream to %s failed", address.text)
            error = error_of(address, failure)
        self._advance(ev.StreamEnded(number, error))

    async def _read(self, number: int, address: Address, frames: _Frames) -> None:
        metadata = await self._connector.aio_metadata()
        async with self._connector.aio_channel(address) as channel:
            method = channel.stream_stream(
                _METHOD,
                session_pb2.SessionRequest.SerializeToString,
                session_pb2.SessionResponse.FromString,
            )
            first = await frames.get()
            for tries_left in (2, 1, 0):
                # Without an iterator of requests, only `done_writing` half-closes the stream.
                call = method(metadata=metadata)
                writer = self._loop.create_task(_write(call, first, frames))
                frame: Any = None
                try:
                    while (frame := await call.read()) is not grpc.aio.EOF:
                        self._advance(ev.Received(number, frame))
                    await _check(call)
                except grpc.aio.AioRpcError as failure:
                    if not tries_left or frame is not None or failure.details() != _WRITE_FAILED:
                        raise
                else:
                    return
                finally:
                    writer.cancel()
                    call.cancel()


class _Frames:
    """Frames to be sent by one writer. `asyncio.Queue`, for any number, takes thrice the time."""

    def __init__(self) -> None:
        self._frames: deque[session_pb2.SessionRequest] = deque()
        #: What the writer waits for.
        self._waiter: asyncio.Future[None] | None = None

    def put(self, frame: session_pb2.SessionRequest) -> None:
        """Add a frame."""
        self._frames.append(frame)
        waiter = self._waiter
        if waiter and not waiter.done():
            waiter.set_result(None)

    async def get(self) -> session_pb2.SessionRequest:
        """Wait for a frame, and remove it."""
        while not self._frames:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.popleft()


async def _write(call: Any, first: session_pb2.SessionRequest, frames: _Frames) -> None:
    try:
        await call.write(first)
        frame = first
        while not frame.HasField("close"):
            frame = await frames.get()
            await call.write(frame)
        # Some proxies pass on the coordinator's end of a stream when they have this one.
        await call.done_writing()
    except (grpc.RpcError, asyncio.InvalidStateError):
        return  # The reader sees why.


async def _check(call: Any) -> None:
    """Raise the error of a stream that has ended."""
    code = await call.code()
    if code is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            code,
            await call.initial_metadata(),
            await call.trailing_metadata(),
            await call.details(),
        )
