"""Elections, with both clients."""

import asyncio
import threading

import pytest
import test_aio
from conftest import LIMIT, eventually

import lockkeeper
from lockkeeper import Client, Observed, aio

SECRET = "session.secret=a secret of the tests of this client"


@pytest.fixture
def client(coordinator):
    with Client(coordinator.address, client_name="node 1") as client:
        yield client


def leaders(observer):
    """Return an iterator of the leaders; between two of them there may be none."""
    for it in observer:
        assert not it.missed
        if it.leader:
            yield it.leader


def test_an_election(client):
    election = client.election("e")
    assert election.leader() is None
    observer = election.observe()
    assert next(observer) == Observed()
    seen, terms = leaders(observer), []

    def campaign():
        with election.campaign("three") as leadership:
            terms.append(leadership.term)
            assert next(seen).value == "three"

    with election.campaign("one", reason="why") as leadership:
        leader = next(seen)
        assert (leader.term, leader.value) == (leadership.term, "one")
        assert leader.client_name == "node 1"
        other = threading.Thread(target=campaign)
        other.start()
        eventually(lambda: client.describe("e").waiter_count == 1, "a candidate waits")
        assert client.describe("e").holders[0].note.reason == "why"
        revision = leadership.proclaim("two")
        leader = next(seen)
        assert (leader.value, leader.revision) == ("two", revision)
        assert election.leader() == leader
        assert not leadership.lost.is_set()
        leadership.resign()
        other.join(LIMIT)
        assert terms and terms[0] > leadership.term
        with pytest.raises(lockkeeper.Refused) as refused:
            leadership.proclaim("late")
        assert refused.value.reason == "NOT_OWNER"
    observer.close()
    assert list(observer) == []


def test_a_preferred_candidate_comes_first(client):
    election, led = client.election("e"), []

    def campaign(value, **options):
        def lead():
            with election.campaign(value, **options):
                led.append(value)

        thread = threading.Thread(target=lead)
        thread.start()
        return thread

    with election.campaign("first") as leadership:
        others = [campaign("waits")]
        eventually(lambda: client.describe("e").waiter_count == 1, "a candidate waits")
        others.append(campaign("preferred", preferred=True))
        assert leadership.yield_requested.wait(LIMIT)
    for other in others:
        other.join(LIMIT)
    assert led == ["preferred", "waits"]


def test_a_campaign_that_ends_leaves_no_candidate(client):
    election = client.election("e")
    with election.campaign("one"):
        assert not election.campaign("two", timeout=0.05).acquire()
        assert not election.campaign("two").acquire(blocking=False)
        with pytest.raises(lockkeeper.NotGranted), election.campaign("two", timeout=0.05):
            pytest.fail("two leaders")
    with pytest.raises(lockkeeper.Refused), election.campaign("a\nb"):
        pytest.fail("it cannot be proclaimed")
    described = client.describe("e")
    assert (described.holder_count, described.waiter_count) == (0, 0)


def test_a_leader_that_is_lost_is_told(client, coordinator):
    election = client.election("e")
    with pytest.raises(lockkeeper.LockLost):
        with election.campaign("one") as leadership:
            coordinator.force_release("e")
            assert leadership.lost.wait(LIMIT)
            with pytest.raises(lockkeeper.LockLost):
                leadership.proclaim("late")


def test_an_observer_is_told_what_it_missed(client):
    election = client.election("e")
    with election.campaign("0") as leadership:
        first = election.leader().revision
        for value in range(1, 71):
            leadership.proclaim(str(value))
        observer = election.observe(after_revision=first)
        assert next(observer) == Observed(missed=True)
        seen = leaders(observer)
        assert [int(next(seen).value) for _ in range(64)] == list(range(7, 71))


def test_an_observer_goes_on_at_another_coordinator(serve, redis):
    used, other = (serve(SECRET, f"store.url={redis}") for _ in range(2))
    with Client(other.address) as leader, Client([used.address, other.address]) as client:
        with leader.election("e").campaign("one") as leadership:
            seen = leaders(client.election("e").observe())
            assert next(seen).value == "one"
            used.kill()
            leadership.proclaim("two")
            leadership.proclaim("three")
            assert [next(seen).value, next(seen).value] == ["two", "three"]


def test_an_observer_ends(coordinator):
    client = Client(coordinator.address)
    with pytest.raises(lockkeeper.Refused) as refused:
        next(client.election("").observe())
    assert refused.value.reason == "INVALID_NAME"
    observer = client.election("e").observe()
    next(observer)
    closing = threading.Thread(target=observer.close)
    closing.start()
    assert list(observer) == []
    closing.join(LIMIT)
    observer = client.election("e").observe()
    next(observer)
    closing = threading.Thread(target=client.close)
    closing.start()
    with pytest.raises(lockkeeper.SessionEnded):
        next(observer)
    closing.join(LIMIT)
    coordinator.kill()
    with Client(coordinator.address) as client, pytest.raises(lockkeeper.Unreachable):
        next(client.election("e").observe())


# --- with asyncio


def run(test):
    asyncio.run(asyncio.wait_for(test, LIMIT))


def test_an_election_of_tasks(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            election = client.election("e")
            assert await election.leader() is None
            seen = election.observe()
            assert await seen.__anext__() == Observed()
            async with election.campaign("one") as leadership:
                leader = (await seen.__anext__()).leader
                assert (leader.term, leader.value) == (leadership.term, "one")
                assert not await election.campaign("two", timeout=0.05).acquire()
                revision = await leadership.proclaim("two")
                leader = (await seen.__anext__()).leader
                assert (leader.value, leader.revision) == ("two", revision)
                assert await election.leader() == leader
                waiting = asyncio.ensure_future(election.campaign("three").acquire())
                await asyncio.sleep(0)
                waiting.cancel()
                await leadership.resign()
            await seen.aclose()
            with pytest.raises(lockkeeper.Refused):
                await election.campaign("a\nb").acquire()

            async def is_free():
                return (await client.describe("e")).holder_count == 0

            await test_aio.eventually(is_free, "nobody leads")

    run(test())


def test_a_preferred_task_comes_first(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            election, led = client.election("e"), []

            async def campaign(value, **options):
                async with election.campaign(value, **options):
                    led.append(value)

            async with election.campaign("first") as leadership:
                others = [asyncio.ensure_future(campaign("waits"))]
                await test_aio.waiters(client, "e", 1)
                others.append(asyncio.ensure_future(campaign("preferred", preferred=True)))
                await leadership.yield_requested.wait()
            await asyncio.gather(*others)
            assert led == ["preferred", "waits"]

    run(test())


def test_a_lost_leadership_cancels_the_block(coordinator):
    async def test():
        async with aio.Client(coordinator.address) as client:
            with pytest.raises(lockkeeper.LockLost):
                async with client.election("e").campaign("one"):
                    await asyncio.to_thread(coordinator.force_release, "e")
                    await asyncio.sleep(LIMIT)

    run(test())


def test_a_task_observes_at_another_coordinator(serve, redis):
    used, other = (serve(SECRET, f"store.url={redis}") for _ in range(2))

    async def test():
        async with aio.Client(other.address) as leader:
            async with aio.Client([used.address, other.address]) as client:
                values = []
                async with leader.election("e").campaign("one") as leadership:
                    async for it in client.election("e").observe():
                        assert not it.missed
                        values += [it.leader.value] if it.leader else []
                        if values == ["one"]:
                            used.kill()
                            await leadership.proclaim("two")
                            await leadership.proclaim("three")
                        if values == ["one", "two", "three"]:
                            break

    run(test())


def test_an_observer_of_tasks_ends(coordinator):
    async def test():
        client = aio.Client(coordinator.address)
        with pytest.raises(lockkeeper.Refused):
            await client.election("").observe().__anext__()
        seen = client.election("e").observe()
        await seen.__anext__()
        reading = asyncio.ensure_future(seen.__anext__())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        seen = client.election("e").observe()
        await seen.__anext__()
        reading = asyncio.ensure_future(seen.__anext__())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(lockkeeper.SessionEnded):
            await reading
        coordinator.kill()
        async with aio.Client(coordinator.address) as client:
            with pytest.raises(lockkeeper.Unreachable):
                await client.election("e").observe().__anext__()

    run(test())
