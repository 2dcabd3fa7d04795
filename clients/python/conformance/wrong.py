#!/usr/bin/env python3
"""Runs the driver with one rule of clients/session-machine.md broken: wrong.py NAME.

The kit must fail each of them. Everything is patched from outside, for the asyncio client.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parents[1]
PYTHON = HERE / ".venv" / "bin" / "python"

if Path(sys.prefix) != HERE / ".venv":
    os.environ["PYTHONPATH"] = str(HERE / "src")
    os.execv(PYTHON, [str(PYTHON), __file__, *sys.argv[1:]])  # noqa: S606

import driver  # noqa: E402
from lockkeeper import _follow  # noqa: E402
from lockkeeper._election import Observing  # noqa: E402
from lockkeeper._machine import events as ev  # noqa: E402
from lockkeeper._machine import grants  # noqa: E402
from lockkeeper._machine import stream as streams  # noqa: E402
from lockkeeper._machine.grants import Grants  # noqa: E402
from lockkeeper._machine.machine import Machine  # noqa: E402
from lockkeeper._machine.messages import ACQUIRES, WAITS  # noqa: E402
from lockkeeper._machine.operations import Operation, Operations, Purpose  # noqa: E402
from lockkeeper._machine.stream import Attempts, Down, is_refusal  # noqa: E402
from lockkeeper.aio import _client, _lock, _session  # noqa: E402
from lockkeeper.v1 import session_pb2  # noqa: E402

IDLE = 0.5


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Replace a function by one that is given the original as its first argument."""
    original = getattr(owner, name)

    def replace(function: Callable[..., Any]) -> None:
        setattr(owner, name, lambda *arguments: function(original, *arguments))

    return replace


def validity_from_the_answer() -> None:
    """Count valid_for from the arrival of an answer."""

    @around(Grants, "add")
    def _(add: Any, self: Any, now: float, _: float, *rest: Any) -> None:
        add(self, now, now, *rest)

    @around(Grants, "renewed")
    def _(renewed: Any, self: Any, now: float, _: float, *rest: Any) -> None:
        renewed(self, now, now, *rest)


def new_request_id() -> None:
    """Use a new request id for a retry."""
    sent = set()

    @around(Operation, "frame")
    def _(frame: Any, self: Any, now: float) -> Any:
        if self.op_id in sent and "request_id" in self.request.DESCRIPTOR.fields_by_name:
            self.request.request_id = os.urandom(16).hex()
        sent.add(self.op_id)
        return frame(self, now)


def half_close() -> None:
    """Half-close the stream when there is nothing to send."""

    async def write(call: Any, first: Any, frames: Any) -> None:
        await call.write(first)
        while True:
            try:
                frame = await asyncio.wait_for(frames.get(), IDLE)
            except asyncio.TimeoutError:
                await call.done_writing()
                return
            await call.write(frame)

    _session._write = write


def no_half_close() -> None:
    """Leave the stream open after `close`."""

    async def stays_open() -> None:
        pass

    @around(_session, "_write")
    def _(write: Any, call: Any, first: Any, frames: Any) -> Any:
        call.done_writing = stays_open
        return write(call, first, frames)


def half_close_ends_it() -> None:
    """Resume without saying that only `close` ends the session."""

    @around(_session, "_write")
    def _(write: Any, call: Any, first: Any, frames: Any) -> Any:
        if first.HasField("resume"):
            first.resume.sends_close = False
        return write(call, first, frames)


def lost_ignored() -> None:
    """Ignore `lost`."""
    Grants.on_lost = lambda *_: None  # type: ignore[method-assign]


def resume_without_a_grant() -> None:
    """Resume without naming a grant."""

    @around(Machine, "_resume")
    def _(resume: Any, self: Any) -> session_pb2.ResumeSession:
        frame: session_pb2.ResumeSession = resume(self)
        del frame.grants[-1:]
        return frame


def owner_used_twice() -> None:
    """Use one owner for all acquires."""

    @around(Operations, "start")
    def _(start: Any, self: Any, now: float, call: ev.Call, *rest: Any) -> Any:
        if call.kind in ACQUIRES and call.request.owner.startswith("guard-"):
            call.request.owner = "0"
        return start(self, now, call, *rest)


def token_as_a_double() -> None:
    """Keep a fencing token in a double."""
    module: Any = _lock
    exact, tokens_of = module.Lock.fencing_token.fget, module.tokens_of
    module.Lock.fencing_token = property(lambda self: int(float(exact(self))))
    module.tokens_of = lambda held: {k: int(float(v)) for k, v in tokens_of(held).items()}


def cancel_without_reading() -> None:
    """Forget a wait when it is cancelled."""

    @around(Operations, "give_up")
    def _(give_up: Any, self: Any, event: ev.GiveUp) -> None:
        operation = self.get(event.op_id)
        give_up(self, event)
        if operation.kind in WAITS:
            self.take(event.op_id)


def renewals_from_the_answer() -> None:
    """Time renewals from the arrival of an answer."""

    @around(Grants, "add")
    def _(add: Any, self: Any, now: float, *rest: Any) -> None:
        self.answered_at = now
        add(self, now, *rest)

    @around(Grants, "renewed")
    def _(renewed: Any, self: Any, now: float, *rest: Any) -> None:
        self.answered_at = now
        renewed(self, now, *rest)

    @around(Grants, "_renew_at")
    def _(renew_at: Any, self: Any, _: float, grant: Any) -> Any:
        return renew_at(self, self.answered_at, grant)


def no_jitter() -> None:
    """Reconnect without jitter."""

    @around(streams, "pause")
    def _(pause: Any, attempts: Any, endpoints: int, _: Any) -> Any:
        return pause(attempts, endpoints, lambda: 1.0)


def reopened_silently() -> None:
    """Open another session when no coordinator knows this one, and go on."""

    @around(Machine, "_on_attempt_failed")
    def _(failed: Any, self: Any, now: float, state: Any, error: Any) -> None:
        attempts = state.attempts.failed(error)
        if is_refusal(error) and attempts.refused >= len(self._endpoints):
            self._opened = None
            self._state = Down(now, Attempts())
        else:
            failed(self, now, state, error)


def released_twice() -> None:
    """Release a guard twice."""

    @around(Operations, "start")
    def _(start: Any, self: Any, now: float, call: ev.Call, *rest: Any) -> Any:
        operation = start(self, now, call, *rest)
        if operation.purpose is Purpose.RELEASE:
            request = type(call.request)()
            request.CopyFrom(call.request)
            request.request_id = ""
            start(self, now, ev.Call(next(self._ids), call.kind, request), Purpose.CLEANUP)
        return operation


def term_repeated() -> None:
    """Observe anew after the term before the last."""

    @around(Observing, "request")
    def _(request: Any, self: Any) -> Any:
        repeat = type(request(self))()
        repeat.CopyFrom(request(self))
        repeat.after_revision = max(0, repeat.after_revision - 1)
        return repeat


def gap_hidden() -> None:
    """Take the first answer of another stream for one of the same."""
    for progress in (Observing, _follow.Watching):

        @around(progress, "_events")
        def _(events: Any, self: Any, response: Any, _: bool) -> Any:
            return events(self, response, False)


def oversized_sent() -> None:
    """Send an operation whatever its length, again after each resume."""
    Operations.too_large = lambda *_: None  # type: ignore[method-assign]


def modes_apart() -> None:
    """Keep an EXCLUSIVE hold and a FAIR one of an owner as two grants."""

    @around(grants, "keys_of")
    def _(keys_of: Any, message: Any) -> list[tuple[str, ...]]:
        return [(*key, str(getattr(message, "mode", 0))) for key in keys_of(message)]


def backoff_forgotten() -> None:
    """Take each stream that opens for progress."""

    @around(streams.Progress, "on_opened")
    def _(on_opened: Any, self: Any, now: float) -> None:
        on_opened(self, now)
        self.on_answer()


def deaf_in_a_handler() -> None:
    """Let what a handler of a loss asks for wait until the handler has it."""

    @around(_session.Session, "_advance")
    def _(advance: Any, self: Any, event: ev.Event) -> None:
        if not (isinstance(event, ev.Call) and self.has_lost):
            advance(self, event)

    @around(_session.Session, "_on_lost")
    def _(on_lost: Any, self: Any, effect: ev.Lost) -> None:
        self.has_lost = True
        on_lost(self, effect)

    _session.Session.has_lost = False  # type: ignore[attr-defined]


def ended_session_kept() -> None:
    """Acquire in a session that has ended."""

    @around(_client.Client, "_session")
    def _(session: Any, self: Any) -> Any:
        return self._shared or session(self)


def end_of_a_feed_believed() -> None:
    """Take the end of a feed with OK for the end of what it is about."""

    @around(_follow.Progress, "failed")
    def _(failed: Any, self: Any, error: Any) -> float:
        if "it ended the stream" in str(error):
            raise error
        pause: float = failed(self, error)
        return pause


WRONG = {
    "validity-from-the-answer": validity_from_the_answer,
    "new-request-id": new_request_id,
    "half-close": half_close,
    "no-half-close": no_half_close,
    "half-close-ends-it": half_close_ends_it,
    "lost-ignored": lost_ignored,
    "resume-without-a-grant": resume_without_a_grant,
    "owner-used-twice": owner_used_twice,
    "token-as-a-double": token_as_a_double,
    "cancel-without-reading": cancel_without_reading,
    "renewals-from-the-answer": renewals_from_the_answer,
    "no-jitter": no_jitter,
    "reopened-silently": reopened_silently,
    "released-twice": released_twice,
    "term-repeated": term_repeated,
    "gap-hidden": gap_hidden,
    "oversized-sent": oversized_sent,
    "modes-apart": modes_apart,
    "backoff-forgotten": backoff_forgotten,
    "deaf-in-a-handler": deaf_in_a_handler,
    "ended-session-kept": ended_session_kept,
    "end-of-a-feed-believed": end_of_a_feed_believed,
}


def main() -> None:
    """Break the rule that the command line names, and run the driver."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in WRONG:
        sys.exit("\n".join(["usage: wrong.py NAME", "", *WRONG]))
    WRONG[name]()
    asyncio.run(driver.Driver().run())


if __name__ == "__main__":
    main()
