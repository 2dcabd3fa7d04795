"""The asyncio client against a real coordinator."""

import asyncio
import itertools
import time
from contextlib import asynccontextmanager

import pytest
from conftest import LIMIT

import lockkeeper
from lockkeeper.aio import Client


def run(test):
    """Run a test in an event loop of its own, with a limit."""

    def wrapped(coordinator):
        async def limited():
            async with Client(coordinator.address, client_name="test") as client:
                await asyncio.wait_for(test(client, coordinator), LIMIT)

        asyncio.run(limited(), debug=True)

    wrapped.__name__ = test.__name__
    return wrapped


async def eventually(is_so, what):
    until = time.monotonic() + LIMIT
    while not await is_so():
        assert time.monotonic() < until, f"not in time: {what}"
        await asyncio.sleep(0.01)


async def waiters(client, name, count):
    async def are():
        return (await client.describe(name)).waiter_count == count

    await eventually(are, f"{count} waiters")


async def force_release(coordinator, name):
    await asyncio.get_running_loop().run_in_executor(None, coordinator.force_release, name)


# --- every kind


@run
async def test_a_lock_around_work(client, _):
    async with client.lock("a") as lock:
        assert lock.owned() and await lock.locked() and not lock.lost.is_set()
        assert 25 < lock.valid_for <= 30
        assert await client.check_token("a", lock.fencing_token)
        assert (await client.describe("a")).holders[0].client_name == "test"
    assert not lock.owned() and not await lock.locked()


@run
async def test_modes(client, _):
    for mode in ("exclusive", "fair", "write"):
        async with client.lock(mode, mode):
            assert not await client.lock(mode, mode, blocking=False).acquire()
            assert not await client.lock(mode, mode).acquire(timeout=0.1)
            with pytest.raises(lockkeeper.NotGranted):
                async with client.lock(mode, mode, timeout=0):
                    pytest.fail("two owners")
    async with client.lock("r", "read"), client.lock("r", "read"):
        assert not await client.lock("r", "write").acquire(blocking=False)


@run
async def test_several_locks_and_permits(client, _):
    async with client.locks(["b", ("a", "read")]) as locks:
        assert set(locks.fencing_tokens) == {"a", "b"}
        assert not await client.locks(["b", "c"]).acquire(blocking=False)
    pool = client.semaphore("pool", 2)
    await pool.set_permits(3)
    async with pool:
        assert len(pool.permit_ids) == 2
        assert (await pool.describe()).available == 1
        assert not await client.semaphore("pool", 2, timeout=0.1).acquire()


@run
async def test_a_latch(client, _):
    latch = client.latch("latch")
    assert await latch.set_count(2, ttl=60) == 2
    assert not await latch.wait(timeout=0.1)
    waiter = asyncio.ensure_future(latch.wait())
    assert [await latch.count_down(), await latch.count(), await latch.count_down()] == [1, 1, 0]
    assert await waiter
    assert not await latch.delete()


@run
async def test_a_decorated_function(client, _):
    @client.locked("a", timeout=0)
    async def job(number):
        assert await client.lock("a").locked()
        return number + 1

    assert await job(1) == 2


@run
async def test_a_lease_and_calls_without_a_session(client, _):
    async with client.lock("a", lease=1) as lock:
        await lock.extend(10)
        assert lock.valid_for > 8
    grant = await client.try_acquire("b", lease=5)
    assert await client.try_acquire("b") is None
    assert (await client.renew("b", owner=grant.owner, lease=8)).lease.seconds == 8
    assert await client.release("b", owner=grant.owner) == 0


@run
async def test_a_hand_over(client, coordinator):
    lock = client.lock("a")
    await lock.acquire()
    async with Client(coordinator.address) as taker:
        taken = taker.claim("a", await lock.offer())
        assert await taken.acquire(timeout=5)
        assert taken.fencing_token > lock.fencing_token
        await asyncio.wait_for(lock.lost.wait(), LIMIT)
        async with taker.lock("b") as other:
            assert other.owned() and taken.owned()


# --- tasks


@run
async def test_a_block_that_ends_in_another_task(client, _):
    lock = client.lock("a")
    await asyncio.ensure_future(lock.__aenter__())
    await asyncio.ensure_future(lock.__aexit__(None, None, None))
    assert not await lock.locked()


@run
async def test_tasks_exclude_each_other_through_one_object(client, _):
    lock, inside, most = client.lock("a"), [], []

    async def work():
        for _ in range(10):
            async with lock:
                inside.append(1)
                most.append(len(inside))
                await asyncio.sleep(0)
                inside.pop()

    await asyncio.gather(*(work() for _ in range(8)))
    assert len(most) == 80 and max(most) == 1


@run
async def test_a_cancelled_task_leaves_the_queue(client, _):
    async with client.lock("a"):
        wait = asyncio.ensure_future(client.lock("a").acquire())
        await waiters(client, "a", 1)
        wait.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wait
        await waiters(client, "a", 0)
    assert await client.lock("a").acquire(timeout=5)


@run
async def test_a_cancel_at_any_moment_leaves_nothing(client, _):
    for turn in itertools.count():
        wait = asyncio.ensure_future(client.lock("a").acquire())
        await asyncio.sleep(turn * 0.0002)
        wait.cancel()
        await asyncio.gather(wait, return_exceptions=True)
        if not wait.cancelled():
            break  # It was granted before.
    assert (await client.describe("a")).holder_count == 1
    assert (await client.describe("a")).waiter_count == 0


# --- losses


@run
async def test_the_block_is_cancelled_at_a_loss(client, coordinator):
    def operate():
        coordinator.force_release("a")
        return time.monotonic()

    seen = []
    with pytest.raises(lockkeeper.LockLost) as lost:
        async with client.lock("a", on_lost=seen.append) as lock:
            released = asyncio.get_running_loop().run_in_executor(None, operate)
            await asyncio.sleep(LIMIT)
    ended_at = time.monotonic()
    # The notice may come before the answer to the operator.
    assert ended_at - await released < 0.1
    assert (lost.value.reason, lost.value.detail) == ("FORCE_RELEASED", "maintenance")
    assert isinstance(lost.value.__context__, asyncio.CancelledError)
    assert lock.lost.is_set() and len(seen) == 1
    await asyncio.sleep(0)  # The task is not cancelled any more.


@run
async def test_the_tasks_that_the_block_awaits_are_cancelled_too(client, coordinator):
    ended = []

    async def child():
        try:
            await asyncio.sleep(LIMIT)
        finally:
            ended.append(True)

    with pytest.raises(lockkeeper.LockLost):
        async with client.lock("a"):
            released = asyncio.ensure_future(force_release(coordinator, "a"))
            await asyncio.gather(child(), child())
    await released
    assert ended == [True, True]


@run
async def test_the_inner_of_two_locks_is_lost(client, coordinator):
    async with client.lock("outer") as outer:
        with pytest.raises(lockkeeper.LockLost, match="inner"):
            async with client.lock("inner"):
                await force_release(coordinator, "inner")
                await asyncio.sleep(LIMIT)
        assert outer.owned()


@run
async def test_the_outer_of_two_locks_is_lost(client, coordinator):
    with pytest.raises(lockkeeper.LockLost, match="outer"):
        async with client.lock("outer"), client.lock("inner") as inner:
            await force_release(coordinator, "outer")
            await asyncio.sleep(LIMIT)
    assert not await inner.locked()


@run
async def test_a_cancel_from_outside_stays_one(client, _):
    # The store has the lock before its task does: a cancelled acquire releases it later.
    is_working = asyncio.Event()

    async def work():
        async with client.lock("a"):
            is_working.set()
            await asyncio.sleep(LIMIT)

    task = asyncio.ensure_future(work())
    await is_working.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not await client.lock("a").locked()


@run
async def test_a_timeout_around_a_block_that_lost_is_a_loss(client, coordinator):
    async def work():
        async with client.lock("a"):
            await force_release(coordinator, "a")
            await asyncio.sleep(LIMIT)

    with pytest.raises(lockkeeper.LockLost):
        await asyncio.wait_for(work(), LIMIT)


@run
async def test_without_a_block_only_the_release_says_so(client, coordinator):
    lock = client.lock("a")
    await lock.acquire()
    await force_release(coordinator, "a")
    await asyncio.wait_for(lock.lost.wait(), 1)
    with pytest.raises(lockkeeper.LockLost):
        await lock.release()


# --- the session


@run
async def test_close_releases(client, coordinator):
    async with Client(coordinator.address) as other:
        lock = other.lock("a")
        await lock.acquire()
    assert lock.lost.is_set()
    assert await client.lock("a").acquire(blocking=False)
    with pytest.raises(lockkeeper.SessionEnded):
        await other.lock("a").acquire()


def test_a_restart_is_not_noticed(serve, redis):
    settings = ["session.secret=a secret of the tests of this client", f"store.url={redis}"]
    coordinator, events = serve(*settings), []

    async def work():
        async with Client(coordinator.address, lease=6, on_event=events.append) as client:
            async with client.lock("a") as lock:
                waiter = asyncio.ensure_future(client.lock("a").acquire())
                await waiters(client, "a", 1)
                coordinator.kill()
                coordinator.restart()
                assert await client.check_token("a", lock.fencing_token)
                assert not waiter.done() and lock.owned()
            assert await asyncio.wait_for(waiter, LIMIT)

    asyncio.run(work())
    assert [it.state for it in events][:3] == ["connected", "resuming", "connected"]


def test_a_frozen_coordinator_is_left_for_another(serve, redis):
    import signal

    settings = ["session.secret=a secret of the tests of this client", f"store.url={redis}"]
    first, second = serve(*settings), serve(*settings)

    async def work():
        async with Client([first.address, second.address], lease=6) as client:
            async with client.lock("a") as lock:
                first.process.send_signal(signal.SIGSTOP)
                assert await client.check_token("a", lock.fencing_token)
                assert lock.owned()

    try:
        asyncio.run(work())
    finally:
        first.process.send_signal(signal.SIGCONT)


def test_another_loop_is_refused(coordinator):
    client = Client(coordinator.address)
    asyncio.run(client.close())
    with pytest.raises(lockkeeper.Misconfigured, match="another event loop"):
        asyncio.run(client.lock("a").acquire())


# --- TLS and tokens


@asynccontextmanager
async def connected(address, **options):
    async with Client(address, **options) as client:
        await client.connect()
        yield client


def error_of(address, **options):
    async def attempt():
        async with connected(address, **options):
            pytest.fail("connected")

    begun = time.monotonic()
    with pytest.raises(lockkeeper.Error) as error:
        asyncio.run(attempt())
    assert time.monotonic() - begun < 8
    assert "\n" not in str(error.value)
    return error.value


def test_tls_client_certificates_and_tokens(serve, certificate, tmp_path):
    cert, key = certificate("server", "DNS:localhost", "IP:127.0.0.1")
    other, other_key = certificate("other", "DNS:other")
    own, own_key = certificate("own", "DNS:own", authority=(other, other_key))
    tokens = tmp_path / "tokens"
    tokens.write_text("tester 0123456789abcdef\n")
    tls = [f"server.tls.certificate_file={cert}", f"server.tls.key_file={key}"]
    plain, secure = serve(), serve(*tls)
    both = serve(*tls, f"server.tls.client_ca_file={other}", f"auth.token_file={tokens}")
    url = f"https://{secure.address}"

    async def good():
        async with connected(url, ca_file=cert) as client, client.lock("a") as lock:
            assert lock.owned()
        token = tmp_path / "token"
        token.write_text("0123456789abcdef\n")
        files = {"ca_file": cert, "cert_file": own, "key_file": own_key}

        async def fetched():
            return "0123456789abcdef"

        for way in ({"token_file": token}, {"token": "0123456789abcdef"}, {"token": fetched}):
            async with connected(f"https://{both.address}", **files, **way) as client:
                await client.describe("a")

    asyncio.run(good())
    texts = {
        "is not trusted": error_of(url, ca_file=other),
        "for another name": error_of(url, ca_file=cert, server_name="elsewhere"),
        "begins with https://": error_of(f"http://{secure.address}"),
        "begins with http://": error_of(f"https://{plain.address}", ca_file=cert),
        "client certificate": error_of(f"https://{both.address}", ca_file=cert),
    }
    for text, error in texts.items():
        assert isinstance(error, lockkeeper.Unreachable), error
        assert text in str(error), error
        assert error.address in str(error)


def test_without_a_file_the_authorities_of_the_system_are_trusted(
    serve, certificate, tmp_path, monkeypatch
):
    cert, key = certificate("server", "DNS:localhost", "IP:127.0.0.1")
    other, _ = certificate("other", "DNS:other")
    secure = serve(f"server.tls.certificate_file={cert}", f"server.tls.key_file={key}")

    async def connects():
        async with connected(f"https://{secure.address}") as client:
            await client.describe("a")

    monkeypatch.delenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    asyncio.run(connects())
    folder = tmp_path / "authorities"
    folder.mkdir()
    (folder / "0a1b2c3d.0").write_bytes(cert.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_DIR", str(folder))
    asyncio.run(connects())
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    assert "is not trusted" in str(error_of(f"https://{secure.address}"))


def test_a_wrong_token_is_refused_and_a_missing_file_is_named(serve, tmp_path):
    tokens = tmp_path / "tokens"
    tokens.write_text("tester 0123456789abcdef\n")
    address = serve(f"auth.token_file={tokens}").address
    refused = error_of(address, token="wrong")
    assert getattr(refused, "reason", None) == "UNAUTHENTICATED", refused
    assert isinstance(error_of(address, token_file="/nowhere"), lockkeeper.Misconfigured)
    assert isinstance(error_of(address, token="two\nlines"), lockkeeper.Misconfigured)


def test_the_trace_context_is_passed_on():
    trace = pytest.importorskip("opentelemetry.trace")
    from lockkeeper import _tracing

    context = trace.SpanContext(0x1234, 0x56, is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(context)):
        assert _tracing.traceparent() == f"00-{0x1234:032x}-{0x56:016x}-01"
    assert _tracing.traceparent() == ""
