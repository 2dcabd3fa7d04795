"""A machine in a world without sockets, threads and clocks."""

import itertools

from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from lockkeeper._machine import Machine
from lockkeeper._machine import events as ev
from lockkeeper.v1 import lock_pb2, semaphore_pb2, session_pb2, types_pb2

LEASE = 6.0
PING = 1.0
RENEW = 1.8
ENDPOINTS = ["http://one:1", "http://two:2"]


def duration(seconds):
    return Duration(seconds=int(seconds), nanos=round(seconds % 1 * 1e9))


def grant(name="a", owner="me", token=7, lease=LEASE, valid=None, **more):
    more.setdefault("watched", True)
    more.setdefault("mode", types_pb2.LOCK_MODE_EXCLUSIVE)
    return types_pb2.Grant(
        name=name,
        owner=owner,
        fencing_token=token,
        lease=duration(lease),
        valid_for=duration(lease if valid is None else valid),
        hold_count=1,
        **more,
    )


def permits(*ids, name="s", owner="me"):
    return semaphore_pb2.PermitGrant(
        name=name,
        owner=owner,
        permits=len(ids),
        permit_ids=ids,
        lease=duration(LEASE),
        valid_for=duration(LEASE),
        watched=True,
    )


def failure(reason, code=14, retry=None, **metadata):
    status = status_pb2.Status(code=code, message="scripted")
    info = error_details_pb2.ErrorInfo(reason=reason, domain="lockkeeper", metadata=metadata)
    status.details.add().Pack(info)
    if retry is not None:
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=duration(retry)))
    return status


class World:
    """Steps a machine and keeps its effects until they are looked at."""

    def __init__(self, endpoints=ENDPOINTS, chance=0.5):
        self.ids = itertools.count(1)
        self.now = 100.0
        self.chance = chance
        self.effects = []
        self.requests = itertools.count(1)
        self.machine = Machine(
            list(endpoints),
            session_pb2.OpenSession(client_name="test"),
            self.ids,
            lambda: f"request-{next(self.requests)}",
            lambda: self.chance,
        )

    # --- events

    def step(self, event):
        new = self.machine.step(event, self.now)
        self.effects += new
        return new

    def after(self, seconds):
        """Let time pass, with a tick whenever the machine asks for one."""
        until = self.now + seconds
        while True:
            wake = self.machine.alarm.at
            if wake > until:
                break
            self.now = max(self.now, wake)
            self.step(ev.Tick())
        self.now = until

    def opened(self, **more):
        """Open or resume at the newest stream."""
        more.setdefault("lease", duration(LEASE))
        more.setdefault("ping_interval", duration(PING))
        more.setdefault("renew_interval", duration(RENEW))
        opened = session_pb2.SessionOpened(session_id="id", resume_token=b"token", **more)
        self.receive(opened=opened)
        return self

    def open(self):
        self.step(ev.Open())
        self.take(ev.OpenStream)
        self.opened()
        self.take(ev.Changed)
        return self

    def quiet(self):
        """Open without pings, so that only what is tested happens."""
        self.step(ev.Open())
        self.take(ev.OpenStream)
        self.opened(ping_interval=None)
        self.take(ev.Changed)
        return self

    @property
    def stream(self):
        return self.machine._streams

    def receive(self, op_id=0, **response):
        frame = session_pb2.SessionResponse(op_id=op_id, **response)
        return self.step(ev.Received(self.stream, frame))

    def breaks(self, error=None):
        return self.step(ev.StreamEnded(self.stream, error))

    def call(self, kind, request, **more):
        op_id = next(self.ids)
        self.step(ev.Call(op_id, kind, request, **more))
        return op_id

    def acquire(self, name="a", owner="me", wait=None, **fields):
        request = lock_pb2.AcquireRequest(name=name, owner=owner, **fields)
        until = None if wait is None else self.now + wait
        return self.call("acquire", request, wait_until=until)

    def hold(self, name="a", owner="me", **more):
        """Acquire a lock and be granted it."""
        op_id = self.acquire(name, owner)
        self.sent("acquire")
        self.receive(op_id, granted=grant(name, owner, **more))
        self.one(ev.Granted)
        return op_id

    def release(self, guard):
        op_id = next(self.ids)
        self.step(ev.Release(op_id, guard))
        return op_id

    def resumed(self, **more):
        """Pass the pause, take the attempt to resume, and let it succeed."""
        resume = self.resuming()
        self.opened(**more)
        return resume

    def resuming(self):
        self.after(0.1)
        resume = self.one(ev.OpenStream).frame.resume
        assert resume.sends_pings and resume.sends_close
        return resume

    # --- effects

    def take(self, kind):
        """Take out the effects of a kind."""
        taken = [it for it in self.effects if type(it) is kind]
        self.effects = [it for it in self.effects if type(it) is not kind]
        return taken

    def one(self, kind):
        taken = self.take(kind)
        assert len(taken) == 1, (taken, self.effects)
        return taken[0]

    def none(self, kind):
        assert self.take(kind) == []

    def frames(self, kind=None):
        """Take out the frames sent, or those of a kind."""
        sent = [it.frame for it in self.effects if type(it) is ev.Send]
        taken = [it for it in sent if kind in (None, it.WhichOneof("request"))]
        self.effects = [
            it for it in self.effects if not (type(it) is ev.Send and it.frame in taken)
        ]
        return taken

    def sent(self, kind):
        """Take out the one frame sent, of a kind."""
        frames = self.frames()
        assert [it.WhichOneof("request") for it in frames] == [kind], frames
        return frames[0]
