"""A proxy that passes on the end of a stream when it has the client's, as that of Go does."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from sessions import opened

import lockkeeper
from lockkeeper import aio
from lockkeeper.v1 import session_pb2


class Coordinator(grpc.GenericRpcHandler):
    """Opens sessions, and ends them when their streams are half-closed after `close`."""

    def service(self, _):
        return grpc.stream_stream_rpc_method_handler(
            self._session,
            session_pb2.SessionRequest.FromString,
            session_pb2.SessionResponse.SerializeToString,
        )

    def _session(self, frames, context):
        last = None
        for frame in frames:
            if frame.HasField("open"):
                yield opened().frame
            last = frame
        if not last.HasField("close"):
            context.abort(grpc.StatusCode.ABORTED, "half-closed too early")


@pytest.fixture
def address():
    server = grpc.server(ThreadPoolExecutor(2), handlers=[Coordinator()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_close_half_closes_the_stream(address):
    client = lockkeeper.Client(address)
    client.connect()
    client.close()


def test_close_half_closes_the_stream_in_a_loop(address):
    async def work():
        client = aio.Client(address)
        await client.connect()
        await client.close()

    asyncio.run(work())
