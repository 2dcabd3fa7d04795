"""Elections of the synchronous client."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lockkeeper._clock import Seconds
from lockkeeper._election import Observed, Observing, proclaim_of
from lockkeeper._session import Held
from lockkeeper._sync.follow import Observer
from lockkeeper._sync.lock import Lock
from lockkeeper.errors import Error
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

        Candidates lead in order of arrival, but for those that are `preferred`.

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

    def observe(self, after_revision: int = 0) -> Observer[Observed]:
        """Observe every term and value, in order; see `Observer`.

        Args:
            after_revision: The last revision that an earlier observer has seen. By default it
                begins with the present leader.

        """
        endpoints = len(self._client._addresses)
        return Observer(self._client, Observing(self.name, after_revision, endpoints))


class Leadership(Lock):
    """A lock whose holder leads an election; see `Election.campaign`."""

    def __init__(self, lock: Lock, value: str) -> None:
        super().__init__(lock._client, lock._target, lock._options, lock._defaults)
        self._value = value

    def _acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> Held:
        held = super()._acquire(blocking, timeout)
        try:
            self.proclaim(self._value)
        except BaseException:
            with contextlib.suppress(Error):
                self.release()
            raise
        return held

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
        self._client._check_process()
        held = self._current()
        return int(held.session.call("proclaim", proclaim_of(held, value)).revision)

    def resign(self) -> None:
        """End the leadership, so that the next candidate leads. It is `release`."""
        self.release()
