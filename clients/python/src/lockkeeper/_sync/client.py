"""The synchronous client."""

from __future__ import annotations

import functools
import queue
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Callable, TypeVar

from lockkeeper._clock import Seconds
from lockkeeper._holder import Defaults
from lockkeeper._machine.events import Message
from lockkeeper._options import LockName, Options, Target, note_of
from lockkeeper._session import Hooks, YieldRequest, logger
from lockkeeper._sync.calls import Calls
from lockkeeper._sync.election import Election
from lockkeeper._sync.follow import close_channel
from lockkeeper._sync.lock import Latch, Lock, Semaphore
from lockkeeper._sync.session import Session
from lockkeeper.errors import Error, LockLost, SessionEnded

_F = TypeVar("_F", bound=Callable[..., Any])


class Client(Calls):
    """A client of the coordinators of one store. It may be shared by threads.

    All locks share one session, which is opened when it is first needed. When a session has ended,
    everything in it is lost; the next acquire opens a new one.

    A client belongs to its process: in a fork of it, its methods raise `Misconfigured`.
    """

    def _set_up(self) -> None:
        super()._set_up()
        self._callbacks = _Callbacks()
        #: For who opens a session. `close` does without: a finalizer may call it in the thread that
        #: has this mutex, or in the new one, which the first waits for.
        self._opening = threading.RLock()

    # --- the session

    def connect(self) -> None:
        """Open the session now, not with the first acquire.

        Raises:
            Unreachable: No coordinator answered within 6 s.
            Refused: The coordinator refused the session.
            Misconfigured: A TLS file or a token cannot be used.

        """
        self._session().connect()

    def close(self) -> None:
        """Close the session, which releases everything, and wait for its end.

        Raises:
            SessionEnded: No coordinator confirmed the end within 2 s. What is held ends with its
                lease.

        """
        self._check_process()
        with self._mutex:
            self._is_closed = True
            session, self._shared = self._shared, None
            channels = [link.channel for link in self._links.values()]
            channels += self._observing.copy()
            self._links.clear()
        for channel in channels:
            close_channel(channel)
        try:
            if session:
                session.close()
        finally:
            self._callbacks.close()

    def __enter__(self) -> Client:
        """Return the client."""
        self._check_process()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client."""
        try:
            self.close()
        except Error as failure:
            logger.warning("%s", failure)

    def _session(self) -> Session:
        self._check_process()
        with self._opening:
            session = self._shared
            if not self._is_closed and (session is None or session.is_over):
                hooks = Hooks(threading.Event, self._callbacks.run, self._on_event)
                session = Session(self._addresses, self._connector, self._open_session, hooks)
                self._shared = session
                if self._is_closed:  # Meanwhile; it may not know of this session.
                    self.close()
        if self._is_closed or session is None:
            raise SessionEnded("the client is closed")
        return session

    def _call(self, kind: str, request: Message, wait_until: float | None = None) -> Any:
        return self._session().call(kind, request, wait_until)

    # --- locks, semaphores and latches

    def lock(
        self,
        name: str,
        mode: str = "exclusive",
        lease: Seconds | None = None,
        blocking: bool = True,
        timeout: Seconds | None = None,
        *,
        owner: str | None = None,
        min_replica_acks: int = 0,
        patience: Seconds | None = None,
        on_lost: Callable[[LockLost], None] | None = None,
        reason: str = "",
        labels: Mapping[str, str] | None = None,
        hold_at_least: Seconds | None = None,
        lock_delay: Seconds | None = None,
        end_on_deadlock: bool = False,
        preferred: bool = False,
        on_yield: Callable[[YieldRequest], None] | None = None,
    ) -> Lock:
        """Make a lock, to be acquired by ``with`` or `Lock.acquire`.

        Args:
            name: The name of the lock.
            mode: ``"exclusive"``, ``"fair"``, ``"read"`` or ``"write"``.
            lease: A lease in seconds that is not renewed. By default it is the session's, renewed
                in the background until the lock is released.
            blocking: Whether to wait for the lock.
            timeout: How long to wait, in seconds. By default there is no limit.
            owner: The owner, who may acquire a lock several times. By default each acquire has an
                owner of its own, so threads exclude each other. An owner stands for one task: give
                each one that holds several locks an owner for all of them, and its deadlocks are
                named.
            min_replica_acks: The minimum number of the store's replicas that must acknowledge the
                grant.
            patience: How long to retry while the store does not answer. By default for the lease,
                with ``blocking=False`` for 6 s.
            on_lost: Called once if the lock is lost, in a thread of the client.
            reason: Why the lock is held, for others to read: at most 256 bytes, without secrets.
            labels: Labels for others to read, at most 8: keys of at most 64 bytes without ``=``,
                values of at most 128 bytes.
            hold_at_least: How long the lock stays held at least, in seconds, counted from the
                grant, also after a release or a crash: a job that ends early does not run again at
                once elsewhere. For the modes ``"exclusive"`` and ``"fair"``.
            lock_delay: How long nobody gets the lock after it was lost without a release, in
                seconds, because this process crashed or could not reach a coordinator. A release
                frees it at once. For the modes ``"exclusive"`` and ``"fair"``.
            end_on_deadlock: Raises `NotGranted` with the reason ``"DEADLOCK"`` if the wait is the
                youngest of a deadlock that has this option. Known only among named owners.
            preferred: Comes before the other waiters: the wait becomes the first in line, and the
                holder is asked to yield, unless it was preferred itself. Of several that wait, the
                last to arrive is the first. For the mode ``"fair"``.
            on_yield: Called when another caller asks for the lock, in a thread of the client. See
                `Lock.yield_requested`.

        """
        target = Target.lock(name, mode)
        note = note_of(reason, labels)
        options = Options(
            lease,
            owner,
            min_replica_acks,
            patience,
            note,
            hold_at_least,
            lock_delay,
            end_on_deadlock,
            preferred,
        )
        return Lock(self, target, options, Defaults(blocking, timeout, on_lost, on_yield))

    def locks(
        self,
        names: Iterable[LockName],
        mode: str = "exclusive",
        lease: Seconds | None = None,
        blocking: bool = True,
        timeout: Seconds | None = None,
        *,
        owner: str | None = None,
        min_replica_acks: int = 0,
        patience: Seconds | None = None,
        on_lost: Callable[[LockLost], None] | None = None,
        reason: str = "",
        labels: Mapping[str, str] | None = None,
        end_on_deadlock: bool = False,
        on_yield: Callable[[YieldRequest], None] | None = None,
    ) -> Lock:
        """Make a lock of several names, all of which are acquired or none.

        A name may come with a mode of its own: ``client.locks(["a", ("b", "read")])``. The options
        are those of `lock`.
        """
        target = Target.locks(names, mode)
        note = note_of(reason, labels)
        options = Options(
            lease, owner, min_replica_acks, patience, note, end_on_deadlock=end_on_deadlock
        )
        return Lock(self, target, options, Defaults(blocking, timeout, on_lost, on_yield))

    def claim(
        self,
        name: str,
        ticket: str,
        lease: Seconds | None = None,
        *,
        owner: str | None = None,
        on_lost: Callable[[LockLost], None] | None = None,
        on_yield: Callable[[YieldRequest], None] | None = None,
    ) -> Lock:
        """Make a lock that ``with`` or `Lock.acquire` takes over by a ticket of `Lock.offer`.

        It has a new, larger fencing token, and at no moment is it free. The options are those of
        `lock`. The acquire raises `Refused` (``TICKET_REFUSED``) if the ticket is not valid any
        more, and then has changed nothing. If the answer is lost on its way, it is refused as well,
        and the lock is released or ends with its lease.
        """
        target = Target.claim(name, ticket)
        options = Options(lease, owner, 0, None)
        return Lock(self, target, options, Defaults(True, None, on_lost, on_yield))

    def semaphore(
        self,
        name: str,
        permits: int = 1,
        lease: Seconds | None = None,
        blocking: bool = True,
        timeout: Seconds | None = None,
        *,
        owner: str | None = None,
        min_replica_acks: int = 0,
        patience: Seconds | None = None,
        on_lost: Callable[[LockLost], None] | None = None,
    ) -> Semaphore:
        """Make a semaphore, of which ``with`` or `Semaphore.acquire` acquire `permits`.

        They are acquired at once, all or none. The other options are those of `lock`.
        """
        target = Target.permits(name, permits)
        options = Options(lease, owner, min_replica_acks, patience)
        return Semaphore(self, target, options, Defaults(blocking, timeout, on_lost))

    def latch(self, name: str) -> Latch:
        """Make a latch."""
        self._check_process()
        return Latch(self, name)

    def election(self, name: str) -> Election:
        """Make an election."""
        return Election(self, name)

    def locked(self, name: str, **options: Any) -> Callable[[_F], _F]:
        """Decorate a function that runs under a lock. The options are those of `lock`."""
        self.lock(name, **options)  # Wrong options fail here.

        def decorate(function: _F) -> _F:
            @functools.wraps(function)
            def locked(*args: Any, **kwargs: Any) -> Any:
                with self.lock(name, **options):
                    return function(*args, **kwargs)

            return locked  # type: ignore[return-value]

        return decorate


class _Callbacks:
    """Runs callbacks of users in a thread, one after the other."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[..., None], Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, callback: Callable[..., None], argument: Any) -> None:
        """Run a callback. Called by the session's thread only."""
        self._queue.put((callback, argument))
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="lockkeeper-callbacks", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # At a limit. The next callback tries again; locks come first.
                logger.exception("a callback has to wait")
            else:
                self._thread = thread

    def close(self) -> None:
        """End the thread after what was put so far."""
        self._queue.put(None)

    def _run(self) -> None:
        for callback, argument in iter(self._queue.get, None):
            try:
                callback(argument)
            except BaseException:  # Also `SystemExit`, which would end this thread only.
                logger.exception("a callback failed")
