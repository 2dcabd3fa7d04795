"""The table "Operations" of clients/session-machine.md, row by row."""

import pytest
from world import LEASE, World, failure, grant, permits

from lockkeeper import NotGranted, Refused, Unreachable
from lockkeeper._machine import events as ev
from lockkeeper.v1 import latch_pb2, lock_pb2, semaphore_pb2, types_pb2

GONE = Unreachable("http://one:1", "Connection refused")
TIMEOUT = types_pb2.NOT_GRANTED_REASON_WAIT_TIMEOUT
CANCELLED = types_pb2.NOT_GRANTED_REASON_CANCELLED


def locks(*names):
    specs = [lock_pb2.LockSpec(name=name) for name in names]
    return lock_pb2.AcquireAllRequest(locks=specs, owner="me")


def wanted(count=1):
    return semaphore_pb2.AcquirePermitsRequest(name="s", owner="me", permits=count)


# --- starting


def test_an_operation_is_sent_at_once_with_a_request_id():
    world = World().open()
    call = world.acquire(wait=5.0)
    frame = world.sent("acquire")
    assert frame.op_id == call
    assert frame.acquire.request_id
    assert frame.acquire.wait_timeout.seconds == 5


def test_without_a_stream_it_is_sent_when_there_is_one():
    world = World()
    world.step(ev.Open())
    world.acquire(wait=5.0)
    assert world.frames() == []
    world.now += 2.0
    world.opened()
    assert world.sent("acquire").acquire.wait_timeout.seconds == 3


def test_each_acquire_has_an_owner_of_its_own():
    world = World().open()
    for _ in range(2):
        world.acquire(owner="")
    first, second = (it.acquire for it in world.frames())
    assert first.owner and second.owner and first.owner != second.owner
    assert first.request_id != second.request_id
    assert world.acquire(owner="mine") and world.sent("acquire").acquire.owner == "mine"


def test_the_trace_context_is_sent():
    world = World().open()
    world.call("describe", lock_pb2.DescribeRequest(name="a"), traceparent="00-1-2-01")
    assert world.sent("describe").traceparent == "00-1-2-01"


# --- answers


def test_waiting_goes_on():
    world = World().open()
    call = world.acquire()
    world.receive(call, waiting=lock_pb2.Waiting(position=2))
    assert world.one(ev.Waits).progress.position == 2
    world.receive(call, granted=grant())
    assert world.one(ev.Granted).op_id == call


@pytest.mark.parametrize(
    ("kind", "request_", "answer"),
    [
        ("acquire", lock_pb2.AcquireRequest(name="a", owner="me"), {"granted": grant()}),
        (
            "try_acquire",
            lock_pb2.TryAcquireRequest(name="a", owner="me"),
            {"tried": lock_pb2.TryAcquireResponse(acquired=True, grant=grant())},
        ),
        ("acquire_all", locks("a"), {"granted_all": lock_pb2.GrantedAll(grants=[grant()])}),
        (
            "try_acquire_all",
            lock_pb2.TryAcquireAllRequest(locks=[lock_pb2.LockSpec(name="a")], owner="me"),
            {"tried_all": lock_pb2.TryAcquireAllResponse(acquired=True, grants=[grant()])},
        ),
        ("acquire_permits", wanted(), {"permits_granted": permits("1")}),
        (
            "try_acquire_permits",
            semaphore_pb2.TryAcquirePermitsRequest(name="s", owner="me", permits=1),
            {
                "permits_tried": semaphore_pb2.TryAcquirePermitsResponse(
                    acquired=True, grant=permits("1")
                )
            },
        ),
    ],
)
def test_a_grant_is_delivered(kind, request_, answer):
    world = World().open()
    sent_at = world.now
    call = world.call(kind, request_)
    world.now += 1.0
    world.receive(call, **answer)
    granted = world.one(ev.Granted)
    assert (granted.op_id, granted.valid_until) == (call, sent_at + LEASE)


@pytest.mark.parametrize(
    ("kind", "request_", "answer"),
    [
        (
            "acquire",
            lock_pb2.AcquireRequest(name="a"),
            {"not_granted": lock_pb2.NotGranted(reason=TIMEOUT)},
        ),
        (
            "try_acquire",
            lock_pb2.TryAcquireRequest(name="a"),
            {"tried": lock_pb2.TryAcquireResponse(holder_remaining_lease={"seconds": 3})},
        ),
        ("acquire_all", locks("a", "b"), {"not_granted": lock_pb2.NotGranted(reason=TIMEOUT)}),
        (
            "try_acquire_all",
            lock_pb2.TryAcquireAllRequest(),
            {"tried_all": lock_pb2.TryAcquireAllResponse(busy_name="a")},
        ),
        (
            "acquire_permits",
            wanted(),
            {"permits_not_granted": semaphore_pb2.PermitsNotGranted(reason=TIMEOUT)},
        ),
        (
            "try_acquire_permits",
            semaphore_pb2.TryAcquirePermitsRequest(name="s"),
            {"permits_tried": semaphore_pb2.TryAcquirePermitsResponse(available=2)},
        ),
        (
            "await_latch",
            latch_pb2.AwaitLatchRequest(name="l"),
            {"latch_not_opened": latch_pb2.LatchNotOpened(reason=TIMEOUT)},
        ),
    ],
)
def test_not_granted_ends_it(kind, request_, answer):
    world = World().open()
    call = world.call(kind, request_)
    world.receive(call, **answer)
    failed = world.one(ev.Failed)
    assert failed.op_id == call
    assert isinstance(failed.error, NotGranted)
    assert failed.error.reason == "WAIT_TIMEOUT"


def test_a_refused_try_carries_the_rest_of_the_lease_and_the_free_permits():
    world = World().open()
    call = world.call("try_acquire", lock_pb2.TryAcquireRequest(name="a"))
    busy = lock_pb2.TryAcquireResponse(holder_remaining_lease={"seconds": 3})
    world.receive(call, tried=busy)
    assert world.one(ev.Failed).error.holder_remaining_lease == 3.0
    call = world.call("acquire_permits", wanted())
    few = semaphore_pb2.PermitsNotGranted(available=2)
    world.receive(call, permits_not_granted=few)
    assert world.one(ev.Failed).error.available == 2


def test_another_answer_ends_it():
    world = World().open()
    call = world.call("count_down", latch_pb2.CountDownRequest(name="l", by=1))
    assert world.sent("count_down").count_down.request_id
    world.receive(call, counted_down=latch_pb2.CountDownResponse(count=3))
    answered = world.one(ev.Answered)
    assert (answered.op_id, answered.response.count) == (call, 3)


def test_an_answer_twice_or_unknown_is_ignored():
    world = World().open()
    world.hold()
    world.receive(1, granted=grant())
    world.receive(99, released={})
    world.receive(98, failed=failure("INTERNAL"))
    assert world.effects == []


# --- failures


@pytest.mark.parametrize("reason", ["STORE_UNAVAILABLE", "DRAINING", "OUTCOME_UNKNOWN"])
def test_it_is_sent_again_after_a_pause_with_the_same_id(reason):
    world = World(chance=1.0).open()
    call = world.acquire()
    first = world.sent("acquire")
    world.receive(call, failed=failure(reason))
    world.after(0.19)
    assert world.frames() == []
    world.after(0.02)
    again = world.sent("acquire")
    assert (again.op_id, again.acquire.request_id) == (call, first.acquire.request_id)
    world.receive(call, granted=grant())
    world.one(ev.Granted)


def test_the_pause_is_that_of_the_coordinator_times_a_random_part():
    world = World(chance=0.0).open()
    call = world.acquire()
    world.frames()
    world.receive(call, failed=failure("STORE_UNAVAILABLE", retry=0.5))
    world.after(0.24)
    assert world.frames() == []
    world.after(0.02)
    world.sent("acquire")


@pytest.mark.parametrize(("patience", "limit"), [(None, LEASE), (1.0, 1.0), (0.0, 0.0)])
def test_it_fails_after_the_lease_or_the_patience(patience, limit):
    world = World().quiet()
    request = lock_pb2.AcquireRequest(name="a", owner="me")
    call = world.call("acquire", request, patience=patience)
    begun = world.now
    while not world.take(ev.Failed):
        assert world.now - begun < limit + 0.5
        if world.frames("acquire"):
            world.receive(call, failed=failure("STORE_UNAVAILABLE"))
        else:
            world.after(0.05)
    assert world.now - begun == pytest.approx(limit, abs=0.3)


def test_a_release_is_sent_again_too():
    world = World().open()
    release = world.release(world.hold())
    first = world.sent("release")
    world.receive(release, failed=failure("OUTCOME_UNKNOWN"))
    world.after(0.3)
    again = world.sent("release")
    assert again.release.request_id == first.release.request_id


def test_an_uncertain_acquire_that_is_not_owner_starts_anew():
    world = World().open()
    call = world.acquire()
    first = world.sent("acquire")
    world.receive(call, failed=failure("OUTCOME_UNKNOWN"))
    world.after(0.3)
    world.sent("acquire")
    world.receive(call, failed=failure("NOT_OWNER", 9))
    again = world.sent("acquire")
    assert again.acquire.request_id != first.acquire.request_id
    world.none(ev.Failed)
    # The second time it is certain.
    world.receive(call, failed=failure("NOT_OWNER", 9))
    assert world.one(ev.Failed).error.reason == "NOT_OWNER"


def test_another_failure_is_a_refusal():
    world = World().open()
    call = world.acquire()
    world.receive(call, failed=failure("INVALID_NAME", 3, field="name"))
    error = world.one(ev.Failed).error
    assert isinstance(error, Refused)
    assert (error.reason, error.metadata) == ("INVALID_NAME", {"field": "name"})


# --- giving up


def test_what_was_never_sent_is_forgotten():
    world = World().open()
    world.breaks(GONE)
    call = world.acquire()
    world.step(ev.GiveUp(call))
    assert not world.resuming().grants
    world.opened()
    assert world.frames() == []


def test_an_answer_during_the_pause_before_a_retry_is_ignored():
    world = World().quiet()
    call = world.acquire()
    first = world.sent("acquire").acquire.request_id
    world.receive(call, failed=failure("OUTCOME_UNKNOWN", retry=1.0))
    world.receive(call, granted=grant())
    world.receive(call, failed=failure("INVALID_NAME", code=3))
    world.none(ev.Granted)
    world.none(ev.Failed)
    world.after(1.0)
    assert world.sent("acquire").acquire.request_id == first
    world.receive(call, granted=grant())
    assert world.one(ev.Granted).op_id == call


def test_a_wait_is_cancelled_and_its_end_is_not_reported():
    world = World().open()
    call = world.acquire()
    world.frames()
    world.step(ev.GiveUp(call))
    assert world.sent("cancel").op_id == call
    world.receive(call, waiting=lock_pb2.Waiting(position=1))
    world.receive(call, not_granted=lock_pb2.NotGranted(reason=CANCELLED))
    assert world.effects == []


def test_a_grant_after_the_caller_gave_up_is_released():
    world = World().open()
    call = world.acquire()
    world.step(ev.GiveUp(call))
    world.frames()
    world.receive(call, granted=grant())
    release = world.sent("release")
    assert (release.release.name, release.release.owner) == ("a", "me")
    assert release.release.request_id
    world.receive(release.op_id, released={})
    assert [type(it) for it in world.effects] == [ev.Granted]
    world.breaks(GONE)
    assert not world.resuming().grants


def test_a_guard_on_its_way_to_a_caller_that_gave_up_is_released():
    world = World().open()
    guard = world.hold()
    world.step(ev.GiveUp(guard))
    world.sent("release")


def test_an_uncertain_wait_that_was_given_up_is_named_sent_and_cancelled():
    world = World().open()
    call = world.acquire()
    world.breaks(GONE)
    world.step(ev.GiveUp(call))
    assert [it.name for it in world.resuming().grants] == ["a"]
    world.frames()
    world.opened()
    frames = world.frames()
    assert [it.WhichOneof("request") for it in frames] == ["acquire", "cancel"]
    assert {it.op_id for it in frames} == {call}


def test_a_failure_after_the_caller_gave_up_is_the_end():
    world = World().open()
    call = world.acquire()
    world.step(ev.GiveUp(call))
    world.frames()
    world.receive(call, failed=failure("STORE_UNAVAILABLE"))
    world.after(1.0)
    assert world.frames("acquire") == []


def test_what_may_hold_a_lock_is_sent_again_after_its_caller_gave_up():
    world = World().open()
    call = world.acquire()
    first = world.sent("acquire").acquire.request_id
    world.breaks(GONE)
    world.step(ev.GiveUp(call))
    world.resumed(grants=[grant()], ping_interval=None)
    world.frames()
    world.receive(call, failed=failure("STORE_UNAVAILABLE"))
    assert world.frames() == []
    world.after(0.3)
    again, cancel = world.frames()
    assert (again.op_id, again.acquire.request_id) == (call, first)
    assert cancel.WhichOneof("request") == "cancel"
    world.receive(call, granted=grant())
    world.sent("release")


def test_what_was_released_since_is_not_acquired_anew_after_its_caller_gave_up():
    world = World().open()
    call = world.acquire()
    world.breaks(GONE)
    world.step(ev.GiveUp(call))
    world.resumed(ping_interval=None)
    world.frames()
    world.receive(call, failed=failure("NOT_OWNER", 9))
    world.after(1.0)
    assert world.frames() == []


def test_a_release_goes_on_without_its_caller():
    world = World().open()
    guard = world.hold()
    world.breaks(GONE)
    release = world.release(guard)
    world.step(ev.GiveUp(release))
    world.resumed(grants=[grant()])
    assert world.frames("release")


# --- resending


def test_everything_is_sent_again_with_its_id_and_the_rest_of_the_wait():
    world = World().open()
    world.acquire("a", wait=5.0)
    world.call("describe", lock_pb2.DescribeRequest(name="b"))
    first = {it.WhichOneof("request"): it for it in world.frames()}
    world.now += 2.0
    world.breaks(GONE)
    world.resumed()
    again = {it.WhichOneof("request"): it for it in world.frames()}
    assert set(again) == {"acquire", "describe"}
    assert again["acquire"].acquire.request_id == first["acquire"].acquire.request_id
    assert again["acquire"].acquire.wait_timeout.ToMilliseconds() <= 3000


def test_permits_get_a_new_id():
    world = World().open()
    world.call("acquire_permits", wanted())
    first = world.sent("acquire_permits").acquire_permits.request_id
    world.breaks(GONE)
    world.resumed()
    assert world.sent("acquire_permits").acquire_permits.request_id != first


def test_permits_of_a_caller_that_gave_up_are_forgotten():
    world = World().open()
    call = world.call("acquire_permits", wanted())
    world.breaks(GONE)
    world.step(ev.GiveUp(call))
    world.frames()
    world.resumed()
    assert world.frames() == []


def test_a_lock_that_another_guard_of_the_owner_holds_does_not_count():
    world = World().open()
    world.hold("a")
    world.call("acquire_all", locks("a", "b"))
    first = world.sent("acquire_all").acquire_all.request_id
    world.breaks(GONE)
    world.resumed(grants=[grant("a")])
    assert world.sent("acquire_all").acquire_all.request_id == first


def test_several_locks_half_held_are_released_and_acquired_anew():
    world = World().open()
    world.call("acquire_all", locks("a", "b"))
    first = world.sent("acquire_all").acquire_all.request_id
    world.breaks(GONE)
    world.resumed(grants=[grant("a", token=0)])
    release, again = world.frames()
    assert (release.release.name, release.release.owner) == ("a", "me")
    assert again.acquire_all.request_id != first


@pytest.mark.parametrize("held", [[], ["a", "b"]])
def test_several_locks_held_entirely_or_not_at_all_keep_their_id(held):
    world = World().open()
    world.call("acquire_all", locks("a", "b"))
    first = world.sent("acquire_all").acquire_all.request_id
    world.breaks(GONE)
    world.resumed(grants=[grant(name, token=0) for name in held])
    assert world.sent("acquire_all").acquire_all.request_id == first
