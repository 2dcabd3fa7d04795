"""Timers: a heap with one entry for each key."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator


class Timers:
    """Instants by key. A new instant of a key replaces the old one."""

    def __init__(self) -> None:
        self._instants: dict[Hashable, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._count = 0

    def set(self, key: Hashable, at: float) -> None:
        """Set the instant of a key."""
        known = self._instants.get(key)
        if known and known[0] == at:
            return
        self._count += 1
        self._instants[key] = (at, self._count)
        heapq.heappush(self._heap, (at, self._count, key))
        # Replaced entries stay in the heap until they are due, or until there are many.
        if len(self._heap) > 4 * len(self._instants) + 64:
            self._heap = [(at, count, key) for key, (at, count) in self._instants.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: Hashable) -> None:
        """Remove a key."""
        self._instants.pop(key, None)

    def next(self) -> float | None:
        """Return the earliest instant."""
        while self._heap:
            at, count, key = self._heap[0]
            if self._instants.get(key) == (at, count):
                return at
            heapq.heappop(self._heap)
        return None

    def due(self, now: float) -> Iterator[Hashable]:
        """Remove and yield the keys whose instant has come."""
        while True:
            at = self.next()
            if at is None or at > now:
                return
            key = heapq.heappop(self._heap)[2]
            del self._instants[key]
            yield key
