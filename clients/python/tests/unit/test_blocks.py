"""What ``with`` has acquired is released by its end, in whichever thread or task that is."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from sessions import LIMIT, in_thread
from world import grant, permits

import lockkeeper
from lockkeeper import LockLost, Misconfigured, aio
from lockkeeper._machine import events as ev
from lockkeeper._session import Held


class Session:
    """Grants everything, and knows what was not released."""

    def __init__(self):
        self.held = []
        self.flag = threading.Event

    def acquire(self, acquisition, _=None):
        name = acquisition.request.name
        if acquisition.kind.endswith("permits"):
            got = permits("id", name=name)
        else:
            got = grant(name, mode=acquisition.request.mode)
        self.held.append(Held(self, ev.Granted(0, [got], float("inf"))))
        return self.held[-1]

    def release(self, held):
        self.held.remove(held)
        held.check()


class AioSession(Session):
    """The same for tasks."""

    async def acquire(self, acquisition):
        return super().acquire(acquisition)

    async def release(self, held):
        super().release(held)


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def client(session, monkeypatch):
    client = lockkeeper.Client("127.0.0.1:1")
    monkeypatch.setattr(client, "_session", lambda: session)
    return client


@pytest.fixture
def threads():
    """Functions that run something in one of two threads."""
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        yield [lambda work, it=it: it.submit(work).result(LIMIT) for it in (one, two)]


def leave(lock, error=None):
    return lambda: lock.__exit__(type(error) if error else None, error, None)


# --- threads


def test_a_block_that_ends_in_another_thread_is_released(client, session, threads):
    lock = client.lock("a")
    one, two = threads
    one(lock.__enter__)
    two(leave(lock))
    assert session.held == []
    assert not lock.owned()
    one(lock.__enter__)
    one(leave(lock))
    assert session.held == []


def test_a_block_that_the_garbage_collector_ends_in_an_acquire_is_released(client, session):
    class Collected(dict):
        def setdefault(self, *entry):
            leave(lock)()
            return super().setdefault(*entry)

    lock = client.lock("a")
    in_thread(lock.__enter__).join(LIMIT)
    lock._guards = Collected(lock._guards)
    acquiring = in_thread(lock.acquire)
    acquiring.join(LIMIT)
    assert not acquiring.is_alive()
    assert len(session.held) == 1


def test_a_loss_is_raised_in_the_thread_in_which_the_block_ends(client, session, threads):
    lock = client.lock("a")
    threads[0](lock.__enter__)
    session.held[0].loss = LockLost("a", "EXPIRED")
    with pytest.raises(LockLost):
        threads[1](leave(lock))


def test_blocks_of_an_owner_are_left_from_the_inner_one(client, session):
    lock = client.lock("a", owner="me")
    with lock:
        outer = session.held[0]
        with lock:
            pass
        assert session.held == [outer]
        with lock:
            lock.release()
        assert session.held == [outer]
    assert session.held == []


def test_what_the_block_has_released_or_acquired_anew(client, session, threads):
    lock = client.lock("a")
    with lock:
        lock.release()
    with lock:
        threads[0](lock.release)
    with lock:
        lock.release()
        lock.acquire()
    assert session.held == []


def test_a_block_leaves_alone_what_others_hold(client, session, threads):
    lock = client.lock("a", "read")
    threads[0](lock.__enter__)
    with lock:
        assert len(session.held) == 2
    with lock:
        lock.release()
    threads[1](lock.acquire)
    with lock:
        lock.release()
    assert len(session.held) == 2
    threads[0](leave(lock))
    assert len(session.held) == 1
    threads[1](lock.release)
    assert session.held == []


def test_without_a_block_of_its_own_a_thread_leaves_only_an_unambiguous_one(
    client, session, threads, caplog
):
    lock = client.lock("a", "read")
    for thread in threads:
        thread(lock.__enter__)
    with pytest.raises(RuntimeError, match="which of the blocks"):
        leave(lock)()
    leave(lock, KeyError("mine"))()
    assert "which of the blocks" in caplog.text
    assert len(session.held) == 2
    threads[0](leave(lock))
    leave(lock)()
    assert session.held == []


def test_an_end_without_a_begin_releases_what_its_thread_holds(client, session):
    lock = client.lock("a")
    lock.acquire()
    with ExitStack() as stack:
        stack.push(lock)
    assert session.held == []
    with ExitStack() as stack:
        stack.push(lock)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
def test_only_the_thread_that_has_acquired_can_prove_it(client, threads, kind):
    one, two = threads
    lock = getattr(client, kind)("a")
    proof = "fencing_token" if kind == "lock" else "permit_ids"
    one(lock.acquire)
    assert (one(lock.owned), two(lock.owned)) == (True, False)
    assert one(lambda: getattr(lock, proof))
    with pytest.raises(RuntimeError, match="a: the caller has not acquired it"):
        two(lambda: getattr(lock, proof))
    assert two(lambda: lock.valid_for) > 0
    two(lock.release)
    assert one(lambda: getattr(lock, proof)), "it held it last"
    with pytest.raises(RuntimeError, match="a: the caller has not acquired it"):
        two(lambda: getattr(lock, proof))


def test_a_thread_is_not_an_earlier_one_with_the_same_number(client):
    lock = client.lock("a")
    in_thread(lock.acquire).join(LIMIT)
    seen = []
    in_thread(lambda: seen.append(lock.owned())).join(LIMIT)
    assert seen == [False]


def test_a_block_that_goes_on_in_another_thread_has_its_token(client, threads):
    lock = client.lock("a", "read")
    one, two = threads
    one(lock.__enter__)
    assert two(lambda: lock.fencing_token) == one(lambda: lock.fencing_token)
    assert not two(lock.owned)
    lock.__enter__()
    with pytest.raises(RuntimeError, match="has not acquired it"):
        two(lambda: lock.fencing_token)


def test_a_leadership_is_a_block_too(client, session, threads, monkeypatch):
    monkeypatch.setattr(lockkeeper._sync.election.Leadership, "proclaim", lambda *_: 1)
    leadership = client.election("a").campaign("me")
    threads[0](leadership.__enter__)
    threads[1](leave(leadership))
    assert session.held == []


@pytest.mark.parametrize("use", ["release", "extend", "offer", "proclaim", "__exit__"])
def test_a_fork_is_refused(client, monkeypatch, use):
    monkeypatch.setattr(lockkeeper._sync.election.Leadership, "proclaim", lambda *_: 1)
    leadership = client.election("a").campaign("me")
    leadership.__enter__()
    monkeypatch.undo()
    arguments = {"proclaim": ["me"], "__exit__": [None] * 3}.get(use, [])
    client._process += 1
    with pytest.raises(Misconfigured, match="after the fork"):
        getattr(leadership, use)(*arguments)


# --- tasks


def in_tasks(test):
    """Run a test with a lock of a session, in a loop."""

    async def run():
        session = AioSession()
        session.flag = asyncio.Event
        client = aio.Client("127.0.0.1:1")
        client._session = lambda: session
        await test(client, session)

    return lambda: asyncio.run(run())


async def in_task(coroutine):
    return await asyncio.ensure_future(coroutine)


@in_tasks
async def _left_in_another_task(client, session):
    lock = client.lock("a")
    await in_task(lock.__aenter__())
    await in_task(lock.__aexit__(None, None, None))
    assert session.held == []
    async with lock:
        assert len(session.held) == 1
    assert session.held == []


@in_tasks
async def _left_by_nobody_knows_which(client, session):
    lock = client.lock("a", "read")
    await asyncio.gather(lock.__aenter__(), lock.__aenter__())
    with pytest.raises(RuntimeError, match="which of the blocks"):
        await lock.__aexit__(None, None, None)
    assert len(session.held) == 2


@in_tasks
async def _cancelled_in_another_task(client, session):
    """A cancellation of the task that leaves is its own, and not that of the block."""
    lock = client.lock("a")
    entering = asyncio.ensure_future(lock.__aenter__())
    await entering
    held = session.held[0]
    held.loss = LockLost("a", "EXPIRED")
    for callback in held.on_lost:
        callback(held.loss)
    error = asyncio.CancelledError()
    await in_task(lock.__aexit__(type(error), error, None))
    assert session.held == []


@in_tasks
async def _proves_only_its_own(client, _):
    lock = client.lock("a")

    async def token():
        return lock.fencing_token

    async def owned():
        return lock.owned()

    await lock.acquire()
    assert await token() == 7
    assert (await owned(), await in_task(owned())) == (True, False)
    with pytest.raises(RuntimeError, match="a: the caller has not acquired it"):
        await in_task(token())
    await lock.release()
    async with lock:
        assert (await in_task(token()), await in_task(owned())) == (7, False)


@in_tasks
async def _acquired_by_a_task_of_its_own(client, _):
    lock = client.lock("a")
    await in_task(lock.acquire())
    assert (lock.owned(), lock.fencing_token) == (True, 7)


@in_tasks
async def _fork(client, _):
    lock = client.lock("a")
    await lock.acquire()
    client._process += 1
    with pytest.raises(Misconfigured, match="after the fork"):
        await lock.offer()


def test_a_block_that_ends_in_another_task_is_released():
    _left_in_another_task()


def test_a_task_leaves_only_an_unambiguous_block_of_others():
    _left_by_nobody_knows_which()


def test_a_task_that_leaves_has_cancellations_of_its_own():
    _cancelled_in_another_task()


def test_a_task_proves_only_what_it_has_acquired_or_was_handed():
    _proves_only_its_own()


def test_what_a_task_acquired_that_has_ended_is_that_of_who_goes_on():
    _acquired_by_a_task_of_its_own()


def test_an_offer_of_a_fork_is_refused():
    _fork()
