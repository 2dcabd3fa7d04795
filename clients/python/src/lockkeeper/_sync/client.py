"""The synchronous client."""

from __future__ import annotations

import functools
import queue
import threading
import uuid
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Callable, TypeVar

import grpc

from lockkeeper._client_base import (
    CALL_TIMEOUT,
    RESPONSES,
    ClientBase,
    force_release_of,
    is_elsewhere,
    renew_of,
    try_acquire_of,
)
from lockkeeper._clock import Seconds
from lockkeeper._connect import Address, error_of
from lockkeeper._holder import Defaults
from lockkeeper._machine.events import Message
from lockkeeper._options import LockName, Options, Target, mode_of, note_of
from lockkeeper._session import Hooks, logger
from lockkeeper._sync.lock import Latch, Lock, Semaphore
from lockkeeper._sync.session import Session
from lockkeeper.errors import Error, LockLost, SessionEnded
from lockkeeper.v1 import admin_pb2, lock_pb2, types_pb2

_F = TypeVar("_F", bound=Callable[..., Any])


class Client(ClientBase):
    """A client of the coordinators of one store. It may be shared by threads.

    All locks share one session, which is opened when it is first needed. When a session has ended,
    everything in it is lost; the next acquire opens a new one.

    A client belongs to its process: in a fork of it, its methods raise `Misconfigured`.
    """

    def _set_up(self) -> None:
        self._mutex = threading.Lock()
        self._callbacks = _Callbacks()
        self._shared: Session | None = None
        self._channels: dict[Address, grpc.Channel] = {}

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
            channels = list(self._channels.values())
            self._channels.clear()
        for channel in channels:
            channel.close()
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
        with self._mutex:
            if self._is_closed:
                raise SessionEnded("the client is closed")
            if self._shared is None or self._shared.is_over:
                hooks = Hooks(threading.Event, self._callbacks.run, self._on_event)
                self._shared = Session(self._addresses, self._connector, self._open_session, hooks)
            return self._shared

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
                owner of its own, so threads exclude each other.
            min_replica_acks: The minimum number of the store's replicas that must acknowledge the
                grant.
            patience: How long to retry while the store does not answer. By default for the lease.
            on_lost: Called once if the lock is lost, in a thread of the client.
            reason: Why the lock is held, for others to read: at most 256 bytes, without secrets.
            labels: Labels for others to read, at most 8: keys of at most 64 bytes without ``=``,
                values of at most 128 bytes.

        """
        target = Target.lock(name, mode)
        note = note_of(reason, labels)
        options = Options(lease, owner, min_replica_acks, patience, note)
        return Lock(self, target, options, Defaults(blocking, timeout, on_lost))

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
    ) -> Lock:
        """Make a lock of several names, all of which are acquired or none.

        A name may come with a mode of its own: ``client.locks(["a", ("b", "read")])``. The options
        are those of `lock`.
        """
        target = Target.locks(names, mode)
        note = note_of(reason, labels)
        options = Options(lease, owner, min_replica_acks, patience, note)
        return Lock(self, target, options, Defaults(blocking, timeout, on_lost))

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

    # --- calls without a session

    def try_acquire(
        self,
        name: str,
        *,
        owner: str = "",
        lease: Seconds | None = None,
        mode: str = "exclusive",
        reason: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> types_pb2.Grant | None:
        """Acquire a lock without a session if it is free; None if it has another holder.

        Nothing renews it: `renew` does. By default the coordinator makes the owner, which the grant
        names, and the lease is the coordinator's (30 s). `reason` and `labels` are those of `lock`.

        Raises:
            Unreachable: No coordinator answered.
            Refused: The coordinator refused the call.

        """
        note = note_of(reason, labels)
        request = try_acquire_of(name, owner, lease, mode, str(uuid.uuid4()), note)
        response: lock_pb2.TryAcquireResponse = self._unary("LockService/TryAcquire", request)
        return response.grant if response.acquired else None

    def renew(
        self,
        name: str,
        *,
        owner: str,
        lease: Seconds | None = None,
        mode: str = "exclusive",
    ) -> types_pb2.Grant:
        """Renew a lock that is held without a session. Raises as `try_acquire` does."""
        request = renew_of(name, owner, lease, mode)
        response: lock_pb2.RenewResponse = self._unary("LockService/Renew", request)
        return response.grant

    def release(self, name: str, *, owner: str, mode: str = "exclusive") -> int:
        """Release a hold without a session; return how many holds the owner has left.

        Raises as `try_acquire` does.
        """
        request = lock_pb2.ReleaseRequest(
            name=name, owner=owner, mode=mode_of(mode), request_id=str(uuid.uuid4())
        )
        return int(self._unary("LockService/Release", request).hold_count)

    def describe(self, name: str) -> lock_pb2.DescribeResponse:
        """Return the holders and the waiters of a lock. Raises as `try_acquire` does."""
        response: lock_pb2.DescribeResponse
        request = lock_pb2.DescribeRequest(name=name)
        response = self._either("describe", "LockService/Describe", request)
        return response

    def check_token(self, name: str, fencing_token: int) -> bool:
        """Return whether a fencing token is that of the newest grant.

        A newer grant may follow at once. Raises as `try_acquire` does.
        """
        request = lock_pb2.CheckTokenRequest(name=name, fencing_token=fencing_token)
        return bool(self._either("check_token", "LockService/CheckToken", request).current)

    def force_release(
        self, name: str, *, reason: str, grace_period: Seconds = 0
    ) -> admin_pb2.ForceReleaseResponse:
        """Release a lock of any holders, for operators; needs the admin right.

        Args:
            name: The name of the lock.
            reason: Why, for the holders and for the audit log.
            grace_period: How long the lock stays closed to others at most, in seconds, while its
                holders stop. It opens as soon as they have released it.

        Raises:
            Unreachable: No coordinator answered, or the call was lost on its way. It is not
                repeated, because it could take the lock from the next holder.
            Refused: The coordinator refused the call.

        """
        request = force_release_of(name, reason, grace_period)
        self._check_process()
        error: Error = SessionEnded("the client is closed")
        for address in () if self._is_closed else self._addresses:
            try:
                self._attempt(address, "LockService/Describe", lock_pb2.DescribeRequest(name=name))
            except Error as failure:
                if is_elsewhere(failure):
                    error = failure
                    self._drop_channel(address)
                    continue
                # A refusal is an answer too: this coordinator is there.
            response: admin_pb2.ForceReleaseResponse
            response = self._attempt(address, "LockAdminService/ForceRelease", request)
            return response
        raise error

    def _either(self, kind: str, method: str, request: Message) -> Any:
        """Use the session if there is one."""
        self._check_process()
        session = self._shared
        if session is None or session.is_over:
            return self._unary(method, request)
        return session.call(kind, request)

    def _unary(self, method: str, request: Message) -> Any:
        self._check_process()
        error: Error = SessionEnded("the client is closed")
        for address in () if self._is_closed else self._addresses:
            try:
                return self._attempt(address, method, request)
            except Error as failure:
                error = failure
                if not is_elsewhere(error):
                    break
                self._drop_channel(address)
        raise error

    def _attempt(self, address: Address, method: str, request: Message) -> Any:
        try:
            call = self._channel(address).unary_unary(
                f"/lockkeeper.v1.{method}",
                type(request).SerializeToString,
                RESPONSES[method].FromString,
            )
            return call(request, timeout=CALL_TIMEOUT, metadata=self._connector.metadata())
        except grpc.RpcError as failure:
            raise error_of(address, failure) from None

    def _channel(self, address: Address) -> grpc.Channel:
        with self._mutex:
            channel = self._channels.get(address)
            if channel is None:
                channel = self._channels[address] = self._connector.channel(address)
            return channel

    def _drop_channel(self, address: Address) -> None:
        """Forget a connection: the next one has the certificates of its time."""
        with self._mutex:
            channel = self._channels.pop(address, None)
        if channel:
            channel.close()


class _Callbacks:
    """Runs callbacks of users in a thread, one after the other."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Callable[..., None], Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, callback: Callable[..., None], argument: Any) -> None:
        """Run a callback. Called by the session's thread only."""
        self._queue.put((callback, argument))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="lockkeeper-callbacks", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """End the thread after what was put so far."""
        self._queue.put(None)

    def _run(self) -> None:
        for callback, argument in iter(self._queue.get, None):
            try:
                callback(argument)
            except Exception:
                logger.exception("a callback failed")
