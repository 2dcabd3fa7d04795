"""What the asyncio client follows over several coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from lockkeeper._connect import Address, error_of
from lockkeeper._follow import EventT, Progress
from lockkeeper.errors import Error, Unreachable

if TYPE_CHECKING:
    from lockkeeper.aio._calls import Calls


async def follow(client: Calls, progress: Progress[EventT]) -> AsyncGenerator[EventT, None]:
    """Return what happens. It goes on at the next endpoint for as long as that takes."""
    client._check()
    while True:
        address = client._addresses[progress.endpoint]
        try:
            metadata = await client._connector.aio_metadata()
            async with client._observing_channel(address) as channel:
                request = progress.request()
                method = channel.unary_stream(
                    f"/lockkeeper.v1.{progress.method}",
                    type(request).SerializeToString,
                    progress.response.FromString,
                )
                call = method(request, timeout=progress.timeout(), metadata=metadata)
                while True:
                    for event in progress.taken(await _read(call, address)):
                        yield event
        except Error as failure:
            await asyncio.sleep(progress.failed(failure))


async def _read(call: Any, address: Address) -> Any:
    """Read an answer. gRPC reports a call that was cancelled as if the task were."""
    reading = asyncio.ensure_future(call.read())
    try:
        await asyncio.wait({reading})
    finally:
        reading.cancel()
    if reading.cancelled():
        raise Unreachable(address.text, "the connection was closed")
    try:
        response = reading.result()
    except grpc.RpcError as failure:
        raise error_of(address, failure) from None
    if response is grpc.aio.EOF:
        raise Unreachable(address.text, "it ended the stream")
    return response
