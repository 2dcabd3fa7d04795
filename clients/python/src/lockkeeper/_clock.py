"""The clock: monotonic, and also running while the machine sleeps, if the platform has one."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from functools import partial
from typing import Callable, Union

from lockkeeper.errors import Misconfigured

#: A time span: seconds, or a `datetime.timedelta`.
Seconds = Union[float, int, timedelta]

_LONGEST = 315_576_000_000.0  # What the protocol can express.


def _clock() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


#: The current time in seconds.
now = _clock()


def seconds_of(value: Seconds, field: str) -> float:
    """Return a time span in seconds, or refuse it by the name of its option."""
    try:
        seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    except (TypeError, ValueError):
        raise Misconfigured(f"{field}: {value!r} is not a number of seconds") from None
    if not 0 <= seconds < _LONGEST:
        raise Misconfigured(f"{field}: {value!r} must be a time from 0 to 10,000 years")
    return seconds
