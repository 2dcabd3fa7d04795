"""What both clients share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Callable, Generic, TypeVar

from lockkeeper._clock import Seconds, seconds_of
from lockkeeper._connect import Address, Connector, StrPath, TokenCallback, parse_endpoints
from lockkeeper._machine.messages import set_seconds
from lockkeeper._options import mode_of
from lockkeeper._session import SessionEvent
from lockkeeper.errors import Error, Misconfigured, Refused, Unreachable
from lockkeeper.v1 import admin_pb2, election_pb2, lock_pb2, session_pb2, types_pb2

#: The time limit of a call without a session.
CALL_TIMEOUT = 6.0

#: The response of each call without a session.
RESPONSES: dict[str, Any] = {
    "LockService/TryAcquire": lock_pb2.TryAcquireResponse,
    "LockService/Renew": lock_pb2.RenewResponse,
    "LockService/Release": lock_pb2.ReleaseResponse,
    "LockService/Describe": lock_pb2.DescribeResponse,
    "LockService/CheckToken": lock_pb2.CheckTokenResponse,
    "LockService/Explain": lock_pb2.ExplainResponse,
    "LockService/RequestYield": lock_pb2.RequestYieldResponse,
    "LockAdminService/ForceRelease": admin_pb2.ForceReleaseResponse,
    "ElectionService/Leader": election_pb2.LeaderResponse,
}

ChannelT = TypeVar("ChannelT")


class Link(Generic[ChannelT]):
    """A connection that calls share. One that is dropped stays open for the calls under way."""

    __slots__ = ("channel", "users")

    def __init__(self, channel: ChannelT) -> None:
        self.channel = channel
        #: The number of calls under way.
        self.users = 0


class ClientBase:
    """The options of a client, and the process that it belongs to."""

    def __init__(
        self,
        endpoints: str | Sequence[str] = "http://127.0.0.1:7625",
        *,
        lease: Seconds | None = None,
        client_name: str = "",
        release_on_disconnect: bool = False,
        token: str | TokenCallback | None = None,
        token_file: StrPath | None = None,
        ca_file: StrPath | None = None,
        cert_file: StrPath | None = None,
        key_file: StrPath | None = None,
        server_name: str | None = None,
        on_event: Callable[[SessionEvent], None] | None = None,
        interceptors: Sequence[Any] = (),
    ) -> None:
        """Make a client. It connects when it is first used.

        Args:
            endpoints: The coordinators of one store, in the order in which they are tried:
                ``http://HOST:PORT``, ``https://HOST:PORT``, ``unix:///PATH`` or ``HOST:PORT``
                (``http://``), as a sequence or separated by commas.
            lease: How long locks outlive this process, and how long a broken stream may take to be
                resumed. By default it is the coordinator's (30 s).
            client_name: A name for operators, shown with the locks that this client holds.
            release_on_disconnect: Releases everything as soon as the stream breaks. By default it
                stays held until the lease ends, because this process may still be at work.
            token: The bearer token, or a function that returns one for every call.
            token_file: A file with the token. It is read for every call.
            ca_file: The authorities to trust (PEM). By default those of the system, as OpenSSL
                finds them (``SSL_CERT_FILE``), or those of gRPC if there are none or if
                ``GRPC_DEFAULT_SSL_ROOTS_FILE_PATH`` is set.
            cert_file: The client's certificate (PEM), if the coordinator requires one.
            key_file: The private key of that certificate (PEM).
            server_name: The name in the coordinator's certificate, if it is not the host.
            on_event: Called for each change of the session.
            interceptors: Interceptors of gRPC, for every connection.

        Raises:
            Misconfigured: An address, a file or a value cannot be used.

        """
        self._addresses = parse_endpoints(endpoints)
        self._connector = Connector(
            token, token_file, ca_file, cert_file, key_file, server_name, interceptors
        )
        self._connector.check(self._addresses)
        self._on_event = on_event
        self._open_session = session_pb2.OpenSession(
            client_name=client_name, sends_pings=True, sends_close=True
        )
        if lease is not None:
            set_seconds(self._open_session.lease, seconds_of(lease, "lease"))
        if release_on_disconnect:
            self._open_session.on_disconnect = session_pb2.ON_DISCONNECT_RELEASE
        self._is_closed = False
        #: The endpoint that answered the last call without a session.
        self._answered = 0
        self._process = os.getpid()
        self._set_up()

    def _set_up(self) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        addresses = ",".join(address.text for address in self._addresses)
        return f"<{type(self).__module__}.{type(self).__name__} {addresses}>"

    def _in_order(self) -> list[Address]:
        """Return the addresses for a call: first the one that answered the last call."""
        if self._is_closed:
            return []
        return [*self._addresses[self._answered :], *self._addresses[: self._answered]]

    def _note_answer(self, address: Address) -> None:
        self._answered = self._addresses.index(address)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise Misconfigured(
                f"this client belongs to process {self._process}, and this is its fork "
                f"{os.getpid()}, without its connection; make a client after the fork"
            )


def is_elsewhere(error: Error) -> bool:
    """Tell whether another endpoint may execute the call.

    A call with one of these reasons has changed nothing.
    """
    is_unfit = isinstance(error, Refused) and error.reason in ("DRAINING", "STORE_UNAVAILABLE")
    return is_unfit or isinstance(error, Unreachable)


def try_acquire_of(
    name: str,
    owner: str,
    lease: Seconds | None,
    mode: str,
    request_id: str,
    note: types_pb2.Note | None,
    hold_at_least: Seconds | None,
    lock_delay: Seconds | None,
) -> lock_pb2.TryAcquireRequest:
    """Return the request of an acquire without a session."""
    request = lock_pb2.TryAcquireRequest(
        name=name, owner=owner, mode=mode_of(mode), request_id=request_id, note=note
    )
    if lease is not None:
        set_seconds(request.lease, seconds_of(lease, "lease"))
    if hold_at_least is not None:
        set_seconds(request.hold_at_least, seconds_of(hold_at_least, "hold_at_least"))
    if lock_delay is not None:
        set_seconds(request.lock_delay, seconds_of(lock_delay, "lock_delay"))
    return request


def renew_of(name: str, owner: str, lease: Seconds | None, mode: str) -> lock_pb2.RenewRequest:
    """Return the request of a renewal without a session."""
    request = lock_pb2.RenewRequest(name=name, owner=owner, mode=mode_of(mode))
    if lease is not None:
        set_seconds(request.lease, seconds_of(lease, "lease"))
    return request


def force_release_of(
    name: str, reason: str, grace_period: Seconds
) -> admin_pb2.ForceReleaseRequest:
    """Return the request of a forced release."""
    request = admin_pb2.ForceReleaseRequest(name=name, reason=reason)
    set_seconds(request.grace_period, seconds_of(grace_period, "grace_period"))
    return request


def request_yield_of(
    name: str,
    reason: str,
    within: Seconds | None,
    preempt: bool,
    grace_period: Seconds | None,
    client_name: str,
) -> lock_pb2.RequestYieldRequest:
    """Return the request that asks the holders of a lock to release it."""
    request = lock_pb2.RequestYieldRequest(
        name=name, reason=reason, preempt=preempt, client_name=client_name
    )
    if within is not None:
        set_seconds(request.within, seconds_of(within, "within"))
    if grace_period is not None:
        set_seconds(request.grace_period, seconds_of(grace_period, "grace_period"))
    return request
