"""The driver of clients/conformance.md: commands on standard input, events on standard output."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor
from functools import partial
from typing import Any, Callable

import history
import lockkeeper
from lockkeeper import aio
from speed import speed

Command = dict[str, Any]

IS_SYNC = os.environ.get("LOCKKEEPER_DRIVER") == "sync"
KINDS = {
    lockkeeper.Misconfigured: "misconfigured",
    lockkeeper.Unreachable: "unreachable",
    lockkeeper.NotGranted: "not_granted",
    lockkeeper.LockLost: "lost",
    lockkeeper.Refused: "refused",
    lockkeeper.SessionEnded: "session_ended",
    asyncio.CancelledError: "cancelled",
    CancelledError: "cancelled",
    NotImplementedError: "unsupported",
    RuntimeError: "misconfigured",
}
OPTIONS = ["client_name", "release_on_disconnect", "token", "token_file"]
OPTIONS += ["ca_file", "cert_file", "key_file", "server_name"]

_threads = ThreadPoolExecutor(max_workers=512)
_printing = threading.Lock()


def put(event: dict[str, Any]) -> None:
    """Write an event."""
    with _printing:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


async def call(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a method of either client; those of the synchronous one block a thread."""
    if inspect.iscoroutinefunction(method):
        return await method(*args, **options)
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(_threads, partial(method, *args, **options))


def seconds(command: Command, field: str) -> float | None:
    """Return a time in seconds."""
    milliseconds = command.get(field)
    return None if milliseconds is None else milliseconds / 1000


class Driver:
    """The client, what it holds, and the commands that run."""

    def __init__(self) -> None:
        self.client: Any = None
        self.guards: dict[str, Any] = {}
        self.running: dict[Any, asyncio.Task[None]] = {}
        #: By command, what the synchronous client waits for.
        self.waiting: dict[Any, Any] = {}
        #: What `sessions` opened.
        self.idle: list[Any] = []
        #: Also told of changes of the session.
        self.listeners: list[Callable[[lockkeeper.SessionEvent], None]] = []

    async def run(self) -> None:
        """Run commands until standard input ends."""
        put({"event": "ready"})
        self.loop = loop = asyncio.get_running_loop()
        while True:
            line = await loop.run_in_executor(None, sys.stdin.readline)
            if not line:
                break
            self.start(json.loads(line))
        if self.client is not None:
            try:
                await call(self.client.close)
            except lockkeeper.Error as error:
                sys.stderr.write(f"{error}\n")

    def start(self, command: Command) -> None:
        """Run a command in a task of its own."""
        task = self.loop.create_task(self.answer(command))
        self.running[command["id"]] = task
        task.add_done_callback(partial(self.forget, command["id"]))

    def forget(self, command: Any, _: asyncio.Task[None]) -> None:
        """Forget a command that has ended."""
        del self.running[command]

    async def answer(self, command: Command) -> None:
        """Run a command and write its answer."""
        try:
            ok = await self.execute(command)
        except BaseException as error:  # A cancelled command is answered too.
            kind = next((name for of, name in KINDS.items() if isinstance(error, of)), None)
            if kind is None:
                raise
            reason = getattr(error, "reason", None) or None
            answer = {"kind": kind, "reason": reason, "message": str(error) or kind}
            put({"id": command["id"], "error": answer})
        else:
            put({"id": command["id"], "ok": ok})

    async def execute(self, command: Command) -> dict[str, Any]:
        """Run a command and return its result."""
        action = command["do"]
        method = getattr(self, f"do_{action}", None)
        is_acquire = "acquire" in action or action in ("campaign", "claim")
        if is_acquire and not action.startswith("once_"):
            return await self.acquire(command)
        if method is None:
            raise NotImplementedError(action)
        if self.client is None and action not in ("connect", "sessions", "speed"):
            raise lockkeeper.SessionEnded("there is none")
        result: dict[str, Any] = await method(command)
        return result

    # --- the session

    def on_event(self, event: lockkeeper.SessionEvent) -> None:
        """Write a change of the session."""
        put({"event": "session", "state": event.state, "cause": event.cause})
        for listener in list(self.listeners):
            listener(event)

    async def do_connect(self, command: Command) -> dict[str, Any]:
        """Open a session."""
        options = {it: command[it] for it in OPTIONS if command.get(it) is not None}
        make: Any = lockkeeper.Client if IS_SYNC else aio.Client
        client = make(
            command["endpoints"],
            lease=seconds(command, "lease_ms"),
            on_event=self.on_event,
            **options,
        )
        await call(client.connect)
        self.client = client
        return {}

    async def do_close(self, _: Command) -> dict[str, Any]:
        """Close the session."""
        await call(self.client.close)
        return {}

    async def do_cancel(self, command: Command) -> dict[str, Any]:
        """Cancel a command that waits."""
        target = command["target"]
        if not IS_SYNC:
            self.running[target].cancel()
        while IS_SYNC and target in self.running:
            # The thread of the command may not have begun to wait.
            self.waiting[target].cancel()
            await asyncio.sleep(0.005)
        return {}

    # --- guards

    def holder(self, command: Command, options: dict[str, Any]) -> Any:
        """Return the lock or the semaphore of a command."""
        action = command["do"]
        if action.endswith("permits"):
            return self.client.semaphore(command["name"], command["permits"], **options)
        for note in ("reason", "labels"):
            if note in command:
                options[note] = command[note]
        options["on_yield"] = asked
        if action == "claim":
            return self.client.claim(command["name"], command["ticket"], on_lost=options["on_lost"])
        mode = command.get("mode") or "exclusive"
        if action == "campaign":
            return self.client.election(command["name"]).campaign(command["value"], **options)
        if action.endswith("all"):
            return self.client.locks(command["names"], mode, **options)
        return self.client.lock(command["name"], mode, **options)

    async def acquire(self, command: Command) -> dict[str, Any]:
        """Acquire a guard."""
        if self.client is None:
            raise lockkeeper.SessionEnded("there is none")
        guard = command["guard"]

        def lost(loss: lockkeeper.LockLost) -> None:
            if "on_lost" in command:
                self.loop.call_soon_threadsafe(self.start, command["on_lost"])
            token, detail = str(loss.fencing_token), loss.detail
            event = {"event": "lost", "guard": guard, "reason": loss.reason}
            put({**event, "fencing_token": token, "detail": detail})

        options = {
            "lease": seconds(command, "lease_ms"),
            "timeout": seconds(command, "wait_ms"),
            "blocking": not command["do"].startswith("try_"),
            "owner": command.get("owner"),
            "min_replica_acks": command.get("min_replica_acks", 0),
            "on_lost": lost,
        }
        holder = self.holder(command, options)
        self.waiting[command["id"]] = holder
        # `acquire` only says whether; `with` says why not.
        await call(holder.__enter__ if IS_SYNC else holder.__aenter__)
        del self.waiting[command["id"]]
        self.guards[guard] = holder
        return describe(holder)

    def guard(self, command: Command) -> Any:
        """Return a guard."""
        if command["guard"] not in self.guards:
            raise lockkeeper.Misconfigured(f"no guard {command['guard']}")
        return self.guards[command["guard"]]

    async def do_release(self, command: Command) -> dict[str, Any]:
        """Release a guard."""
        await call(self.guard(command).release)
        return {}

    async def do_renew(self, command: Command) -> dict[str, Any]:
        """Renew a guard."""
        await call(self.guard(command).extend, seconds(command, "lease_ms"))
        return describe(self.guard(command))

    async def do_proclaim(self, command: Command) -> dict[str, Any]:
        """Replace the value of a leader."""
        revision = await call(self.guard(command).proclaim, command["value"])
        return {"revision": str(revision)}

    async def do_offer(self, command: Command) -> dict[str, Any]:
        """Make a ticket."""
        return {"ticket": await call(self.guard(command).offer)}

    async def do_state(self, command: Command) -> dict[str, Any]:
        """Return how a guard is."""
        return describe(self.guard(command))

    # --- semaphores and latches

    async def do_set_permits(self, command: Command) -> dict[str, Any]:
        """Set the permits of a semaphore."""
        semaphore = self.client.semaphore(command["name"])
        await call(semaphore.set_permits, command["permits"])
        return {}

    async def do_describe_semaphore(self, command: Command) -> dict[str, Any]:
        """Describe a semaphore."""
        seen = await call(self.client.semaphore(command["name"]).describe)
        return {"permits": seen.total, "available": seen.available}

    async def do_set_count(self, command: Command) -> dict[str, Any]:
        """Set the count of a latch."""
        latch = self.client.latch(command["name"])
        return {"count": await call(latch.set_count, command["count"])}

    async def do_count_down(self, command: Command) -> dict[str, Any]:
        """Count a latch down."""
        latch = self.client.latch(command["name"])
        return {"count": await call(latch.count_down, command.get("by") or 1)}

    async def do_await_latch(self, command: Command) -> dict[str, Any]:
        """Wait for a latch."""
        latch = self.client.latch(command["name"])
        if not await call(latch.wait, seconds(command, "wait_ms")):
            raise lockkeeper.NotGranted(latch.name, "WAIT_TIMEOUT")
        return {}

    async def do_describe_latch(self, command: Command) -> dict[str, Any]:
        """Describe a latch."""
        return {"count": await call(self.client.latch(command["name"]).count)}

    async def do_delete_latch(self, command: Command) -> dict[str, Any]:
        """Delete a latch."""
        await call(self.client.latch(command["name"]).delete)
        return {}

    # --- what is followed

    async def do_observe(self, command: Command) -> dict[str, Any]:
        """Observe an election until that is cancelled."""
        await self.follow(command, self.client.election(command["name"]).observe(), term)
        return {}

    async def do_watch_lock(self, command: Command) -> dict[str, Any]:
        """Watch a lock until that is cancelled."""
        await self.follow(command, self.client.watch_lock(command["name"]), seen)
        return {}

    async def follow(
        self, command: Command, events: Any, describe: Callable[[Any], dict[str, Any]]
    ) -> None:
        """Write all events. The synchronous client blocks a thread for each."""
        told = {"event": "told", "feed": command["feed"]}
        if not IS_SYNC:
            async for event in events:
                put({**told, **describe(event)})
        while IS_SYNC:
            put({**told, **describe(await call(next, events))})

    async def do_await_free(self, command: Command) -> dict[str, Any]:
        """Wait until a lock is free."""
        name = command["name"]
        if not await call(self.client.await_free, name, seconds(command, "wait_ms")):
            raise lockkeeper.NotGranted(name, "WAIT_TIMEOUT")
        return {}

    # --- locks of others

    async def do_describe(self, command: Command) -> dict[str, Any]:
        """Describe a lock."""
        seen = await call(self.client.describe, command["name"])
        return {
            "holder_count": seen.holder_count,
            "waiter_count": seen.waiter_count,
            "last_fencing_token": str(seen.last_fencing_token),
        }

    async def do_check_token(self, command: Command) -> dict[str, Any]:
        """Check a fencing token."""
        token = int(command["fencing_token"])
        return {"current": await call(self.client.check_token, command["name"], token)}

    async def do_once_try_acquire(self, command: Command) -> dict[str, Any]:
        """Acquire a lock without a session."""
        options = {"owner": command.get("owner") or "", "lease": seconds(command, "lease_ms")}
        grant = await call(self.client.try_acquire, command["name"], **options)
        if grant is None:
            return {"acquired": False}
        return {"acquired": True, "fencing_token": str(grant.fencing_token)}

    async def do_once_renew(self, command: Command) -> dict[str, Any]:
        """Renew a lock without a session."""
        options = {"owner": command["owner"], "lease": seconds(command, "lease_ms")}
        await call(self.client.renew, command["name"], **options)
        return {}

    async def do_once_release(self, command: Command) -> dict[str, Any]:
        """Release a lock without a session."""
        await call(self.client.release, command["name"], owner=command["owner"])
        return {}

    async def do_contend(self, command: Command) -> dict[str, Any]:
        """Acquire and release a lock in a loop."""
        result: dict[str, Any] = await history.contend(self.client, command, call, self.listeners)
        return result

    async def do_sessions(self, command: Command) -> dict[str, Any]:
        """Open sessions of clients of their own, which stay idle."""
        make: Any = lockkeeper.Client if IS_SYNC else aio.Client
        for _ in range(command["count"]):
            self.idle.append(make(command["endpoints"]))
            await call(self.idle[-1].connect)
        return {}

    async def do_speed(self, command: Command) -> dict[str, Any]:
        """Measure the client beside a bare stream."""
        return await speed(command)


def asked(request: lockkeeper.YieldRequest) -> None:
    """Write a request to yield."""
    event = {"event": "yield_requested", "name": request.name, "by": request.by}
    put({**event, "reason": request.reason, "preempts": request.preempts})


def term(event: lockkeeper.Observed) -> dict[str, Any]:
    """Return what an observer sees."""
    if event.leader is None:
        return {"what": "missed" if event.missed else "no_leader"}
    figures = {"revision": str(event.leader.revision), "fencing_token": str(event.leader.term)}
    return {"what": "leader", "value": event.leader.value, **figures}


def seen(event: Any) -> dict[str, Any]:
    """Return what is seen of a lock."""
    what = event.WhichOneof("event")
    if what not in ("granted", "ended"):
        return {"what": what}
    return {"what": what, "fencing_token": str(getattr(event, what).fencing_token)}


def describe(holder: Any) -> dict[str, Any]:
    """Return a guard as the kit sees it."""
    state = {"valid_ms": int(holder.valid_for * 1000), "lost": holder.loss is not None}
    if hasattr(holder, "permit_ids"):
        return {**state, "permit_ids": holder.permit_ids}
    tokens = {name: str(token) for name, token in holder.fencing_tokens.items()}
    return {**state, "fencing_token": str(holder.fencing_token), "fencing_tokens": tokens}


if __name__ == "__main__":
    asyncio.run(Driver().run())
