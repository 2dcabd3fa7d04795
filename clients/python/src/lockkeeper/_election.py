"""What the elections of both clients share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from lockkeeper._machine.stream import is_final
from lockkeeper._session import Held
from lockkeeper.errors import Error, SessionEnded
from lockkeeper.v1 import election_pb2

OBSERVE = "/lockkeeper.v1.ElectionService/Observe"

#: The longest pause after each endpoint has been tried.
_PAUSE = 0.5


class Observed(NamedTuple):
    """What an observer of an election sees."""

    #: A term or a new value, with its `term`, `value` and `revision`. The term may be over already;
    #: what follows says so. If it is None and `missed` is false, there is no leader.
    leader: election_pb2.Leadership | None = None
    #: Whether terms or values may have been missed before what follows.
    missed: bool = False


class Progress:
    """What an observer has seen, and where it goes on."""

    def __init__(self, name: str, after_revision: int, endpoints: int) -> None:
        self.request = election_pb2.ObserveRequest(name=name, after_revision=after_revision)
        #: The endpoint in use, or the next to try.
        self.endpoint = 0
        self._endpoints = endpoints
        self._failures = 0
        self._has_begun = False
        self._is_new_stream = True

    def observed(self, response: election_pb2.ObserveResponse) -> Iterator[Observed]:
        """Return what an answer says."""
        if self._is_new_stream and self._has_begun and not self.request.after_revision:
            # Without a revision to go on after, what came between two streams is not known.
            yield Observed(missed=True)
        self._is_new_stream, self._has_begun, self._failures = False, True, 0
        leader = response.leader if response.HasField("leader") else None
        if leader:
            self.request.after_revision = leader.revision
        yield Observed(leader, response.HasField("missed"))

    def failed(self, error: Error) -> float:
        """Return the pause before the next endpoint is tried, or raise the error."""
        self._failures += 1
        is_round = self._failures % self._endpoints == 0
        is_over = isinstance(error, SessionEnded) or is_final(error)
        if is_over or (is_round and not self._has_begun):
            raise error
        self._is_new_stream = True
        self.endpoint = (self.endpoint + 1) % self._endpoints
        # Observers of a coordinator that died must not come all at once.
        return _PAUSE * (0.5 + random.random() / 2) if is_round else 0.0  # noqa: S311


def proclaim_of(held: Held, value: str) -> election_pb2.ProclaimRequest:
    """Return the request that replaces the value of a leader."""
    held.check()
    grant = held.grants[0]
    return election_pb2.ProclaimRequest(
        name=grant.name, owner=grant.owner, term=grant.fencing_token, value=value
    )
