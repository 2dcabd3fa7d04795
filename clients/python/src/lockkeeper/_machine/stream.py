"""The stream of a session: which endpoint it uses, and when it is tried again."""

from __future__ import annotations

from typing import Callable, Union

import grpc

from lockkeeper.errors import Error, Misconfigured, Refused

OPEN_TIMEOUT = 6.0
RESUME_TIMEOUT = 2.0
FIRST_PAUSE = 0.05
BACKOFF_MIN = 0.05
BACKOFF_MAX = 1.0
LEAVE_TIMEOUT = 0.5

_REFUSALS = frozenset(
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.UNIMPLEMENTED,
    ]
)
_CREDENTIALS = frozenset([grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED])


class Attempts:
    """Failed attempts in a row, and how many of the last ones were refusals."""

    __slots__ = ("count", "refused")

    def __init__(self, count: int = 0, refused: int = 0) -> None:
        self.count = count
        self.refused = refused

    def failed(self, error: Error) -> Attempts:
        """Count one more."""
        return Attempts(self.count + 1, self.refused + 1 if is_refusal(error) else 0)


class Progress:
    """Whether streams end again and again without progress: an answer, or that they last."""

    __slots__ = ("_opened_at", "_without")

    def __init__(self) -> None:
        self._opened_at = 0.0
        #: Streams that ended since the last progress.
        self._without = 0

    def on_opened(self, now: float) -> None:
        """Note that a stream has opened."""
        self._opened_at = now

    def on_answer(self) -> None:
        """Note that an operation was answered."""
        self._without = 0

    def on_ended(self, now: float, lease: float, random: Callable[[], float]) -> float:
        """Note that a stream has ended, and return the pause before the next."""
        if now >= self._opened_at + BACKOFF_MAX:
            self._without = 0
        self._without += 1
        if self._without == 1:
            return FIRST_PAUSE * random()
        return min(_backoff(self._without - 2, random), lease / 6)


class Up:
    """The stream is open."""

    __slots__ = ("heard_at", "leave_at", "pinged_at", "stream")

    def __init__(self, stream: int, now: float) -> None:
        self.stream = stream
        self.heard_at = now
        #: When the ping without an answer was sent.
        self.pinged_at: float | None = None
        #: When to leave a coordinator that goes away.
        self.leave_at: float | None = None


class Down:
    """There is no stream."""

    __slots__ = ("attempts", "retry_at")

    def __init__(self, retry_at: float, attempts: Attempts) -> None:
        self.retry_at = retry_at
        self.attempts = attempts


class Opening:
    """An attempt is under way."""

    __slots__ = ("attempts", "deadline", "sent_at", "stream")

    def __init__(self, stream: int, sent_at: float, timeout: float, attempts: Attempts) -> None:
        self.stream = stream
        self.sent_at = sent_at
        self.deadline = sent_at + timeout
        self.attempts = attempts


class Ended:
    """The session is over."""

    __slots__ = ("error",)

    def __init__(self, error: Error) -> None:
        self.error = error


State = Union[Up, Down, Opening, Ended]


def is_refusal(error: Error) -> bool:
    """Tell whether a coordinator with this answer will never resume the session.

    Only a coordinator gives a reason: a proxy without a route answers UNIMPLEMENTED, too.
    """
    return isinstance(error, Refused) and error.code in _REFUSALS and error.reason != ""


def is_final(error: Error) -> bool:
    """Tell whether an attempt to open a session would fail in the same way elsewhere."""
    if isinstance(error, Refused):
        return error.code in _REFUSALS or error.code in _CREDENTIALS
    return isinstance(error, Misconfigured)


def resume_timeout(lease: float, attempts: Attempts, endpoints: int) -> float:
    """Return the time limit of an attempt to resume.

    It grows, because a coordinator that many sessions come to at once may need longer.
    """
    rounds = min(attempts.count // endpoints, 32)
    return min(min(RESUME_TIMEOUT, lease / 6) * 2.0**rounds, lease / 2)


def pause(attempts: Attempts, endpoints: int, random: Callable[[], float]) -> float:
    """Return the pause before the next attempt: none inside a round."""
    if attempts.count % endpoints:
        return 0.0
    return _backoff(attempts.count // endpoints - 1, random)


def _backoff(others: int, random: Callable[[], float]) -> float:
    """Return the pause after this many others."""
    return min(BACKOFF_MIN * 2.0 ** min(others, 32), BACKOFF_MAX) * (0.5 + random() / 2)
