"""A lock with the methods of `redis.lock.Lock` of redis-py.

That for asyncio is in `lockkeeper.adapters.redis_py_asyncio`.

Replace ``redis.lock("jobs", timeout=30)`` by ``Lock(client, "jobs", timeout=30)``, and import
`LockError` and `LockNotOwnedError` from here. What is different:

- A lock without `timeout` ends with its process: it is renewed in the background.
- Waiters are woken instead of polling. `sleep` has no effect.
- A loss is reported: see `Lock.lost` and `on_lost`.
- `extend` and `reacquire` never shorten what is left.
- A lock has no token of the user's. `Lock.fencing_token` protects what you write to.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING

from lockkeeper import Client
from lockkeeper._machine.messages import seconds
from lockkeeper._sync.lock import Lock as Held
from lockkeeper.adapters._redis_py import LockBase, LockError, LockNotOwnedError, logger
from lockkeeper.errors import LockLost, Refused, SessionEnded

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Lock", "LockError", "LockNotOwnedError"]


class Lock(LockBase[Client, Held]):
    """A lock that this object acquires and releases, once at a time. It is not reentrant.

    `Unreachable`, `Refused` and `SessionEnded` are raised as they are.
    """

    # --- acquiring and releasing

    def acquire(
        self,
        sleep: float | None = None,  # noqa: ARG002
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
    ) -> bool:
        """Acquire the lock, and return whether that succeeded.

        Args:
            sleep: Without effect.
            blocking: Whether to wait. By default as the object was made.
            blocking_timeout: How long to wait, in seconds. By default as the object was made.

        """
        held = self._client.lock(self.name, lease=self.timeout, on_lost=self._on_lost)
        limit = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        is_held = held.acquire(self.blocking if blocking is None else blocking, timeout=limit)
        if is_held:
            self._local.held = held
        return is_held

    def release(self) -> None:
        """Release the lock, and wait until the coordinator confirms that.

        Raises:
            LockNotOwnedError: It was lost before. It is released nevertheless, if a coordinator has
                it.
            LockError: This object does not hold it.

        """
        held = self._held("release an unlocked lock")
        self._local.held = None
        try:
            held.release()
        except (LockLost, SessionEnded) as error:
            raise self._not_owned("release", error) from error

    def __enter__(self) -> Self:
        """Acquire the lock, or raise `LockError`."""
        if self.acquire():
            return self
        raise LockError("Unable to acquire lock within the time specified", self.name)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the lock."""
        try:
            self.release()
        except LockError as failure:
            if self.raise_on_release_error:
                raise
            logger.warning("%s: %s", self.name, failure)

    # --- the lease

    def extend(self, additional_time: float, replace_ttl: bool = False) -> bool:
        """Add time to the lease, or with `replace_ttl` make it this long from now.

        Raises:
            LockNotOwnedError: The lock was lost.
            LockError: This object does not hold it, or it has no timeout.

        """
        held = self._held("extend an unlocked lock")
        if self.timeout is None:
            raise LockError("Cannot extend a lock with no timeout", self.name)
        if not replace_ttl:
            additional_time += seconds(self._client.describe(self.name).remaining_lease)
        return self._renew(held, additional_time, "extend")

    def reacquire(self) -> bool:
        """Make the lease as long as `timeout` from now. Raises as `extend` does."""
        held = self._held("reacquire an unlocked lock")
        if self.timeout is None:
            raise LockError("Cannot reacquire a lock with no timeout", self.name)
        return self._renew(held, self.timeout, "reacquire")

    def _renew(self, held: Held, lease: float, what: str) -> bool:
        try:
            held.extend(lease)
        except (LockLost, SessionEnded) as error:
            raise self._not_owned(what, error) from error
        except Refused as error:
            if error.reason != "NOT_OWNER":
                raise
            raise self._not_owned(what, error) from error
        return True

    # --- questions

    def locked(self) -> bool:
        """Ask whether any owner holds the lock now."""
        return self._client.lock(self.name).locked()

    def owned(self) -> bool:
        """Return whether this object certainly holds the lock now, as far as the client knows."""
        return self._is_owned()

    @property
    def lost(self) -> threading.Event:
        """An event that is set when the lock is lost. Stop the work then."""
        return self._held("ask for the loss of an unlocked lock").lost
