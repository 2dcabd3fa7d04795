"""What the locks with the methods of redis-py's share."""

from __future__ import annotations

import logging
import threading
from types import SimpleNamespace
from typing import Any, Callable, Generic, TypeVar

from lockkeeper._holder import HolderBase
from lockkeeper.errors import Error, LockLost

logger = logging.getLogger("lockkeeper")

ClientT = TypeVar("ClientT")
HeldT = TypeVar("HeldT", bound=HolderBase[Any, Any])


class LockError(Error, ValueError):
    """The lock was not acquired, or is not held by this object."""

    def __init__(self, message: str, lock_name: str) -> None:
        """Describe an error of a lock."""
        super().__init__(message)
        #: The lock.
        self.lock_name = lock_name


class LockNotOwnedError(LockError):
    """The lock was acquired, and is not held any more."""


class LockBase(Generic[ClientT, HeldT]):
    """The options of a lock, and what it holds."""

    def __init__(
        self,
        client: ClientT,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
        *,
        on_lost: Callable[[LockLost], None] | None = None,
    ) -> None:
        """Make a lock.

        Args:
            client: The client, which may have many locks.
            name: The name of the lock.
            timeout: The lease in seconds. By default it is the session's, renewed in the background
                until the lock is released.
            sleep: Without effect: nothing polls.
            blocking: Whether `acquire` waits.
            blocking_timeout: How long to wait, in seconds. By default there is no limit.
            thread_local: Whether only the thread that acquired the lock can release it.
            raise_on_release_error: Whether the end of ``with`` raises that the lock was lost. If
                not, it logs that.
            on_lost: Called once if the lock is lost: in a thread of the client, or by the event
                loop.

        """
        self._client = client
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = thread_local
        self.raise_on_release_error = raise_on_release_error
        self._on_lost = on_lost
        self._local: Any = threading.local() if thread_local else SimpleNamespace()

    @property
    def _current(self) -> HeldT | None:
        held: HeldT | None = getattr(self._local, "held", None)
        return held

    def _held(self, what: str) -> HeldT:
        held = self._current
        if held is None:
            raise LockError(f"Cannot {what}", self.name)
        return held

    def _not_owned(self, what: str, error: Error) -> LockNotOwnedError:
        message = f"Cannot {what} a lock that's no longer owned: {error}"
        return LockNotOwnedError(message, self.name)

    # --- questions

    def _is_owned(self) -> bool:
        held = self._current
        # Without `thread_local`, all threads share what one of them has acquired.
        return held is not None and held.valid_for > 0

    @property
    def fencing_token(self) -> int:
        """The token to send with every write to the protected resource."""
        held = self._held("fence a write by an unlocked lock")
        return int(held._current().grants[0].fencing_token)
