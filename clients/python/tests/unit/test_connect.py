"""Addresses, credentials, and what gRPC's texts mean."""

import asyncio

import pytest

from lockkeeper import Misconfigured
from lockkeeper._connect import Address, Connector, describe, parse_endpoints


def connector(**options):
    names = ("token", "token_file", "ca_file", "cert_file", "key_file", "server_name")
    return Connector(*(options.get(name) for name in names), ())


@pytest.mark.parametrize(
    ("text", "target", "is_tls"),
    [
        ("locks:7625", "dns:///locks:7625", False),
        ("http://10.0.0.1:7625/", "dns:///10.0.0.1:7625", False),
        ("https://[::1]:7625", "dns:///[::1]:7625", True),
        ("unix:///run/lockkeeper.sock", "unix:///run/lockkeeper.sock", False),
    ],
)
def test_an_address(text, target, is_tls):
    address = Address.parse(text)
    assert (address.target, address.is_tls) == (target, is_tls)


@pytest.mark.parametrize(
    "text", ["", "locks", "http://", "http://locks", "redis://a:1", "unix://run/x", "http://a:1/b"]
)
def test_what_is_no_address_is_named(text):
    with pytest.raises(Misconfigured, match=r"^endpoints: "):
        Address.parse(text)


def test_a_proxy_of_the_environment_is_not_used():
    address = Address.parse("locks:7625")
    assert ("grpc.enable_http_proxy", 0) in connector()._options(address)


def test_several_addresses():
    assert [it.target for it in parse_endpoints("a:1, b:2")] == ["dns:///a:1", "dns:///b:2"]
    assert len(parse_endpoints(["a:1", "b:2"])) == 2
    with pytest.raises(Misconfigured):
        parse_endpoints([])


def test_a_token_is_read_or_asked_for_for_every_call(tmp_path):
    file = tmp_path / "token"
    from_file = connector(token_file=file)
    for token in ("one", "two"):
        file.write_text(token + "\n")
        assert from_file.metadata() == (("authorization", f"Bearer {token}"),)
    tokens = iter(["one", "two"])
    asked = connector(token=lambda: next(tokens))
    assert [asked.metadata()[0][1], asked.metadata()[0][1]] == ["Bearer one", "Bearer two"]
    assert connector().metadata() == ()


def test_an_async_callback_is_for_asyncio():
    async def token():
        return "one"

    assert asyncio.run(connector(token=token).aio_metadata()) == (("authorization", "Bearer one"),)
    with pytest.raises(Misconfigured, match="aio"):
        connector(token=token).metadata()


@pytest.mark.parametrize(
    ("details", "cause"),
    [
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to "
            "connect to remote host: Connection refused",
            "Connection refused",
        ),
        (
            "errors resolving a:1: [field:hostname lookup error:address lookup failed for a:1: "
            "Domain name not found]",
            "address lookup failed for a:1: Domain name not found",
        ),
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Tls "
            "handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL "
            "routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: self signed certificate: OK",
            "its certificate is not trusted; see ca_file (self signed certificate)",
        ),
        (
            "failed to connect to all addresses; last error: UNAVAILABLE: ipv4:1:1: Socket closed",
            "it closed the connection; with TLS the address begins with https://",
        ),
        ("Socket closed", "Socket closed"),
        ("two\nlines", "two lines"),
    ],
)
def test_a_cause_is_one_line(details, cause):
    assert describe(details) == cause
