"""The client of Lockkeeper: locks, semaphores and latches, shared by many processes.

`Client` is for threads, `lockkeeper.aio.Client` for asyncio.
"""

from lockkeeper import aio
from lockkeeper._session import SessionEvent
from lockkeeper._sync.client import Client
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
    "Error",
    "Latch",
    "Lock",
    "LockLost",
    "Misconfigured",
    "NotGranted",
    "Refused",
    "Semaphore",
    "SessionEnded",
    "SessionEvent",
    "Unreachable",
    "aio",
]
