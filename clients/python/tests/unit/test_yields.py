"""Requests to yield a lock, and what elections make of a stream of events."""

import grpc
import pytest
from world import LEASE, World, duration, grant

from lockkeeper import NotGranted, Observed, Refused, SessionEnded, Unreachable
from lockkeeper._election import Observing
from lockkeeper._machine import events as ev
from lockkeeper.v1 import election_pb2, session_pb2

GONE = Unreachable("http://one:1", "Connection refused")


def notice(of, within=60.0):
    return session_pb2.YieldRequested(
        grant=of, by="ci", reason="release", within=duration(within), preempt=True
    )


def test_all_guards_of_a_grant_are_asked():
    world = World().quiet()
    guards = [world.hold("a"), world.hold("a")]
    world.hold("b")
    world.receive(yield_requested=notice(grant("a")))
    deadline = world.now + 60
    asked = world.take(ev.Asked)
    assert asked == [ev.Asked(it, "a", "ci", "release", deadline, preempts=True) for it in guards]
    assert world.effects == [], "nothing is lost or released"


@pytest.mark.parametrize(
    "other", [grant("a", token=6), grant("a", token=8), grant("b"), grant("a", owner="you"), None]
)
def test_a_notice_about_another_grant_is_ignored(other):
    world = World().quiet()
    world.hold("a")
    world.receive(yield_requested=notice(other))
    assert world.effects == []


def test_what_is_being_released_is_not_asked():
    world = World().quiet()
    world.release(world.hold("a"))
    world.sent("release")
    world.receive(yield_requested=notice(grant("a")))
    assert world.effects == []


@pytest.mark.parametrize(("within", "stands"), [(60.0, True), (0.05, False)])
def test_a_late_grant_comes_with_the_request_that_stands(within, stands):
    world = World().quiet()
    call = world.acquire("a")
    world.sent("acquire")
    world.after(LEASE / 2)
    world.receive(call, granted=grant("a"))
    renewal = world.sent("renew")
    world.receive(yield_requested=notice(grant("a"), within))
    world.none(ev.Asked)
    world.after(0.1)
    world.receive(renewal.op_id, renewed={"grant": grant("a")})
    world.one(ev.Granted)
    assert [it.guard for it in world.take(ev.Asked)] == ([call] if stands else [])


def test_the_next_hold_of_the_owner_is_asked_too():
    world = World().quiet()
    world.hold("a")
    world.receive(yield_requested=notice(grant("a")))
    world.one(ev.Asked)
    call = world.hold("a")
    assert world.one(ev.Asked).guard == call


def test_a_deadlock_has_a_text_of_its_own():
    assert "deadlock" in str(NotGranted("a", "DEADLOCK"))
    assert "deadlock" not in str(NotGranted("a", "WAIT_TIMEOUT"))


# --- observers


def leader(revision):
    it = election_pb2.Leadership(term=revision, value="v", revision=revision)
    return election_pb2.ObserveResponse(leader=it)


NOBODY = election_pb2.ObserveResponse(no_leader=election_pb2.NoLeader())
MISSED = election_pb2.ObserveResponse(missed=election_pb2.TermsMissed())


def test_an_observer_goes_on_after_what_it_has_seen():
    progress = Observing("e", 0, 2)
    assert list(progress.taken(NOBODY)) == [Observed()]
    assert list(progress.taken(leader(7))) == [Observed(leader(7).leader)]
    assert list(progress.taken(MISSED)) == [Observed(missed=True)]
    assert progress.failed(GONE) == 0.0
    assert (progress.endpoint, progress.request().after_revision) == (1, 7)
    assert progress.failed(GONE) > 0.0
    assert list(progress.taken(leader(8))) == [Observed(leader(8).leader)]


def test_an_observer_without_a_revision_may_have_missed_something():
    progress = Observing("e", 0, 1)
    list(progress.taken(NOBODY))
    progress.failed(GONE)
    assert list(progress.taken(NOBODY)) == [Observed(missed=True), Observed()]
    assert list(progress.taken(NOBODY)) == [Observed()]


def test_an_observer_ends_if_no_endpoint_answers_at_first():
    progress = Observing("e", 0, 2)
    assert progress.failed(GONE) == 0.0
    with pytest.raises(Unreachable):
        progress.failed(GONE)


@pytest.mark.parametrize(
    "error",
    [
        SessionEnded("closed"),
        Refused(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", ""),
        Refused(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_NAME", ""),
    ],
)
def test_an_observer_ends_with_what_would_be_refused_again(error):
    progress = Observing("e", 0, 2)
    list(progress.taken(NOBODY))
    assert progress.failed(Refused(grpc.StatusCode.UNAVAILABLE, "DRAINING", "")) == 0.0
    with pytest.raises(type(error)):
        progress.failed(error)
