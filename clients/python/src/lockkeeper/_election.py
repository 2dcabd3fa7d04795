"""What the elections of both clients share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lockkeeper._follow import Progress
from lockkeeper._machine.events import Message
from lockkeeper._session import Held
from lockkeeper.v1 import election_pb2


class Observed(NamedTuple):
    """What an observer of an election sees."""

    #: A term or a new value, with its `term`, `value` and `revision`. The term may be over already;
    #: what follows says so. If it is None and `missed` is false, there is no leader.
    leader: election_pb2.Leadership | None = None
    #: Whether terms or values may have been missed before what follows.
    missed: bool = False


class Observing(Progress[Observed]):
    """An observation of an election."""

    method = "ElectionService/Observe"
    response = election_pb2.ObserveResponse

    def __init__(self, name: str, after_revision: int, endpoints: int) -> None:
        super().__init__(endpoints)
        self._request = election_pb2.ObserveRequest(name=name, after_revision=after_revision)

    def request(self) -> Message:
        """Return the request that goes on after what was seen."""
        return self._request

    def _events(self, response: Message, is_resumed: bool) -> Iterator[Observed]:
        if is_resumed and not self._request.after_revision:
            # Without a revision to go on after, what came between two streams is not known.
            yield Observed(missed=True)
        leader = response.leader if response.HasField("leader") else None
        if leader:
            self._request.after_revision = leader.revision
        yield Observed(leader, response.HasField("missed"))


def proclaim_of(held: Held, value: str) -> election_pb2.ProclaimRequest:
    """Return the request that replaces the value of a leader."""
    held.check()
    grant = held.grants[0]
    return election_pb2.ProclaimRequest(
        name=grant.name, owner=grant.owner, term=grant.fencing_token, value=value
    )
