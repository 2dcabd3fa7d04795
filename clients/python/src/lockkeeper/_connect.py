"""Addresses, credentials and connections."""

from __future__ import annotations

import contextlib
import inspect
import os
import ssl
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, Callable, NamedTuple, Union

import grpc
import grpc.aio
from google.rpc import status_pb2

from lockkeeper import _tracing
from lockkeeper.errors import Error, Misconfigured, Refused, Unreachable

#: A path of a file.
StrPath = Union[str, "os.PathLike[str]"]

#: Returns a bearer token.
TokenCallback = Callable[[], Union[str, Awaitable[str]]]

Metadata = tuple[tuple[str, str], ...]

#: With this variable, gRPC is told which authorities to trust.
_ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"

_DETAILS = "grpc-status-details-bin"

#: The connection of a session is its own. The frames of a stream find a dead coordinator; HTTP/2
#: pings do that for calls, and for older coordinators.
_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    # A proxy of the environment is for the web, and hides which coordinator does not answer.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)

#: Parts of gRPC's texts, and what they mean.
_CAUSES = (
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not trusted; see ca_file"),
    ("Hostname Verification", "its certificate is for another name; see server_name"),
    ("Failed to create security handshaker", "the certificate files cannot be used"),
    ("Unwrap failed", "it closed the TLS connection; does it require a client certificate?"),
    ("Handshake read failed", "it does not speak TLS; then the address begins with http://"),
    ("Tls handshake failed", "it does not speak TLS; then the address begins with http://"),
)

#: The same, of a connection that was never made.
_CLOSED = ("Socket closed", "it closed the connection; with TLS the address begins with https://")


class Address(NamedTuple):
    """The address of a coordinator."""

    text: str
    #: As gRPC takes it.
    target: str
    is_tls: bool

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse ``http://HOST:PORT``, ``https://HOST:PORT``, ``unix:///PATH`` or ``HOST:PORT``."""
        scheme, separator, rest = text.strip().partition("://")
        if not separator:
            scheme, rest = "http", scheme
        if scheme == "unix" and rest.startswith("/"):
            return cls(text, f"unix://{rest}", is_tls=False)
        rest = rest.rstrip("/")
        host, _, port = rest.rpartition(":")
        if scheme not in ("http", "https") or not host or not port.isdecimal() or "/" in rest:
            must = "must be http://HOST:PORT, https://HOST:PORT, unix:///PATH or HOST:PORT"
            raise Misconfigured(f"endpoints: {text!r} {must}")
        return cls(f"{scheme}://{rest}", f"dns:///{rest}", scheme == "https")


def parse_endpoints(endpoints: str | Sequence[str]) -> list[Address]:
    """Parse one address, several separated by commas, or a sequence of addresses."""
    texts = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
    if not texts:
        raise Misconfigured("endpoints: at least one address is needed")
    return [Address.parse(text) for text in texts]


class Connector:
    """How to connect to any coordinator."""

    def __init__(
        self,
        token: str | TokenCallback | None,
        token_file: StrPath | None,
        ca_file: StrPath | None,
        cert_file: StrPath | None,
        key_file: StrPath | None,
        server_name: str | None,
        interceptors: Sequence[Any],
    ) -> None:
        if token is not None and token_file is not None:
            raise Misconfigured("token, token_file: set one of them")
        if (cert_file is None) != (key_file is None):
            raise Misconfigured("cert_file, key_file: a certificate needs its key, and vice versa")
        self._token = token
        self._token_file = token_file
        self._tls = {"ca_file": ca_file, "key_file": key_file, "cert_file": cert_file}
        self._server_name = server_name
        self._interceptors = interceptors

    def check(self, addresses: Sequence[Address]) -> None:
        """Fail if a file that is needed cannot be read."""
        if any(address.is_tls for address in addresses):
            self._credentials()
        elif any(self._tls.values()):
            fields = ", ".join(field for field, file in self._tls.items() if file)
            raise Misconfigured(f"{fields}: for TLS, an endpoint must begin with https://")

    # --- connections

    def channel(self, address: Address) -> grpc.Channel:
        """Make a connection. Certificates are read anew."""
        if address.is_tls:
            channel = grpc.secure_channel(
                address.target, self._credentials(), self._options(address)
            )
        else:
            channel = grpc.insecure_channel(address.target, self._options(address))
        return grpc.intercept_channel(channel, *self._interceptors)

    def aio_channel(self, address: Address) -> grpc.aio.Channel:
        """Make a connection for asyncio. Certificates are read anew."""
        options, interceptors = self._options(address), list(self._interceptors)
        if address.is_tls:
            return grpc.aio.secure_channel(
                address.target, self._credentials(), options, interceptors=interceptors
            )
        return grpc.aio.insecure_channel(address.target, options, interceptors=interceptors)

    def _options(self, address: Address) -> list[tuple[str, Any]]:
        options: list[tuple[str, Any]] = list(_OPTIONS)
        if address.target.startswith("unix:"):
            # gRPC would send the path, which is no valid authority of HTTP/2.
            options.append(("grpc.default_authority", "localhost"))
        if self._server_name is not None:
            options.append(("grpc.ssl_target_name_override", self._server_name))
        return options

    def _credentials(self) -> grpc.ChannelCredentials:
        ca, key, cert = (_read_pem(field, file) for field, file in self._tls.items())
        return grpc.ssl_channel_credentials(ca or _system_authorities(), key, cert)

    # --- metadata

    def metadata(self) -> Metadata:
        """Return the metadata of a call. A token file is read, and a callback called, each time."""
        token = self._bearer()
        if inspect.isawaitable(token):
            if inspect.iscoroutine(token):
                token.close()
            raise Misconfigured("token: an async callback needs lockkeeper.aio.Client")
        return _metadata(token)

    async def aio_metadata(self) -> Metadata:
        """Return the metadata of a call, from an async callback if there is one."""
        token = self._bearer()
        return _metadata(await token if inspect.isawaitable(token) else token)

    def _bearer(self) -> str | Awaitable[str] | None:
        if self._token_file is not None:
            return _read("token_file", self._token_file).decode("utf-8", "replace")
        return self._token() if callable(self._token) else self._token


def _metadata(token: str | None) -> Metadata:
    pairs = []
    if token is not None:
        token = token.strip()
        if not token or not (token.isascii() and token.isprintable()):
            raise Misconfigured("token: it must be one line of ASCII, and not empty")
        pairs.append(("authorization", f"Bearer {token}"))
    traceparent = _tracing.traceparent()
    if traceparent:
        pairs.append(("traceparent", traceparent))
    return tuple(pairs)


def _read(field: str, file: StrPath) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Misconfigured(f"{field}: {file}: {error.strerror}") from None


def _read_pem(field: str, file: StrPath | None) -> bytes | None:
    if file is None:
        return None
    pem = _read(field, file)
    if b"-----BEGIN " not in pem:
        raise Misconfigured(f"{field}: {file}: it is not a PEM file")
    return pem


def _system_authorities() -> bytes | None:
    """Return the authorities that the system trusts; None for those of gRPC if it has none.

    gRPC would trust a list of its own.
    """
    if os.environ.get(_ROOTS):
        return None
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        # OpenSSL reads a folder only when it verifies something.
        for file in Path(ssl.get_default_verify_paths().capath or os.devnull).glob("*.[0-9]"):
            with contextlib.suppress(OSError):
                context.load_verify_locations(file)
    authorities = context.get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, authorities)).encode() or None


# --- errors


def error_of(address: Address, error: grpc.RpcError | Exception) -> Error:
    """Return the error of a call: a refusal if a coordinator answered, otherwise unreachable."""
    if isinstance(error, Error):
        return error
    if not isinstance(error, (grpc.Call, grpc.aio.AioRpcError)):
        return Misconfigured(f"{type(error).__name__}: {error}")
    code, details = error.code(), error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS and isinstance(value, bytes):
            refused = Refused.of(status_pb2.Status.FromString(value))
            if refused.reason:
                return refused
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return Unreachable(address.text, "it does not answer")
    if code in (
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
    ):
        return Unreachable(address.text, describe(details) or code.name)
    return Refused(code, "", details)


def describe(details: str) -> str:
    """Say in one line why a connection failed."""
    _, is_connecting, cause = " ".join(details.split()).rpartition("last error: ")
    for part, meaning in (*_CAUSES, _CLOSED) if is_connecting else _CAUSES:
        if part in cause:
            verdict = cause.partition("CERTIFICATE_VERIFY_FAILED: ")[2].partition(": OK")[0]
            return f"{meaning} ({verdict})" if verdict else meaning
    if ": Failed to connect to remote host: " in cause:
        return cause.rpartition("remote host: ")[2]
    if "lookup error:" in cause:
        return cause.partition("lookup error:")[2].rstrip("]")
    return cause
