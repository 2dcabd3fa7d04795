"""A wait limit that passes while no stream is open ends the wait in the client."""

import pytest
from world import PING, World, failure, grant

from lockkeeper import Refused, Unreachable
from lockkeeper._machine import events as ev
from lockkeeper.v1 import latch_pb2, lock_pb2

GONE = Unreachable("http://one:1", "reset")
DOWN = Unreachable("http://two:2", "Connection refused")


def ended(world, call):
    """Take the failure of a wait whose limit passed."""
    failed = world.one(ev.Failed)
    assert failed.op_id == call
    assert isinstance(failed.error, Unreachable)
    return failed.error.address, failed.error.cause


def broken():
    world = World(chance=1.0).quiet()
    world.breaks(GONE)
    return world


def test_a_limit_that_passes_without_a_stream_ends_the_wait():
    world = broken()
    call = world.acquire(wait=0.5)
    world.after(0.1)
    world.breaks(DOWN)
    world.after(0.3)
    world.none(ev.Failed)
    world.after(0.2)
    assert ended(world, call) == ("http://two:2", "Connection refused")
    world.opened()
    assert world.frames() == []


def test_an_uncertain_wait_ends_as_if_its_caller_gave_up():
    world = World().quiet()
    call = world.acquire(wait=0.5)
    first = world.sent("acquire").acquire.request_id
    world.breaks(GONE)
    assert [it.name for it in world.resuming().grants] == ["a"]
    world.after(0.5)
    assert ended(world, call) == ("http://one:1", "reset")
    world.opened(grants=[grant()])
    again, cancel = world.frames()
    assert (again.op_id, again.acquire.request_id) == (call, first)
    assert cancel.WhichOneof("request") == "cancel"
    world.receive(call, granted=grant())
    assert world.sent("release").release.name == "a"


def test_the_coordinator_decides_while_the_stream_is_open():
    world = World().quiet()
    call = world.acquire(wait=0.5)
    world.after(1.0)
    world.none(ev.Failed)
    world.breaks(GONE)
    assert ended(world, call) == ("http://one:1", "reset")


def test_a_resume_in_time_leaves_the_limit_to_the_coordinator():
    world = World().quiet()
    world.acquire(wait=0.5)
    world.breaks(GONE)
    world.resumed()
    world.after(PING)
    world.none(ev.Failed)


def test_a_silent_stream_overruns_the_limit_by_two_pings():
    world = World().open()
    call = world.acquire(wait=0.5)
    world.after(2 * PING)
    assert ended(world, call) == ("http://one:1", "no answer to a ping")


def test_a_wait_that_is_over_on_a_stream_tries_once():
    world = World().quiet()
    call = world.acquire(wait=0.1)
    world.sent("acquire")
    world.receive(call, failed=failure("STORE_UNAVAILABLE", retry=0.4))
    world.after(0.4)
    assert world.sent("acquire").acquire.wait_timeout.ToMilliseconds() == 0


def test_a_pause_before_a_retry_that_the_end_of_the_stream_cuts_has_the_limit():
    world = World().quiet()
    call = world.acquire(wait=0.5)
    world.receive(call, failed=failure("STORE_UNAVAILABLE", retry=2.0))
    world.breaks(GONE)
    world.after(0.5)
    assert ended(world, call) == ("http://one:1", "reset")


def test_the_limit_covers_the_opening_of_the_session():
    world = World(["http://one:1"])
    world.step(ev.Open())
    call, attempt = world.acquire(wait=0.5), world.acquire("b", wait=0.0)
    world.after(0.5)
    assert ended(world, call) == ("http://one:1", "it has not answered yet")
    world.opened()
    assert world.sent("acquire").op_id == attempt


def test_a_limit_of_zero_ends_at_once_while_a_session_is_resumed():
    world = broken()
    assert ended(world, world.acquire(wait=0.0)) == ("http://one:1", "reset")


def test_a_refusal_is_told_with_the_address():
    world = World().quiet()
    call = world.acquire(wait=0.5)
    world.breaks(GONE)
    world.after(0.1)
    world.breaks(Refused.of(failure("UNAUTHENTICATED", code=16)))
    world.after(0.5)
    assert ended(world, call) == ("http://two:2", "UNAUTHENTICATED: scripted")


def test_a_claim_has_a_limit_only_in_the_client():
    world = World().quiet()
    ticket = lock_pb2.ClaimRequest(name="a", owner="me", ticket="t")
    call = world.call("claim", ticket, wait_until=world.now + 0.5)
    world.receive(world.sent("claim").op_id, claimed=lock_pb2.ClaimResponse(grant=grant()))
    assert world.one(ev.Granted).op_id == call
    call = world.call("claim", ticket, wait_until=world.now + 0.5)
    world.breaks(GONE)
    world.after(0.5)
    assert ended(world, call)


def attempt(world, **more):
    return world.call("try_acquire", lock_pb2.TryAcquireRequest(name="a", owner="me"), **more)


def ask(world):
    return world.call("describe_latch", latch_pb2.DescribeLatchRequest(name="a"))


@pytest.mark.parametrize("start", [attempt, ask])
def test_a_try_and_a_question_last_6_s_while_a_session_is_resumed(start):
    world = broken()
    call = start(world)
    world.after(5.9)
    world.none(ev.Failed)
    world.after(0.1)
    assert ended(world, call)


def test_a_try_without_a_limit_waits_for_each_endpoint_of_a_new_session():
    world = World()
    world.step(ev.Open())
    call = attempt(world)
    world.after(6.0)
    world.none(ev.Failed)
    world.opened()
    assert world.sent("try_acquire").op_id == call


def test_a_failure_after_the_limit_ends_it_and_a_late_grant_is_released():
    world = World().quiet()
    call = attempt(world, wait_until=world.now + 0.3)
    world.receive(call, failed=failure("OUTCOME_UNKNOWN", retry=0.4))
    world.none(ev.Failed)
    world.after(0.4)
    world.receive(call, failed=failure("STORE_UNAVAILABLE"))
    assert world.one(ev.Failed).error.reason == "STORE_UNAVAILABLE"
    world.after(0.2)
    world.frames()
    tried = lock_pb2.TryAcquireResponse(acquired=True, grant=grant())
    world.receive(call, tried=tried)
    assert world.sent("release").release.name == "a"
