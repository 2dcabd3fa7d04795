"""What programs that use `redis.asyncio.lock.Lock` expect."""

import asyncio
import logging

import pytest
from conftest import LIMIT

from lockkeeper import LockLost
from lockkeeper.adapters.redis_py_asyncio import Lock, LockError, LockNotOwnedError
from lockkeeper.aio import Client


@pytest.fixture
def run(coordinator):
    """Run a test with a function that makes locks."""

    def run(test):
        async def with_client():
            async with Client(coordinator.address) as client:
                await test(lambda name="a", **options: Lock(client, name, **options))

        asyncio.run(asyncio.wait_for(with_client(), LIMIT))

    return run


async def lease_of(lock):
    lease = (await lock._client.describe(lock.name)).remaining_lease
    return lease.seconds + lease.nanos / 1e9


def test_one_of_two_objects_holds_it(run):
    async def test(make):
        first, second = make(blocking=False), make(blocking=False)
        assert not await first.locked()
        assert await first.acquire() is True
        assert await second.acquire() is False
        assert await first.acquire() is False, "it is not reentrant"
        assert (await first.owned(), await second.owned()) == (True, False)
        assert await second.locked()
        assert await second.acquire(blocking=True, blocking_timeout=0.05) is False
        waiter = asyncio.ensure_future(make(sleep=60).acquire())
        await asyncio.sleep(0)  # It waits, or will.
        await first.release()
        assert await waiter is True
        with pytest.raises(LockError, match="Cannot release an unlocked lock"):
            await first.release()

    run(test)


def test_with_holds_it(run):
    async def test(make):
        lock = make()
        async with lock as it:
            assert it is lock
            assert await lock.owned()
            assert lock.fencing_token > 0
            for options in ({}, {"raise_on_release_error": False}):
                with pytest.raises(LockError, match="Unable to acquire lock") as error:
                    async with make(blocking_timeout=0.05, **options):
                        pytest.fail("it is held twice")
                assert error.value.lock_name == "a"
        with pytest.raises(KeyError):
            async with lock:
                raise KeyError
        assert not await lock.locked()
        with pytest.raises(LockError, match="Cannot release an unlocked lock"):
            async with lock:
                await lock.release()

    run(test)


def test_a_loss_cancels_the_block(run, coordinator):
    async def test(make):
        losses = []
        with pytest.raises(LockNotOwnedError, match="no longer owned") as error:
            async with make(on_lost=losses.append):
                await asyncio.to_thread(coordinator.force_release, "a")
                await asyncio.sleep(LIMIT)
        assert isinstance(error.value.__cause__, LockLost)
        assert [it.reason for it in losses] == ["FORCE_RELEASED"]
        assert not await make().locked()

    run(test)


def test_a_loss_is_logged_if_that_is_wanted(run, coordinator, caplog):
    async def test(make):
        lock = make(raise_on_release_error=False)
        async with lock:
            await asyncio.to_thread(coordinator.force_release, "a")
            await lock.lost.wait()
        assert not await lock.owned()

    with caplog.at_level(logging.WARNING, "lockkeeper"):
        run(test)
    assert "Cannot release" in caplog.text


def test_a_timeout_is_a_lease(run, coordinator):
    async def test(make):
        lock = make(timeout=10)
        for method in (lambda: lock.extend(10), lock.reacquire):
            with pytest.raises(LockError, match="an unlocked lock"):
                await method()
        assert await lock.acquire()
        assert await lock.extend(10) is True
        assert 15 < await lease_of(lock) <= 20
        assert await lock.extend(30, replace_ttl=True) is True
        assert 25 < await lease_of(lock) <= 30
        assert await lock.reacquire() is True
        await asyncio.to_thread(coordinator.force_release, "a")
        with pytest.raises(LockNotOwnedError, match="Cannot extend"):
            await lock.extend(10)
        endless = make("b")
        assert await endless.acquire()
        for method in (lambda: endless.extend(10), endless.reacquire):
            with pytest.raises(LockError, match="a lock with no timeout"):
                await method()

    run(test)
