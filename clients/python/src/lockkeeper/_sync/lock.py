"""Locks, semaphores and latches of the synchronous client."""

from __future__ import annotations

import threading
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

    from lockkeeper._sync.client import Client


class Holder(HolderBase["Client", threading.Event]):
    """Something that is acquired and released."""

    def _me(self) -> Hashable:
        return threading.current_thread()

    def acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> bool:
        """Acquire it, and return whether that succeeded.

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
            concurrent.futures.CancelledError: Another thread called `cancel`.

        """
        try:
            self._acquire(blocking, timeout)
        except NotGranted as refusal:
            if refusal.reason == "DEADLOCK":
                raise
            return False
        return True

    def _acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> Held:
        session = self._client._session()
        held = session.acquire(self._acquisition(blocking, timeout), self._waits)
        self._add(held)
        return held

    def cancel(self) -> None:
        """End the waits of other threads through this object.

        Their `acquire` raises `concurrent.futures.CancelledError`.
        """
        self._client._check_process()
        for session, op_id in list(self._waits):
            session.cancel(op_id)

    def release(self) -> None:
        """Release it, and wait until the coordinator confirms that.

        Raises:
            LockLost: It was lost before. It is released nevertheless, if a coordinator has it.
            Refused: The store did not answer for as long as the lease.
            SessionEnded: The session ended meanwhile.
            RuntimeError: It is not held.

        """
        self._client._check_process()
        held = self._take()
        held.session.release(held)

    def extend(self, lease: Seconds | None = None) -> None:
        """Renew a lease that the request set: to its former length, or to `lease` from now.

        Without such a lease, it is renewed in the background.

        Raises:
            LockLost: It is lost.
            Refused: The coordinator refused the renewal.
            SessionEnded: The session ended meanwhile.

        """
        self._client._check_process()
        held = self._current()
        held.check()
        for grant in held.grants:
            kind, request = renewal_of(grant, with_lease=False)
            if lease is not None:
                set_seconds(request.lease, seconds_of(lease, "lease"))
            try:
                held.session.call(kind, request)
            except Error:
                held.check()
                raise

    def __enter__(self) -> Self:
        """Acquire it, or raise `NotGranted`."""
        self._entered(self._acquire())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release it. Raise `LockLost` if it was lost, in place of an error of the block.

        The thread may be another than that which entered the block.
        """
        self._client._check_process()
        held = self._leave(error)
        if held is None:
            return
        try:
            held.session.release(held)
        except LockLost:
            if error is None or isinstance(error, Exception):
                raise
        except Error as failure:
            if error is None:
                raise
            logger.warning("%s: not released: %s", self.name, failure)


class Lock(Holder):
    """One lock, or several that are acquired together; see `Client.lock` and `Client.locks`."""

    @property
    def fencing_token(self) -> int:
        """The token to send with every write to the protected resource.

        Of several locks it is that of the first by name. A thread that has neither acquired the
        lock nor been handed its ``with`` block gets a RuntimeError.
        """
        return int(self._proof().grants[0].fencing_token)

    @property
    def fencing_tokens(self) -> dict[str, int]:
        """The fencing tokens of several locks by name."""
        return tokens_of(self._proof())

    def offer(self, within: Seconds | None = None) -> str:
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
        self._client._check_process()
        held = self._current()
        return str((held.session.call("offer", offer_of(held, within))).ticket)

    def locked(self) -> bool:
        """Ask whether any owner holds the lock, or one of the locks, now."""
        return any(self._client.describe(name).holder_count > 0 for name in self._target.names())


class Semaphore(Holder):
    """Permits of a semaphore; see `Client.semaphore`."""

    @property
    def permit_ids(self) -> list[str]:
        """The ids of the permits. Anyone who knows them can release the permits."""
        return list(self._proof().grants[0].permit_ids)

    def set_permits(
        self, permits: int, *, only_if_absent: bool = False
    ) -> semaphore_pb2.SetPermitsResponse:
        """Set the total number of permits; 0 removes the semaphore."""
        request = semaphore_pb2.SetPermitsRequest(
            name=self.name, permits=permits, only_if_absent=only_if_absent
        )
        response: semaphore_pb2.SetPermitsResponse = self._client._call("set_permits", request)
        return response

    def describe(self) -> semaphore_pb2.DescribeSemaphoreResponse:
        """Return the total, the free permits, the holders and the waiters."""
        request = semaphore_pb2.DescribeSemaphoreRequest(name=self.name)
        response: semaphore_pb2.DescribeSemaphoreResponse
        response = self._client._call("describe_semaphore", request)
        return response


class Latch:
    """A latch: it is open when its count is 0, or when it has none; see `Client.latch`.

    The methods raise `Refused`, `Unreachable` and `SessionEnded`.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        #: The name.
        self.name = name

    def set_count(self, count: int, ttl: Seconds | None = None) -> int:
        """Set the count, unless the latch has one; return its count.

        The latch is forgotten, and so opens, after `ttl` seconds.
        """
        request = latch_pb2.SetCountRequest(name=self.name, count=count)
        if ttl is not None:
            set_seconds(request.ttl, seconds_of(ttl, "ttl"))
        return int(self._call("set_count", request).count)

    def count_down(self, by: int = 1) -> int:
        """Lower the count, and return what is left. At 0 the latch opens."""
        request = latch_pb2.CountDownRequest(name=self.name, by=by)
        return int(self._call("count_down", request).count)

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until the latch is open, and return whether it is."""
        until = None if timeout is None else _clock.now() + seconds_of(timeout, "timeout")
        try:
            self._call("await_latch", latch_pb2.AwaitLatchRequest(name=self.name), until)
        except NotGranted:
            return False
        return True

    def count(self) -> int:
        """Return the count; 0 if the latch is open."""
        request = latch_pb2.DescribeLatchRequest(name=self.name)
        return int(self._call("describe_latch", request).count)

    def delete(self) -> bool:
        """Delete the latch, which opens it; return whether it had a count."""
        request = latch_pb2.DeleteLatchRequest(name=self.name)
        return bool(self._call("delete_latch", request).deleted)

    def _call(self, kind: str, request: Any, until: float | None = None) -> Any:
        return self._client._call(kind, request, until)
