"""Requests to yield, hold_at_least, deadlocks and explanations, with both clients."""

import asyncio
import contextlib
import threading
import time

import pytest
from conftest import LIMIT, eventually

import lockkeeper
from lockkeeper import Client, aio

LEAST = 0.4


@pytest.fixture
def client(coordinator):
    with Client(coordinator.address, client_name="deploy") as client:
        yield client


# --- requests to yield


def test_a_holder_is_asked_to_yield(client, coordinator):
    seen = []
    with Client(coordinator.address) as holder:
        with holder.lock("a", on_yield=seen.append) as lock:
            assert lock.yield_request is None
            answer = client.request_yield("a", reason="release 1.4", within=60)
            assert (answer.holder_count, answer.reached_count) == (1, 1)
            assert len(answer.reached) == 1
            assert lock.yield_requested.wait(LIMIT)
            asked = lock.yield_request
            assert (asked.name, asked.by, asked.reason) == ("a", "deploy", "release 1.4")
            assert 50 < asked.remaining <= 60 and not asked.preempts
            assert lock.valid_for > 0 and not lock.lost.is_set()
            eventually(lambda: seen == [asked], "the callback is called")
        with holder.lock("a") as lock:
            assert not lock.yield_requested.is_set(), "a later holder is not asked"


def test_several_locks_are_asked_by_their_names(client):
    with client.locks(["a", "b"]) as locks:
        client.request_yield("b", reason="why", within=0.2)
        assert locks.yield_requested.wait(LIMIT)
        assert locks.yield_request is None or locks.yield_request.name == "b"
        eventually(lambda: locks.yield_request is None, "the request stands no more")


def test_a_preempted_lock_is_lost(client):
    with pytest.raises(lockkeeper.LockLost) as lost, client.lock("a") as lock:
        client.request_yield("a", reason="host 7", within=0.2, preempt=True)
        assert lock.yield_requested.wait(LIMIT)
        assert lock.lost.wait(LIMIT)
        assert not client.lock("a", blocking=False).acquire(), "its holder has not stopped"
    assert (lost.value.reason, lost.value.detail) == ("PREEMPTED", "host 7")
    begun = time.monotonic()
    with client.lock("a"):
        assert time.monotonic() - begun < lost.value.valid_for, "the release opened it"


def test_an_owner_without_a_session_is_not_reached(client):
    assert client.try_acquire("a", owner="me")
    answer = client.request_yield("a", reason="why")
    assert (answer.holder_count, answer.reached_count) == (1, 0)
    assert [it.owner for it in answer.unreached] == ["me"]
    for options, reason in (
        ({"reason": ""}, "INVALID_REASON"),
        ({"reason": "why", "within": 7200}, "INVALID_WITHIN"),
    ):
        with pytest.raises(lockkeeper.Refused) as refused:
            client.request_yield("a", **options)
        assert refused.value.reason == reason
    with pytest.raises(lockkeeper.Misconfigured, match="grace_period"):
        client.request_yield("a", reason="why", preempt=True, grace_period=-1)


def test_a_task_is_asked_to_yield(coordinator):
    async def test():
        seen = []
        async with aio.Client(coordinator.address) as client:
            async with client.lock("a", on_yield=seen.append) as lock:
                answer = await client.request_yield("a", reason="why", within=60)
                assert answer.reached_count == 1
                await lock.yield_requested.wait()
                await asyncio.sleep(0)
                assert seen == [lock.yield_request]
            with pytest.raises(lockkeeper.LockLost) as lost:
                async with client.lock("a") as lock:
                    await client.request_yield("a", reason="why", within=0.1, preempt=True)
                    await asyncio.sleep(LIMIT)
            assert lost.value.reason == "PREEMPTED"

    asyncio.run(asyncio.wait_for(test(), LIMIT))


# --- held at least


@pytest.mark.parametrize("blocking", [True, False])
def test_a_lock_is_held_at_least(client, blocking):
    begun = time.monotonic()
    with client.lock("a", hold_at_least=LEAST, blocking=blocking):
        pass
    with client.lock("a"):
        assert time.monotonic() - begun >= LEAST


def test_a_lock_without_a_session_is_held_at_least(client):
    assert client.try_acquire("a", owner="me", hold_at_least=60)
    client.release("a", owner="me")
    assert client.try_acquire("a") is None


def test_wrong_uses_of_held_at_least(client):
    with pytest.raises(lockkeeper.Misconfigured, match="hold_at_least"):
        client.lock("a", hold_at_least=-1)
    with pytest.raises(lockkeeper.Refused) as refused:
        client.lock("a", mode="read", hold_at_least=LEAST).acquire()
    assert refused.value.reason == "INVALID_HOLD_AT_LEAST"


def test_a_task_holds_a_lock_at_least(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            begun = time.monotonic()
            async with client.lock("a", hold_at_least=LEAST):
                pass
            async with client.lock("a"):
                assert time.monotonic() - begun >= LEAST

    asyncio.run(asyncio.wait_for(test(), LIMIT))


# --- deadlocks


def test_a_deadlock_of_named_owners_ends(coordinator):
    """Two threads, each with an owner for all of its locks."""
    ended, done, both = [], [], threading.Barrier(2)

    def task(client, owner, first, second):
        options = {"owner": owner, "end_on_deadlock": True}
        with client.lock(first, **options):
            both.wait(LIMIT)
            lock = client.lock(second, **options)
            try:
                if lock.acquire():
                    lock.release()
                    done.append(owner)
            except lockkeeper.NotGranted as deadlock:
                ended.append(deadlock.reason)

    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(coordinator.address)) for _ in range(2)]
        threads = [
            threading.Thread(target=task, args=(clients[0], "one", "a", "b")),
            threading.Thread(target=task, args=(clients[1], "two", "b", "a")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
    assert ended == ["DEADLOCK"]
    assert len(done) == 1


@pytest.mark.parametrize("owner", ["worker", None])
def test_a_deadlock_is_explained(coordinator, owner):
    async def test():
        async with aio.Client(coordinator.address) as one, aio.Client(coordinator.address) as two:
            held = [one.lock("a", owner=owner), two.lock("b", owner=owner)]
            for lock in held:
                await lock.acquire()
            waits = [
                asyncio.ensure_future(one.lock("b", owner=owner).acquire()),
                asyncio.ensure_future(two.lock("a", owner=owner).acquire()),
            ]
            # An explanation with a cycle takes its time.
            while not (explained := await one.explain("a")).deadlocks:
                pass
            assert [it.name for it in explained.locks] == ["a", "b"]
            assert explained.deadlocks[0].is_possible is (owner is None)
            assert len(explained.deadlocks[0].waits) == 2
            for wait in waits:
                wait.cancel()

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_chain_is_explained(client):
    client.semaphore("s").set_permits(1)
    with client.lock("a", reason="release"), client.semaphore("s"):
        explained = client.explain("a")
        assert [it.name for it in explained.locks] == ["a"]
        assert explained.locks[0].holders[0].holder.note.reason == "release"
        assert client.explain("s").locks[0].is_semaphore
    with pytest.raises(lockkeeper.Refused):
        client.explain("")
