"""A stock Python client against a real coordinator: unary calls, the streamed Acquire, and a session's frames.

Usage: smoke.py PATH_OF_LOCKKEEPER, with the stubs of proto/ in PYTHONPATH. Ends with `N passed, N failed`.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
import traceback

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from lockkeeper.v1 import lock_pb2, lock_service_pb2_grpc, session_pb2, types_pb2

# Longer than anything here should take; shorter than whoever started this wants to wait.
LIMIT = 20


def ms(count):
    return Duration(nanos=count * 1_000_000) if count < 1000 else Duration(seconds=count // 1000)


class Coordinator:
    """A coordinator on a free port, ended by its process id."""

    def __init__(self, binary):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LOCKKEEPER_") and k != "RUST_LOG"}
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--set", "log.format=json"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        for line in self.process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            if "address" in event:
                self.address = event["address"]
                break
        else:
            raise RuntimeError(f"the coordinator ended with {self.process.wait()}")
        # Nobody reads its log from here on, but it must be able to go on writing.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self):
        """Asks it to end, as an operator does, and returns its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(LIMIT)
        finally:
            self.process.kill()


class Session:
    """A session's stream: frames go in by send(), come out by next()."""

    def __init__(self, stub, first):
        self.frames = queue.Queue()
        self.frames.put(session_pb2.SessionRequest(**first))
        self.call = stub.Session(iter(self.frames.get, None))
        self.incoming = iter(self.call)

    def send(self, op_id, **request):
        self.frames.put(session_pb2.SessionRequest(op_id=op_id, **request))

    def next(self):
        return next(self.incoming)

    def half_close(self):
        self.frames.put(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.half_close()
        self.call.cancel()


def try_acquire(stub, name, **fields):
    return stub.TryAcquire(lock_pb2.TryAcquireRequest(name=name, **fields), timeout=LIMIT)


def release(stub, grant, **fields):
    request = lock_pb2.ReleaseRequest(name=grant.name, session_id=grant.session_id, owner=grant.owner, **fields)
    return stub.Release(request, timeout=LIMIT)


def describe(stub, name):
    return stub.Describe(lock_pb2.DescribeRequest(name=name), timeout=LIMIT)


def reason(error):
    """The stable reason of an error, with its metadata."""
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    for detail in status_pb2.Status.FromString(details).details:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            assert info.domain == "lockkeeper", info
            return info.reason, dict(info.metadata)
    raise AssertionError(f"no ErrorInfo in {error}")


def expect_error(code, expected, call):
    try:
        answer = call()
    except grpc.RpcError as error:
        assert error.code() == code, error
        found, metadata = reason(error)
        assert found == expected, (found, metadata)
        return metadata
    raise AssertionError(f"no error but {answer}")


def eventually(what, is_so):
    until = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < until, f"not in time: {what}"
        time.sleep(0.01)


def test_one_owner_holds_and_others_are_refused(stub):
    first = try_acquire(stub, "py-unary")
    assert first.acquired and first.grant.owner and first.grant.fencing_token > 0, first
    second = try_acquire(stub, "py-unary")
    assert not second.acquired and second.holder_remaining_lease.ToSeconds() > 0, second
    assert release(stub, first.grant).released
    metadata = expect_error(
        grpc.StatusCode.FAILED_PRECONDITION, "NOT_OWNER", lambda: release(stub, first.grant)
    )
    assert metadata["state"] == "expired", metadata
    again = try_acquire(stub, "py-unary")
    assert again.grant.fencing_token > first.grant.fencing_token


def test_taking_it_again_counts(stub):
    first = try_acquire(stub, "py-again", owner="me").grant
    second = try_acquire(stub, "py-again", owner="me").grant
    assert (first.hold_count, second.hold_count) == (1, 2)
    assert first.fencing_token == second.fencing_token
    one_left = release(stub, second)
    assert not one_left.released and one_left.hold_count == 1, one_left
    assert release(stub, second).released


def test_a_repeat_with_the_same_request_id_gets_the_first_answer(stub):
    first = try_acquire(stub, "py-repeat", request_id="once").grant
    repeat = try_acquire(stub, "py-repeat", request_id="once").grant
    assert (first.owner, first.fencing_token) == (repeat.owner, repeat.fencing_token)
    assert repeat.hold_count == 1
    assert release(stub, first, request_id="back").released
    assert release(stub, first, request_id="back").released


def test_a_streamed_acquire_is_granted_on_release(stub):
    holder = try_acquire(stub, "py-stream").grant
    events = stub.Acquire(lock_pb2.AcquireRequest(name="py-stream"), timeout=LIMIT)
    waiting = next(events)
    assert waiting.WhichOneof("event") == "waiting" and waiting.waiting.position == 1, waiting
    assert release(stub, holder).released
    rest = list(events)
    assert rest[-1].granted.fencing_token > holder.fencing_token, rest
    assert all(event.WhichOneof("event") == "waiting" for event in rest[:-1]), rest
    assert release(stub, rest[-1].granted).released


def test_a_wait_that_runs_out_is_an_answer(stub):
    holder = try_acquire(stub, "py-wait").grant
    events = stub.Acquire(lock_pb2.AcquireRequest(name="py-wait", wait_timeout=ms(100)), timeout=LIMIT)
    last = list(events)[-1]
    assert last.not_granted.reason == types_pb2.NOT_GRANTED_REASON_WAIT_TIMEOUT, last
    assert release(stub, holder).released


def test_a_dropped_stream_ends_the_wait(stub):
    holder = try_acquire(stub, "py-drop").grant
    events = stub.Acquire(lock_pb2.AcquireRequest(name="py-drop"))
    next(events)
    assert describe(stub, "py-drop").waiter_count == 1
    events.cancel()
    eventually("the waiter is gone", lambda: describe(stub, "py-drop").waiter_count == 0)
    assert release(stub, holder).released
    assert not describe(stub, "py-drop").holders


def test_a_wrong_request_names_the_field(stub):
    metadata = expect_error(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_NAME", lambda: try_acquire(stub, ""))
    assert metadata["field"] == "name", metadata
    unknown = "00000000-0000-4000-8000-000000000000"
    expect_error(
        grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", lambda: try_acquire(stub, "py-bad", session_id=unknown)
    )


# Field 1000 of a message, as a newer client may send it: docs/compatibility.md.
UNKNOWN_FIELD = b"\xc0\x3e\x01"
UNKNOWN_FRAME = b"\xc2\x3e\x00"


def test_an_unknown_field_is_ignored(stub):
    known = lock_pb2.TryAcquireRequest(name="py-newer")
    newer = lock_pb2.TryAcquireRequest.FromString(known.SerializeToString() + UNKNOWN_FIELD)
    assert newer.SerializeToString() != known.SerializeToString(), "it would not be sent"
    assert stub.TryAcquire(newer, timeout=LIMIT).acquired


def test_an_unknown_mode_is_refused(stub):
    metadata = expect_error(
        grpc.StatusCode.INVALID_ARGUMENT, "INVALID_MODE", lambda: try_acquire(stub, "py-mode", mode=99)
    )
    assert metadata["field"] == "mode", metadata


def test_an_unknown_frame_is_refused_and_the_session_goes_on(stub):
    with Session(stub, {"open": session_pb2.OpenSession()}) as session:
        session.next()
        frame = session_pb2.SessionRequest(op_id=1).SerializeToString() + UNKNOWN_FRAME
        session.frames.put(session_pb2.SessionRequest.FromString(frame))
        refused = session.next()
        assert refused.op_id == 1, refused
        assert refused.failed.code == grpc.StatusCode.INVALID_ARGUMENT.value[0], refused
        session.send(2, try_acquire=lock_pb2.TryAcquireRequest(name="py-frame"))
        assert session.next().tried.acquired


def test_a_session_holds_until_it_is_closed(stub):
    with Session(stub, {"open": session_pb2.OpenSession(client_name="smoke")}) as session:
        assert session.next().opened.session_id
        session.send(1, try_acquire=lock_pb2.TryAcquireRequest(name="py-session"))
        tried = session.next()
        assert tried.op_id == 1 and tried.tried.acquired and tried.tried.grant.watched, tried
        assert describe(stub, "py-session").holders[0].client_name == "smoke"
        session.send(2, release=lock_pb2.ReleaseRequest(name="py-session"))
        released = session.next()
        assert released.op_id == 2 and released.released.released, released
        session.send(3, acquire=lock_pb2.AcquireRequest(name="py-session"))
        assert session.next().granted.hold_count == 1
        session.half_close()
        assert list(session.incoming) == [], "the stream ends OK"
    assert not describe(stub, "py-session").holders, "half-closing releases"


def test_a_lost_grant_is_told(stub):
    with Session(stub, {"open": session_pb2.OpenSession()}) as session:
        session.next()
        # A lease of its own is not renewed.
        session.send(1, try_acquire=lock_pb2.TryAcquireRequest(name="py-lost", lease=ms(200)))
        grant = session.next().tried.grant
        assert not grant.watched
        lost = session.next()
        assert lost.op_id == 0 and lost.lost.grant.fencing_token == grant.fencing_token, lost
        assert lost.lost.reason == types_pb2.LOST_REASON_EXPIRED, lost


def test_a_broken_stream_can_be_resumed(stub):
    with Session(stub, {"open": session_pb2.OpenSession()}) as session:
        opened = session.next().opened
        session.send(1, try_acquire=lock_pb2.TryAcquireRequest(name="py-resume"))
        grant = session.next().tried.grant
        session.call.cancel()
    assert describe(stub, "py-resume").holders, "a broken stream keeps its grants"
    resume = session_pb2.ResumeSession(
        session_id=opened.session_id, resume_token=opened.resume_token, grants=[grant]
    )
    with Session(stub, {"resume": resume}) as session:
        again = session.next().opened
        assert [held.fencing_token for held in again.grants] == [grant.fencing_token], again
        session.send(1, release=lock_pb2.ReleaseRequest(name="py-resume"))
        assert session.next().released.released


def last_test_a_drain_tells_sessions_to_go(stub, coordinator):
    with Session(stub, {"open": session_pb2.OpenSession()}) as session:
        session.next()
        ended = []
        stopper = threading.Thread(target=lambda: ended.append(coordinator.stop()))
        stopper.start()
        assert session.next().WhichOneof("response") == "going_away"
        try:
            session.next()
            raise AssertionError("the stream goes on")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE and reason(error)[0] == "DRAINING", error
        stopper.join(LIMIT)
        assert ended == [0], ended


def main():
    coordinator = Coordinator(sys.argv[1])
    passed = failed = 0
    try:
        with grpc.insecure_channel(coordinator.address) as channel:
            stub = lock_service_pb2_grpc.LockServiceStub(channel)
            tests = [(name, (stub,)) for name in globals() if name.startswith("test_")]
            tests.append(("last_test_a_drain_tells_sessions_to_go", (stub, coordinator)))
            for name, arguments in tests:
                try:
                    globals()[name](*arguments)
                except Exception:  # Whatever it is, the other tests go on.
                    failed += 1
                    print(f"FAILED {name}\n{traceback.format_exc()}")
                else:
                    passed += 1
                    print(f"ok {name}")
    finally:
        coordinator.process.kill()
        coordinator.process.wait()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
