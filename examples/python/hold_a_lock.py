"""Holds a lock around work: python hold_a_lock.py 127.0.0.1:7625 nightly-report 10

Ends with 0 if the work was done, with 3 if the lock was lost meanwhile.
"""

import queue
import random
import sys
import threading
import time
import uuid

import grpc
from google.protobuf.duration_pb2 import Duration

from lockkeeper.v1 import lock_pb2 as lk
from lockkeeper.v1 import lock_service_pb2_grpc, session_pb2, types_pb2

LEASE = 6  # seconds


class HeldLock:
    """One lock, held in a session that is resumed when its stream breaks."""

    def __init__(self, server, name):
        channel = grpc.insecure_channel(server, options=[("grpc.keepalive_time_ms", LEASE * 1000 // 3)])
        self.service = lock_service_pb2_grpc.LockServiceStub(channel)
        self.name, self.owner = name, "0"
        self.lost = threading.Event()  # set once, when the lock is not certainly held any more
        self.why = ""
        self.token = 0
        self.valid_until = None
        self.closed = False
        self.opened = None
        self.outbox = queue.SimpleQueue()
        self.pending = {}  # op_id -> (frame, queue for the answer)
        self.op_id = 0
        threading.Thread(target=self._stream, daemon=True).start()

    def acquire(self):
        request = lk.AcquireRequest(name=self.name, owner=self.owner, request_id=str(uuid.uuid4()))
        self.token = self.ask(acquire=request).granted.fencing_token
        # How long the wait's answer was under way is not known; a renewal tells until when the lock is held.
        self._renew()
        threading.Thread(target=self._keep, daemon=True).start()

    def release(self):
        self.ask(release=lk.ReleaseRequest(name=self.name, owner=self.owner, request_id=str(uuid.uuid4())))
        self.closed = True
        self.outbox.put(session_pb2.SessionRequest(close=session_pb2.CloseSession()))

    def check_token(self):
        return self.ask(check_token=lk.CheckTokenRequest(name=self.name, fencing_token=self.token)).token_checked.current

    def ask(self, **request):
        """Sends an operation and waits for its end, on whichever stream that comes."""
        self.op_id += 1
        frame, answer = session_pb2.SessionRequest(op_id=self.op_id, **request), queue.SimpleQueue()
        self.pending[self.op_id] = (frame, answer)
        if self.opened:
            self.outbox.put(frame)
        response = answer.get()
        if response.HasField("failed"):
            raise RuntimeError(response.failed.message)
        return response

    def _renew(self):
        sent_at = time.monotonic()
        grant = self.ask(renew=lk.RenewRequest(name=self.name, owner=self.owner)).renewed.grant
        self.valid_until = sent_at + grant.valid_for.ToTimedelta().total_seconds()

    def _keep(self):
        """The coordinator renews too; this is for knowing until when, whatever happens to it."""
        threading.Thread(target=self._watch, daemon=True).start()
        while not self.closed and not self.lost.wait(LEASE / 3):
            try:
                self._renew()
            except RuntimeError as error:
                print(f"not renewed: {error}", file=sys.stderr)

    def _watch(self):
        while not self.closed and not self.lost.wait(0.05):
            if time.monotonic() > self.valid_until:
                self._lose("it could not be renewed in time")

    def _lose(self, why):
        self.why = self.why or why
        self.lost.set()

    def _first(self):
        if not self.opened:
            open_ = session_pb2.OpenSession(lease=Duration(seconds=LEASE), client_name="hold_a_lock.py")
            return session_pb2.SessionRequest(open=open_)
        # Name what is held, and what may be held because its answer was lost: what is not named is released.
        grant = types_pb2.Grant(name=self.name, mode=types_pb2.LOCK_MODE_EXCLUSIVE, owner=self.owner, hold_count=1, watched=True)
        resume = session_pb2.ResumeSession(
            session_id=self.opened.session_id, resume_token=self.opened.resume_token, grants=[grant]
        )
        return session_pb2.SessionRequest(resume=resume)

    def _stream(self):
        failures = 0
        while not self.closed and not self.lost.is_set():
            self.outbox = queue.SimpleQueue()
            self.outbox.put(self._first())
            try:
                for response in self.service.Session(iter(self.outbox.get, None)):
                    failures = 0
                    self._on(response)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self._lose("the session is over")
                print(f"stream ended: {error.code().name}", file=sys.stderr)
            self.outbox.put(None)
            time.sleep(min(1, 0.05 * 2**failures) * random.uniform(0.5, 1))
            failures += 1

    def _on(self, response):
        kind = response.WhichOneof("response")
        if kind == "opened":
            if self.opened:
                print("resumed", flush=True)
            self.opened = self.opened or response.opened
            # Repeated with their request ids, so nothing is done twice.
            for frame, _ in list(self.pending.values()):
                self.outbox.put(frame)
        elif kind == "lost" and self.token:
            self._lose(types_pb2.LostReason.Name(response.lost.reason))
        elif kind == "going_away":
            pass  # The stream ends now, and is opened anew.
        elif response.op_id in self.pending and kind != "waiting":
            self.pending.pop(response.op_id)[1].put(response)


def main(server="127.0.0.1:7625", name="nightly-report", seconds="10"):
    lock = HeldLock(server.removeprefix("http://"), name)
    lock.acquire()
    print(f"holds {name}, fencing token {lock.token}", flush=True)
    # The work: it shows the token to whatever it changes, and stops at once when the lock is lost.
    if lock.lost.wait(float(seconds)):
        print(f"lost: {lock.why}", flush=True)
        return 3
    # What the resource should ask if it cannot compare tokens by itself.
    print(f"token is current: {lock.check_token()}")
    lock.release()
    print("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
