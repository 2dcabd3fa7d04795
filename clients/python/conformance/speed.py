"""How fast the asyncio client is, beside a bare stream of gRPC."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Awaitable
from typing import Any, Callable

import grpc.aio

from lockkeeper import aio
from lockkeeper.v1 import lock_pb2, session_pb2, types_pb2

#: Seconds before each measurement.
WARM_UP = 1.0

#: Acquires and releases the lock of a task.
Pair = Callable[[int], Awaitable[None]]


class Rate:
    """Pairs of an acquire and a release in a time."""

    def __init__(self) -> None:
        self._pairs = 0
        self._seconds = 0.0

    def per_second(self) -> float:
        """Return the pairs of a second."""
        return self._pairs / self._seconds

    async def add(self, command: dict[str, Any], pair: Pair) -> None:
        """Count the pairs of all tasks in half of the time, for there are two turns."""
        pairs = 0
        is_over = False

        async def work(task: int) -> None:
            nonlocal pairs
            while not is_over:
                await pair(task)
                pairs += 1

        tasks = asyncio.gather(*(work(task) for task in range(command["tasks"])))
        await asyncio.wait([tasks], timeout=WARM_UP)
        before, begin = pairs, time.monotonic()
        await asyncio.wait([tasks], timeout=command["seconds"] / 2)
        self._pairs += pairs - before
        self._seconds += time.monotonic() - begin
        is_over = True
        await tasks


async def speed(command: dict[str, Any]) -> dict[str, Any]:
    """Measure the client and a bare stream in turns, so that both share what slows the machine."""
    client, bare = Rate(), Rate()
    for _ in range(2):
        await _add_client(client, command)
        await _add_bare(bare, command)
    return {"pairs_per_second": client.per_second(), "bare_pairs_per_second": bare.per_second()}


async def _add_client(rate: Rate, command: dict[str, Any]) -> None:
    async with aio.Client(command["endpoints"]) as client:

        async def pair(task: int) -> None:
            async with client.lock(f"speed-{task}", blocking=False):
                pass

        await rate.add(command, pair)


# --- without the client


async def _add_bare(rate: Rate, command: dict[str, Any]) -> None:
    target = command["endpoints"][0].removeprefix("http://")
    async with grpc.aio.insecure_channel(target) as channel:
        stream = BareStream(channel, command["tasks"])
        await stream.open()
        await rate.add(command, stream.pair)
        await stream.close()


class BareStream:
    """A session's stream of gRPC, shared by tasks."""

    def __init__(self, channel: grpc.aio.Channel, tasks: int) -> None:
        method: Any = channel.stream_stream(
            "/lockkeeper.v1.LockService/Session",
            session_pb2.SessionRequest.SerializeToString,
            session_pb2.SessionResponse.FromString,
        )
        self._call = method()
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[session_pb2.SessionRequest] = asyncio.Queue()
        #: By task. The operations of a task have its number plus 1.
        self._answers: list[asyncio.Future[Any]] = [self._loop.create_future()] * tasks
        self._numbers = itertools.count(1)
        #: Makes request ids unique among sessions.
        self._random = secrets.token_hex(8)

    async def open(self) -> None:
        """Open the session."""
        await self._call.write(session_pb2.SessionRequest(open=session_pb2.OpenSession()))
        await self._call.read()
        self._running = [self._loop.create_task(it) for it in (self._write(), self._read())]

    async def close(self) -> None:
        """End the session."""
        for task in self._running:
            task.cancel()
        await self._call.done_writing()

    async def _write(self) -> None:
        while True:
            await self._call.write(await self._frames.get())

    async def _read(self) -> None:
        while True:
            answer = await self._call.read()
            if answer is grpc.aio.EOF:
                for future in self._answers:
                    future.cancel()
                break
            if answer.op_id:  # It is no notice.
                self._answers[answer.op_id - 1].set_result(answer)

    async def pair(self, task: int) -> None:
        """Send what the client sends: owners and request ids are as long and as different."""
        number = next(self._numbers)
        name, owner, mode = f"bare-{task}", f"call-{number}", types_pb2.LOCK_MODE_EXCLUSIVE
        acquire = lock_pb2.TryAcquireRequest(
            name=name, owner=owner, mode=mode, request_id=f"{self._random}{number:015x}a"
        )
        frame = session_pb2.SessionRequest(op_id=task + 1, try_acquire=acquire)
        answer = await self._ask(task, frame)
        if not answer.tried.acquired:
            raise RuntimeError(f"not acquired: {answer}")
        release = lock_pb2.ReleaseRequest(
            name=name, owner=owner, mode=mode, request_id=f"{self._random}{number:015x}b"
        )
        answer = await self._ask(task, session_pb2.SessionRequest(op_id=task + 1, release=release))
        if not answer.released.released:
            raise RuntimeError(f"not released: {answer}")

    async def _ask(self, task: int, frame: session_pb2.SessionRequest) -> Any:
        future = self._answers[task] = self._loop.create_future()
        self._frames.put_nowait(frame)
        return await future
