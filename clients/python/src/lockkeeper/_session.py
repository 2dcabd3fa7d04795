"""What the sessions of both clients share: a machine, and what its effects mean."""

from __future__ import annotations

import itertools
import logging
import random
import secrets
from collections.abc import Sequence
from copy import copy
from typing import Any, Callable, NamedTuple, Protocol

from lockkeeper import _clock, _tracing
from lockkeeper._connect import Address
from lockkeeper._machine import CLOSED, Machine
from lockkeeper._machine import events as ev
from lockkeeper._machine.events import Message
from lockkeeper._machine.messages import token_of
from lockkeeper.errors import Error, LockLost
from lockkeeper.v1 import session_pb2

logger = logging.getLogger("lockkeeper")

#: A timer of the platform does not run while the machine sleeps; the clock does. No grant is
#: found to be over later than this after the machine wakes.
MAX_SLEEP = 1.0


class SessionEvent(NamedTuple):
    """A change of the session that a client's locks share."""

    #: ``"connected"``, ``"at_risk"`` (renewals fail; losses may follow), ``"resuming"`` (the stream
    #: broke; locks stay valid for as long as `valid_for` says) or ``"ended"`` (all is lost).
    state: str
    #: Why, for people; may be empty.
    cause: str


class YieldRequest(NamedTuple):
    """A request of another caller to release a lock."""

    #: The lock.
    name: str
    #: Who asks, for people; may be empty.
    by: str
    #: Why, for people.
    reason: str
    #: Until when the request stands, on the clock of the client; see `remaining`.
    deadline: float
    #: Whether the lock is taken away then.
    preempts: bool

    @property
    def remaining(self) -> float:
        """How long the request stands from now on, in seconds."""
        return max(0.0, self.deadline - _clock.now())


class Flag(Protocol):
    """An event of `threading` or of `asyncio`."""

    def set(self) -> None:
        """Set it."""

    def is_set(self) -> bool:
        """Tell whether it is set."""


class Acquisition(NamedTuple):
    """What is to be acquired."""

    kind: str
    request: Message
    wait_until: float | None
    patience: float | None
    on_lost: Callable[[LockLost], None] | None
    on_yield: Callable[[YieldRequest], None] | None


class Held:
    """What one acquire obtained, as its user sees it."""

    __slots__ = (
        "_flags",
        "asked",
        "block",
        "grants",
        "guard",
        "holder",
        "is_released",
        "loss",
        "on_lost",
        "on_yield",
        "session",
        "valid_until",
    )

    def __init__(self, session: SessionCore, effect: ev.Granted) -> None:
        self.session: Any = session
        #: Events by name, made when they are first asked for: few callers do.
        self._flags: dict[str, Flag] = {}
        self.guard = effect.op_id
        self.grants = effect.grants
        self.valid_until = effect.valid_until
        self.loss: LockLost | None = None
        #: Whether its release has begun.
        self.is_released = False
        self.on_lost: list[Callable[[LockLost], None]] = []
        #: The newest request to yield.
        self.asked: YieldRequest | None = None
        self.on_yield: Callable[[YieldRequest], None] | None = None
        #: The thread or the task that acquired it, and the block of the asyncio client.
        self.holder: Any = None
        self.block: Any = None

    @property
    def lost(self) -> Flag:
        """Return the event of its loss."""
        return self._flag("lost", lambda: self.loss)

    @property
    def yield_requested(self) -> Flag:
        """Return the event of a request to yield."""
        return self._flag("yield_requested", lambda: self.asked)

    def _flag(self, name: str, happened: Callable[[], object]) -> Flag:
        known = self._flags.get(name)
        if known is None:
            known = self._flags.setdefault(name, self.session.flag())
            # What happens from now on sets it; see `happens`.
            if happened():
                known.set()
        return known

    def happens(self, name: str) -> None:
        """Set an event, if it was asked for. What it is about is known already."""
        known = self._flags.get(name)
        if known is not None:
            known.set()

    @property
    def valid_for(self) -> float:
        """Return how long it is certainly held, in seconds."""
        is_over = self.is_released or self.loss is not None
        return 0.0 if is_over else max(0.0, self.valid_until - _clock.now())

    def check(self) -> None:
        """Raise the loss if there is one."""
        if self.loss:
            raise copy(self.loss)


class Hooks(NamedTuple):
    """What a session needs of its client."""

    #: Makes the event of a loss, or of a request to yield.
    flag: Callable[[], Flag]
    #: Runs a user's callback.
    run: Callable[..., None]
    #: The user's callback for events of the session.
    on_event: Callable[[SessionEvent], None] | None


class SessionCore:
    """A machine, the futures of its operations, and what is held."""

    def __init__(
        self, addresses: Sequence[Address], open_session: session_pb2.OpenSession, hooks: Hooks
    ) -> None:
        self._addresses = addresses
        self._hooks = hooks
        self._ids = itertools.count(1)
        # Unique among sessions by the first half, and in the session by the second.
        prefix, numbers = secrets.token_hex(8), itertools.count()
        self._machine = Machine(
            [address.text for address in addresses],
            open_session,
            self._ids,
            lambda: f"{prefix}{next(numbers):016x}",
            random.random,
        )
        self.flag = hooks.flag
        #: By operation; those that wait for the session to be open by a negative number.
        self._futures: dict[int, Any] = {}
        self._held: dict[int, Held] = {}
        #: What operations will acquire, if that has callbacks.
        self._listeners: dict[int, Acquisition] = {}
        self.state = "opening"
        self._handlers: dict[type, Callable[[Any], None]] = {
            ev.OpenStream: self._open_stream,
            ev.Send: self._send,
            ev.CancelStream: self._cancel_stream,
            ev.Granted: self._on_granted,
            ev.Answered: self._on_answered,
            ev.Failed: self._on_failed,
            ev.Extended: self._on_extended,
            ev.Lost: self._on_lost,
            ev.Asked: self._on_asked,
            ev.Waits: self._on_waits,
            ev.Changed: self._on_changed,
        }

    @property
    def is_over(self) -> bool:
        """Whether it has ended. A user who sees a loss because of that can acquire anew at once."""
        return self._machine.is_ended

    def _listen(self, op_id: int, acquisition: Acquisition) -> ev.Call:
        """Return the event that starts an acquire, after its callbacks are known."""
        if acquisition.on_lost or acquisition.on_yield:
            self._listeners[op_id] = acquisition
        kind, request, wait_until, patience, _, _ = acquisition
        return ev.Call(op_id, kind, request, wait_until, patience, _tracing.traceparent())

    # --- input and output

    def _open_stream(self, effect: ev.OpenStream) -> None:
        raise NotImplementedError

    def _send(self, effect: ev.Send) -> None:
        raise NotImplementedError

    def _cancel_stream(self, effect: ev.CancelStream) -> None:
        raise NotImplementedError

    # --- effects

    def _step(self, event: ev.Event) -> None:
        for effect in self._machine.step(event, _clock.now()):
            self._handlers[type(effect)](effect)
        if self._machine.is_ended:
            self._fail_left()

    def _crash(self, failure: BaseException) -> None:
        """End the session after an unexpected error.

        Without its machine nothing is renewed and nothing is answered: whoever holds or waits for
        something has to learn that.
        """
        logger.critical("the session failed", exc_info=failure)
        cause = f"internal error: {failure!r}"
        effects = self._machine.abort(cause)
        for guard, held in list(self._held.items()):
            grant = held.grants[0]
            loss = LockLost(grant.name, "UNSPECIFIED", token_of(grant), cause)
            self._attempt(ev.Lost(guard, loss))
        for effect in effects:
            self._attempt(effect)
        self._fail_left()

    def _attempt(self, effect: ev.Effect) -> None:
        """Carry out an effect of a crash, of which an error may not keep the others."""
        try:
            self._handlers[type(effect)](effect)
        except Exception:
            logger.exception("the session failed again")

    def _resolve(self, op_id: int, result: Any) -> None:
        future = self._futures.pop(op_id, None)
        if future is not None and not future.done():
            if isinstance(result, Error):
                # The end of a session is raised by many; each gets a traceback of its own.
                future.set_exception(copy(result))
            else:
                future.set_result(result)

    def _fail_left(self) -> None:
        """Fail what came after the end."""
        for op_id in list(self._futures):
            self._resolve(op_id, self._machine.ended)

    def _on_granted(self, effect: ev.Granted) -> None:
        if effect.op_id not in self._futures:
            return  # Its caller gave up; the machine releases it.
        held = Held(self, effect)
        listener = self._listeners.get(effect.op_id)
        if listener:
            held.on_yield = listener.on_yield
            if listener.on_lost:
                held.on_lost.append(listener.on_lost)
        self._held[held.guard] = held
        self._resolve(effect.op_id, held)

    def _on_answered(self, effect: ev.Answered) -> None:
        self._resolve(effect.op_id, effect.response)

    def _on_failed(self, effect: ev.Failed) -> None:
        self._resolve(effect.op_id, effect.error)

    def _on_extended(self, effect: ev.Extended) -> None:
        held = self._held.get(effect.guard)
        if held:
            held.valid_until = effect.valid_until

    def _on_lost(self, effect: ev.Lost) -> None:
        held = self._held.pop(effect.guard, None)
        if held:
            held.loss = effect.error
            held.happens("lost")
            logger.error("%s", effect.error)
            for callback in held.on_lost:
                self._hooks.run(callback, effect.error)

    def _on_asked(self, effect: ev.Asked) -> None:
        held = self._held.get(effect.guard)
        if held:
            request = held.asked = YieldRequest(*effect[1:])
            held.happens("yield_requested")
            logger.info("%s: %r asks to yield it: %s", request.name, request.by, request.reason)
            if held.on_yield:
                self._hooks.run(held.on_yield, request)

    def _on_waits(self, effect: ev.Waits) -> None:
        logger.debug("operation %d waits: %s", effect.op_id, effect.progress)

    def _on_changed(self, effect: ev.Changed) -> None:
        is_expected = effect.state == "connected" or effect.cause == CLOSED
        level = logging.INFO if is_expected else logging.WARNING
        logger.log(level, "session %s%s", effect.state, effect.cause and f": {effect.cause}")
        self.state = effect.state
        if effect.state == "connected":
            # A copy, because callers add to it.
            for op_id in [it for it in list(self._futures) if it < 0]:
                self._resolve(op_id, None)
        if self._hooks.on_event:
            self._hooks.run(self._hooks.on_event, SessionEvent(*effect))
