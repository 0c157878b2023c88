"""What clients check of a server, and what they say when it is not so."""

import asyncio
import pickle
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import Authority
from tests.net.peer import ECHO, connections, listener, peer_at

from cometmq.errors import CometMQError, IllegalType, NetworkError, SettingsError, TLSError
from cometmq.net.tls.client import TLS, tls_of
from cometmq.net.tls.server import ServerTls
from cometmq.net.tls.settings import ClientAuth, TlsMode, TlsSettings
from cometmq.wire.frame import Command


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serving(authority: Authority, *hosts: str, **settings: Any) -> ServerTls:
    made = authority.certify(*hosts)
    return ServerTls(
        TlsSettings(tls_server_cert_path=str(made.cert), tls_server_key_path=str(made.key), **settings)
    )


async def error_of(address: str, tls: TLS | None) -> CometMQError:
    """Return the error of a request to a server that this client cannot talk to."""
    async with connections(tls=tls) as client:
        with pytest.raises(CometMQError) as caught:
            await client.request(address, Command(ECHO))
    return caught.value


def test_the_argument_is_true_none_or_the_details() -> None:
    details = TLS(check_host=False)
    assert (tls_of(True), tls_of(False), tls_of(None), tls_of(details)) == (TLS(), None, None, details)
    wrong: Any = "ca.pem"
    with pytest.raises(IllegalType, match="give a TLS or a bool, or None"):
        tls_of(wrong)


def test_details_travel_to_other_processes_and_hide_the_password() -> None:
    details = TLS(cert_file="c", key_file="k", key_password="secret")
    assert pickle.loads(pickle.dumps(details)) == details
    assert "secret" not in repr(details)


@pytest.mark.parametrize("wrong", [{"ca_file": 1}, {"check_host": "no"}, {"key_file": "k"}])
def test_details_that_cannot_be_used_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        TLS(**wrong)


async def test_a_file_that_is_missing_is_an_error_before_any_request(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    with pytest.raises(SettingsError, match=f"{missing} cannot be read"):
        async with connections(tls=TLS(ca_file=missing)):
            pass


def test_a_context_is_built_again_when_a_file_has_changed(authority: Authority, tmp_path: Path) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.cert.read_bytes())
    tls = TLS(ca_file=trusted)
    first = tls.context()
    assert tls.context() is first
    trusted.write_bytes(Authority(tmp_path, "other").cert.read_bytes())
    assert tls.context() is not first


async def test_a_server_with_a_trusted_certificate_is_talked_to(authority: Authority) -> None:
    async with peer_at(tls=serving(authority)) as peer:
        for tls in (
            TLS(ca_file=authority.cert),
            TLS(ca_file=str(authority.cert), check_host=False),
            TLS(verify=False),
        ):
            async with connections(tls=tls) as client:
                answer = await client.request(peer.address, Command(ECHO, body=b"hidden"))
                assert answer.body == b"hidden"


async def test_one_certificate_may_be_trusted_alone(authority: Authority) -> None:
    made = authority.certify()
    settings = TlsSettings(tls_server_cert_path=str(made.cert), tls_server_key_path=str(made.key))
    async with (
        peer_at(tls=ServerTls(settings)) as peer,
        connections(tls=TLS(ca_file=made.cert)) as client,
    ):
        await client.request(peer.address, Command(ECHO))
        other = TLS(ca_file=authority.certify().cert)
        assert "its certificate is not accepted" in str(await error_of(peer.address, other))


async def test_an_unknown_authority_a_wrong_host_and_an_old_certificate_are_not_accepted(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path, "stranger")
    trusting = TLS(ca_file=authority.cert)
    expired = authority.certify(ends_in=-timedelta(days=1))
    old = TlsSettings(tls_server_cert_path=str(expired.cert), tls_server_key_path=str(expired.key))
    for tls, words in (
        (serving(stranger), "(ca_file, --tls-ca)"),
        (serving(authority, "elsewhere.test"), "(check_host=False, --tls-any-host)"),
        (ServerTls(old), "certificate has expired; the server needs a new one"),
    ):
        async with peer_at(tls=tls) as peer:
            error = await error_of(peer.address, trusting)
            assert isinstance(error, TLSError) and not error.retriable
            assert words in str(error) and peer.address in str(error)


async def test_the_systems_authorities_do_not_know_ours(authority: Authority) -> None:
    async with peer_at(tls=serving(authority)) as peer:
        assert "(ca_file, --tls-ca)" in str(await error_of(peer.address, TLS()))


async def test_a_host_is_checked_by_its_name_or_its_address(authority: Authority) -> None:
    tls = TLS(ca_file=authority.cert)
    async with peer_at(tls=serving(authority, "localhost")) as peer, connections(tls=tls) as client:
        port = peer.address.rpartition(":")[2]
        await client.request(f"localhost:{port}", Command(ECHO))
        assert "--tls-any-host" in str(await error_of(f"127.0.0.1:{port}", tls))


async def test_a_server_that_requires_a_certificate_gets_the_right_one(
    authority: Authority, tmp_path: Path
) -> None:
    mutual = {
        "tls_server_need_client_auth": ClientAuth.REQUIRE,
        "tls_server_trust_cert_path": str(authority.cert),
    }
    own, strange = authority.certify("client"), Authority(tmp_path, "stranger").certify("client")
    async with peer_at(tls=serving(authority, **mutual)) as peer:
        async with connections(
            tls=TLS(ca_file=authority.cert, cert_file=own.cert, key_file=own.key)
        ) as client:
            await client.request(peer.address, Command(ECHO))
        for shown in (
            TLS(ca_file=authority.cert),
            TLS(ca_file=authority.cert, cert_file=strange.cert, key_file=strange.key),
        ):
            assert isinstance(await error_of(peer.address, shown), TLSError)
        assert peer.commands == peer.commands[:1]


async def test_a_plain_server_is_told_from_one_that_speaks_tls(authority: Authority) -> None:
    tls = TLS(ca_file=authority.cert)
    async with peer_at() as plain:
        assert "it does not speak TLS there (tlsServerMode)" in str(await error_of(plain.address, tls))
    async with listener(lambda writer: writer.write(b"HTTP/1.0 400 Bad Request\r\n\r\n")) as address:
        assert "it does not speak TLS there" in str(await error_of(address, tls))


async def test_a_plain_client_learns_that_a_server_accepts_tls_only(authority: Authority) -> None:
    tls = serving(authority, tls_server_mode=TlsMode.ENFORCING)
    async with peer_at(tls=tls) as peer:
        error = await error_of(peer.address, None)
        assert isinstance(error, NetworkError) and "or accepts TLS only" in str(error)


async def test_a_server_that_hangs_in_the_handshake_costs_the_connect_timeout_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        async with connections(connect_timeout_ms=50, tls=TLS()) as client:
            async with asyncio.timeout(60):
                with pytest.raises(NetworkError, match="within 50 ms"):
                    await client.request(address, Command(ECHO))
