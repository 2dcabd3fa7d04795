"""The client of Lockkeeper for asyncio."""

from lockkeeper.aio._client import Client
from lockkeeper.aio._election import Election, Leadership
from lockkeeper.aio._lock import Latch, Lock, Semaphore

__all__ = ["Client", "Election", "Latch", "Leadership", "Lock", "Semaphore"]
