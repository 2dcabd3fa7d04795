"""Notes of holders and forced releases with a grace period, with both clients."""

import asyncio
import pickle
import threading
import time

import pytest
from conftest import LIMIT

import lockkeeper
from lockkeeper import Client, aio
from lockkeeper.v1 import types_pb2

WHY = {"reason": "release 1.4", "labels": {"team": "web", "run": "7"}}
NOTE = types_pb2.Note(**WHY)
GRACE = 15


@pytest.fixture
def client(coordinator):
    with Client(coordinator.address) as client:
        yield client


def refusal(lock):
    with pytest.raises(lockkeeper.NotGranted) as busy, lock:
        pytest.fail("two owners")
    return busy.value


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("is_one", [True, False])
def test_a_note_is_shown_to_others(client, blocking, is_one):
    options = {"blocking": blocking, **WHY}
    with client.lock("a", **options) if is_one else client.locks(["a", "b"], **options):
        for options in ({"timeout": 0.05}, {"blocking": False}):
            assert refusal(client.lock("a", **options)).holder_note == NOTE
            assert refusal(client.locks(["c", "a"], **options)).holder_note == NOTE
        assert client.describe("a").holders[0].note == NOTE
        error = refusal(client.lock("a", blocking=False))
        assert pickle.loads(pickle.dumps(error)).holder_note == NOTE
    with client.lock("a"):
        assert refusal(client.lock("a", blocking=False)).holder_note is None


def test_a_wait_logs_the_note(client, caplog):
    caplog.set_level("DEBUG", "lockkeeper")
    with client.lock("a", **WHY):
        refusal(client.lock("a", timeout=0.05))
    assert "release 1.4" in caplog.text


def test_a_note_without_a_session(client):
    assert client.try_acquire("a", **WHY)
    assert refusal(client.lock("a", blocking=False)).holder_note == NOTE


def test_a_bad_note_is_refused(client):
    with pytest.raises(lockkeeper.Misconfigured, match="labels"):
        client.lock("a", labels={"run": 7})
    for options, reason in (
        ({"reason": 257 * "x"}, "INVALID_NOTE_REASON"),
        ({"labels": {"a=b": ""}}, "INVALID_NOTE_LABELS"),
    ):
        with pytest.raises(lockkeeper.Refused) as refused:
            client.lock("a", **options).acquire()
        assert refused.value.reason == reason


def test_a_note_with_asyncio(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            async with client.lock("a", **WHY), client.locks(["b", "c"], **WHY):
                for name in ("a", "b"):
                    with pytest.raises(lockkeeper.NotGranted) as busy:
                        async with client.lock(name, timeout=0.05):
                            pytest.fail("two owners")
                    assert busy.value.holder_note == NOTE
                    assert (await client.describe(name)).holders[0].note == NOTE
            assert await client.try_acquire("d", **WHY)
            assert (await client.describe("d")).holders[0].note == NOTE

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_forced_release_waits_for_the_holder(client):
    acquired_at = []

    def wait():
        with client.lock("a"):
            acquired_at.append(time.monotonic())

    waiter = threading.Thread(target=wait)
    with pytest.raises(lockkeeper.LockLost) as lost, client.lock("a") as lock:
        waiter.start()
        begun = time.monotonic()
        forced = client.force_release("a", reason="maintenance", grace_period=GRACE)
        assert forced.released and forced.holder_count == 1 and forced.closed_for.seconds > 0
        assert lock.lost.wait(LIMIT)
        took = time.monotonic() - begun
        assert GRACE - took - 1 < lock.loss.valid_for <= GRACE
        assert lock.valid_for == 0
        assert not client.lock("a", blocking=False).acquire(), "it is open"
        released_at = time.monotonic()
    waiter.join(LIMIT)
    assert released_at < acquired_at[0] < begun + lost.value.valid_for
    copy = pickle.loads(pickle.dumps(lost.value))
    assert copy.valid_for == lost.value.valid_for


def test_a_forced_release_waits_for_a_task(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            lock = client.lock("a")
            await lock.acquire()
            assert (await client.force_release("a", reason="why", grace_period=GRACE)).released
            await lock.lost.wait()
            assert 0 < lock.loss.valid_for <= GRACE
            assert not await client.lock("a", blocking=False).acquire(), "it is open"
            with pytest.raises(lockkeeper.LockLost):
                await lock.release()
            async with client.lock("a", timeout=GRACE / 2):
                pass

    asyncio.run(asyncio.wait_for(test(), LIMIT))


def test_a_forced_release_uses_the_coordinator_that_answers(coordinator, client):
    nobody = "127.0.0.1:1"
    with Client([nobody, coordinator.address]) as operator, client.lock("a") as lock:
        assert operator.force_release("a", reason="why").released
        assert lock.lost.wait(LIMIT)
        with pytest.raises(lockkeeper.LockLost):
            lock.release()
        assert not operator.force_release("a", reason="why").released
        with pytest.raises(lockkeeper.Refused) as refused:
            operator.force_release("a", reason=" ")
        assert refused.value.reason == "INVALID_REASON"
        with pytest.raises(lockkeeper.Misconfigured, match="grace_period"):
            operator.force_release("a", reason="why", grace_period=-1)
    with Client(nobody) as operator, pytest.raises(lockkeeper.Unreachable):
        operator.force_release("a", reason="why")
