"""The table "The stream" of clients/session-machine.md, row by row."""

import grpc
import pytest
from world import ENDPOINTS, LEASE, PING, World, failure, grant, permits

from lockkeeper import Misconfigured, Refused, SessionEnded, Unreachable
from lockkeeper._machine import events as ev
from lockkeeper.v1 import session_pb2

GONE = Unreachable("http://one:1", "Connection refused")


def refusal(code, reason=""):
    return Refused(code, reason, "scripted")


# --- the first attempt


def test_opened_first():
    world = World()
    world.step(ev.Open())
    effect = world.one(ev.OpenStream)
    assert (effect.stream, effect.endpoint) == (1, 0)
    assert effect.frame.open.client_name == "test"
    world.opened()
    assert world.one(ev.Changed) == ("connected", "")


def test_the_next_endpoint_is_tried_at_once_and_the_last_is_named():
    world = World()
    call = world.acquire()
    world.step(ev.Open())
    world.breaks(GONE)
    assert [it.endpoint for it in world.take(ev.OpenStream)] == [0, 1]
    world.after(5.9)
    world.none(ev.Failed)
    world.after(0.2)
    failed = world.one(ev.Failed)
    assert failed.op_id == call
    assert isinstance(failed.error, Unreachable)
    assert failed.error.address == ENDPOINTS[1]
    assert world.machine.is_ended
    world.none(ev.Changed)


@pytest.mark.parametrize(
    "error",
    [
        refusal(grpc.StatusCode.INVALID_ARGUMENT),
        refusal(grpc.StatusCode.UNAUTHENTICATED),
        refusal(grpc.StatusCode.PERMISSION_DENIED),
        Misconfigured("ca_file: not there"),
    ],
)
def test_a_final_refusal_ends_the_first_attempt(error):
    world = World()
    call = world.acquire()
    world.step(ev.Open())
    world.breaks(error)
    assert world.one(ev.Failed) == (call, error)
    assert len(world.take(ev.OpenStream)) == 1


def test_an_answer_of_another_kind_is_a_failed_attempt():
    world = World(ENDPOINTS[:1])
    world.acquire()
    world.step(ev.Open())
    world.receive(pong=session_pb2.Pong())
    world.one(ev.CancelStream)
    assert "did not confirm" in str(world.one(ev.Failed).error)


# --- the stream ends


def test_a_broken_stream_goes_down_and_is_resumed_at_the_next_endpoint():
    world = World(chance=1.0).open()
    world.hold("a")
    world.breaks(GONE)
    assert world.one(ev.Changed) == ("resuming", str(GONE))
    world.after(0.049)
    world.none(ev.OpenStream)
    world.after(0.002)
    effect = world.one(ev.OpenStream)
    assert (effect.stream, effect.endpoint) == (2, 1)
    resume = effect.frame.resume
    assert (resume.session_id, resume.resume_token) == ("id", b"token")
    assert [it.name for it in resume.grants] == ["a"]


def test_a_new_resume_token_replaces_the_earlier_one():
    world = World(chance=0.0).open()
    for token in (b"second", b"third"):
        world.receive(opened=session_pb2.SessionOpened(session_id="id", resume_token=token))
        world.breaks(GONE)
        assert world.resuming().resume_token == token
        world.opened()


def test_streams_that_end_without_progress_are_opened_less_and_less_often():
    world = World(chance=0.99).quiet()

    def pause():
        world.breaks(GONE)
        begun = world.now
        while not world.take(ev.OpenStream):
            world.after(0.001)
        world.opened(ping_interval=None)
        return world.now - begun

    assert pause() <= 0.051
    for most in (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        assert most * 0.99 <= pause() <= most + 0.001
    world.hold()
    assert pause() <= 0.051, "an answer"
    pause()
    world.after(1.0)
    assert pause() <= 0.051, "it lasted"


def test_the_first_pause_is_random():
    world = World(chance=0.0).open()
    world.breaks(GONE)
    world.one(ev.OpenStream)


def test_the_end_after_close_ends_the_session():
    world = World().open()
    op_id = next(world.ids)
    world.step(ev.Close(op_id))
    world.sent("close")
    world.breaks(None)
    assert world.one(ev.Answered).op_id == op_id
    assert world.one(ev.Changed).state == "ended"


def test_an_end_without_an_error_and_without_close_is_a_broken_stream():
    world = World().open()
    world.breaks(None)
    assert world.one(ev.Changed) == ("resuming", "the coordinator ended the stream")


def test_the_end_of_an_old_stream_is_ignored():
    world = World().open()
    world.breaks(GONE)
    world.resumed()
    world.take(ev.Changed)
    world.step(ev.StreamEnded(1, GONE))
    world.step(ev.Received(1, session_pb2.SessionResponse(going_away={})))
    world.after(0.9)
    world.none(ev.Changed)


# --- silence


def test_silence_is_broken_by_a_ping():
    world = World().open()
    world.after(PING - 0.01)
    assert world.frames() == []
    world.after(0.02)
    world.sent("ping")
    world.receive(pong=session_pb2.Pong())
    world.after(PING - 0.01)
    assert world.frames() == []


def test_any_frame_is_a_sign_of_life():
    world = World().open()
    for _ in range(5):
        world.after(PING / 2)
        world.receive(recovered={})
    assert world.frames() == []


def test_no_answer_to_a_ping_breaks_the_stream():
    world = World().open()
    world.after(2 * PING - 0.01)
    world.none(ev.CancelStream)
    world.after(0.02)
    assert world.one(ev.CancelStream).stream == 1
    assert world.one(ev.Changed) == ("resuming", "no answer to a ping")


def test_without_an_interval_there_are_no_pings():
    world = World().quiet()
    world.after(3600)
    assert world.effects == []


# --- going away


def test_going_away_sends_nothing_new_and_leaves_after_a_time():
    world = World().open()
    guard = world.hold("a")
    waiting = world.acquire("b")
    world.frames()
    world.receive(going_away={})
    world.acquire("c")
    world.release(guard)
    world.step(ev.GiveUp(waiting))
    assert world.frames() == []
    world.after(0.49)
    world.none(ev.CancelStream)
    world.after(0.02)
    assert world.one(ev.CancelStream).stream == 1
    assert world.one(ev.Changed) == ("resuming", "the coordinator is stopping")
    world.resumed()
    kinds = [it.WhichOneof("request") for it in world.frames()]
    assert sorted(kinds) == ["acquire", "acquire", "cancel", "release"]


def test_the_last_answers_of_one_that_goes_away_count():
    world = World().open()
    call = world.acquire()
    world.receive(going_away={})
    world.receive(call, granted=grant())
    assert world.one(ev.Granted).op_id == call


# --- resuming


def test_resume_names_grants_permits_and_uncertain_acquires():
    world = World().open()
    world.hold("a")
    call = world.call("acquire_permits", _permits_request())
    world.receive(call, permits_granted=permits("1", "2"))
    world.acquire("b", "other")
    world.acquire("c", "third", lease={"seconds": 2})
    world.call("acquire_permits", _permits_request())
    world.breaks(GONE)
    world.acquire("never-sent")
    resume = world.resuming()
    named = {it.name: it for it in resume.grants}
    assert sorted(named) == ["a", "b", "c"]
    assert (named["a"].fencing_token, named["b"].fencing_token) == (7, 0)
    assert (named["b"].owner, named["b"].hold_count, named["b"].watched) == ("other", 1, True)
    assert not named["c"].watched
    assert [list(it.permit_ids) for it in resume.permits] == [["1", "2"]]


def test_a_grant_that_is_being_released_is_named():
    world = World().open()
    world.release(world.hold("a"))
    world.breaks(GONE)
    assert [it.name for it in world.resuming().grants] == ["a"]


def test_opened_renews_counted_from_before_the_resume():
    world = World().quiet()
    world.hold("a")
    world.after(0.5)
    world.breaks(GONE)
    world.take(ev.Extended)
    world.resuming()
    sent_at = world.machine._state.sent_at
    world.after(0.3)
    world.opened(grants=[grant("a")])
    assert world.one(ev.Extended).valid_until == sent_at + LEASE
    assert world.take(ev.Changed)[-1].state == "connected"


def test_an_attempt_has_a_time_limit_that_doubles_with_each_round():
    world = World(ENDPOINTS[:1], chance=0.0).open()
    world.breaks(GONE)
    limits = []
    while not world.machine.is_ended:
        if world.take(ev.OpenStream):
            begun = world.now
            world.after(0)
            while not world.take(ev.CancelStream) and not world.machine.is_ended:
                world.after(0.01)
            limits.append(round(world.now - begun, 1))
        else:
            world.after(0.001)
    # A sixth of the lease, at most half of it.
    assert limits[:2] == [1.0, 2.0]
    assert max(limits) <= 3.0


def test_pauses_double_after_each_round_and_are_random():
    for chance in (0.0, 1.0):
        world = World(chance=chance).open()
        world.chance = 0.0
        world.breaks(GONE)
        world.chance = chance
        pauses = []
        for _ in range(7):
            world.one(ev.OpenStream)
            world.breaks(GONE)
            world.one(ev.OpenStream)  # No pause inside a round.
            begun = world.now
            world.breaks(GONE)
            if world.machine.is_ended:
                break
            pauses.append(round(world.machine.alarm.at - begun, 6))
            world.after(pauses[-1])
        whole = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        expected = [round(it * (0.5 + chance / 2), 6) for it in whole]
        assert pauses == expected[: len(pauses)]
        assert len(pauses) >= 6


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION"])
def test_refusals_everywhere_end_the_session(code):
    world = World().open()
    guard = world.hold()
    call = world.acquire("b")
    world.breaks(GONE)
    world.resuming()
    world.breaks(refusal(grpc.StatusCode[code], "REASON"))
    world.none(ev.Lost)
    world.breaks(refusal(grpc.StatusCode[code], "REASON"))
    lost = world.one(ev.Lost)
    assert (lost.guard, lost.error.reason) == (guard, "UNSPECIFIED")
    assert "scripted" in lost.error.detail
    failed = world.one(ev.Failed)
    assert failed.op_id == call
    assert isinstance(failed.error, SessionEnded)
    assert world.take(ev.Changed)[-1].state == "ended"


def test_refusals_count_in_a_row_only():
    world = World().open()
    world.breaks(GONE)
    unknown = refusal(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND")
    for error in (unknown, GONE, unknown, GONE):
        world.after(1.0)
        world.breaks(error)
    assert not world.machine.is_ended


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("UNAUTHENTICATED", "NO_CREDENTIALS"),
        ("PERMISSION_DENIED", "NOT_ALLOWED"),
        ("UNAVAILABLE", "DRAINING"),
        ("UNIMPLEMENTED", ""),
    ],
)
def test_credentials_and_the_route_of_a_proxy_may_come_back(code, reason):
    world = World().open()
    world.hold()
    world.breaks(GONE)
    for _ in range(4):
        world.after(0.5)
        world.breaks(refusal(grpc.StatusCode[code], reason))
    world.none(ev.Lost)
    world.after(1.0)
    world.opened(grants=[grant()])
    world.none(ev.Lost)


def test_nobody_for_a_whole_lease_ends_the_session():
    world = World().open()
    world.hold()
    world.breaks(GONE)
    begun = world.now
    while not world.machine.is_ended:
        assert world.now - begun <= LEASE
        world.after(0.05)
        if world.take(ev.OpenStream):
            world.breaks(GONE)
    assert world.now - begun == pytest.approx(LEASE, abs=0.1)
    assert "as long as the lease" in world.take(ev.Changed)[-1].cause


def test_the_deadline_is_kept_over_attempts_and_cleared_by_a_resume():
    world = World().open()
    for _ in range(4):
        world.breaks(GONE)
        world.after(LEASE / 2)
        world.opened()
    assert not world.machine.is_ended


def test_after_the_end_nothing_is_opened_and_calls_fail():
    world = World(ENDPOINTS[:1]).open()
    world.breaks(GONE)
    world.resuming()
    world.breaks(refusal(grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND"))
    world.effects.clear()
    call = world.acquire()
    assert isinstance(world.one(ev.Failed).error, SessionEnded)
    world.step(ev.GiveUp(call))
    world.step(ev.Close(next(world.ids)))
    world.one(ev.Answered)
    world.after(3600)
    assert world.effects == []


def test_the_answers_of_the_new_coordinator_to_its_intervals_count():
    world = World().open()
    world.breaks(GONE)
    world.resuming()
    world.opened(ping_interval=None)
    world.frames()
    world.after(60)
    assert world.frames("ping") == []


def _permits_request():
    from lockkeeper.v1 import semaphore_pb2

    return semaphore_pb2.AcquirePermitsRequest(name="s", owner="me", permits=2)


def test_a_scripted_failure_is_a_refusal():
    error = Refused.of(failure("NOT_OWNER", 9, state="expired", retry=0.25))
    assert (error.code, error.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_OWNER")
    assert (error.metadata, error.retry_delay) == ({"state": "expired"}, 0.25)
