"""What is being released allows nothing any more."""

import asyncio
import threading

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

from lockkeeper._sync.session import _Thread
from lockkeeper.v1 import lock_pb2, session_pb2


def released(op_id):
    frame = session_pb2.SessionResponse(op_id=op_id, released=lock_pb2.ReleaseResponse())
    return granted(op_id)._replace(frame=frame)


def test_a_lock_is_not_valid_once_its_release_has_begun():
    session = ScriptedSession()
    session.deliver(opened())
    held = session.hold()
    assert held.valid_for > 0
    releasing = in_thread(lambda: session.release(held))
    eventually(lambda: len(session.sent) == 2)
    assert held.valid_for == 0
    session.deliver(released(session.sent[-1].op_id))
    releasing.join(LIMIT)
    assert held.valid_for == 0


def test_a_thread_with_the_number_of_an_ended_one_waits_for_its_release():
    class Ended(_Thread):
        ident = property(lambda _: threading.get_ident())

    session = ScriptedSession()
    session.deliver(opened())
    held = session.hold()
    session._stream = Ended("ended", lambda: None)
    session._stream.run()
    releasing = in_thread(lambda: session.release(held))
    eventually(lambda: len(session.sent) == 2 and session._futures)
    session.deliver(released(session.sent[-1].op_id))
    releasing.join(LIMIT)
    assert not releasing.is_alive()


def test_a_lock_is_not_valid_once_its_release_has_begun_in_a_loop():
    async def work():
        session = ScriptedAioSession(hooks(asyncio.Event))
        acquiring = asyncio.ensure_future(session.acquire(acquisition()))
        await asyncio.sleep(0)
        session.deliver(opened())
        session.deliver(granted(session.sent[-1].op_id))
        held = await acquiring
        assert held.valid_for > 0
        releasing = asyncio.ensure_future(session.release(held))
        await asyncio.sleep(0)
        assert held.valid_for == 0
        session.deliver(released(session.sent[-1].op_id))
        await releasing
        assert held.valid_for == 0

    asyncio.run(asyncio.wait_for(work(), LIMIT))
