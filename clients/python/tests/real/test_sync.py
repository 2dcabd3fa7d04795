"""The synchronous client against a real coordinator."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager

import pytest
from conftest import LIMIT, eventually

import lockkeeper
from lockkeeper import Client


@pytest.fixture
def client(coordinator):
    with Client(coordinator.address, client_name="test") as client:
        yield client


# --- every kind


def test_a_lock_around_work(client):
    with client.lock("a") as lock:
        assert lock.owned() and lock.locked() and not lock.lost.is_set()
        assert 25 < lock.valid_for <= 30
        assert client.check_token("a", lock.fencing_token)
        assert client.describe("a").holders[0].client_name == "test"
    assert not lock.owned() and not lock.locked()


@pytest.mark.parametrize("mode", ["exclusive", "fair", "write"])
def test_a_mode_with_one_owner(client, mode):
    with client.lock("a", mode):
        assert not client.lock("a", mode, blocking=False).acquire()
        assert not client.lock("a", mode).acquire(timeout=0.1)
        with pytest.raises(lockkeeper.NotGranted) as busy, client.lock("a", mode, timeout=0):
            pytest.fail("two owners")
        assert busy.value.reason == "WAIT_TIMEOUT"
        assert busy.value.holder_remaining_lease > 0


def test_readers_share(client):
    with client.lock("a", "read"), client.lock("a", "read"):
        assert not client.lock("a", "write").acquire(blocking=False)


def test_an_owner_may_acquire_again(client):
    lock = client.lock("a", owner="me")
    with lock, lock:
        assert client.describe("a").holders[0].hold_count == 2
    assert not lock.locked()


def test_an_object_is_not_reentrant_without_an_owner(client):
    lock = client.lock("a")
    with lock, pytest.raises(RuntimeError, match="held already"):
        lock.acquire()
    with pytest.raises(RuntimeError, match="not held"):
        lock.release()


def test_several_locks(client):
    with client.locks(["b", ("a", "read")]) as locks:
        assert set(locks.fencing_tokens) == {"a", "b"}
        assert not client.locks(["b", "c"]).acquire(blocking=False)
        assert client.lock("c").acquire(blocking=False)


def test_a_semaphore(client):
    pool = client.semaphore("pool", 2)
    assert pool.set_permits(3).total == 3
    assert not pool.set_permits(5, only_if_absent=True).created
    with pool:
        assert len(pool.permit_ids) == 2
        assert pool.describe().available == 1
        assert not client.semaphore("pool", 2, timeout=0.1).acquire()
    assert pool.describe().available == 3


def test_a_latch(client):
    latch = client.latch("latch")
    assert latch.set_count(2, ttl=60) == 2
    assert latch.set_count(5) == 2
    assert not latch.wait(timeout=0.1)
    waiter = threading.Thread(target=latch.wait)
    waiter.start()
    assert [latch.count_down(), latch.count(), latch.count_down()] == [1, 1, 0]
    waiter.join(LIMIT)
    assert latch.wait() and not latch.delete()


def test_a_decorated_function(client):
    @client.locked("a", timeout=0)
    def job(number):
        assert client.lock("a").locked()
        return number + 1

    assert job(1) == 2
    with client.lock("a"), pytest.raises(lockkeeper.NotGranted):
        job(1)


def test_a_lease_and_its_extension(client):
    with client.lock("a", lease=1) as lock:
        assert lock.valid_for <= 1
        lock.extend(10)
        assert lock.valid_for > 8


def test_a_hand_over(client, coordinator):
    lock = client.lock("a")
    lock.acquire()
    with Client(coordinator.address) as taker:
        taken = taker.claim("a", lock.offer())
        # A claim does not wait, and bears a limit.
        assert taken.acquire(timeout=5)
        assert taken.fencing_token > lock.fencing_token
        assert lock.lost.wait(LIMIT) and lock.loss.reason == "HANDED_OVER"
        with taker.lock("b") as other:  # The session goes on.
            assert other.owned() and taken.owned()
        with pytest.raises(lockkeeper.Refused):
            taker.claim("a", "no ticket").acquire(timeout=5)


def test_a_block_that_ends_in_another_thread(client):
    lock = client.lock("a")
    for step in (lock.__enter__, lambda: lock.__exit__(None, None, None)):
        thread = threading.Thread(target=step)
        thread.start()
        thread.join(LIMIT)
    assert not lock.locked()


def test_calls_without_a_session(coordinator):
    with Client(coordinator.address) as client:
        grant = client.try_acquire("a", lease=5)
        assert client.try_acquire("a", owner="other") is None
        assert client.renew("a", owner=grant.owner, lease=8).lease.seconds == 8
        assert client.check_token("a", grant.fencing_token)
        assert client.describe("a").holder_count == 1
        assert client.release("a", owner=grant.owner) == 0
        with pytest.raises(lockkeeper.Refused) as refused:
            client.release("a", owner=grant.owner)
        assert refused.value.reason == "NOT_OWNER"
        assert client._shared is None, "no session was opened"


# --- threads


def test_threads_exclude_each_other(client):
    inside, most = [], []

    def work():
        for _ in range(20):
            with lock:
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    lock = client.lock("a")
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert len(most) == 160 and max(most) == 1


def test_a_wait_is_cancelled_by_another_thread(client):
    lock, ends = client.lock("a"), []

    def wait():
        try:
            lock.acquire()
        except CancelledError:
            ends.append("cancelled")

    with client.lock("a"):
        thread = threading.Thread(target=wait)
        thread.start()
        eventually(lambda: client.describe("a").waiter_count == 1, "it waits")
        lock.cancel()
        thread.join(LIMIT)
        assert ends == ["cancelled"]
        eventually(lambda: client.describe("a").waiter_count == 0, "it left")


def test_an_interrupt_ends_the_wait(client):
    def interrupt():
        eventually(lambda: client.describe("a").waiter_count == 1, "it waits")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    # A shell starts programs in the background with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with client.lock("a"):
            threading.Thread(target=interrupt).start()
            with pytest.raises(KeyboardInterrupt):
                client.lock("a").acquire()
            eventually(lambda: client.describe("a").waiter_count == 0, "it left")
    finally:
        signal.signal(signal.SIGINT, before)


# --- losses


def test_a_forced_release_is_seen_within_100_ms(client, coordinator):
    called = []
    with pytest.raises(lockkeeper.LockLost) as lost:
        with client.lock("a", on_lost=called.append) as lock:
            coordinator.force_release("a")
            begun = time.monotonic()
            assert lock.lost.wait(LIMIT)
            # The notice may have come before the answer to the operator.
            assert time.monotonic() - begun < 0.1
            assert lock.valid_for == 0 and not lock.owned()
    assert (lost.value.reason, lost.value.detail) == ("FORCE_RELEASED", "maintenance")
    assert lost.value.fencing_token == lock.fencing_token
    eventually(lambda: len(called) == 1, "the callback")
    assert isinstance(pickle.loads(pickle.dumps(lost.value)), lockkeeper.LockLost)


def test_a_loss_takes_the_place_of_an_error_of_the_block(client, coordinator):
    with pytest.raises(lockkeeper.LockLost) as lost, client.lock("a") as lock:
        coordinator.force_release("a")
        lock.lost.wait(LIMIT)
        raise KeyError("stopped")
    assert isinstance(lost.value.__context__, KeyError)
    with pytest.raises(SystemExit), client.lock("a") as lock:
        coordinator.force_release("a")
        lock.lost.wait(LIMIT)
        raise SystemExit


def test_an_error_of_the_block_releases(client):
    with pytest.raises(KeyError), client.lock("a"):
        raise KeyError("mine")
    assert not client.lock("a").locked()


# --- the session


def test_close_releases(coordinator):
    client, other = Client(coordinator.address), Client(coordinator.address)
    lock = client.lock("a")
    lock.acquire()
    client.close()
    assert lock.lost.is_set() and lock.loss.reason == "UNSPECIFIED"
    assert other.lock("a").acquire(blocking=False)
    with pytest.raises(lockkeeper.SessionEnded):
        client.lock("a").acquire()
    client.close()
    other.close()


def test_a_restart_is_not_noticed(serve, redis):
    settings = ["session.secret=a secret of the tests of this client", f"store.url={redis}"]
    coordinator, events = serve(*settings), []
    with Client(coordinator.address, lease=6, on_event=events.append) as client:
        with client.lock("a") as lock:
            token = lock.fencing_token
            for _ in range(2):
                seen = len(events)
                coordinator.kill()
                coordinator.restart()
                eventually(lambda seen=seen: len(events) >= seen + 2, "it was resumed")
            assert client.check_token("a", token)
            assert not client.lock("a").acquire(blocking=False)
            assert not lock.lost.is_set() and lock.owned()
        assert [it.state for it in events][:3] == ["connected", "resuming", "connected"]


def test_the_other_coordinator_is_used_while_one_drains(serve, redis):
    settings = ["session.secret=a secret of the tests of this client", f"store.url={redis}"]
    first, second = serve(*settings), serve(*settings)
    with Client([first.address, second.address]) as client, client.lock("a") as lock:
        first.drain()
        assert client.check_token("a", lock.fencing_token)
        assert lock.owned()


def test_a_session_that_ended_is_lost_and_the_next_acquire_opens_another(serve):
    coordinator, events = serve(), []
    with Client(coordinator.address, lease=3, on_event=events.append) as client:
        lock = client.lock("a")
        lock.acquire()
        coordinator.kill()
        coordinator.restart()  # Its store was memory, and so was its secret.
        assert lock.lost.wait(LIMIT)
        assert lock.loss.reason == "UNSPECIFIED"
        with pytest.raises(lockkeeper.LockLost):
            lock.release()
        assert lock.acquire()
        lock.release()
    assert [it.state for it in events][:4] == ["connected", "resuming", "ended", "connected"]


def test_a_unix_socket(serve, tmp_path):
    socket = tmp_path / "lockkeeper.sock"
    serve(f"server.uds_path={socket}")
    with Client(f"unix://{socket}") as client, client.lock("a") as lock:
        assert client.check_token("a", lock.fencing_token)


# --- errors


def test_nobody_there_is_said_in_one_line():
    begun = time.monotonic()
    with Client("127.0.0.1:1") as client, pytest.raises(lockkeeper.Unreachable) as error:
        client.lock("a").acquire()
    assert str(error.value) == "no coordinator at http://127.0.0.1:1: Connection refused"
    assert time.monotonic() - begun < 8


def test_a_silent_address_is_given_up():
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begun = time.monotonic()
        with Client(f"127.0.0.1:{silent.getsockname()[1]}") as client:
            with pytest.raises(lockkeeper.Unreachable, match="it does not answer"):
                client.connect()
        assert 5 < time.monotonic() - begun < 8


@contextmanager
def ended_by_the_limit(address):
    begun = time.monotonic()
    with pytest.raises(lockkeeper.Unreachable) as error:
        yield
    assert 0.3 <= time.monotonic() - begun < 5
    assert error.value.address == f"http://{address}"
    assert error.value.cause


def test_the_limit_holds_while_no_coordinator_answers(serve):
    import socket

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with Client(address) as client, ended_by_the_limit(address):
            client.lock("a", timeout=0.3).acquire()
    coordinator = serve()
    client = Client(coordinator.address)
    client.connect()
    coordinator.kill()
    with ended_by_the_limit(coordinator.address):
        client.lock("a").acquire(timeout=0.3)
    with ended_by_the_limit(coordinator.address):
        client.lock("a").acquire(blocking=False, timeout=0.3)
    with ended_by_the_limit(coordinator.address):
        client.latch("b").wait(timeout=0.3)
    with pytest.raises(lockkeeper.SessionEnded):
        client.close()


def test_wrong_options_name_the_field():
    for field, make in {
        "endpoints": lambda: Client("redis://a:1"),
        "lease": lambda: Client(lease=-1),
        "mode": lambda: Client().lock("a", mode="shared"),
        "timeout": lambda: Client().lock("a").acquire(timeout="soon"),
        "token, token_file": lambda: Client(token="a", token_file="b"),
        "cert_file, key_file": lambda: Client("https://a:1", cert_file="b"),
        "ca_file": lambda: Client("https://a:1", ca_file="/nowhere"),
    }.items():
        with pytest.raises(lockkeeper.Misconfigured, match=f"^{field}: "):
            make()
    with pytest.raises(lockkeeper.Misconfigured, match="must begin with https"):
        Client("a:1", ca_file="b")


def test_a_refusal_has_its_reason(client):
    with pytest.raises(lockkeeper.Refused) as refused:
        client.lock("").acquire()
    assert (refused.value.reason, refused.value.code.name) == ("INVALID_NAME", "INVALID_ARGUMENT")


# --- forks


def test_a_fork_is_refused_and_leaves_the_parent_alone(coordinator):
    program = f"""
import os, lockkeeper
events = []
client = lockkeeper.Client({coordinator.address!r}, on_event=events.append)
lock = client.lock("a")
lock.acquire()
child = os.fork()
if child == 0:
    uses = [lock.release, lock.offer, client.lock("b").acquire, lambda: client.describe("a")]
    uses += [lock.acquire]
    uses += [lock.owned, lambda: lock.valid_for, lambda: lock.lost, lambda: lock.loss]
    uses += [lambda: lock.yield_request, lambda: lock.fencing_token, client.close]
    for use in uses:
        try:
            use()
        except lockkeeper.Misconfigured as error:
            assert "after the fork" in str(error), error
        else:
            os._exit(9)
    with lockkeeper.Client({coordinator.address!r}) as own:
        assert not own.lock("a").acquire(blocking=False)
    raise SystemExit(0)  # With all destructors.
assert os.waitpid(child, 0)[1] == 0, "the child failed"
assert client.check_token("a", lock.fencing_token)
lock.release()
client.close()
assert [it.state for it in events][:1] == ["connected"], events
assert not any(it.state == "resuming" for it in events), "the parent was disturbed"
"""
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=os.environ)
    assert ran.returncode == 0, ran


def test_a_block_that_ends_in_the_thread_of_the_session_is_left_without_waiting(client):
    """The garbage collector can run it there, as that of a generator in a cycle."""
    lock = client.lock("a")
    lock.acquire()
    session = client._session()
    step = session._step

    def collects(event):
        session._step = step
        lock.release()
        step(event)

    session._step = collects
    with client.lock("b", timeout=LIMIT):
        assert client.await_free("a", timeout=LIMIT)
