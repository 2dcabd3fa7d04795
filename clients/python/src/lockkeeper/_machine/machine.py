"""The session machine of clients/session-machine.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

from lockkeeper._machine import events as ev
from lockkeeper._machine import stream as streams
from lockkeeper._machine.grants import RENEW_PART, Grants
from lockkeeper._machine.messages import (
    ACQUIRES,
    QUESTIONS,
    TRIES,
    Request,
    grants_in,
    kinds_with,
    loss_in,
    refusal_in,
    resume_of,
    seconds,
)
from lockkeeper._machine.operations import RETRY_PAUSE, Operation, Operations, Purpose
from lockkeeper._machine.stream import Attempts, Down, Ended, Opening, Progress, State, Up
from lockkeeper._machine.timers import Alarm
from lockkeeper.errors import Error, Refused, SessionEnded, Unreachable
from lockkeeper.v1 import session_pb2

#: The cause of an end that the user asked for.
CLOSED = "it was closed"
CLOSE_TIMEOUT = 2.0
LEASE_DEFAULT = 30.0
NEVER = float("inf")
#: In place of the next deadline: it has to be looked up. Other changes only make it later, or set a
#: timer.
_UNKNOWN = 0.0

_WITH_OWNER = kinds_with("owner")

#: The responses that answer no operation.
_NOTICES = ["lost", "permits_lost", "yield_requested", "opened", "going_away", "pong"]
_NOTICES += ["at_risk", "recovered"]

#: The responses that say how a wait goes.
_WAITING = ["waiting", "waiting_for_all", "waiting_for_permits", "waiting_for_latch"]


class Machine:
    """One session: a function of a state, an event and the time, which returns effects."""

    def __init__(
        self,
        endpoints: list[str],
        open_session: session_pb2.OpenSession,
        ids: Iterator[int],
        new_id: Callable[[], str],
        random: Callable[[], float],
    ) -> None:
        """Use the addresses of `endpoints` for people only; effects name them by their index."""
        self._endpoints = endpoints
        self._endpoint = 0
        self._open = open_session
        self._ids = ids
        self._random = random
        self._effects: list[ev.Effect] = []
        self._emit = self._effects.append
        self._state: State = Down(0.0, Attempts())
        self._streams = 0
        self._progress = Progress()
        self._opened: session_pb2.SessionOpened | None = None
        self._ping_interval = NEVER
        self._resume_deadline = NEVER
        #: Why the last attempt failed, or the stream broke.
        self._fault: Unreachable | None = None
        self._close: ev.Close | None = None
        self._close_deadline = NEVER
        #: When the next `Tick` is due.
        self.alarm = Alarm()
        #: Whether the session is over, or could not be opened.
        self.is_ended = False
        self._close_sent = False
        self._grants = Grants(ids, self.alarm, self._emit, self._release_failed, self._renew)
        self._operations = Operations(ids, self.alarm, new_id, random, self._emit)

    # --- the interface

    def step(self, event: ev.Event, now: float) -> list[ev.Effect]:
        """Take over an event, and meet the deadlines that have passed."""
        if self.is_ended:
            self._on_ended(event)
        else:
            _EVENTS[type(event)](self, event, now)
            if self.alarm.at <= now:
                self.alarm.at = self._next_deadline()
                if self.alarm.at <= now:
                    self._meet_deadlines(now)
                    self.alarm.at = self._next_deadline()
        effects = self._effects[:]
        self._effects.clear()
        return effects

    def _next_deadline(self) -> float:
        state = self._state
        if isinstance(state, Up):
            first = self._ping_at(state) if state.leave_at is None else state.leave_at
        elif isinstance(state, Ended) or not self._streams:
            return NEVER
        else:
            first = state.retry_at if isinstance(state, Down) else state.deadline
            first = min(first, self._resume_deadline)
        grants, operations = self._grants.timers.first, self._operations.timers.first
        return min(first, self._close_deadline, grants, operations)

    def _enter(self, state: State) -> None:
        self._state = state
        self.alarm.at = _UNKNOWN

    @property
    def ended(self) -> Error:
        """Why the session is over."""
        assert isinstance(self._state, Ended)
        return self._state.error

    # --- time

    def _meet_deadlines(self, now: float) -> None:
        self._grants.due(now, self._operations.can_send)
        self._meet_operations(now)
        if now >= self._close_deadline:
            self._end("it was closed, and no coordinator has confirmed that", is_late=True)
        elif now >= self._resume_deadline:
            self._end(f"no coordinator was reachable for as long as the lease; {self._fault}")
        else:
            self._check_stream(now)

    def _meet_operations(self, now: float) -> None:
        if isinstance(self._state, Up):
            self._operations.retry_due(now)
            return
        # A limit has passed while there is no stream: as if the callers gave up.
        error = self._fault or self._unreachable("it has not answered yet")
        for op_id in self._operations.waits_over(now):
            self._emit(ev.Failed(op_id, error))
            self._operations.give_up(ev.GiveUp(op_id))

    def _check_stream(self, now: float) -> None:
        state = self._state
        if isinstance(state, Up):
            if state.leave_at is not None and now >= state.leave_at:
                self._leave(now, "the coordinator is stopping")
            elif now >= self._ping_at(state):
                if state.pinged_at is not None:
                    self._leave(now, "no answer to a ping")
                elif self._operations.can_send:
                    state.pinged_at = now
                    self._emit(ev.Send(session_pb2.SessionRequest(ping=session_pb2.Ping())))
        elif isinstance(state, Opening) and now >= state.deadline:
            self._emit(ev.CancelStream(state.stream))
            self._on_attempt_failed(now, state, self._unreachable("it does not answer"))
        state = self._state
        if isinstance(state, Down) and now >= state.retry_at:
            self._start_attempt(now, state.attempts)

    def _ping_at(self, state: Up) -> float:
        """When to ping, or to give up the stream without an answer."""
        if state.leave_at is not None or self._close_sent:
            return NEVER
        since = state.heard_at if state.pinged_at is None else state.pinged_at
        return since + self._ping_interval

    # --- the stream

    def _start_attempt(self, now: float, attempts: Attempts) -> None:
        self._streams += 1
        if self._opened is None:
            frame = session_pb2.SessionRequest(open=self._open)
            timeout = streams.OPEN_TIMEOUT
        else:
            frame = session_pb2.SessionRequest(resume=self._resume())
            timeout = streams.resume_timeout(self._grants.lease, attempts, len(self._endpoints))
        self._enter(Opening(self._streams, now, timeout, attempts))
        self._emit(ev.OpenStream(self._streams, self._endpoint, frame))

    def _resume(self) -> session_pb2.ResumeSession:
        """Name everything that the session holds or may hold: the rest is released."""
        assert self._opened
        possible = self._operations.possible_locks()
        unknown = [it for it in possible if self._grants.find(it) is None]
        return resume_of(self._opened, [*self._grants.messages(), *unknown])

    def _on_received(self, event: ev.Received, now: float) -> None:
        state = self._state
        if isinstance(state, (Down, Ended)) or event.stream != state.stream:
            return
        frame = event.frame
        kind = frame.WhichOneof("response")
        if isinstance(state, Up):
            state.heard_at = now
            state.pinged_at = None
            if kind:
                _FRAMES.get(kind, Machine._on_answer)(
                    self, now, frame.op_id, kind, getattr(frame, kind)
                )
        elif kind == "opened":
            self._on_opened(now, state, frame.opened)
        else:
            self._emit(ev.CancelStream(event.stream))
            cause = "it did not confirm that the session is open"
            self._on_attempt_failed(now, state, self._unreachable(cause))

    def _on_opened(self, now: float, state: Opening, opened: session_pb2.SessionOpened) -> None:
        is_first = self._opened is None
        grants = self._grants
        if opened.HasField("lease") or is_first:
            grants.lease = seconds(opened.lease) or LEASE_DEFAULT
        interval = seconds(opened.renew_interval)
        grants.renew_interval = interval or grants.lease * RENEW_PART
        self._ping_interval = seconds(opened.ping_interval) or NEVER
        if self._opened is None:
            self._opened = session_pb2.SessionOpened(
                session_id=opened.session_id, resume_token=opened.resume_token
            )
        else:
            self._opened.resume_token = opened.resume_token
        self._enter(Up(state.stream, now))
        self._resume_deadline = NEVER
        self._progress.on_opened(now)
        self._operations.can_send = True
        self._emit(ev.Changed("connected"))
        for grant in [*opened.grants, *opened.permits]:
            grants.renewed(now, state.sent_at, grant)
        if self._close:
            self._send_close()
        else:
            self._operations.on_resumed(now, opened.grants, grants.is_held)
            grants.check_all(now, can_renew=True)

    def _on_stream_ended(self, event: ev.StreamEnded, now: float) -> None:
        state = self._state
        if isinstance(state, (Down, Ended)) or event.stream != state.stream:
            return
        if isinstance(state, Opening):
            error = event.error or self._unreachable("it ended the stream")
            self._on_attempt_failed(now, state, error)
        elif self._close_sent and event.error is None:
            self._end(CLOSED)
        elif state.leave_at is not None:
            self._on_broken(now, "the coordinator is stopping")
        else:
            cause = str(event.error or "the coordinator ended the stream")
            self._on_broken(now, cause, event.error)
            for operation, error in self._operations.limited_by(event.error):
                self._fail(operation, error)

    def _leave(self, now: float, cause: str) -> None:
        assert isinstance(self._state, Up)
        self._emit(ev.CancelStream(self._state.stream))
        self._on_broken(now, cause)

    def _on_broken(self, now: float, cause: str, error: Error | None = None) -> None:
        self._fault = self._unreachable(cause, error)
        self._resume_deadline = min(self._resume_deadline, now + self._grants.lease)
        self._endpoint = (self._endpoint + 1) % len(self._endpoints)
        pause = self._progress.on_ended(now, self._grants.lease, self._random)
        self._enter(Down(now + pause, Attempts()))
        self._close_sent = False
        self._operations.can_send = False
        self._operations.on_stream_ended()
        self._grants.on_stream_ended()
        self._emit(ev.Changed("resuming", cause))

    def _on_attempt_failed(self, now: float, state: Opening, error: Error) -> None:
        attempts = state.attempts.failed(error)
        self._fault = self._unreachable(str(error), error)
        endpoints = len(self._endpoints)
        is_over = attempts.refused >= endpoints
        if self._opened is None:
            is_over = streams.is_final(error) or attempts.count >= endpoints
        self._endpoint = (self._endpoint + 1) % endpoints
        self._enter(Down(now + streams.pause(attempts, endpoints, self._random), attempts))
        if is_over:
            self._end(str(error), error if self._opened is None else None)

    def _unreachable(self, cause: str, error: Error | None = None) -> Unreachable:
        if isinstance(error, Unreachable):
            return error
        return Unreachable(self._endpoints[self._endpoint], cause)

    # --- frames

    def _on_waiting(self, _: float, op_id: int, __: str, response: ev.Message) -> None:
        operation = self._operations.get(op_id)
        if operation and not operation.abandoned:
            self._emit(ev.Waits(op_id, response))

    def _on_notice(self, now: float, _: int, kind: str, response: ev.Message) -> None:
        if kind in ("lost", "permits_lost"):
            self._grants.on_lost(now, response)
        elif kind == "yield_requested":
            self._grants.on_asked(now, response)
        elif kind == "at_risk":
            cause = f"renewals fail, the first loss is {seconds(response.valid_for):.1f} s away"
            self._emit(ev.Changed("at_risk", cause))
        elif kind == "recovered":
            self._emit(ev.Changed("connected"))
        elif kind == "opened":
            assert self._opened
            self._opened.resume_token = response.resume_token
        elif kind == "going_away":
            assert isinstance(self._state, Up)
            if self._state.leave_at is None:
                self._state.leave_at = now + streams.LEAVE_TIMEOUT
                self.alarm.at = _UNKNOWN
            self._operations.can_send = False

    def _on_answer(self, now: float, op_id: int, kind: str, response: ev.Message) -> None:
        operation = self._operations.get(op_id)
        if operation is None or operation.sent_at is None:
            return  # It is a repeat.
        self._operations.take(op_id)
        self._progress.on_answer()
        sent_at = operation.sent_at
        if kind == "renewed":
            self._grants.renewed(now, sent_at, response.grant)
        elif kind == "permits_renewed":
            for grant in response.grants:
                self._grants.renewed(now, sent_at, grant)
        purpose = operation.purpose
        if purpose is Purpose.CALLER:
            self._on_answer_to_caller(now, operation, sent_at, kind, response)
        elif purpose is Purpose.RELEASE:
            self._grants.end_release(op_id)
            self._answer(operation, kind, response)
        elif purpose is Purpose.RENEWAL:
            self._grants.on_renewal_answered(now, operation.target, self._operations.can_send)

    def _on_answer_to_caller(
        self, now: float, operation: Operation, sent_at: float, kind: str, response: ev.Message
    ) -> None:
        grants = grants_in(kind, response)
        if operation.kind not in ACQUIRES and kind not in ("latch_not_opened", "claimed"):
            self._answer(operation, kind, response)
        elif grants:
            self._grants.add(now, sent_at, operation.op_id, grants)
            if operation.abandoned and operation.op_id in self._grants.guards:
                self._release_failed(now, operation.op_id)
        else:
            self._fail(operation, refusal_in(operation.name(), kind, response))

    def _on_failed(self, now: float, op_id: int, _: str, response: ev.Message) -> None:
        operation, error = self._operations.sent(op_id), Refused.of(response)
        if operation is None:
            return
        self._progress.on_answer()
        if self._operations.retried(now, operation, error, self._grants.lease):
            if operation.is_late(now):
                self._emit(ev.Failed(op_id, error))
                self._operations.give_up(ev.GiveUp(op_id))
            return
        self._operations.take(op_id)
        reason = loss_in(error)
        if operation.kind in ("renew", "renew_permits") and reason:
            # The user's renewal says as much as one of the session.
            self._grants.on_not_owner(now, operation.request, operation.token, reason)
        if operation.purpose is Purpose.RENEWAL:
            pause = min(RETRY_PAUSE, self._grants.lease / 6)
            self._grants.on_renewal_failed(now, operation.target, pause)
            return
        if operation.purpose is Purpose.RELEASE:
            self._grants.end_release(op_id)
        self._fail(operation, error)

    def _answer(self, operation: Operation, kind: str, response: ev.Message) -> None:
        if not operation.abandoned:
            self._emit(ev.Answered(operation.op_id, kind, response))

    def _fail(self, operation: Operation, error: Error) -> None:
        if not operation.abandoned:
            self._emit(ev.Failed(operation.op_id, error))

    # --- the user

    def _on_call(self, call: ev.Call, now: float) -> None:
        if self._close:
            self._emit(ev.Failed(call.op_id, SessionEnded(CLOSED)))
            return
        if call.kind in _WITH_OWNER and not call.request.owner:
            # Two tasks of one session exclude each other.
            call.request.owner = f"guard-{call.op_id}"
        too_large = self._operations.too_large(call.kind, call.request)
        if too_large:
            self._emit(ev.Failed(call.op_id, too_large))
            return
        if call.wait_until is None and call.kind in TRIES | QUESTIONS and self._opened:
            # What waits for no holder does not wait for long while nothing answers, either.
            limit = max(streams.OPEN_TIMEOUT, call.patience or 0.0)
            call = call._replace(wait_until=now + limit)
        operation = self._operations.start(now, call, Purpose.CALLER)
        if not isinstance(self._state, Up):
            # A limit of 0 means to try, for which a new session is opened first.
            self._operations.limit_wait(operation, after=-NEVER if self._opened else now)
        if call.kind in ("renew", "renew_permits"):
            operation.token = self._grants.token(call.request)

    def _on_give_up(self, event: ev.GiveUp, now: float) -> None:
        if event.op_id in self._operations:
            self._operations.give_up(event)
        elif event.op_id in self._grants.guards:
            # The guard was on its way to the caller.
            self._release_failed(now, event.op_id)

    def _on_release(self, event: ev.Release, now: float) -> None:
        guard = self._grants.guards.get(event.guard)
        if guard is None or self._close_sent:
            self._emit(ev.Failed(event.op_id, SessionEnded(CLOSED)))
        elif guard.loss is not None:
            self._emit(ev.Failed(event.op_id, guard.loss))
            self._release_failed(now, event.guard)
        else:
            self._start_release(now, event)

    def _start_release(self, now: float, event: ev.Release) -> Operation | None:
        release = self._grants.begin_release(event.guard, event.op_id)
        if release is None:
            return None
        call = ev.Call(event.op_id, *release, None, None, event.traceparent)
        return self._operations.start(now, call, Purpose.RELEASE)

    def _release_failed(self, now: float, guard: int) -> None:
        """Release a guard that no caller has: a coordinator may still hold it."""
        if self._close_sent:
            return
        operation = self._start_release(now, ev.Release(next(self._ids), guard))
        if operation:
            operation.abandoned = True

    def _renew(self, now: float, holding: int, request: Request) -> None:
        renewal = self._operations.start_own(now, request, Purpose.RENEWAL, holding)
        renewal.token = self._grants.token(request[1])

    # --- the end

    def _on_close(self, event: ev.Close, now: float) -> None:
        if self._opened is None:
            self._close = event
            self._end(CLOSED)
            return
        self._close, self._close_deadline = event, now + CLOSE_TIMEOUT
        self.alarm.at = _UNKNOWN
        for operation in self._operations.take_callers():
            self._fail(operation, SessionEnded(CLOSED))
        if self._operations.can_send:
            self._send_close()

    def _send_close(self) -> None:
        self._close_sent = True
        self._operations.can_send = False
        self._emit(ev.Send(session_pb2.SessionRequest(close=session_pb2.CloseSession())))

    def _end(self, cause: str, error: Error | None = None, is_late: bool = False) -> None:
        """End the session; with an error if it was never open."""
        if isinstance(self._state, (Up, Opening)):
            self._emit(ev.CancelStream(self._state.stream))
        ended = error or SessionEnded(cause)
        self._enter(Ended(ended))
        self.is_ended = True
        self._grants.lose_all(ended)
        for operation in self._operations.take_all():
            if operation.purpose in (Purpose.CALLER, Purpose.RELEASE):
                self._fail(operation, ended)
        if self._opened is not None:
            self._emit(ev.Changed("ended", cause))
        if self._close and is_late:
            self._emit(ev.Failed(self._close.op_id, ended))
        elif self._close:
            self._emit(ev.Answered(self._close.op_id, "close", None))

    def abort(self, cause: str) -> list[ev.Effect]:
        """End the session after an error in this program, of which the machine may be a part.

        Nothing else of its state is touched: the caller reports what is lost and what failed.
        """
        self._effects.clear()
        self._state = Ended(SessionEnded(cause))
        self.is_ended = True
        self.alarm.at = NEVER
        effects: list[ev.Effect] = [ev.CancelStream(self._streams)]
        if self._opened is not None:
            effects.append(ev.Changed("ended", cause))
        return effects

    def _on_ended(self, event: ev.Event) -> None:
        assert isinstance(self._state, Ended)
        if isinstance(event, ev.Close):
            self._emit(ev.Answered(event.op_id, "close", None))
        elif isinstance(event, (ev.Call, ev.Release)):
            self._emit(ev.Failed(event.op_id, self._state.error))


_EVENTS: dict[type, Callable[[Machine, Any, float], None]] = {
    ev.Open: lambda machine, _, now: machine._start_attempt(now, Attempts()),
    ev.Received: Machine._on_received,
    ev.StreamEnded: Machine._on_stream_ended,
    ev.Call: Machine._on_call,
    ev.GiveUp: Machine._on_give_up,
    ev.Release: Machine._on_release,
    ev.Close: Machine._on_close,
    ev.Tick: lambda *_: None,
}

#: By response; the others are answers.
_FRAMES: dict[str, Callable[[Machine, float, int, str, ev.Message], None]] = {
    **dict.fromkeys(_NOTICES, Machine._on_notice),
    **dict.fromkeys(_WAITING, Machine._on_waiting),
    "failed": Machine._on_failed,
}
