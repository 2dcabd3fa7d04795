"""Elections of the asyncio client."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from lockkeeper._clock import Seconds
from lockkeeper._election import Observed, Observing, proclaim_of
from lockkeeper._session import Held
from lockkeeper.aio._follow import follow
from lockkeeper.aio._lock import Lock
from lockkeeper.errors import Error
from lockkeeper.v1 import election_pb2

if TYPE_CHECKING:
    from lockkeeper.aio._client import Client


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
        """Make a candidate, which leads from `Leadership.acquire` on, or within ``async with``.

        Candidates lead in order of arrival, but for those that are `preferred`. The block is
        cancelled if the leadership is lost.

        Args:
            value: The first value of the term: at most 1024 bytes, without control characters.
            options: Those of `Client.lock`, but for `mode`.

        """
        return Leadership(self._client.lock(self.name, mode="fair", **options), value)

    async def leader(self) -> election_pb2.Leadership | None:
        """Return who leads now, with the newest value; None if nobody does.

        Raises:
            Unreachable: No coordinator answered.
            Refused: The coordinator refused the call.

        """
        request = election_pb2.LeaderRequest(name=self.name)
        response: election_pb2.LeaderResponse
        response = await self._client._unary("ElectionService/Leader", request)
        return response.leader if response.HasField("leader") else None

    def observe(self, after_revision: int = 0) -> AsyncGenerator[Observed, None]:
        """Observe every term and value, in order.

        If the coordinator or the connection fails, it goes on at the next endpoint after what it
        has seen, for as long as that takes.

        Args:
            after_revision: The last revision that an earlier observer has seen. By default it
                begins with the present leader.

        Raises:
            Unreachable: No coordinator answered, before anything was seen.
            Refused: The same request would be refused again.
            SessionEnded: The client is closed.

        """
        endpoints = len(self._client._addresses)
        return follow(self._client, Observing(self.name, after_revision, endpoints))


class Leadership(Lock):
    """A lock whose holder leads an election; see `Election.campaign`."""

    def __init__(self, lock: Lock, value: str) -> None:
        super().__init__(lock._client, lock._target, lock._options, lock._defaults)
        self._value = value

    async def _acquire(self, blocking: bool | None = None, timeout: Seconds | None = None) -> Held:
        held = await super()._acquire(blocking, timeout)
        try:
            await self.proclaim(self._value)
        except BaseException:
            with contextlib.suppress(Error):
                await self.release()
            raise
        return held

    @property
    def term(self) -> int:
        """The fencing token to send to what the leader works on. It grows with every leader."""
        return self.fencing_token

    async def proclaim(self, value: str) -> int:
        """Replace the value for all observers, and return its revision.

        Raises:
            LockLost: The leadership is lost.
            Refused: The coordinator refused the value, or the caller does not lead any more
                (``NOT_OWNER``).
            SessionEnded: The session ended meanwhile.

        """
        self._client._check()
        held = self._current()
        return int((await held.session.call("proclaim", proclaim_of(held, value))).revision)

    async def resign(self) -> None:
        """End the leadership, so that the next candidate leads. It is `release`."""
        await self.release()
