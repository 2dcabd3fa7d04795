"""An error in this package, or a limit of the process, ends a session; it never hangs callers."""

import asyncio
import logging
import sys
import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from sessions import (
    LIMIT,
    ScriptedAioSession,
    ScriptedSession,
    acquisition,
    eventually,
    granted,
    hooks,
    in_thread,
    opened,
)

from lockkeeper import Client, LockLost, SessionEnded
from lockkeeper._machine import events as ev
from lockkeeper._sync.client import _Callbacks
from lockkeeper._sync.session import _Stream
from lockkeeper.aio._session import Session
from lockkeeper.v1 import lock_pb2, session_pb2

DESCRIBE = "describe", lock_pb2.DescribeRequest(name="a")


def described(op_id):
    frame = session_pb2.SessionResponse(op_id=op_id, described=lock_pb2.DescribeResponse())
    return ev.Received(1, frame)


def outcome(work):
    """Run what may raise in a thread, and return what it raised."""
    raised = []

    def run():
        try:
            work()
        except Exception as error:
            raised.append(error)

    in_thread(run).join(LIMIT)
    assert raised, "it hangs, or has succeeded"
    return raised[0]


# --- threads


def test_an_error_in_the_thread_ends_the_session():
    states, losses = [], []
    session = ScriptedSession(hooks(on_event=lambda it: states.append(it.state)))
    session.deliver(opened())
    held = session.hold(on_lost=losses.append)
    waiting = []
    waiter = in_thread(lambda: waiting.append(outcome(lambda: session.call(*DESCRIBE))))
    eventually(lambda: len(session.sent) == 2)
    session.fault = AttributeError("a bug")
    error = outcome(lambda: session.call(*DESCRIBE))
    assert isinstance(error, SessionEnded)
    assert "a bug" in error.cause
    waiter.join(LIMIT)
    assert isinstance(waiting[0], SessionEnded)
    assert session.is_over
    assert (held.loss.reason, held.loss.fencing_token) == ("UNSPECIFIED", 7)
    assert held.lost.is_set() and held.valid_for == 0
    assert losses == [held.loss]
    eventually(lambda: session.cancelled == [1])
    eventually(lambda: states == ["connected", "ended"])
    # What comes later does not hang either.
    assert isinstance(outcome(lambda: session.call(*DESCRIBE)), SessionEnded)
    assert isinstance(outcome(lambda: session.release(held)), LockLost)
    session.close()


def test_the_end_is_complete_if_a_callback_cannot_run():
    def cannot_run(_, __):
        raise RuntimeError("can't start new thread")

    session = ScriptedSession(hooks(on_event=print)._replace(run=cannot_run))
    session.deliver(opened())
    assert isinstance(outcome(lambda: session.call(*DESCRIBE)), SessionEnded)
    assert session.is_over and session.cancelled == [1]


def test_a_thread_that_cannot_be_started_ends_the_session():
    class Limited(ScriptedSession):
        def _open_stream(self, _):
            raise RuntimeError("can't start new thread")

    session = Limited()
    assert isinstance(outcome(session.connect), SessionEnded)
    assert session.is_over


def test_callers_may_come_while_the_session_opens():
    class Key(int):
        """The number of a caller. While it is looked at, another caller comes."""

        def __lt__(self, other):
            session._futures[next(session._ids)] = Future()
            return super().__lt__(other)

    session = ScriptedSession()
    session._futures[Key(1000)] = Future()
    session.deliver(opened())
    in_thread(lambda: session.call(*DESCRIBE))
    eventually(lambda: session.sent)


@pytest.mark.parametrize("starts", [lambda work: work(), in_thread], ids=["opener", "new thread"])
def test_a_finalizer_closes_a_client_that_opens_a_session(monkeypatch, starts):
    client, sessions, hung = Client("a:1"), [], []

    def opening(*_):
        thread = starts(client.close)
        if thread:
            thread.join(LIMIT)
            hung.append(thread.is_alive())
        sessions.append(ScriptedSession())
        return sessions[0]

    monkeypatch.setattr("lockkeeper._sync.client.Session", opening)
    assert isinstance(outcome(client.connect), SessionEnded)
    assert sessions[0].is_over
    assert True not in hung


def test_a_finalizer_in_the_thread_of_a_session_closes_it():
    class Finalizing(ScriptedSession):
        def _on_granted(self, effect):
            super()._on_granted(effect)
            self.close()

    session = Finalizing()
    session.deliver(opened())
    session.hold()
    eventually(lambda: session.sent[-1].HasField("close"))


def test_a_handler_of_a_signal_may_wait_in_a_thread_that_waits():
    class Answering(ScriptedSession):
        """Answers when two calls wait."""

        def _send(self, effect):
            super()._send(effect)
            if len(self.sent) == 2:
                self.deliver(*(described(frame.op_id) for frame in self.sent))

    def handle(_, event, function):
        if event == "c_call" and function.__name__ in ("allocate_lock", "acquire"):
            sys.setprofile(None)
            session.call(*DESCRIBE)

    session, op_id = Answering(), 1000
    session.deliver(opened())
    call = ev.Call(op_id, *DESCRIBE, None)
    waiting = in_thread(lambda: session._run_event(op_id, call, lambda: sys.setprofile(handle)))
    waiting.join(LIMIT)
    assert not waiting.is_alive()
    assert len(session.sent) == 2


def test_a_stream_is_cancelled_while_grpc_starts_its_threads():
    class Call:
        is_cancelled = False

        def cancel(self):
            self.is_cancelled = True

        def __iter__(self):
            return iter(())

    call, cancelling = Call(), []

    def begin(*_, **__):
        cancelling.append(in_thread(stream.cancel))
        cancelling[0].join(LIMIT)
        assert not cancelling[0].is_alive()
        return call

    connector = SimpleNamespace(
        metadata=tuple,
        channel=lambda _: SimpleNamespace(stream_stream=lambda *_: begin, close=lambda: None),
    )
    ended = []
    stream = _Stream(connector, None, ev.OpenStream(1, 0, None), ended.append)
    stream.run()
    assert ended == [ev.StreamEnded(1, None)]
    assert call.is_cancelled


def test_a_callback_that_exits_is_not_the_last():
    callbacks, called = _Callbacks(), threading.Event()
    callbacks.run(sys.exit, 1)
    callbacks.run(lambda _: called.set(), None)
    assert called.wait(LIMIT)
    callbacks.close()


def test_a_callback_waits_for_a_thread_that_can_be_started(monkeypatch, caplog):
    callbacks, called = _Callbacks(), []

    def cannot_start(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", cannot_start)
        callbacks.run(called.append, 1)
    assert "can't start new thread" in caplog.text
    callbacks.run(called.append, 2)
    eventually(lambda: called == [1, 2])
    callbacks.close()


# --- asyncio


def in_loop(work):
    async def limited():
        await asyncio.wait_for(work(), LIMIT)

    asyncio.run(limited())


async def hold(session):
    acquiring = asyncio.ensure_future(session.acquire(acquisition()))
    await asyncio.sleep(0)
    session.deliver(granted(session.sent[-1].op_id))
    return await acquiring


def test_an_error_of_a_call_ends_the_session_in_a_loop():
    async def work():
        session = ScriptedAioSession(hooks(asyncio.Event))
        session.deliver(opened())
        held = await hold(session)
        waiting = asyncio.ensure_future(session.call(*DESCRIBE))
        await asyncio.sleep(0)
        session.fault = AttributeError("a bug")
        for call in (session.call(*DESCRIBE), waiting, session.call(*DESCRIBE)):
            with pytest.raises(SessionEnded):
                await call
        assert held.lost.is_set() and held.loss.reason == "UNSPECIFIED"
        assert session.cancelled == [1] and session.is_over
        await session.close()

    in_loop(work)


def test_an_error_of_a_timer_ends_the_session_in_a_loop():
    async def work():
        session = ScriptedAioSession(hooks(asyncio.Event))
        session.deliver(opened())
        held = await hold(session)
        session._machine._next_deadline = None
        session._machine.alarm.at = 0.0
        session._tick()
        assert held.lost.is_set() and session.is_over

    in_loop(work)


def test_an_error_of_a_frame_ends_the_session_in_a_loop(caplog):
    class Broken(ScriptedAioSession):
        _open_stream = Session._open_stream
        _cancel_stream = Session._cancel_stream

        async def _read(self, number, *_):
            streams.append(number)
            self._advance(opened(number))
            self._advance(granted(self.sent[-1].op_id, number))
            await asyncio.sleep(LIMIT)

        def _on_granted(self, _):
            raise AttributeError("a bug")

    streams = []

    async def work():
        session = Broken(hooks(asyncio.Event))
        with pytest.raises(SessionEnded, match="a bug"):
            await session.acquire(acquisition())
        await session.close()
        assert session._stream.done()
        # Another stream would fail in the same way.
        assert streams == [1]

    with caplog.at_level(logging.ERROR):
        in_loop(work)
    assert "a bug" in caplog.text
