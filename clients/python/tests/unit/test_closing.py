"""The section "Closing" of clients/session-machine.md."""

from world import World

from lockkeeper import SessionEnded, Unreachable
from lockkeeper._machine import events as ev
from lockkeeper.v1 import lock_pb2, types_pb2

GONE = Unreachable("http://one:1", "Connection refused")
CANCELLED = types_pb2.NOT_GRANTED_REASON_CANCELLED


def test_close_fails_waits_and_ends_with_the_stream():
    world = World().open()
    wait = world.acquire()
    world.frames()
    close = next(world.ids)
    world.step(ev.Close(close))
    world.sent("close")
    failed = world.one(ev.Failed)
    assert failed.op_id == wait
    assert isinstance(failed.error, SessionEnded)
    world.receive(wait, not_granted=lock_pb2.NotGranted(reason=CANCELLED))
    world.breaks(None)
    assert world.one(ev.Answered).op_id == close


def test_close_gives_up_after_a_time():
    world = World().open()
    close = next(world.ids)
    world.step(ev.Close(close))
    world.after(1.99)
    world.none(ev.Failed)
    world.after(0.02)
    assert world.one(ev.Failed).op_id == close
    world.one(ev.CancelStream)


def test_close_without_a_stream_is_sent_after_the_resume():
    world = World().open()
    world.breaks(GONE)
    close = next(world.ids)
    world.step(ev.Close(close))
    assert world.frames() == []
    world.resumed()
    world.sent("close")
    world.breaks(None)
    assert world.one(ev.Answered).op_id == close


def test_nothing_follows_close():
    world = World().open()
    guard = world.hold()
    world.step(ev.Close(next(world.ids)))
    world.sent("close")
    world.release(guard)
    world.acquire("b")
    assert len(world.take(ev.Failed)) == 2
    world.after(1.9)
    assert world.frames() == []


def test_a_release_under_way_is_answered_while_closing():
    world = World().open()
    release = world.release(world.hold())
    world.step(ev.Close(next(world.ids)))
    world.none(ev.Failed)
    world.receive(release, released={})
    assert world.one(ev.Answered).op_id == release


def test_a_guard_that_is_held_at_the_close_is_lost():
    world = World().open()
    guard = world.hold()
    world.step(ev.Close(next(world.ids)))
    world.breaks(None)
    lost = world.one(ev.Lost)
    assert (lost.guard, lost.error.reason) == (guard, "UNSPECIFIED")


def test_close_before_the_session_is_open():
    world = World()
    call = world.acquire()
    world.step(ev.Open())
    close = next(world.ids)
    world.step(ev.Close(close))
    assert world.one(ev.Failed).op_id == call
    assert world.one(ev.Answered).op_id == close
    world.one(ev.CancelStream)
