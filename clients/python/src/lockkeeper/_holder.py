"""What the locks and semaphores of both clients share."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, Callable, Generic, NamedTuple, TypeVar

from lockkeeper import _clock
from lockkeeper._client_base import ClientBase
from lockkeeper._clock import Seconds, seconds_of
from lockkeeper._machine.messages import set_seconds
from lockkeeper._options import Options, Target
from lockkeeper._session import Acquisition, Held, YieldRequest, logger
from lockkeeper.errors import LockLost, Misconfigured
from lockkeeper.v1 import lock_pb2

FlagT = TypeVar("FlagT")
ClientT = TypeVar("ClientT", bound=ClientBase)


class Defaults(NamedTuple):
    """How an object acquires, unless its caller says otherwise."""

    blocking: bool
    timeout: Seconds | None
    on_lost: Callable[[LockLost], None] | None
    on_yield: Callable[[YieldRequest], None] | None = None


class HolderBase(Generic[ClientT, FlagT]):
    """An object that acquires a target.

    It may be shared: each thread or task that acquires has a guard of its own. A block of ``with``
    may end in another thread or task than it began in. If several such blocks are open at once, an
    object for each tells them apart.
    """

    def __init__(
        self, client: ClientT, target: Target, options: Options, defaults: Defaults
    ) -> None:
        self._client = client
        self._target = target
        self._options = options
        self._defaults = defaults
        self._guards: dict[Hashable, list[Held]] = {}
        self._last: Held | None = None
        #: What blocks of ``with`` have acquired, by the callers that entered them; the inner ones
        #: are last.
        self._blocks: dict[Hashable, list[Held]] = {}
        #: For changes of the guards and the blocks: threads may release those of others, and a
        #: handler of a signal may do so in the thread that has it.
        self._mutex = threading.RLock()
        #: Waits that `cancel` ends: sessions, and operations.
        self._waits: set[tuple[Any, int]] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}{' held' if self._guards else ''}>"

    @property
    def name(self) -> str:
        """The name; several are separated by commas."""
        return ", ".join(self._target.names())

    # --- what is held

    def _me(self) -> Hashable:
        """Return what distinguishes the callers."""
        raise NotImplementedError

    def _add(self, held: Held) -> None:
        """Add what the caller acquired."""
        held.holder = self._me()
        with self._mutex:
            self._guards.setdefault(held.holder, []).append(held)
        self._last = held

    def _owner_of_guard(self) -> Hashable | None:
        """Return the caller, or the only one that holds something."""
        me = self._me()
        if me in self._guards:
            return me
        return next(iter(self._guards)) if len(self._guards) == 1 else None

    def _take(self) -> Held:
        with self._mutex:
            owner = self._owner_of_guard()
            if owner is None:
                raise RuntimeError(f"{self.name}: it is not held")
            held = self._guards[owner][-1]
            self._remove(owner, held)
        return held

    def _remove(self, owner: Hashable, held: Held) -> None:
        guards = self._guards[owner]
        guards.remove(held)
        if not guards:
            del self._guards[owner]

    def _current(self) -> Held:
        """Return what the caller holds, or held last."""
        self._client._check_process()
        owner = self._owner_of_guard()
        held = self._last if owner is None else self._guards[owner][-1]
        if held is None:
            raise RuntimeError(f"{self.name}: it was never acquired")
        return held

    def _is_mine(self, held: Held) -> bool:
        """Return whether the caller acquired it."""
        return bool(held.holder == self._me())

    def _own(self) -> Held | None:
        """Return what the caller holds itself: what others hold allows it nothing."""
        self._client._check_process()
        with self._mutex:
            owner = self._owner_of_guard()
            held = None if owner is None else self._guards[owner][-1]
        return held if held and self._is_mine(held) else None

    def _proof(self) -> Held:
        """Return what the caller holds, or held last, to prove it to others.

        The only open block may have been handed to the caller; see `_leave`.
        """
        held = self._own()
        if held:
            return held
        with self._mutex:
            blocks = list(self._blocks.values())
            held = blocks[0][-1] if len(blocks) == 1 else self._last
        if held is None or not (len(blocks) == 1 or self._is_mine(held)):
            raise RuntimeError(f"{self.name}: the caller has not acquired it")
        return held

    # --- blocks

    def _entered(self, held: Held) -> None:
        """Note what a block has acquired: the caller that leaves it may be another."""
        with self._mutex:
            self._blocks.setdefault(self._me(), []).append(held)

    def _leave(self, error: BaseException | None) -> Held | None:
        """Take what the block that ends has acquired; None if the block has released it.

        It is the innermost block of the caller. A caller that has none and holds nothing has been
        handed a block of another caller, for instance by a generator that went on in another
        thread. Which one it is cannot be told if several callers have blocks.
        """
        me = self._me()
        with self._mutex:
            if me in self._blocks or me in self._guards or not self._blocks:
                return self._leave_of(me)
            if len(self._blocks) == 1:
                return self._leave_of(next(iter(self._blocks)))
        why = "not released: it is not known which of the blocks of others ends; "
        why += "use an object for each block that ends elsewhere"
        if error is None:
            raise RuntimeError(f"{self.name}: {why}")
        logger.warning("%s: %s", self.name, why)
        return None

    def _leave_of(self, caller: Hashable) -> Held | None:
        blocks, guards = self._blocks.get(caller, []), self._guards.get(caller, [])
        held = blocks.pop() if blocks else None
        if not blocks:
            self._blocks.pop(caller, None)
        if held not in guards:
            # The block has released it, and may have acquired it anew.
            held = next((it for it in reversed(guards) if it not in blocks), None)
        if held is not None:
            self._remove(caller, held)
        return held

    def _holds(self) -> bool:
        return self._me() in self._guards

    def owned(self) -> bool:
        """Return whether the caller certainly holds it now, as far as this client knows.

        The caller is a thread or a task; what another one has acquired does not count.
        """
        held = self._own()
        return held is not None and held.valid_for > 0

    @property
    def lost(self) -> FlagT:
        """An event that is set when it is lost. Stop the work then: another owner may hold it."""
        return self._current().lost  # type: ignore[return-value]

    @property
    def loss(self) -> LockLost | None:
        """Why it was lost; None while it is held."""
        return self._current().loss

    @property
    def valid_for(self) -> float:
        """How long it is certainly held unless it is renewed, in seconds.

        It is 0 once it is lost, or its release has begun. Renewals in the background extend it.
        """
        return self._current().valid_for

    # --- requests to yield

    @property
    def yield_requested(self) -> FlagT:
        """An event that is set when another caller asks for the lock; `clear` it to wait anew.

        The lock stays held: finish the work, release the lock, or go on. But if `yield_request`
        preempts, the lock is lost at its deadline.
        """
        return self._current().yield_requested  # type: ignore[return-value]

    @property
    def yield_request(self) -> YieldRequest | None:
        """The newest request of another caller to release the lock; None if none stands."""
        asked = self._current().asked
        return asked if asked and asked.remaining else None

    # --- requests

    def _acquisition(self, blocking: bool | None, timeout: Seconds | None) -> Acquisition:
        if self._guards and not self._options.owner and self._holds():
            why = "it is held already through this object; release it, or use another object"
            raise RuntimeError(f"{self.name}: {why}")
        blocking = self._defaults.blocking if blocking is None else blocking
        timeout = self._defaults.timeout if timeout is None else timeout
        target = self._target.to_wait if blocking else self._target.to_try
        kind, request = target(self._options)
        # Of a try, it limits how long the answer may take while there is no stream.
        until = None if timeout is None else _clock.now() + seconds_of(timeout, "timeout")
        callbacks = self._defaults.on_lost, self._defaults.on_yield
        return Acquisition(kind, request, until, self._options.patience, *callbacks)


def offer_of(held: Held, within: Seconds | None) -> lock_pb2.OfferRequest:
    """Return the request of a ticket."""
    held.check()
    if len(held.grants) > 1:
        raise Misconfigured("an offer is for one lock")
    grant = held.grants[0]
    request = lock_pb2.OfferRequest(name=grant.name, owner=grant.owner)
    if within is not None:
        set_seconds(request.within, seconds_of(within, "within"))
    return request


def tokens_of(held: Held) -> dict[str, int]:
    """Return the fencing tokens of locks by name."""
    return {grant.name: grant.fencing_token for grant in held.grants}
