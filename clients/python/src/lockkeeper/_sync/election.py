"""Elections of the synchronous client."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import grpc
from typing_extensions import Self

from lockkeeper._clock import Seconds
from lockkeeper._connect import Address, error_of
from lockkeeper._election import OBSERVE, Observed, Progress, proclaim_of
from lockkeeper._sync.lock import Lock
from lockkeeper.errors import Error, Unreachable
from lockkeeper.v1 import election_pb2

if TYPE_CHECKING:
    from lockkeeper._sync.client import Client


class Election:
    """An election: the fair lock of the same name, with a value that its holder proclaims.

    A holder that has proclaimed no value, such as a Redisson client, is no leader. See
    `Client.election`.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        #: The name.
        self.name = name

    def campaign(self, value: str, **options: Any) -> Leadership:
        """Make a candidate, which leads from `Leadership.acquire` on, or within ``with``.

        Candidates lead in order of arrival.

        Args:
            value: The first value of the term: at most 1024 bytes, without control characters.
            options: Those of `Client.lock`, but for `mode`.

        """
        return Leadership(self._client.lock(self.name, mode="fair", **options), value)

    def leader(self) -> election_pb2.Leadership | None:
        """Return who leads now, with the newest value; None if nobody does.

        Raises:
            Unreachable: No coordinator answered.
            Refused: The coordinator refused the call.

        """
        request = election_pb2.LeaderRequest(name=self.name)
        response: election_pb2.LeaderResponse
        response = self._client._unary("ElectionService/Leader", request)
        return response.leader if response.HasField("leader") else None

    def observe(self, after_revision: int = 0) -> Observer:
        """Observe every term and value, in order; see `Observer`.

        Args:
            after_revision: The last revision that an earlier observer has seen. By default it
                begins with the present leader.

        """
        return Observer(self._client, self.name, after_revision)


class Leadership(Lock):
    """A lock whose holder leads an election; see `Election.campaign`."""

    def __init__(self, lock: Lock, value: str) -> None:
        super().__init__(lock._client, lock._target, lock._options, lock._defaults)
        self._value = value

    def _acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> None:
        super()._acquire(blocking, timeout)
        try:
            self.proclaim(self._value)
        except BaseException:
            with contextlib.suppress(Error):
                self.release()
            raise

    @property
    def term(self) -> int:
        """The fencing token to send to what the leader works on. It grows with every leader."""
        return self.fencing_token

    def proclaim(self, value: str) -> int:
        """Replace the value for all observers, and return its revision.

        Raises:
            LockLost: The leadership is lost.
            Refused: The coordinator refused the value, or the caller does not lead any more
                (``NOT_OWNER``).
            SessionEnded: The session ended meanwhile.

        """
        held = self._current()
        return int(held.session.call("proclaim", proclaim_of(held, value)).revision)

    def resign(self) -> None:
        """End the leadership, so that the next candidate leads. It is `release`."""
        self.release()


class Observer:
    """An iterator of what happens in an election; see `Election.observe`.

    If the coordinator or the connection fails, it goes on at the next endpoint after what it has
    seen, for as long as that takes. It raises `Refused` if the same request would be refused again,
    `SessionEnded` if the client is closed, and, before it has seen anything, `Unreachable`.
    """

    def __init__(self, client: Client, name: str, after_revision: int) -> None:
        client._check_process()
        self._client = client
        self._progress = Progress(name, after_revision, len(client._addresses))
        self._events = self._observe()
        self._closed = threading.Event()
        self._channel: grpc.Channel | None = None

    def __iter__(self) -> Self:
        """Return the iterator."""
        return self

    def __next__(self) -> Observed:
        """Wait for the next event."""
        return next(self._events)

    def close(self) -> None:
        """End the iteration, also while another thread waits for an event."""
        self._closed.set()
        channel = self._channel
        if channel:
            channel.close()

    def _observe(self) -> Iterator[Observed]:
        while not self._closed.is_set():
            address = self._client._addresses[self._progress.endpoint]
            try:
                yield from self._follow(address)
            except Error as failure:
                if not self._closed.is_set():
                    self._closed.wait(self._progress.failed(failure))

    def _follow(self, address: Address) -> Iterator[Observed]:
        """Observe at one coordinator until the stream ends, and raise why."""
        with self._client._observing_channel(address) as channel:
            self._channel = channel
            observe = channel.unary_stream(
                OBSERVE,
                election_pb2.ObserveRequest.SerializeToString,
                election_pb2.ObserveResponse.FromString,
            )
            metadata = self._client._connector.metadata()
            if self._closed.is_set():
                return
            try:
                for response in observe(self._progress.request, metadata=metadata):
                    yield from self._progress.observed(response)
            except grpc.RpcError as failure:
                raise error_of(address, failure) from None
            except ValueError as failure:  # The connection was closed.
                raise Unreachable(address.text, str(failure)) from None
        raise Unreachable(address.text, "it ended the stream")
