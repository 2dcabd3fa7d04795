"""Options of requests, and the requests that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Union

from lockkeeper._clock import Seconds, seconds_of
from lockkeeper._machine.events import Message
from lockkeeper._machine.messages import Request, has_field, set_seconds
from lockkeeper.errors import Misconfigured
from lockkeeper.v1 import lock_pb2, semaphore_pb2, types_pb2

#: The modes of locks.
MODES = {
    "exclusive": types_pb2.LOCK_MODE_EXCLUSIVE,
    "fair": types_pb2.LOCK_MODE_FAIR,
    "read": types_pb2.LOCK_MODE_READ,
    "write": types_pb2.LOCK_MODE_WRITE,
}

#: The name of a lock, or a name and a mode.
LockName = Union[str, tuple[str, str]]


def mode_of(mode: str) -> types_pb2.LockMode:
    """Return the mode of a lock by its name."""
    try:
        return MODES[mode]
    except KeyError:
        known = ", ".join(MODES)
        raise Misconfigured(f"mode: {mode!r} is unknown; use one of {known}") from None


def note_of(reason: str, labels: Mapping[str, str] | None) -> types_pb2.Note | None:
    """Return what the holder of a lock says to others; None if it says nothing."""
    if not reason and not labels:
        return None
    try:
        return types_pb2.Note(reason=reason, labels=dict(labels or {}))
    except (TypeError, ValueError) as problem:
        raise Misconfigured(f"reason or labels: {problem}") from None


class Target(NamedTuple):
    """What is acquired: the field of the waiting request, and the fields of both requests."""

    kind: str
    fields: dict[str, Any]
    waits: type
    #: The request that does not wait; None if the other does not.
    tries: type | None

    @classmethod
    def lock(cls, name: str, mode: str) -> Target:
        """Return the target of one lock."""
        fields = {"name": name, "mode": mode_of(mode)}
        return cls("acquire", fields, lock_pb2.AcquireRequest, lock_pb2.TryAcquireRequest)

    @classmethod
    def locks(cls, names: Iterable[LockName], mode: str) -> Target:
        """Return the target of several locks."""
        pairs = [(it, mode) if isinstance(it, str) else it for it in names]
        specs = [lock_pb2.LockSpec(name=name, mode=mode_of(of)) for name, of in pairs]
        waits, tries = lock_pb2.AcquireAllRequest, lock_pb2.TryAcquireAllRequest
        return cls("acquire_all", {"locks": specs}, waits, tries)

    @classmethod
    def permits(cls, name: str, permits: int) -> Target:
        """Return the target of permits."""
        fields = {"name": name, "permits": permits}
        waits, tries = semaphore_pb2.AcquirePermitsRequest, semaphore_pb2.TryAcquirePermitsRequest
        return cls("acquire_permits", fields, waits, tries)

    @classmethod
    def claim(cls, name: str, ticket: str) -> Target:
        """Return the target of a lock that is taken over."""
        return cls("claim", {"name": name, "ticket": ticket}, lock_pb2.ClaimRequest, None)

    def names(self) -> list[str]:
        """Return the names."""
        if self.kind == "acquire_all":
            return [spec.name for spec in self.fields["locks"]]
        return [self.fields["name"]]

    def to_wait(self, options: Options) -> Request:
        """Return the request that waits."""
        return self.kind, options.apply(self.waits(**self.fields))

    def to_try(self, options: Options) -> Request:
        """Return the request that does not wait."""
        if self.tries is None:
            return self.to_wait(options)
        return f"try_{self.kind}", options.apply(self.tries(**self.fields))


class Options:
    """The options of every acquire."""

    def __init__(
        self,
        lease: Seconds | None,
        owner: str | None,
        min_replica_acks: int,
        patience: Seconds | None,
        note: types_pb2.Note | None = None,
        hold_at_least: Seconds | None = None,
        lock_delay: Seconds | None = None,
        end_on_deadlock: bool = False,
        preferred: bool = False,
    ) -> None:
        self.lease = None if lease is None else seconds_of(lease, "lease")
        self.owner = owner or ""
        self.min_replica_acks = min_replica_acks
        self.patience = None if patience is None else seconds_of(patience, "patience")
        self.note = note
        self.hold_at_least = None
        if hold_at_least is not None:
            self.hold_at_least = seconds_of(hold_at_least, "hold_at_least")
        self.lock_delay = None
        if lock_delay is not None:
            self.lock_delay = seconds_of(lock_delay, "lock_delay")
        self.end_on_deadlock = end_on_deadlock
        self.preferred = preferred

    def apply(self, request: Message) -> Message:
        """Set the options in a request."""
        if self.owner:
            request.owner = self.owner
        if self.min_replica_acks:
            request.min_replica_acks = self.min_replica_acks
        if self.lease is not None:
            set_seconds(request.lease, self.lease)
        if self.note is not None:
            request.note.CopyFrom(self.note)
        if self.hold_at_least is not None:
            set_seconds(request.hold_at_least, self.hold_at_least)
        if self.lock_delay is not None:
            set_seconds(request.lock_delay, self.lock_delay)
        # A try does not wait.
        if self.end_on_deadlock and has_field(request, "end_on_deadlock"):
            request.end_on_deadlock = True
        if self.preferred and has_field(request, "preferred"):
            request.preferred = True
        return request
