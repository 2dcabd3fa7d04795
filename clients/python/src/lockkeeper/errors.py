"""The errors of the client, one class for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from lockkeeper.v1 import types_pb2

__all__ = [
    "Error",
    "LockLost",
    "Misconfigured",
    "NotGranted",
    "Refused",
    "SessionEnded",
    "Unreachable",
]

_WHY_LOST = {
    "EXPIRED": "the lease ended",
    "TAKEN_OVER": "another owner holds it",
    "STORE_UNREACHABLE": "the store was unreachable until the lease ended",
    "FORCE_RELEASED": "an operator force-released it",
    "CLOCK_STEPPED": "the store's clock stepped and ended the lease",
    "PREEMPTED": "it was preempted",
    "HANDED_OVER": "it was handed over",
}

_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class Error(Exception):
    """The base class of all errors of this package. Errors can be pickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the attributes, which the arguments of a subclass may not have."""
        return _restore, (type(self), self.args, self.__dict__)


def _restore(kind: type[Error], args: tuple[Any, ...], attributes: dict[str, Any]) -> Error:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class Misconfigured(Error, ValueError):
    """An address, a file or a value cannot be used. Nothing was sent."""


class Unreachable(Error, ConnectionError):
    """No coordinator answered within 6 s per endpoint, or within the time to wait.

    Nothing is held: what was granted nevertheless is released.
    """

    def __init__(self, address: str, cause: str) -> None:
        """Describe a failure at the last address that was tried."""
        super().__init__(f"no coordinator at {address}: {cause}")
        #: The last address that was tried.
        self.address = address
        #: Why it could not be reached, in a few words.
        self.cause = cause


class NotGranted(Error, TimeoutError):
    """The wait ended without a grant: another owner holds the lock, or too few permits are free."""

    def __init__(
        self,
        name: str,
        reason: str,
        holder_remaining_lease: float | None = None,
        available: int | None = None,
        holder_note: types_pb2.Note | None = None,
    ) -> None:
        """Describe the end of a wait."""
        why = "within the time to wait"
        if reason == "DEADLOCK":
            why = "because the wait is part of a deadlock"
        super().__init__(f"{name}: not granted {why}")
        #: The lock, semaphore or latch; several locks are separated by commas.
        self.name = name
        #: Why the wait ended: ``"WAIT_TIMEOUT"``, ``"CANCELLED"``, or ``"DEADLOCK"`` if it was made
        #: with ``end_on_deadlock``: release what its owner holds, and begin again.
        self.reason = reason
        #: The rest of the holder's lease in seconds, for a lock whose holder has one that ends.
        self.holder_remaining_lease = holder_remaining_lease
        #: The number of free permits, for a semaphore.
        self.available = available
        #: Why the holder holds the lock, with its `reason` and `labels`, of any one if there are
        #: several; None if it gave no note.
        self.holder_note = holder_note


class LockLost(Error):
    """The lock or the permits were lost before they were released."""

    def __init__(
        self,
        name: str,
        reason: str,
        fencing_token: int = 0,
        detail: str = "",
        valid_for: float = 0.0,
    ) -> None:
        """Describe a loss."""
        words = (_WHY_LOST.get(reason, ""), detail)
        super().__init__(f"{name}: lost: {': '.join(filter(None, words)) or 'no reason given'}")
        #: The lock or the semaphore.
        self.name = name
        #: ``"EXPIRED"``, ``"TAKEN_OVER"``, ``"STORE_UNREACHABLE"``, ``"FORCE_RELEASED"``,
        #: ``"CLOCK_STEPPED"``, ``"PREEMPTED"``, ``"HANDED_OVER"``, or ``"UNSPECIFIED"`` if the
        #: session has ended.
        self.reason = reason
        #: The fencing token of the lost grant; 0 for permits.
        self.fencing_token = fencing_token
        #: The reason for a forced release or a preemption, or why the session has ended; may be
        #: empty.
        self.detail = detail
        #: How long no other owner can acquire the lock, in seconds from when the loss was reported:
        #: the grace period of a forced release, or the lease after a preemption. Stop within it and
        #: release the lock, which ends the period. 0 if another owner may hold the lock already.
        self.valid_for = valid_for


class Refused(Error):
    """The coordinator refused the call, or the call was lost on the way (an empty `reason`)."""

    def __init__(
        self,
        code: grpc.StatusCode,
        reason: str,
        message: str,
        metadata: Mapping[str, str] | None = None,
        retry_delay: float | None = None,
    ) -> None:
        """Describe a refusal."""
        super().__init__(f"{reason or code.name}: {message}")
        #: The gRPC status code.
        self.code = code
        #: The stable reason of ``google.rpc.ErrorInfo``, such as ``"INVALID_NAME"``.
        self.reason = reason
        #: The coordinator's message.
        self.message = message
        #: Details by name, such as ``state`` or ``field``.
        self.metadata = dict(metadata or {})
        #: The time in seconds after which a retry may succeed, if the coordinator gave one.
        self.retry_delay = retry_delay

    @classmethod
    def of(cls, status: status_pb2.Status) -> Refused:
        """Make the error of a status with its typed details."""
        info = error_details_pb2.ErrorInfo()
        retry = error_details_pb2.RetryInfo()
        delay = None
        for detail in status.details:
            if detail.Unpack(retry):
                delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
            else:
                detail.Unpack(info)
        code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
        return cls(code, info.reason, status.message, info.metadata, delay)


class SessionEnded(Error):
    """The session is over. Everything in it was reported lost; a new acquire opens a new one."""

    def __init__(self, cause: str) -> None:
        """Describe the end of a session."""
        super().__init__(f"the session has ended: {cause}")
        #: Why it ended.
        self.cause = cause


def lost_reason(reason: types_pb2.LostReason) -> str:
    """Name the reason of a loss, such as ``"EXPIRED"``."""
    return _suffix(types_pb2.LostReason, reason, "LOST_REASON_")


def not_granted_reason(reason: types_pb2.NotGrantedReason) -> str:
    """Name the reason of the end of a wait, such as ``"WAIT_TIMEOUT"``."""
    return _suffix(types_pb2.NotGrantedReason, reason, "NOT_GRANTED_REASON_")


def _suffix(enum: object, value: int, prefix: str) -> str:
    try:
        name: str = enum.Name(value)  # type: ignore[attr-defined]
    except ValueError:  # A reason of a newer coordinator.
        return "UNSPECIFIED"
    return name[len(prefix) :]
