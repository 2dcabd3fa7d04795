"""What the synchronous client follows over several coordinators."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic

import grpc

from lockkeeper._connect import Address, error_of
from lockkeeper._follow import EventT, Progress
from lockkeeper.errors import Error, Unreachable

if TYPE_CHECKING:
    from typing_extensions import Self

    from lockkeeper._sync.calls import Calls


def close_channel(channel: grpc.Channel) -> None:
    """Close a connection, unless Python exits: gRPC would wait for threads that have ended."""
    if not sys.is_finalizing():
        channel.close()


class Observer(Generic[EventT]):
    """An iterator of what happens; see `Election.observe` and `Client.watch_lock`.

    If the coordinator or the connection fails, it goes on at the next endpoint, for as long as that
    takes. It raises `Refused` if the same request would be refused again, `SessionEnded` if the
    client is closed, and, before it has seen anything, `Unreachable`.
    """

    def __init__(self, client: Calls, progress: Progress[EventT]) -> None:
        client._check_process()
        self._client = client
        self._progress = progress
        self._events = self._follow()
        self._closed = threading.Event()
        self._channel: grpc.Channel | None = None

    def __iter__(self) -> Self:
        """Return the iterator."""
        return self

    def __next__(self) -> EventT:
        """Wait for the next event."""
        return next(self._events)

    def close(self) -> None:
        """End the iteration, also while another thread waits for an event."""
        self._closed.set()
        channel = self._channel
        if channel:
            close_channel(channel)

    def _follow(self) -> Iterator[EventT]:
        while not self._closed.is_set():
            address = self._client._addresses[self._progress.endpoint]
            try:
                yield from self._read(address)
            except Error as failure:
                if not self._closed.is_set():
                    self._closed.wait(self._progress.failed(failure))

    def _read(self, address: Address) -> Iterator[EventT]:
        """Follow at one coordinator until the stream ends, and raise why."""
        progress = self._progress
        with self._client._observing_channel(address) as channel:
            self._channel = channel
            request = progress.request()
            call = channel.unary_stream(
                f"/lockkeeper.v1.{progress.method}",
                type(request).SerializeToString,
                progress.response.FromString,
            )
            metadata = self._client._connector.metadata()
            if self._closed.is_set():
                return
            try:
                for response in call(request, timeout=progress.timeout(), metadata=metadata):
                    yield from progress.taken(response)
            except grpc.RpcError as failure:
                raise error_of(address, failure) from None
            except ValueError as failure:  # The connection was closed.
                raise Unreachable(address.text, str(failure)) from None
        raise Unreachable(address.text, "it ended the stream")
