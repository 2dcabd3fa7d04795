"""Timers: a heap with one entry for each key."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Iterator


class Timers:
    """Instants by key. A new instant of a key replaces the old one."""

    def __init__(self) -> None:
        #: The entry of each key. Others in the heap are replaced or cancelled.
        self._entries: dict[Hashable, tuple[float, int, Hashable]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._count = 0

    def set(self, key: Hashable, at: float) -> None:
        """Set the instant of a key."""
        known = self._entries.get(key)
        if known and known[0] == at:
            return
        self._count += 1
        entry = self._entries[key] = (at, self._count, key)
        heapq.heappush(self._heap, entry)
        # Replaced entries stay in the heap until they are due, or until there are many.
        if len(self._heap) > 4 * len(self._entries) + 64:
            self._heap = list(self._entries.values())
            heapq.heapify(self._heap)

    def cancel(self, key: Hashable) -> None:
        """Remove a key."""
        self._entries.pop(key, None)

    def next(self) -> float:
        """Return the earliest instant; infinity without one."""
        while self._heap:
            entry = self._heap[0]
            if self._entries.get(entry[2]) is entry:
                return entry[0]
            heapq.heappop(self._heap)
        return math.inf

    def due(self, now: float) -> Iterator[Hashable]:
        """Remove and yield the keys whose instant has come."""
        while self.next() <= now:
            key = heapq.heappop(self._heap)[2]
            del self._entries[key]
            yield key
