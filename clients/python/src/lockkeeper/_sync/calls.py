"""Calls of the synchronous client without a session."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import grpc

from lockkeeper import _clock
from lockkeeper._client_base import (
    CALL_TIMEOUT,
    RESPONSES,
    ClientBase,
    Link,
    force_release_of,
    is_elsewhere,
    renew_of,
    request_yield_of,
    try_acquire_of,
)
from lockkeeper._clock import Seconds
from lockkeeper._connect import Address, error_of
from lockkeeper._follow import Freeing, Watching
from lockkeeper._machine.events import Message
from lockkeeper._options import mode_of, note_of
from lockkeeper._sync.follow import Observer, close_channel
from lockkeeper._sync.session import Session
from lockkeeper.errors import Error, SessionEnded, Unreachable
from lockkeeper.v1 import admin_pb2, lock_pb2, types_pb2


class Calls(ClientBase):
    """The part of a client that needs no session."""

    def _set_up(self) -> None:
        #: A finalizer or a handler of a signal may close the client in the thread that has it.
        self._mutex = threading.RLock()
        self._shared: Session | None = None
        self._links: dict[Address, Link[grpc.Channel]] = {}
        #: The connections of observers.
        self._observing: set[grpc.Channel] = set()

    def try_acquire(
        self,
        name: str,
        *,
        owner: str = "",
        lease: Seconds | None = None,
        mode: str = "exclusive",
        reason: str = "",
        labels: Mapping[str, str] | None = None,
        hold_at_least: Seconds | None = None,
        lock_delay: Seconds | None = None,
    ) -> types_pb2.Grant | None:
        """Acquire a lock without a session if it is free; None if it has another holder.

        Nothing renews it: `renew` does. By default the coordinator makes the owner, which the grant
        names, and the lease is the coordinator's (30 s). `reason`, `labels`, `hold_at_least` and
        `lock_delay` are those of `lock`.

        Raises:
            Unreachable: No coordinator answered.
            Refused: The coordinator refused the call.

        """
        note = note_of(reason, labels)
        request_id = str(uuid.uuid4())
        request = try_acquire_of(
            name, owner, lease, mode, request_id, note, hold_at_least, lock_delay
        )
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
                retried, because it could take the lock from the next holder.
            Refused: The coordinator refused the call.

        """
        request = force_release_of(name, reason, grace_period)
        response: admin_pb2.ForceReleaseResponse
        response = self._once("LockAdminService/ForceRelease", request)
        return response

    def request_yield(
        self,
        name: str,
        *,
        reason: str,
        within: Seconds | None = None,
        preempt: bool = False,
        grace_period: Seconds | None = None,
    ) -> lock_pb2.RequestYieldResponse:
        """Ask the holders of a lock to release it, and return which of them were reached.

        They may do so, finish their work first, or ignore it, unless the request preempts. The call
        returns when all of them have the request, or after 1 s; the coordinator goes on to look for
        the others. Holders see the name of this client.

        Args:
            name: The name of the lock.
            reason: Why, for the holders: 1 to 256 bytes.
            within: How long the request stands, in seconds, at most 1 h. By default 30 s.
            preempt: Whether to take the lock from holders that still hold it then. It needs the
                right ``preempt``.
            grace_period: How long a preempted lock stays closed at most, in seconds, while its
                former holders stop. By default as long as their leases last, so that nobody else is
                granted it while one of them may rely on it; a shorter one gives that up.

        Raises:
            Unreachable: No coordinator answered, or the call was lost on its way. It is not
                retried, because it could ask the next holder.
            Refused: The coordinator refused the call.

        """
        client_name = self._open_session.client_name
        request = request_yield_of(name, reason, within, preempt, grace_period, client_name)
        response: lock_pb2.RequestYieldResponse
        response = self._once("LockService/RequestYield", request)
        return response

    def explain(self, name: str) -> lock_pb2.ExplainResponse:
        """Return why a lock is waited for: its holders, what they wait for, and so on.

        The answer has the deadlocks among them. It takes up to two seconds if there is a cycle, and
        needs the right ``describe``. Raises as `try_acquire` does.
        """
        request = lock_pb2.ExplainRequest(name=name)
        response: lock_pb2.ExplainResponse = self._unary("LockService/Explain", request)
        return response

    def await_free(self, name: str, timeout: Seconds | None = None) -> bool:
        """Wait until a lock has no holder, and acquire nothing; return whether it has none.

        Any owner may hold it when this returns. It goes on at the next endpoint if the coordinator
        or the connection fails. It uses no session, and needs the right ``describe``.

        Args:
            name: The name of the lock.
            timeout: How long to wait, in seconds. By default there is no limit.

        Raises:
            Unreachable: No coordinator answered, at first or at the end of the wait.
            Refused: The same request would be refused again.
            SessionEnded: The client is closed.

        """
        progress = Freeing(name, timeout, len(self._addresses))
        with contextlib.closing(Observer(self, progress)) as events:
            return next(events)

    def watch_lock(self, name: str) -> Observer[lock_pb2.WatchLockResponse]:
        """Watch what happens to a lock, on all coordinators and by Redisson clients.

        First comes its state, then each grant, each end of a grant, and the number of waiters, in
        order. What may not have been seen is a gap. If the coordinator or the connection fails, it
        goes on at the next endpoint, for as long as that takes: with the gap ``UNHEARD``, and the
        state at that time. It uses no session, and needs the right ``describe``. See `Observer`.
        """
        progress = Watching(name, len(self._addresses))
        return Observer(self, progress)

    def _either(self, kind: str, method: str, request: Message) -> Any:
        """Use the session if it is connected: no answer is worth the wait for another stream."""
        self._check_process()
        session = self._shared
        if session is None or session.state != "connected":
            return self._unary(method, request)
        return session.call(kind, request, _clock.now() + CALL_TIMEOUT)

    def _once(self, method: str, request: Message) -> Any:
        """Make a call that is not retried, at the first coordinator that answers another one."""
        self._check_process()
        error: Error = SessionEnded("the client is closed")
        for address in self._in_order():
            try:
                self._attempt(
                    address, "LockService/Describe", lock_pb2.DescribeRequest(name=request.name)
                )
            except Error as failure:
                if is_elsewhere(failure):
                    error = failure
                    continue
                # A refusal is an answer too: this coordinator is there.
            self._note_answer(address)
            return self._attempt(address, method, request)
        raise error

    def _unary(self, method: str, request: Message) -> Any:
        self._check_process()
        error: Error = SessionEnded("the client is closed")
        for address in self._in_order():
            try:
                response = self._attempt(address, method, request)
            except Error as failure:
                error = failure
                if is_elsewhere(error):
                    continue
                raise
            self._note_answer(address)
            return response
        raise error

    def _attempt(self, address: Address, method: str, request: Message) -> Any:
        metadata = self._connector.metadata()
        with self._link(address) as link:
            try:
                call = link.channel.unary_unary(
                    f"/lockkeeper.v1.{method}",
                    type(request).SerializeToString,
                    RESPONSES[method].FromString,
                )
                return call(request, timeout=CALL_TIMEOUT, metadata=metadata)
            except grpc.RpcError as failure:
                error = error_of(address, failure)
            except ValueError as failure:  # The connection was closed.
                error = Unreachable(address.text, str(failure))
            if isinstance(error, Unreachable):
                self._drop(address, link)
            raise error

    @contextlib.contextmanager
    def _link(self, address: Address) -> Iterator[Link[grpc.Channel]]:
        """Use the connection to a coordinator. The last call of a dropped one closes it."""
        with self._mutex:
            if self._is_closed:
                raise SessionEnded("the client is closed")
            link = self._links.get(address)
            if link is None:
                link = self._links[address] = Link(self._connector.channel(address))
            link.users += 1
        try:
            yield link
        finally:
            with self._mutex:
                link.users -= 1
                is_over = not link.users and self._links.get(address) is not link
            if is_over:
                link.channel.close()

    def _drop(self, address: Address, link: Link[grpc.Channel]) -> None:
        """Forget a connection: the next one has the certificates of its time."""
        with self._mutex:
            if self._links.get(address) is link:
                del self._links[address]

    @contextlib.contextmanager
    def _observing_channel(self, address: Address) -> Iterator[grpc.Channel]:
        """Make a connection for an observer, which the end of the client closes."""
        channel = self._connector.channel(address)
        try:
            with self._mutex:
                if self._is_closed:
                    raise SessionEnded("the client is closed")
                self._observing.add(channel)
            yield channel
        finally:
            # Without the mutex: the garbage collector may run this in any thread, also in one that
            # holds the mutex, or that its holder waits for.
            self._observing.discard(channel)
            close_channel(channel)
