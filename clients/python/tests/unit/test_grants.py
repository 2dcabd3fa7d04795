"""The table "Grants" of clients/session-machine.md, row by row."""

import pytest
from world import LEASE, RENEW, World, duration, failure, grant, permits

from lockkeeper import LockLost, Refused, Unreachable
from lockkeeper._machine import events as ev
from lockkeeper.v1 import lock_pb2, semaphore_pb2, session_pb2, types_pb2

GONE = Unreachable("http://one:1", "Connection refused")
FORCED = types_pb2.LOST_REASON_FORCE_RELEASED


def lost(what, reason=FORCED, detail="maintenance", valid_for=None):
    return session_pb2.GrantLost(grant=what, reason=reason, detail=detail, valid_for=valid_for)


def renewed(what):
    return lock_pb2.RenewResponse(grant=what)


# --- validity


def test_validity_counts_from_before_the_request():
    world = World().quiet()
    sent_at = world.now
    call = world.acquire()
    world.now += 1.5
    world.receive(call, granted=grant())
    assert world.one(ev.Granted).valid_until == sent_at + LEASE


def test_a_late_grant_is_renewed_before_it_is_delivered():
    world = World().quiet()
    call = world.acquire()
    world.frames()
    world.now += LEASE / 3 + 0.1
    world.receive(call, granted=grant())
    world.none(ev.Granted)
    renewal = world.sent("renew")
    assert not renewal.renew.HasField("lease")
    sent_at = world.now
    world.now += 0.5
    world.receive(renewal.op_id, renewed=renewed(grant()))
    granted = world.one(ev.Granted)
    assert (granted.op_id, granted.valid_until) == (call, sent_at + LEASE)


def test_a_late_grant_with_a_lease_is_renewed_once_with_that_lease():
    world = World().quiet()
    call = world.acquire(lease=duration(3.0))
    world.frames()
    world.now += 2.0
    own = grant(lease=3.0, watched=False)
    world.receive(call, granted=own)
    renewal = world.sent("renew")
    assert renewal.renew.lease == duration(3.0)
    world.receive(renewal.op_id, renewed=renewed(own))
    world.one(ev.Granted)
    world.after(2.9)
    assert world.frames() == []


def test_a_late_grant_that_is_lost_fails_its_acquire_and_is_released():
    world = World().quiet()
    locks = [lock_pb2.LockSpec(name=name) for name in "ab"]
    request = lock_pb2.AcquireAllRequest(locks=locks, owner="me")
    call = world.call("acquire_all", request)
    world.frames()
    world.now += 4.0
    world.receive(call, granted_all=lock_pb2.GrantedAll(grants=[grant("a"), grant("b")]))
    first, second = world.frames()
    world.receive(first.op_id, renewed=renewed(grant("a")))
    world.none(ev.Granted)
    world.receive(second.op_id, failed=failure("NOT_OWNER", 9, state="held_by_another"))
    error = world.one(ev.Failed).error
    assert (error.name, error.reason) == ("b", "TAKEN_OVER")
    assert len(world.sent("release_all").release_all.locks) == 2


def test_several_late_locks_are_delivered_when_all_are_renewed():
    world = World().quiet()
    locks = [lock_pb2.LockSpec(name=name) for name in "ab"]
    call = world.call("acquire_all", lock_pb2.AcquireAllRequest(locks=locks, owner="me"))
    world.frames()
    world.now += 4.0
    world.receive(call, granted_all=lock_pb2.GrantedAll(grants=[grant("a"), grant("b")]))
    for frame in world.frames():
        world.none(ev.Granted)
        world.receive(frame.op_id, renewed=renewed(grant(frame.renew.name)))
    world.one(ev.Granted)


def test_an_unconfirmed_guard_does_not_extend_what_another_guard_relies_on():
    world = World().quiet()
    begun = world.now
    first = world.hold(lease=30.0)
    world.now += 5.0
    second = world.acquire()
    world.frames()
    world.now += 11.0
    world.receive(second, granted=grant(lease=30.0, valid=29.7))
    world.none(ev.Granted)
    losses = []
    while not losses and world.now < begun + 60:
        for frame in world.frames("renew"):
            world.receive(frame.op_id, failed=failure("STORE_UNAVAILABLE"))
        world.after(0.05)
        losses = world.take(ev.Lost)
    assert [it.guard for it in losses] == [first]
    # The request of the second was sent at 5, and is certain for 29.7.
    assert world.now - begun == pytest.approx(34.7, abs=0.1)
    assert world.one(ev.Failed).op_id == second


def test_a_fresh_grant_replaces_what_was_assumed_of_a_late_one():
    world = World().quiet()
    late = world.acquire()
    world.frames()
    world.now += 4.0
    world.receive(late, granted=grant())
    sent_at = world.now
    fresh = world.acquire()
    world.receive(fresh, granted=grant(valid=2.0))
    assert world.one(ev.Granted)[::2] == (fresh, sent_at + 2.0)


def test_an_older_answer_does_not_shorten_what_another_guard_relies_on():
    world = World().quiet()
    world.hold()
    world.after(RENEW + 0.01)
    renewal = world.sent("renew")
    late, sent_at = world.acquire(), world.now
    world.now += 3.0
    world.receive(late, granted=grant())
    world.receive(renewal.op_id, renewed=renewed(grant(valid=4.0)))
    world.none(ev.Extended)
    assert world.one(ev.Granted).valid_until == sent_at + LEASE


def test_a_newer_grant_does_not_inherit_the_validity_of_a_lost_one():
    world = World().quiet()
    first = world.hold(token=5)
    sent_at = world.now
    second = world.acquire()
    world.receive(second, granted=grant(token=6, lease=1.0, watched=False))
    assert world.one(ev.Granted).valid_until == sent_at + 1.0
    assert world.one(ev.Extended) == (first, sent_at + 1.0)
    world.after(1.01)
    assert {it.guard for it in world.take(ev.Lost)} == {first, second}


# --- renewals


def test_a_renewal_is_sent_at_its_time_and_counts_from_its_request():
    world = World().quiet()
    sent_at = world.now
    guard = world.hold()
    world.after(RENEW - 0.01)
    assert world.frames() == []
    world.after(0.02)
    renewal = world.sent("renew")
    assert (renewal.renew.name, renewal.renew.owner) == ("a", "me")
    world.after(0.7)
    assert world.frames() == []
    world.receive(renewal.op_id, renewed=renewed(grant()))
    assert world.one(ev.Extended) == (guard, sent_at + RENEW + LEASE)
    # The next one is due an interval after the request, not after the answer.
    world.after(RENEW - 0.7 - 0.02)
    assert world.frames() == []
    world.after(0.02)
    world.sent("renew")


def test_without_an_interval_it_is_three_tenths_of_the_lease():
    world = World()
    world.step(ev.Open())
    world.opened(renew_interval=None, ping_interval=None)
    world.hold()
    world.after(0.3 * LEASE - 0.01)
    assert world.frames() == []
    world.after(0.02)
    world.sent("renew")


def test_a_grant_with_another_lease_is_renewed_after_three_tenths_of_its_own():
    world = World().quiet()
    world.hold(lease=20.0)
    world.after(5.99)
    assert world.frames() == []
    world.after(0.02)
    world.sent("renew")


def test_a_grant_whose_request_set_a_lease_is_not_renewed_and_expires():
    world = World().quiet()
    guard = world.hold(lease=2.0, watched=False)
    world.after(1.99)
    assert world.effects == []
    world.after(0.02)
    loss = world.one(ev.Lost)
    assert (loss.guard, loss.error.reason, loss.error.fencing_token) == (guard, "EXPIRED", 7)


def test_permits_are_renewed_too():
    world = World().quiet()
    request = semaphore_pb2.AcquirePermitsRequest(name="s", owner="me", permits=2)
    guard = world.call("acquire_permits", request)
    world.receive(guard, permits_granted=permits("1", "2"))
    world.frames()
    world.after(RENEW + 0.01)
    renewal = world.sent("renew_permits")
    assert list(renewal.renew_permits.permit_ids) == ["1", "2"]
    answer = semaphore_pb2.RenewPermitsResponse(grants=[permits("1", "2")])
    world.receive(renewal.op_id, permits_renewed=answer)
    assert world.one(ev.Extended).guard == guard


@pytest.mark.parametrize(
    ("state", "reason"), [("held_by_another", "TAKEN_OVER"), ("expired", "EXPIRED")]
)
def test_a_renewal_that_is_not_owner_loses(state, reason):
    world = World().quiet()
    guard = world.hold()
    world.after(RENEW + 0.01)
    renewal = world.sent("renew")
    world.receive(renewal.op_id, failed=failure("NOT_OWNER", 9, state=state))
    loss = world.one(ev.Lost)
    assert (loss.guard, loss.error.reason) == (guard, reason)


def test_a_renewal_of_an_older_grant_that_is_not_owner_is_ignored():
    world = World().quiet()
    first = world.hold(token=7)
    world.after(RENEW + 0.01)
    renewal = world.sent("renew")
    world.hold(token=8)
    world.receive(renewal.op_id, failed=failure("NOT_OWNER", 9))
    world.none(ev.Lost)
    world.after(0.3)
    world.sent("renew")
    assert first


@pytest.mark.parametrize("reason", ["STORE_UNAVAILABLE", "NOT_REPLICATED", "INTERNAL"])
def test_a_renewal_that_fails_otherwise_is_sent_again_and_time_decides(reason):
    world = World().quiet()
    world.hold()
    begun = world.now
    renewals = 0
    while not world.take(ev.Lost):
        for frame in world.frames("renew"):
            renewals += 1
            world.receive(frame.op_id, failed=failure(reason, 14))
        world.after(0.01)
    assert world.now - begun == pytest.approx(LEASE, abs=0.05)
    assert renewals == pytest.approx((LEASE - RENEW) / 0.2, abs=4)


def test_without_an_answer_it_expires_when_its_validity_ends():
    world = World().open()
    guard = world.hold()
    begun = world.now
    world.breaks(GONE)
    while not world.take(ev.Lost):
        world.after(0.01)
        if world.take(ev.OpenStream):
            world.breaks(GONE)
    assert world.now - begun == pytest.approx(LEASE, abs=0.05)
    assert guard


def test_an_older_answer_does_not_shorten_the_validity():
    world = World().quiet()
    world.hold()
    world.after(RENEW + 0.01)
    renewal = world.sent("renew")
    world.receive(renewal.op_id, renewed=renewed(grant(valid=1.0)))
    world.none(ev.Extended)


def test_a_late_renewal_of_an_older_grant_says_nothing_about_a_newer_one():
    world = World().quiet()
    world.hold(token=7)
    world.after(RENEW + 0.01)
    renewal = world.sent("renew")
    world.after(0.5)
    second = world.acquire()
    world.frames()
    world.receive(second, granted=grant(token=8, lease=1.0, watched=False))
    world.take(ev.Granted), world.take(ev.Extended)
    world.receive(renewal.op_id, renewed=renewed(grant(token=7)))
    world.none(ev.Extended)
    world.after(1.01)
    assert {it.error.fencing_token for it in world.take(ev.Lost)} == {8}


def test_a_renewal_under_way_when_the_stream_breaks_starts_anew():
    world = World().quiet()
    world.hold()
    world.after(RENEW + 0.01)
    first = world.sent("renew")
    world.breaks(GONE)
    world.resuming()
    world.opened(ping_interval=None)
    again = world.sent("renew")
    assert again.op_id != first.op_id


def test_the_user_renews():
    world = World().quiet()
    guard = world.hold(lease=2.0, watched=False)
    sent_at = world.now
    request = lock_pb2.RenewRequest(name="a", owner="me", lease=duration(5.0))
    call = world.call("renew", request)
    world.receive(call, renewed=renewed(grant(lease=5.0, watched=False)))
    assert world.one(ev.Extended) == (guard, sent_at + 5.0)
    assert world.one(ev.Answered).op_id == call
    call = world.call("renew", lock_pb2.RenewRequest(name="a", owner="me"))
    world.receive(call, failed=failure("NOT_OWNER", 9))
    assert world.one(ev.Lost).guard == guard
    assert isinstance(world.one(ev.Failed).error, Refused)


# --- losses


def test_a_notice_loses_at_once_with_its_reason():
    world = World().quiet()
    guard = world.hold()
    world.receive(lost=lost(grant()))
    error = world.one(ev.Lost).error
    assert (error.reason, error.detail, error.fencing_token) == ("FORCE_RELEASED", "maintenance", 7)
    assert error.valid_for == 0
    assert guard


@pytest.mark.parametrize(("given", "left"), [(1, 1), (2 * LEASE, LEASE)])
def test_a_notice_says_for_how_long_nobody_else_holds_it(given, left):
    world = World().quiet()
    world.hold()
    world.receive(lost=lost(grant(), valid_for=duration(given)))
    assert world.one(ev.Lost).error.valid_for == left


@pytest.mark.parametrize("reason", types_pb2.LostReason.values()[1:])
def test_every_reason_has_words(reason):
    world = World().quiet()
    world.hold()
    world.receive(lost=lost(grant(), reason, ""))
    assert "no reason given" not in str(world.one(ev.Lost).error)


def test_permits_are_lost_as_a_whole():
    world = World().quiet()
    request = semaphore_pb2.AcquirePermitsRequest(name="s", owner="me", permits=2)
    guard = world.call("acquire_permits", request)
    world.receive(guard, permits_granted=permits("1", "2"))
    notice = session_pb2.PermitsLost(grant=permits("2"), reason=types_pb2.LOST_REASON_EXPIRED)
    world.receive(permits_lost=notice)
    assert world.one(ev.Lost).error.reason == "EXPIRED"


@pytest.mark.parametrize(
    "other",
    [
        grant(token=6),
        grant(name="b"),
        grant(owner="other"),
        grant(mode=types_pb2.LOCK_MODE_READ),
    ],
)
def test_a_notice_about_an_older_or_another_grant_is_ignored(other):
    world = World().quiet()
    world.hold()
    world.receive(lost=lost(other))
    world.none(ev.Lost)


def test_a_loss_is_reported_once():
    world = World().quiet()
    world.hold()
    world.receive(lost=lost(grant()))
    world.receive(lost=lost(grant()))
    world.after(2 * LEASE)
    assert len(world.take(ev.Lost)) == 1


def test_a_loss_of_one_of_several_locks_is_one_loss():
    world = World().quiet()
    locks = [lock_pb2.LockSpec(name=name) for name in "ab"]
    call = world.call("acquire_all", lock_pb2.AcquireAllRequest(locks=locks, owner="me"))
    world.receive(call, granted_all=lock_pb2.GrantedAll(grants=[grant("a"), grant("b")]))
    world.receive(lost=lost(grant("b")))
    world.receive(lost=lost(grant("a")))
    assert world.one(ev.Lost).error.name == "b"


def test_a_loss_during_the_release_is_not_reported():
    world = World().quiet()
    release = world.release(world.hold())
    world.receive(lost=lost(grant()))
    world.receive(release, released={})
    world.none(ev.Lost)
    assert world.one(ev.Answered).op_id == release


def test_at_risk_and_recovered_are_only_shown():
    world = World().quiet()
    world.hold()
    world.receive(at_risk=session_pb2.SessionAtRisk(valid_for=duration(2.0)))
    assert world.one(ev.Changed).state == "at_risk"
    world.receive(recovered={})
    assert world.one(ev.Changed).state == "connected"
    world.none(ev.Lost)


def test_a_lost_grant_is_not_named_in_a_resume():
    world = World().quiet()
    world.hold()
    world.receive(lost=lost(grant()))
    world.breaks(GONE)
    assert not world.resuming().grants


# --- releases


def test_a_release_is_sent_once_with_an_id():
    world = World().quiet()
    guard = world.hold(mode=types_pb2.LOCK_MODE_FAIR)
    release = world.release(guard)
    frame = world.sent("release")
    assert frame.op_id == release
    assert frame.release.request_id
    assert frame.release.mode == types_pb2.LOCK_MODE_FAIR
    world.receive(release, released={})
    assert world.one(ev.Answered).op_id == release
    world.after(2 * LEASE)
    assert world.effects == []


def test_a_release_of_a_lost_grant_fails_but_is_sent():
    world = World().quiet()
    guard = world.hold()
    world.receive(lost=lost(grant()))
    world.take(ev.Lost)
    world.release(guard)
    assert isinstance(world.one(ev.Failed).error, LockLost)
    frame = world.sent("release")
    world.receive(frame.op_id, failed=failure("NOT_OWNER", 9))
    assert world.effects == []


def test_a_release_of_a_lost_grant_does_not_take_a_new_grant_of_its_owner():
    world = World().quiet()
    guard = world.hold(owner="o", token=5)
    world.receive(lost=lost(grant(owner="o", token=5)))
    world.take(ev.Lost)
    again = world.hold(owner="o", token=6)
    world.frames()
    world.release(guard)
    assert world.one(ev.Failed).error.fencing_token == 5
    assert world.frames() == []
    world.after(RENEW + 0.01)
    renewal = world.sent("renew")
    world.receive(renewal.op_id, renewed=renewed(grant(owner="o", token=6)))
    assert world.one(ev.Extended).guard == again
    world.release(again)
    world.sent("release")


@pytest.mark.parametrize(("mode", "is_sent"), [("EXCLUSIVE", True), ("READ", False)])
def test_with_the_same_token_it_is_a_further_hold_but_of_a_reader_that_is_unknown(mode, is_sent):
    mode = types_pb2.LockMode.Value(f"LOCK_MODE_{mode}")
    world = World().quiet()
    guard = world.hold(mode=mode)
    world.receive(lost=lost(grant(mode=mode)))
    world.take(ev.Lost)
    world.hold(mode=mode)
    world.frames()
    world.release(guard)
    assert bool(world.frames()) == is_sent


def test_a_release_of_several_leaves_out_what_its_owner_holds_anew():
    world = World().quiet()
    locks = [lock_pb2.LockSpec(name=name) for name in "ab"]
    guard = world.call("acquire_all", lock_pb2.AcquireAllRequest(locks=locks, owner="me"))
    world.receive(guard, granted_all=lock_pb2.GrantedAll(grants=[grant("a"), grant("b")]))
    world.receive(lost=lost(grant("a")))
    world.frames(), world.take(ev.Granted)
    world.hold("a", token=8)
    world.release(guard)
    release = world.sent("release")
    assert release.release.name == "b"
    world.receive(release.op_id, released={})
    world.breaks(GONE)
    assert [(it.name, it.fencing_token) for it in world.resuming().grants] == [("a", 8)]


def test_a_grant_after_a_release_without_an_answer_is_a_new_one():
    world = World().quiet()
    guard = world.hold(token=7)
    release = world.release(guard)
    world.receive(release, failed=failure("OUTCOME_UNKNOWN"))
    sent_at = world.now
    again = world.acquire()
    world.receive(again, granted=grant(token=8, valid=1.0))
    assert world.one(ev.Granted).valid_until == sent_at + 1.0
    world.take(ev.Lost)
    world.frames()
    world.after(0.3)
    world.receive(release, released={})
    world.breaks(GONE)
    assert [it.fencing_token for it in world.resuming().grants] == [8]


def test_a_second_release_is_not_sent():
    world = World().quiet()
    guard = world.hold()
    world.release(guard)
    world.frames()
    world.release(guard)
    assert world.frames() == []
    world.one(ev.Failed)


def test_a_release_that_is_not_owner_is_refused():
    world = World().quiet()
    release = world.release(world.hold())
    world.receive(release, failed=failure("NOT_OWNER", 9))
    assert world.one(ev.Failed).error.reason == "NOT_OWNER"


def test_permits_and_several_locks_are_released_together():
    world = World().quiet()
    request = semaphore_pb2.AcquirePermitsRequest(name="s", owner="me", permits=2)
    guard = world.call("acquire_permits", request)
    world.receive(guard, permits_granted=permits("1", "2"))
    world.frames()
    world.release(guard)
    frame = world.sent("release_permits")
    assert list(frame.release_permits.permit_ids) == ["1", "2"]


def test_an_owner_that_acquires_twice_shares_the_grant_until_both_are_released():
    world = World().quiet()
    first = world.hold()
    second = world.hold()
    world.release(first)
    world.frames()
    world.after(RENEW + 0.01)
    world.sent("renew")
    world.receive(lost=lost(grant()))
    assert world.one(ev.Lost).guard == second
