"""Sessions without connections: what they send is kept, and what they receive is scripted."""

import threading
import time

from world import duration, grant

from lockkeeper import _clock
from lockkeeper._connect import parse_endpoints
from lockkeeper._machine import events as ev
from lockkeeper._session import Acquisition, Hooks
from lockkeeper._sync.session import Session
from lockkeeper.aio._session import Session as AioSession
from lockkeeper.v1 import lock_pb2, session_pb2

LIMIT = 5


def hooks(flag=threading.Event, on_event=None):
    return Hooks(flag, lambda callback, argument: callback(argument), on_event)


def opened(stream=1):
    message = session_pb2.SessionOpened(session_id="id", lease=duration(30.0))
    return ev.Received(stream, session_pb2.SessionResponse(opened=message))


def granted(op_id, stream=1, **fields):
    frame = session_pb2.SessionResponse(op_id=op_id, granted=grant(lease=30.0, **fields))
    return ev.Received(stream, frame)


def acquisition(name="a", on_lost=None):
    request = lock_pb2.AcquireRequest(name=name)
    return Acquisition("acquire", request, None, None, on_lost, None)


class _Scripted:
    """Keeps what is done to the stream."""

    def __init__(self, the_hooks=None):
        self.opening, self.sent, self.cancelled = [], [], []
        #: What the next frame that is sent raises.
        self.fault = None
        the_hooks = the_hooks or hooks()
        super().__init__(parse_endpoints("a:1"), None, session_pb2.OpenSession(), the_hooks)

    def _open_stream(self, effect):
        self.opening.append(effect)

    def _send(self, effect):
        if self.fault:
            raise self.fault
        self.sent.append(effect.frame)

    def _cancel_stream(self, effect):
        self.cancelled.append(effect.stream)


class ScriptedSession(_Scripted, Session):
    """The session of the synchronous client."""

    def deliver(self, *events):
        for event in events:
            self._queue.put(event)

    def hold(self, on_lost=None):
        """Acquire a lock, which is granted."""
        known, got = len(self.sent), []
        thread = in_thread(lambda: got.append(self.acquire(acquisition(on_lost=on_lost), set())))
        eventually(lambda: len(self.sent) > known)
        self.deliver(granted(self.sent[-1].op_id))
        thread.join(LIMIT)
        return got[0]


class ScriptedAioSession(_Scripted, AioSession):
    """The session of the asyncio client."""

    def deliver(self, *events):
        for event in events:
            self._advance(event)


def in_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def eventually(is_so):
    until = _clock.now() + LIMIT
    while not is_so():
        assert _clock.now() < until, "not in time"
        time.sleep(0.002)
