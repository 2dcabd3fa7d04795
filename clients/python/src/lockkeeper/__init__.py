"""The client of Lockkeeper: locks, semaphores, latches and elections of many processes.

`Client` is for threads, `lockkeeper.aio.Client` for asyncio.
"""

from lockkeeper import aio
from lockkeeper._election import Observed
from lockkeeper._session import SessionEvent, YieldRequest
from lockkeeper._sync.client import Client
from lockkeeper._sync.election import Election, Leadership
from lockkeeper._sync.follow import Observer
from lockkeeper._sync.lock import Latch, Lock, Semaphore
from lockkeeper.errors import (
    Error,
    LockLost,
    Misconfigured,
    NotGranted,
    Refused,
    SessionEnded,
    Unreachable,
)

__all__ = [
    "Client",
    "Election",
    "Error",
    "Latch",
    "Leadership",
    "Lock",
    "LockLost",
    "Misconfigured",
    "NotGranted",
    "Observed",
    "Observer",
    "Refused",
    "Semaphore",
    "SessionEnded",
    "SessionEvent",
    "Unreachable",
    "YieldRequest",
    "aio",
]
