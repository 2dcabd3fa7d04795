"""Contention for one lock, and what was seen of it.

Each line of the history is a JSON object: `at_us` on CLOCK_MONOTONIC, `client`, `attempt` (numbered
by the client), `name` and `what`; `granted` has a `token`; `at_risk` and `broke` have `valid_us`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
from collections.abc import Awaitable
from typing import Any, Callable

import lockkeeper

PAUSE = 0.05

#: Calls a method of either client.
Call = Callable[..., Awaitable[Any]]


class History:
    """Appends events to the file that LOCKKEEPER_HISTORY names."""

    def __init__(self, client: str, name: str) -> None:
        path = os.environ.get("LOCKKEEPER_HISTORY")
        if not path:
            raise lockkeeper.Misconfigured("LOCKKEEPER_HISTORY: must name a file")
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
        self.is_held = False
        self.lock: Any = None

    def note(self, what: str, **more: Any) -> None:
        """Append an event that happens now."""
        self._history.note(self._number, what, **more)

    def on_lost(self, _: lockkeeper.LockLost) -> None:
        """Append the loss."""
        self.note("lost")

    def on_event(self, event: lockkeeper.SessionEvent) -> None:
        """Append a change of the session while the lock is held."""
        before, self._state = self._state, event.state
        if not self.is_held or not self.lock.valid_for:
            return
        if event.state == "resuming":
            self.note("broke", valid_us=int(self.lock.valid_for * 1e6))
        elif event.state == "at_risk":
            self.note("at_risk", valid_us=int(self.lock.valid_for * 1e6))
        elif event.state == "connected":
            self.note("resumed" if before == "resuming" else "recovered")


async def acquired(attempt: Attempt, call: Call) -> bool:
    """Wait for the lock."""
    lock = attempt.lock

    # The token is for the thread or the task that has acquired it.
    def in_thread() -> int | None:
        return lock.fencing_token if lock.acquire() else None

    async def in_task() -> int | None:
        return lock.fencing_token if await lock.acquire() else None

    try:
        token = await call(in_task if inspect.iscoroutinefunction(lock.acquire) else in_thread)
        if token is not None:
            attempt.is_held = True
            attempt.note("granted", token=str(token))
            return True
    except lockkeeper.Error:
        await asyncio.sleep(PAUSE)
    attempt.note("failed")
    return False


async def release(attempt: Attempt, call: Call) -> None:
    """Release the lock."""
    attempt.is_held = False
    attempt.note("release_sent")
    try:
        await call(attempt.lock.release)
        attempt.note("released")
    except (lockkeeper.LockLost, lockkeeper.SessionEnded):
        attempt.note("refused")
    except lockkeeper.Error:
        attempt.note("failed")


async def contend(
    client: Any,
    command: dict[str, Any],
    call: Call,
    listeners: list[Callable[[lockkeeper.SessionEvent], None]],
) -> dict[str, Any]:
    """Acquire and release a lock in a loop until the time is over."""
    history = History(str(command["client"]), command["name"])
    until = time.monotonic() + command["seconds"]
    number = 0
    while time.monotonic() < until:
        number += 1
        attempt = Attempt(history, number)
        attempt.lock = client.lock(
            command["name"],
            command.get("mode") or "exclusive",
            timeout=max(0.0, until - time.monotonic()),
            on_lost=attempt.on_lost,
        )
        listeners.append(attempt.on_event)
        attempt.note("asked")
        try:
            if await acquired(attempt, call):
                await asyncio.sleep(command.get("hold_ms", 0) / 1000)
                await release(attempt, call)
        finally:
            listeners.remove(attempt.on_event)
    return {"attempts": number}
