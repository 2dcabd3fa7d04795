"""What programs that use `redis.lock.Lock` expect."""

import logging
import pickle
import threading
import time

import pytest
from conftest import LIMIT, eventually

import lockkeeper
from lockkeeper import Client
from lockkeeper.adapters.redis_py import Lock, LockError, LockNotOwnedError


@pytest.fixture
def client(coordinator):
    with Client(coordinator.address) as client:
        yield client


@pytest.fixture
def make(client):
    return lambda name="a", **options: Lock(client, name, **options)


def lease_of(client, name="a"):
    lease = client.describe(name).remaining_lease
    return lease.seconds + lease.nanos / 1e9


# --- acquiring


def test_one_of_two_objects_holds_it(make):
    first, second = make(blocking=False), make(blocking=False)
    assert not first.locked()
    assert first.acquire() is True
    assert second.acquire() is False
    assert (first.owned(), second.owned()) == (True, False)
    assert first.locked()
    assert second.locked()
    first.release()
    assert not first.locked()
    assert second.acquire() is True
    second.release()


def test_an_object_is_not_reentrant(make):
    lock = make()
    assert lock.acquire()
    assert lock.acquire(blocking=False) is False
    assert lock.owned()
    lock.release()


def test_the_arguments_come_before_the_options(make):
    held, waiter = make(), make(blocking=False)
    assert held.acquire()
    begun = time.monotonic()
    assert waiter.acquire(blocking=True, blocking_timeout=0.2) is False
    assert time.monotonic() - begun >= 0.2
    assert waiter.acquire(sleep=9) is False
    assert make(blocking_timeout=0).acquire() is False
    held.release()


def test_a_waiter_is_woken_by_the_release(make):
    held, waiter = make(), make(sleep=60)
    assert held.acquire()
    results = []
    thread = threading.Thread(target=lambda: results.append(waiter.acquire()))
    thread.start()
    eventually(lambda: held._client.describe("a").waiter_count == 1, "it waits")
    held.release()
    thread.join(LIMIT)
    assert results == [True]


@pytest.mark.parametrize("timeout", [2, 1.5])
def test_a_timeout_is_a_lease(client, make, timeout):
    assert make(timeout=timeout).acquire()
    assert timeout - 1 < lease_of(client) <= timeout


def test_without_a_timeout_it_is_renewed(serve):
    with Client(serve().address, lease=1) as client:
        lock = Lock(client, "a")
        assert lock.acquire()
        begun = time.monotonic()
        eventually(lambda: time.monotonic() - begun > 2, "two leases have passed")
        assert lock.owned()
        lock.release()


# --- with


def test_with_holds_it(make):
    lock = make()
    with lock as it:
        assert it is lock
        assert lock.owned()
        assert lock.fencing_token > 0
    assert not lock.locked()


def test_with_releases_after_an_error(make):
    lock = make()
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert not lock.locked()


def test_with_says_that_it_was_not_acquired(make):
    held = make()
    assert held.acquire()
    with pytest.raises(LockError, match="Unable to acquire lock") as error:
        with make(blocking_timeout=0.1):
            pytest.fail("it is held twice")
    assert error.value.lock_name == "a"
    held.release()


@pytest.mark.parametrize("is_released", [True, False])
def test_with_raises_or_logs_that_it_is_not_held(make, coordinator, caplog, is_released):
    def ends(lock):
        with lock:
            if is_released:
                lock.release()
            else:
                coordinator.force_release("a")
                assert lock.lost.wait(LIMIT)

    with pytest.raises(LockError) as error:
        ends(make())
    assert isinstance(error.value, LockNotOwnedError) is not is_released
    with caplog.at_level(logging.WARNING, "lockkeeper"):
        ends(make(raise_on_release_error=False))
    assert "Cannot release" in caplog.text


# --- releasing


def test_an_unlocked_lock_is_not_released(make):
    lock = make()
    with pytest.raises(LockError, match="Cannot release an unlocked lock") as error:
        lock.release()
    assert not isinstance(error.value, LockNotOwnedError)
    assert isinstance(error.value, (lockkeeper.Error, ValueError))
    assert pickle.loads(pickle.dumps(error.value)).lock_name == "a"


def test_a_lost_lock_is_not_released(make, coordinator):
    losses = []
    lock = make(on_lost=losses.append)
    assert lock.acquire()
    lost = lock.lost
    coordinator.force_release("a")
    assert lost.wait(LIMIT)
    assert not lock.owned()
    with make(blocking=False):
        with pytest.raises(LockNotOwnedError, match="no longer owned"):
            lock.release()
        assert lock.locked()
        with pytest.raises(LockError, match="Cannot release an unlocked lock"):
            lock.release()
    eventually(lambda: [it.reason for it in losses] == ["FORCE_RELEASED"], "it is reported")


def test_only_the_thread_that_acquired_it_releases_it(make):
    def outcome_in_a_thread(lock):
        outcomes = []

        def release():
            try:
                lock.release()
                outcomes.append("released")
            except LockError as error:
                outcomes.append(str(error))

        thread = threading.Thread(target=release)
        thread.start()
        thread.join(LIMIT)
        return outcomes

    lock = make()
    assert lock.acquire()
    assert outcome_in_a_thread(lock) == ["Cannot release an unlocked lock"]
    assert lock.owned()
    lock.release()
    lock = make(thread_local=False)
    assert lock.acquire()
    assert outcome_in_a_thread(lock) == ["released"]
    assert not lock.locked()


# --- the lease


def test_extend_adds_time(client, make):
    lock = make(timeout=10)
    assert lock.acquire(blocking=False)
    assert lock.extend(10) is True
    assert 15 < lease_of(client) <= 20
    assert lock.extend(0.5) is True
    assert 15 < lease_of(client) <= 20.5
    lock.release()


def test_extend_replaces_the_lease_unless_that_shortens_it(client, make):
    lock = make(timeout=10)
    assert lock.acquire(blocking=False)
    assert lock.extend(30, replace_ttl=True) is True
    assert 25 < lease_of(client) <= 30
    assert lock.extend(5, replace_ttl=True) is True
    assert 20 < lease_of(client) <= 30
    lock.release()


def test_reacquire_starts_the_lease_anew(client, make):
    lock = make(timeout=10)
    assert lock.acquire(blocking=False)
    before = client.describe("a").last_fencing_token
    eventually(lambda: lease_of(client) < 9.8, "some of the lease has passed")
    assert lock.reacquire() is True
    assert 9.8 < lease_of(client) <= 10
    assert client.describe("a").last_fencing_token == before
    lock.release()


@pytest.mark.parametrize("method", ["extend", "reacquire"])
def test_what_is_not_held_is_not_extended(make, coordinator, method):
    def extend(lock):
        return lock.extend(10) if method == "extend" else lock.reacquire()

    with pytest.raises(LockError, match=f"Cannot {method} an unlocked lock"):
        extend(make(timeout=10))
    lock = make()
    assert lock.acquire()
    with pytest.raises(LockError, match=f"Cannot {method} a lock with no timeout"):
        extend(lock)
    lock.release()
    lock = make(timeout=10)
    assert lock.acquire()
    coordinator.force_release("a")
    with pytest.raises(LockNotOwnedError, match=f"Cannot {method} a lock that's no longer owned"):
        extend(lock)
