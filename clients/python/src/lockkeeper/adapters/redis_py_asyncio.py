"""A lock with the methods of `redis.asyncio.lock.Lock` of redis-py.

Replace ``redis.lock("jobs", timeout=30)`` by ``Lock(client, "jobs", timeout=30)``, and import
`LockError` and `LockNotOwnedError` from here. What is different is what
`lockkeeper.adapters.redis_py` says, and:

- An ``async with`` block is cancelled when the lock is lost, and its end raises
  `LockNotOwnedError`, unless the lock was made with ``raise_on_release_error=False``.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

from lockkeeper._machine.messages import seconds
from lockkeeper.adapters._redis_py import LockBase, LockError, LockNotOwnedError, logger
from lockkeeper.aio import Client
from lockkeeper.aio import Lock as Held
from lockkeeper.errors import LockLost, NotGranted, Refused, SessionEnded

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError"]


class Lock(LockBase[Client, Held]):
    """A lock that this object acquires and releases, once at a time. It is not reentrant.

    `Unreachable`, `Refused` and `SessionEnded` are raised as they are.
    """

    # --- acquiring and releasing

    def _make(self) -> Held:
        return self._client.lock(
            self.name,
            lease=self.timeout,
            blocking=self.blocking,
            timeout=self.blocking_timeout,
            on_lost=self._on_lost,
        )

    async def acquire(
        self, blocking: bool | None = None, blocking_timeout: float | None = None
    ) -> bool:
        """Acquire the lock, and return whether that succeeded.

        Args:
            blocking: Whether to wait. By default as the object was made.
            blocking_timeout: How long to wait, in seconds. By default as the object was made.

        """
        held = self._make()
        is_held = await held.acquire(blocking, blocking_timeout)
        if is_held:
            self._local.held = held
        return is_held

    async def release(self) -> None:
        """Release the lock, and wait until the coordinator confirms that.

        Raises:
            LockNotOwnedError: It was lost before. It is released nevertheless, if a coordinator has
                it.
            LockError: This object does not hold it.

        """
        held = self._take()
        try:
            await held.release()
        except (LockLost, SessionEnded) as error:
            raise self._not_owned("release", error) from error

    def _take(self) -> Held:
        held = self._held("release an unlocked lock")
        self._local.held = None
        return held

    async def __aenter__(self) -> Self:
        """Acquire the lock, or raise `LockError`."""
        held = self._make()
        is_held = True
        try:
            if self.raise_on_release_error:
                await held.__aenter__()
            else:
                is_held = await held.acquire()
        except NotGranted:
            is_held = False
        if not is_held:
            raise LockError("Unable to acquire lock within the time specified", self.name)
        self._local.held = held
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        if not self.raise_on_release_error:
            try:
                await self.release()
            except LockError as failure:
                logger.warning("%s: %s", self.name, failure)
            return
        try:
            await self._take().__aexit__(kind, error, traceback)
        except (LockLost, SessionEnded) as failure:
            raise self._not_owned("release", failure) from failure

    # --- the lease

    async def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Add time to the lease, or with `replace_ttl` make it this long from now.

        Raises:
            LockNotOwnedError: The lock was lost.
            LockError: This object does not hold it, or it has no timeout.

        """
        held = self._held("extend an unlocked lock")
        if self.timeout is None:
            raise LockError("Cannot extend a lock with no timeout", self.name)
        if not replace_ttl:
            additional_time += seconds((await self._client.describe(self.name)).remaining_lease)
        return await self._renew(held, additional_time, "extend")

    async def reacquire(self) -> bool:
        """Make the lease as long as `timeout` from now. Raises as `extend` does."""
        held = self._held("reacquire an unlocked lock")
        if self.timeout is None:
            raise LockError("Cannot reacquire a lock with no timeout", self.name)
        return await self._renew(held, self.timeout, "reacquire")

    async def _renew(self, held: Held, lease: float, what: str) -> bool:
        try:
            await held.extend(lease)
        except (LockLost, SessionEnded) as error:
            raise self._not_owned(what, error) from error
        except Refused as error:
            if error.reason != "NOT_OWNER":
                raise
            raise self._not_owned(what, error) from error
        return True

    # --- questions

    async def locked(self) -> bool:
        """Ask whether any owner holds the lock now."""
        return await self._client.lock(self.name).locked()

    async def owned(self) -> bool:
        """Return whether this object certainly holds the lock now, as far as the client knows."""
        return self._is_owned()

    @property
    def lost(self) -> asyncio.Event:
        """An event that is set when the lock is lost. Stop the work then."""
        return self._held("ask for the loss of an unlocked lock").lost
