"""Contention for one lock, and what was seen of it.

Each line of the history is a JSON object: `at_us` on CLOCK_MONOTONIC, `client`, `attempt` (numbered
by the client), `name` and `what`; `granted` has a `token`, and `at_risk` has `valid_us`.
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

    def note(self, attempt: int, what: str, **more: Any) -> None:
        """Append an event that happens now."""
        event: dict[str, Any] = {"at_us": time.monotonic_ns() // 1000, "client": self._client}
        event.update(attempt=attempt, name=self._name, what=what, **more)
        os.write(self._file, (json.dumps(event) + "\n").encode())


class Attempt:
    """One acquire, and what happens to the session meanwhile."""

    def __init__(self, history: History, number: int) -> None:
        self._history = history
        self._number = number
        self._state = "connected"
        self.lock: Any = None

    def note(self, what: str, **more: Any) -> None:
        """Append an event that happens now."""
        self._history.note(self._number, what, **more)

    def on_lost(self, _: lockkeeper.LockLost) -> None:
        """Append the loss."""
        self.note("lost")

    def on_event(self, event: lockkeeper.SessionEvent) -> None:
        """Append a change of the session."""
        if event.state == "resuming":
            self.note("broke")
        elif event.state == "at_risk" and self.lock.owned():
            self.note("at_risk", valid_us=int(self.lock.valid_for * 1e6))
        elif event.state == "connected":
            self.note("resumed" if self._state == "resuming" else "recovered")
        self._state = event.state


async def contend(
    client: Any,
    command: dict[str, Any],
    call: Callable[..., Awaitable[Any]],
    listeners: list[Callable[[lockkeeper.SessionEvent], None]],
) -> dict[str, Any]:
    """Acquire and release a lock in a loop until the time is over."""
    history = History(str(command["client"]), command["name"])
    until = time.monotonic() + command["seconds"]
    number = 0
    while time.monotonic() < until:
        number += 1
        attempt = Attempt(history, number)
        attempt.lock = lock = client.lock(
            command["name"],
            command.get("mode") or "exclusive",
            timeout=max(0.0, until - time.monotonic()),
            on_lost=attempt.on_lost,
        )
        listeners.append(attempt.on_event)
        attempt.note("asked")
        try:
            if not await call(lock.acquire):
                attempt.note("failed")
                break
            attempt.note("granted", token=str(lock.fencing_token))
            await asyncio.sleep(command.get("hold_ms", 0) / 1000)
            attempt.note("release_sent")
            await call(lock.release)
            attempt.note("released")
        except lockkeeper.LockLost:
            attempt.note("refused")
        except lockkeeper.Error:
            attempt.note("failed")
            await asyncio.sleep(PAUSE)
        finally:
            listeners.remove(attempt.on_event)
    return {"attempts": number}
