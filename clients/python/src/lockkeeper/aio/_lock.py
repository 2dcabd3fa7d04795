"""Locks, semaphores and latches of the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lockkeeper import _clock
from lockkeeper._clock import Seconds, seconds_of
from lockkeeper._holder import HolderBase, offer_of, tokens_of
from lockkeeper._machine.messages import renewal_of, set_seconds
from lockkeeper._session import Held, logger
from lockkeeper.errors import Error, LockLost, NotGranted
from lockkeeper.v1 import latch_pb2, semaphore_pb2

if TYPE_CHECKING:
    from typing_extensions import Self

    from lockkeeper.aio._client import Client


class Holder(HolderBase["Client", asyncio.Event]):
    """Something that is acquired and released."""

    def _me(self) -> Hashable:
        return asyncio.current_task()

    def _is_mine(self, held: Held) -> bool:
        # Before Python 3.12, `asyncio.wait_for` acquires in a task of its own.
        return super()._is_mine(held) or bool(held.holder.done())

    async def acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> bool:
        """Acquire it, and return whether that succeeded.

        If the caller is cancelled, the wait ends, and a grant that comes too late is released.

        Args:
            blocking: Whether to wait. By default as the object was made.
            timeout: How long to wait, in seconds; with `blocking=False`, for a coordinator only. By
                default as the object was made.

        Raises:
            Unreachable: No coordinator answered.
            Refused: The coordinator refused the request.
            NotGranted: The wait was part of a deadlock, and made with `end_on_deadlock`.
            LockLost: It was lost before its acquire could be confirmed.
            SessionEnded: The session ended meanwhile.

        """
        try:
            await self._acquire(blocking, timeout)
        except NotGranted as refusal:
            if refusal.reason == "DEADLOCK":
                raise
            return False
        return True

    async def _acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> Held:
        session = self._client._session()
        held = await session.acquire(self._acquisition(blocking, timeout))
        self._add(held)
        return held

    async def release(self) -> None:
        """Release it, and wait until the coordinator confirms that.

        Raises:
            LockLost: It was lost before. It is released nevertheless, if a coordinator has it.
            Refused: The store did not answer for as long as the lease.
            SessionEnded: The session ended meanwhile.
            RuntimeError: It is not held.

        """
        self._client._check()
        held = self._take()
        await held.session.release(held)

    async def extend(self, lease: Seconds | None = None) -> None:
        """Renew a lease that the request set: to its former length, or to `lease` from now.

        Without such a lease, it is renewed in the background.

        Raises:
            LockLost: It is lost.
            Refused: The coordinator refused the renewal.
            SessionEnded: The session ended meanwhile.

        """
        self._client._check()
        held = self._current()
        held.check()
        for grant in held.grants:
            kind, request = renewal_of(grant, with_lease=False)
            if lease is not None:
                set_seconds(request.lease, seconds_of(lease, "lease"))
            try:
                await held.session.call(kind, request)
            except Error:
                held.check()
                raise

    async def __aenter__(self) -> Self:
        """Acquire it, or raise `NotGranted`. The block is cancelled if it is lost."""
        held = await self._acquire()
        held.block = _Block(held)
        self._entered(held)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release it. Raise `LockLost` if it was lost, in place of an error of the block.

        The task may be another than that which entered the block.
        """
        self._client._check()
        held = self._leave(error)
        if held is None:
            return
        is_ours = held.block is not None and held.block.leave(kind)
        try:
            await held.session.release(held)
        except LockLost:
            if error is None or isinstance(error, Exception) or is_ours:
                raise
        except Error as failure:
            if error is None:
                raise
            logger.warning("%s: not released: %s", self.name, failure)


class _Block:
    """An ``async with`` block, which is cancelled at a loss as `asyncio.timeout` does it."""

    def __init__(self, held: Held) -> None:
        self._task: asyncio.Task[Any] = held.holder
        self._is_left = False
        self._is_cancelled = False
        # Python 3.11 counts the requests to cancel a task.
        self._cancelling = self._task.cancelling() if hasattr(self._task, "cancelling") else 0
        held.on_lost.append(self._cancel)
        if held.loss:  # The loss came with the grant.
            asyncio.get_running_loop().call_soon(self._cancel, held.loss)

    def _cancel(self, _: LockLost) -> None:
        if not self._is_left and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    def leave(self, kind: type[BaseException] | None) -> bool:
        """Leave the block. Return whether it ends because of this object's cancellation."""
        self._is_left = True
        if not self._is_cancelled or asyncio.current_task() is not self._task:
            return False  # What another task is cancelled for is not this object's.
        others = 0
        if hasattr(self._task, "uncancel"):
            others = self._task.uncancel() - self._cancelling
        return others <= 0 and kind is not None and issubclass(kind, asyncio.CancelledError)


class Lock(Holder):
    """One lock, or several that are acquired together; see `Client.lock` and `Client.locks`."""

    @property
    def fencing_token(self) -> int:
        """The token to send with every write to the protected resource.

        Of several locks it is that of the first by name. A task that has neither acquired the
        lock nor been handed its ``async with`` block gets a RuntimeError.
        """
        return int(self._proof().grants[0].fencing_token)

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing tokens of several locks by name."""
        return tokens_of(self._proof())

    async def offer(self, within: Seconds | None = None) -> str:
        """Return a ticket with which another session takes the lock over by `Client.claim`.

        Stop the work first: at the claim the lock is lost, for the reason ``HANDED_OVER``. A ticket
        that is not claimed changes nothing. It is a secret.

        Args:
            within: How long it can be claimed, in seconds, at most 10 min. By default 30 s.

        Raises:
            LockLost: It is lost.
            Misconfigured: They are several locks.
            Refused: It is not exclusive, or its owner has acquired it several times.
            SessionEnded: The session ended meanwhile.

        """
        self._client._check()
        held = self._current()
        return str((await held.session.call("offer", offer_of(held, within))).ticket)

    async def locked(self) -> bool:
        """Ask whether any owner holds the lock, or one of the locks, now."""
        for name in self._target.names():
            if (await self._client.describe(name)).holder_count > 0:
                return True
        return False


class Semaphore(Holder):
    """Permits of a semaphore; see `Client.semaphore`."""

    @property
    def permit_ids(self) -> list[str]:
        """The ids of the permits. Anyone who knows them can release the permits."""
        return list(self._proof().grants[0].permit_ids)

    async def set_permits(
        self, permits: int, *, only_if_absent: bool = False
    ) -> semaphore_pb2.SetPermitsResponse:
        """Set the total number of permits; 0 removes the semaphore."""
        request = semaphore_pb2.SetPermitsRequest(
            name=self.name, permits=permits, only_if_absent=only_if_absent
        )
        response: semaphore_pb2.SetPermitsResponse
        response = await self._client._call("set_permits", request)
        return response

    async def describe(self) -> semaphore_pb2.DescribeSemaphoreResponse:
        """Return the total, the free permits, the holders and the waiters."""
        request = semaphore_pb2.DescribeSemaphoreRequest(name=self.name)
        response: semaphore_pb2.DescribeSemaphoreResponse
        response = await self._client._call("describe_semaphore", request)
        return response


class Latch:
    """A latch: it is open when its count is 0, or when it has none; see `Client.latch`.

    The methods raise `Refused`, `Unreachable` and `SessionEnded`.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        #: The name.
        self.name = name

    async def set_count(self, count: int, ttl: Seconds | None = None) -> int:
        """Set the count, unless the latch has one; return its count.

        The latch is forgotten, and so opens, after `ttl` seconds.
        """
        request = latch_pb2.SetCountRequest(name=self.name, count=count)
        if ttl is not None:
            set_seconds(request.ttl, seconds_of(ttl, "ttl"))
        return int((await self._client._call("set_count", request)).count)

    async def count_down(self, by: int = 1) -> int:
        """Lower the count, and return what is left. At 0 the latch opens."""
        request = latch_pb2.CountDownRequest(name=self.name, by=by)
        return int((await self._client._call("count_down", request)).count)

    async def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the latch is open, and return whether it is."""
        until = None if timeout is None else _clock.now() + seconds_of(timeout, "timeout")
        request = latch_pb2.AwaitLatchRequest(name=self.name)
        try:
            await self._client._call("await_latch", request, until)
        except NotGranted:
            return False
        return True

    async def count(self) -> int:
        """Return the count; 0 if the latch is open."""
        request = latch_pb2.DescribeLatchRequest(name=self.name)
        return int((await self._client._call("describe_latch", request)).count)

    async def delete(self) -> bool:
        """Delete the latch, which opens it; return whether it had a count."""
        request = latch_pb2.DeleteLatchRequest(name=self.name)
        return bool((await self._client._call("delete_latch", request)).deleted)
