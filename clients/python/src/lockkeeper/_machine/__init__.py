"""The session machine, without input and output: clients/session-machine.md specifies it.

`Machine.step` takes an event and the time, and returns effects. Sockets, threads, clocks and
callbacks are outside.
"""

from lockkeeper._machine.machine import CLOSED, NEVER, Machine

__all__ = ["CLOSED", "NEVER", "Machine"]
