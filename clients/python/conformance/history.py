"""Contention for one lock, and what was seen of it.

Each line of the history is a JSON object: `at_us` on CLOCK_MONOTONIC, `client`, `attempt` (numbered
by the client), `name`, `what`, and `token` if it is `granted`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable
from typing import Any, Callable

import lockkeeper

PAUSE = 0.05


class History:
    """Appends events to the file that LOCKKEEPER_HISTORY names."""

    def __init__(self, client: str, name: str) -> None:
        path = os.environ["LOCKKEEPER_HISTORY"]
        # Lines are shorter than a pipe's buffer: several processes may append.
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._client = client
        self._name = name

    def note(self, attempt: int, what: str, **more: str) -> None:
        """Append an event that happens now."""
        event: dict[str, Any] = {"at_us": time.monotonic_ns() // 1000, "client": self._client}
        event.update(attempt=attempt, name=self._name, what=what, **more)
        os.write(self._file, (json.dumps(event) + "\n").encode())


async def contend(
    client: Any, command: dict[str, Any], call: Callable[..., Awaitable[Any]]
) -> dict[str, Any]:
    """Acquire and release a lock in a loop until the time is over."""
    history = History(str(command["client"]), command["name"])
    until = time.monotonic() + command["seconds"]
    attempt = 0
    while time.monotonic() < until:
        attempt += 1
        lock = client.lock(
            command["name"],
            command.get("mode") or "exclusive",
            timeout=max(0.0, until - time.monotonic()),
            on_lost=lambda _, it=attempt: history.note(it, "lost"),
        )
        history.note(attempt, "asked")
        try:
            if not await call(lock.acquire):
                history.note(attempt, "failed")
                break
            history.note(attempt, "granted", token=str(lock.fencing_token))
            await asyncio.sleep(command.get("hold_ms", 0) / 1000)
            history.note(attempt, "release_sent")
            await call(lock.release)
            history.note(attempt, "released")
        except lockkeeper.LockLost:
            history.note(attempt, "refused")
        except lockkeeper.Error:
            history.note(attempt, "failed")
            await asyncio.sleep(PAUSE)
    return {"attempts": attempt}
