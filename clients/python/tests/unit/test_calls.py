"""Calls without a session share connections, of which one that fails is replaced."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from sessions import LIMIT, ScriptedAioSession, ScriptedSession, eventually, hooks, opened
from world import failure

import lockkeeper
from lockkeeper import SessionEnded, Unreachable, aio
from lockkeeper._machine import events as ev
from lockkeeper.v1 import lock_pb2


class Coordinator(grpc.GenericRpcHandler):
    """Describes every lock; `slow` when it is told to, and `away` not at all.

    If it has a reason to, it refuses everything.
    """

    reason = ""

    def __init__(self):
        self.waiting, self.may_answer = threading.Event(), threading.Event()
        self.calls = 0

    def service(self, _):
        return grpc.unary_unary_rpc_method_handler(
            self._describe,
            lock_pb2.DescribeRequest.FromString,
            lock_pb2.DescribeResponse.SerializeToString,
        )

    def _describe(self, request, context):
        self.calls += 1
        if self.reason:
            details = failure(self.reason).SerializeToString()
            context.set_trailing_metadata((("grpc-status-details-bin", details),))
            context.abort(grpc.StatusCode.UNAVAILABLE, "scripted")
        if request.name == "away":
            context.abort(grpc.StatusCode.UNAVAILABLE, "away")
        if request.name == "slow":
            self.waiting.set()
            self.may_answer.wait(LIMIT)
        return lock_pb2.DescribeResponse(holder_count=1)


@contextlib.contextmanager
def started():
    coordinator = Coordinator()
    server = grpc.server(ThreadPoolExecutor(4), handlers=[coordinator])
    coordinator.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield coordinator
    coordinator.may_answer.set()
    server.stop(None).wait()


@pytest.fixture
def coordinator():
    with started() as coordinator:
        yield coordinator


@pytest.fixture
def unfit():
    """A coordinator that refuses what another one may execute."""
    with started() as coordinator:
        yield coordinator


def counted(connector, name):
    """Return the connections that are made from now on, and those that were closed."""
    made, closed, make = [], [], getattr(connector, name)

    def channel(address):
        made.append(make(address))
        close = made[-1].close

        def closing(*options):
            closed.append(made.index(it))
            return close(*options)

        it = made[-1]
        it.close = closing
        return it

    setattr(connector, name, channel)
    return made, closed


def test_a_call_that_fails_leaves_others_of_its_connection_alone(coordinator):
    with lockkeeper.Client(coordinator.address) as client, ThreadPoolExecutor(1) as pool:
        made, closed = counted(client._connector, "channel")
        slow = pool.submit(client.describe, "slow")
        assert coordinator.waiting.wait(LIMIT)
        for _ in range(2):
            with pytest.raises(Unreachable, match="away"):
                client.describe("away")
        assert len(made) == 2, "the next connection has the certificates of its time"
        assert 0 not in closed
        coordinator.may_answer.set()
        assert slow.result(LIMIT).holder_count == 1
        eventually(lambda: 0 in closed)
        assert client.describe("a").holder_count == 1
    assert set(closed) == set(range(len(made)))


def test_a_connection_that_is_closed_meanwhile_is_no_bug_of_the_user(coordinator):
    with lockkeeper.Client(coordinator.address) as client:
        made, _ = counted(client._connector, "channel")
        client.describe("a")
        made[0].close()
        with pytest.raises(Unreachable, match="closed channel"):
            client.describe("a")
        assert client.describe("a").holder_count == 1


def test_a_closed_client_makes_no_connection(coordinator):
    with lockkeeper.Client([coordinator.address] * 2) as client, ThreadPoolExecutor(1) as pool:
        made, _ = counted(client._connector, "channel")
        slow = pool.submit(client.describe, "slow")
        assert coordinator.waiting.wait(LIMIT)
        client.close()
        with pytest.raises(SessionEnded, match="the client is closed"):
            slow.result(LIMIT)
        assert len(made) == 1


def test_a_call_that_fails_leaves_others_of_its_connection_alone_in_a_loop(coordinator):
    async def work():
        async with aio.Client(coordinator.address) as client:
            made, closed = counted(client._connector, "aio_channel")
            slow = asyncio.ensure_future(client.describe("slow"))
            await asyncio.to_thread(coordinator.waiting.wait, LIMIT)
            for _ in range(2):
                with pytest.raises(Unreachable, match="away"):
                    await client.describe("away")
            assert len(made) == 2
            assert 0 not in closed
            coordinator.may_answer.set()
            assert (await slow).holder_count == 1
            assert 0 in closed
            assert (await client.describe("a")).holder_count == 1
            await made[-1].close()
            with pytest.raises(Unreachable, match="closed"):
                await client.describe("a")
            assert (await client.describe("a")).holder_count == 1
        assert set(closed) == set(range(len(made)))

    asyncio.run(asyncio.wait_for(work(), LIMIT))


def test_a_call_does_not_wait_for_a_session_that_is_resumed(coordinator, monkeypatch):
    monkeypatch.setattr("lockkeeper._sync.calls.CALL_TIMEOUT", 0.1)
    with lockkeeper.Client(coordinator.address) as client, ThreadPoolExecutor(1) as pool:
        session = client._shared = ScriptedSession()
        assert client.describe("a").holder_count == 1, "it is opened"
        session.deliver(opened())
        eventually(lambda: session.state == "connected")
        waiting = pool.submit(client.describe, "a")
        eventually(lambda: session.sent)
        session.deliver(ev.StreamEnded(1, None))
        with pytest.raises(Unreachable):
            waiting.result(LIMIT)
        assert client.describe("a").holder_count == 1, "it is resumed"
        client._shared = None


def test_a_call_does_not_wait_for_a_session_that_is_resumed_in_a_loop(coordinator, monkeypatch):
    monkeypatch.setattr("lockkeeper.aio._calls.CALL_TIMEOUT", 0.1)

    async def work():
        async with aio.Client(coordinator.address) as client:
            session = client._shared = ScriptedAioSession(hooks(asyncio.Event))
            assert (await client.describe("a")).holder_count == 1
            session.deliver(opened())
            waiting = asyncio.ensure_future(client.describe("a"))
            await asyncio.sleep(0)
            assert session.sent
            session.deliver(ev.StreamEnded(1, None))
            with pytest.raises(Unreachable):
                await waiting
            assert (await client.describe("a")).holder_count == 1
            client._shared = None

    asyncio.run(asyncio.wait_for(work(), LIMIT))


@pytest.mark.parametrize("reason", ["DRAINING", "STORE_UNAVAILABLE"])
def test_a_call_goes_on_elsewhere_and_the_next_begins_there(unfit, coordinator, reason):
    unfit.reason = reason
    with lockkeeper.Client([unfit.address, coordinator.address]) as client:
        for _ in range(3):
            assert client.describe("a").holder_count == 1
        assert (unfit.calls, coordinator.calls) == (1, 3)
        unfit.reason, coordinator.reason = "", "DRAINING"
        for _ in range(2):
            assert client.describe("a").holder_count == 1
        assert (unfit.calls, coordinator.calls) == (3, 4)


@pytest.mark.parametrize("reason", ["DRAINING", "STORE_UNAVAILABLE"])
def test_a_call_goes_on_elsewhere_and_the_next_begins_there_in_a_loop(unfit, coordinator, reason):
    unfit.reason = reason

    async def work():
        async with aio.Client([unfit.address, coordinator.address]) as client:
            for _ in range(3):
                assert (await client.describe("a")).holder_count == 1
            assert (unfit.calls, coordinator.calls) == (1, 3)
            unfit.reason, coordinator.reason = "", "DRAINING"
            for _ in range(2):
                assert (await client.describe("a")).holder_count == 1
            assert (unfit.calls, coordinator.calls) == (3, 4)

    asyncio.run(asyncio.wait_for(work(), LIMIT))
