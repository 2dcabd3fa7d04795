"""Timers: a heap with one entry for each key."""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable


class Alarm:
    """An instant before which nothing is due."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = math.inf


class Timers:
    """Instants by key. A new instant of a key replaces the old one."""

    def __init__(self, alarm: Alarm) -> None:
        """Use an alarm that is not later than any of the instants."""
        self._alarm = alarm
        #: The entry of each key. Others in the heap are replaced or cancelled.
        self._entries: dict[Hashable, tuple[float, int, Hashable]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._count = 0
        #: No key is due before this instant. It may be that of a key that was cancelled.
        self.first = math.inf

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
        if at < self.first:
            self.first = at
            self._alarm.at = min(self._alarm.at, at)

    def cancel(self, key: Hashable) -> None:
        """Remove a key."""
        self._entries.pop(key, None)

    def due(self, now: float) -> list[Hashable]:
        """Remove and return the keys whose instant has come."""
        keys = []
        heap, entries = self._heap, self._entries
        while heap:
            at, _, key = entry = heap[0]
            is_known = entries.get(key) is entry
            if is_known and at > now:
                break
            heapq.heappop(heap)
            if is_known:
                del entries[key]
                keys.append(key)
        self.first = heap[0][0] if heap else math.inf
        return keys
