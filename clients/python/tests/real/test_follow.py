"""Lock delays, hand-over by ticket, watches, and waits until a lock is free, with both clients."""

import asyncio
import threading

import pytest
from conftest import LIMIT, eventually

import lockkeeper
from lockkeeper import Client, aio
from lockkeeper.v1 import lock_pb2


@pytest.fixture
def client(coordinator):
    with Client(coordinator.address, client_name="node 1") as client:
        yield client


def run(test):
    asyncio.run(asyncio.wait_for(test, LIMIT))


# --- lock delay


def test_a_lock_stays_closed_after_a_loss(client):
    lock = client.lock("a", lease=0.2, lock_delay=60)
    for blocking in (True, False):
        assert lock.acquire(blocking=blocking)
        assert lock.lost.wait(LIMIT)
        with pytest.raises(lockkeeper.NotGranted) as busy, client.lock("a", blocking=False):
            pytest.fail("it is open")
        assert busy.value.holder_remaining_lease > 30
        with pytest.raises(lockkeeper.LockLost):
            lock.release()
        # The late release ends the delay.
        with client.lock("a", timeout=LIMIT):
            pass
    with client.lock("a", lock_delay=60):
        pass
    assert client.lock("a", blocking=False).acquire(), "a release ends the delay"


def test_a_lock_without_a_session_stays_closed(client):
    assert client.try_acquire("a", owner="me", lease=0.1, lock_delay=60)
    eventually(
        lambda: (
            not client.describe("a").holders[0].remaining_lease.ToMilliseconds()
            and client.describe("a").remaining_lease.seconds > 30
        ),
        "the lease has ended, and the delay has not",
    )


# --- hand-over


def test_a_lock_is_handed_over(coordinator):
    with Client(coordinator.address) as giver, Client(coordinator.address) as taker:
        lock = giver.lock("a")
        assert lock.acquire()
        ticket = lock.offer(within=60)
        assert not lock.lost.is_set() and lock.valid_for > 0
        with taker.claim("a", ticket, owner="worker") as taken:
            assert taken.fencing_token > lock.fencing_token
            assert taken.valid_for > 0
            assert lock.lost.wait(LIMIT)
            assert lock.loss.reason == "HANDED_OVER"
            with pytest.raises(lockkeeper.LockLost):
                lock.offer()
            with pytest.raises(lockkeeper.LockLost):
                lock.release()
            assert [it.owner for it in taker.describe("a").holders] == ["worker"]
            with pytest.raises(lockkeeper.Refused) as refused:
                giver.claim("a", ticket).acquire(blocking=False)
            assert (refused.value.reason, refused.value.metadata["state"]) == (
                "TICKET_REFUSED",
                "over",
            )
        assert giver.lock("a", blocking=False).acquire()


def test_what_cannot_be_handed_over(client):
    with client.locks(["a", "b"]) as locks, pytest.raises(lockkeeper.Misconfigured):
        locks.offer()
    with client.lock("a", lock_delay=1) as lock, pytest.raises(lockkeeper.Refused) as refused:
        client.claim("a", lock.offer()).acquire()
    assert refused.value.metadata["state"] == "unfit"
    with client.lock("a") as lock:
        with pytest.raises(lockkeeper.Misconfigured):
            lock.offer(within=-1)
        with pytest.raises(lockkeeper.Refused) as refused:
            lock.offer(within=3600)
        assert refused.value.reason == "INVALID_WITHIN"


def test_a_task_hands_a_lock_over(coordinator):
    async def test():
        async with (
            aio.Client(coordinator.address) as giver,
            aio.Client(coordinator.address) as taker,
        ):
            lock = giver.lock("a", lock_delay=None)
            await lock.acquire()
            async with taker.claim("a", await lock.offer()) as taken:
                assert taken.fencing_token > lock.fencing_token
                await lock.lost.wait()
                assert lock.loss.reason == "HANDED_OVER"
            assert await giver.lock("a", blocking=False, lock_delay=1).acquire()

    run(test())


# --- watches


def seen_by(watch):
    """Return what a watch sees, without the number of waiters."""
    return (it for it in watch if it.WhichOneof("event") != "waiters")


def test_a_lock_is_watched(client):
    with client.lock("a", reason="why") as lock:
        watch = client.watch_lock("a")
        seen = seen_by(watch)
        state = next(seen).state
        assert [it.client_name for it in state.holders] == ["node 1"]
        assert state.holders[0].note.reason == "why"
        assert state.last_fencing_token == lock.fencing_token
    assert next(seen).ended.end == lock_pb2.GRANT_END_RELEASED
    assert next(seen).free.last_fencing_token == lock.fencing_token
    with client.lock("a") as lock:
        assert next(seen).granted.fencing_token == lock.fencing_token
        closing = threading.Thread(target=watch.close)
        closing.start()
        assert list(seen) == []
        closing.join(LIMIT)


def test_a_watch_goes_on_at_another_coordinator(serve, redis):
    used, other = (serve(f"store.url={redis}") for _ in range(2))
    with Client(other.address) as holder, Client([used.address, other.address]) as client:
        seen = seen_by(client.watch_lock("a"))
        assert next(seen).state.holder_count == 0
        used.kill()
        with holder.lock("a") as lock:
            event = next(it for it in seen if it.WhichOneof("event") != "granted")
            assert event.gap.reason == lock_pb2.LOCK_GAP_REASON_UNHEARD
            state = next(seen).state
            assert (state.holder_count, state.last_fencing_token) == (1, lock.fencing_token)


def test_a_watch_that_is_refused(client):
    with pytest.raises(lockkeeper.Refused) as refused:
        next(client.watch_lock(""))
    assert refused.value.reason == "INVALID_NAME"


def test_a_task_watches_at_another_coordinator(serve, redis):
    used, other = (serve(f"store.url={redis}") for _ in range(2))

    async def test():
        async with aio.Client([used.address, other.address]) as client:
            kinds = []
            async for event in client.watch_lock("a"):
                kinds.append(event.WhichOneof("event"))
                if kinds == ["state"]:
                    used.kill()
                if len(kinds) == 3:
                    break
            assert kinds == ["state", "gap", "state"]

    run(test())


def test_a_watch_is_collected_while_another_thread_has_the_mutex(client):
    watch = client.watch_lock("a")
    next(watch)
    collects = threading.Thread(target=watch._events.close, daemon=True)
    with client._mutex:
        collects.start()
        collects.join(LIMIT)
        assert not collects.is_alive()
    assert not client._observing


# --- waits until a lock is free


def test_a_lock_is_awaited_without_acquiring_it(client):
    assert client.await_free("a")
    with client.lock("a"):
        assert not client.await_free("a", timeout=0)
        assert not client.await_free("a", timeout=0.05)
        ends = []
        waiting = threading.Thread(target=lambda: ends.append(client.await_free("a")))
        waiting.start()
    waiting.join(LIMIT)
    assert ends == [True]
    assert client.lock("a", blocking=False).acquire()
    with pytest.raises(lockkeeper.Refused):
        client.await_free("")
    with pytest.raises(lockkeeper.Misconfigured):
        client.await_free("a", timeout=-1)


def test_a_wait_until_it_is_free_goes_on_or_ends(serve, redis):
    used, other = (serve(f"store.url={redis}") for _ in range(2))
    began = threading.Semaphore(0)

    class Spy(Client):
        def _observing_channel(self, address):
            began.release()
            return super()._observing_channel(address)

    with Client(other.address) as holder, Spy([used.address, other.address]) as client:
        with holder.lock("a"):
            ends = []
            waiting = threading.Thread(target=lambda: ends.append(client.await_free("a")))
            waiting.start()
            assert began.acquire(timeout=LIMIT)
            used.kill()
            assert began.acquire(timeout=LIMIT), "it goes on"
        waiting.join(LIMIT)
        assert ends == [True]
        other.kill()
        with pytest.raises(lockkeeper.Unreachable):
            client.await_free("a", timeout=0.1)


def test_a_task_awaits_a_lock(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            async with client.lock("a"):
                assert not await client.await_free("a", timeout=0.05)
                waiting = asyncio.ensure_future(client.await_free("a", timeout=LIMIT))
                abandoned = asyncio.ensure_future(client.await_free("a"))
                await asyncio.sleep(0)
                abandoned.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await abandoned
            assert await waiting

    run(test())
