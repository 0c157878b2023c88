"""Servers on whose ports connections may be TLS, over real sockets, on both event loops."""

import asyncio
import logging
import os
import socket
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.certificates import Authority
from tests.net.peer import ECHO, KEEP, connections, peer_at

from cometmq.errors import NetworkError, SettingsError
from cometmq.net import accepting
from cometmq.net.flow import FlowLimits
from cometmq.net.server import Server, Session
from cometmq.net.tls import server as tls_server
from cometmq.net.tls.client import TLS
from cometmq.net.tls.server import ServerTls, server_tls
from cometmq.net.tls.settings import ClientAuth, TlsMode, TlsSettings
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode, response

LIMIT_S = 60


class Scene:
    """An authority, and servers with certificates of it."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self.files = self.authority.certify()
        self.tls = TLS(ca_file=self.authority.cert)

    def settings(self, mode: TlsMode | None = None, **more: Any) -> TlsSettings:
        cert, key = map(str, self.files)
        return TlsSettings(tls_server_mode=mode, tls_server_cert_path=cert, tls_server_key_path=key, **more)

    def serving(self, mode: TlsMode | None = None, **more: Any) -> ServerTls:
        return ServerTls(self.settings(mode, **more))

    def context(self) -> ssl.SSLContext:
        return self.tls.context()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until a condition holds, which nothing reports."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            if is_so():
                return
            await asyncio.sleep(0.01)


async def ends(reader: asyncio.StreamReader) -> bool:
    """Wait until a server has closed a connection; return whether it sent nothing before."""
    try:
        return await asyncio.wait_for(reader.read(), LIMIT_S) == b""
    except (ConnectionResetError, ssl.SSLError):
        return True


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


async def test_both_kinds_of_connections_share_a_port(scene: Scene) -> None:
    async with (
        peer_at(tls=scene.serving()) as peer,
        connections(tls=scene.tls) as hidden,
        connections() as plain,
    ):
        for client in (hidden, plain, hidden):
            assert (await client.request(peer.address, Command(ECHO, body=b"b"))).body == b"b"
        assert peer.sessions_seen == 2


async def test_a_server_that_enforces_tls_closes_plain_connections_without_an_answer(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        peer_at(tls=scene.serving(TlsMode.ENFORCING)) as peer,
        connections(tls=scene.tls) as client,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(peer.address))
        writer.write(encode(Command(ECHO)))
        assert await ends(reader)
        writer.close()
        await client.request(peer.address, Command(ECHO))
        assert (len(peer.commands), peer.sessions_seen) == (1, 1)
    assert "127.0.0.1: it does not begin with TLS, as tlsServerMode=enforcing demands" in caplog.text


async def test_without_tls_no_byte_is_looked_at(scene: Scene) -> None:
    assert server_tls(TlsSettings()) is None
    assert server_tls(scene.settings(TlsMode.DISABLED)) is None

    async with peer_at() as peer:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(peer.address))
        await until(lambda: bool(peer.server.sessions))  # before its first byte
        writer.close()


def calls_of_plain_requests(tls: ServerTls | None) -> Counter[str]:
    """Count the calls of this package's functions while a server answers requests of a plain connection."""
    calls = Counter[str]()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and f"{os.sep}cometmq{os.sep}" in frame.f_code.co_filename:
            calls[frame.f_code.co_qualname] += 1

    async def main() -> None:
        async with peer_at(tls=tls) as peer, connections() as client:
            await client.request(peer.address, Command(ECHO))
            sys.setprofile(count)
            for _ in range(50):
                await client.request(peer.address, Command(ECHO))
            sys.setprofile(None)

    asyncio.run(main())
    return calls


def test_a_plain_connection_costs_no_more_for_each_request_beside_tls(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_server, "RENEW_S", LIMIT_S)
    without = calls_of_plain_requests(None)
    assert without["Session.data_received"] == 50
    assert calls_of_plain_requests(scene.serving()) == without


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
async def test_one_that_connects_and_ends_is_no_trouble(
    scene: Scene, caplog: pytest.LogCaptureFixture, mode: TlsMode
) -> None:
    with caplog.at_level(logging.INFO):
        async with peer_at(tls=scene.serving(mode)) as peer, connections(tls=scene.tls) as client:
            for _ in range(3):
                _, writer = await asyncio.open_connection("127.0.0.1", port_of(peer.address))
                writer.close()
                await writer.wait_closed()
            await client.request(peer.address, Command(ECHO))
    assert caplog.records == []


async def test_one_that_sends_nothing_or_hangs_in_the_handshake_is_closed_and_delays_nobody(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    tls = scene.serving(tls_first_byte_timeout_ms=1_000, tls_handshake_timeout_ms=1_000)
    async with peer_at(tls=tls) as peer, connections(tls=scene.tls) as client:
        before = accepting._OF_PROCESS.count
        silent = [await asyncio.open_connection("127.0.0.1", port_of(peer.address)) for _ in range(3)]
        hanging = [await asyncio.open_connection("127.0.0.1", port_of(peer.address)) for _ in range(3)]
        for _, writer in hanging:
            writer.write(b"\x16\x03\x01")
        await client.request(peer.address, Command(ECHO))
        assert [await ends(reader) for reader, _ in (*silent, *hanging)] == [True] * 6
        await until(lambda: accepting._OF_PROCESS.count <= before + 1)
        assert peer.sessions_seen == 1
        for _, writer in (*silent, *hanging):
            writer.close()
    assert "within 1000 ms (tlsFirstByteTimeoutMs)" in caplog.text
    assert [record for record in caplog.records if record.exc_info] == []


async def test_forged_handshakes_are_logged_by_their_number_and_leave_nothing_behind(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    forged = [
        b"\x16",
        b"\x16\x03\x01\x00\x05hello",
        b"\x16\x03\x03\xff\xff" + os.urandom(64),
        b"\x16" + os.urandom(600),
        client_hello(scene)[:40],
        client_hello(scene)[:-20] + bytes(20),
    ]

    async with peer_at(tls=scene.serving()) as peer, connections(tls=scene.tls) as client:
        before = accepting._OF_PROCESS.count
        for head in forged * 20:
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(peer.address))
            writer.write(head)
            writer.write_eof()
            await ends_somehow(reader)
            writer.transport.abort()
        await client.request(peer.address, Command(ECHO))
        await until(lambda: accepting._OF_PROCESS.count <= before + 1)
    lines = [record.getMessage() for record in caplog.records]
    assert lines and len(lines) < 10 and all("while they were being accepted" in line for line in lines)
    assert [record for record in caplog.records if record.exc_info] == []


async def ends_somehow(reader: asyncio.StreamReader) -> None:
    """Read until a connection ends: a server may answer with an alert."""
    try:
        await asyncio.wait_for(reader.read(), LIMIT_S)
    except ConnectionResetError:
        return


def client_hello(scene: Scene) -> bytes:
    """Return the first bytes of an honest client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        scene.context().wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


async def test_a_server_stops_at_once_whatever_its_connections_wait_for(scene: Scene) -> None:
    before = accepting._OF_PROCESS.count
    tls = scene.serving(tls_first_byte_timeout_ms=3_600_000, tls_handshake_timeout_ms=3_600_000)
    async with asyncio.timeout(LIMIT_S), peer_at(tls=tls) as peer:
        waiting = [await asyncio.open_connection("127.0.0.1", port_of(peer.address)) for _ in range(4)]
        for _, writer in waiting[:2]:
            writer.write(client_hello(scene)[:50])
        async with connections(tls=scene.tls) as client:
            await client.request(peer.address, Command(ECHO))
    assert [await ends(reader) for reader, _ in waiting] == [True] * 4
    assert accepting._OF_PROCESS.count == before
    for _, writer in waiting:
        writer.close()


@pytest.mark.parametrize(
    ("auth", "shows", "accepted"),
    [
        (ClientAuth.REQUIRE, "own", True),
        (ClientAuth.REQUIRE, "strange", False),
        (ClientAuth.REQUIRE, "none", False),
        (ClientAuth.OPTIONAL, "own", True),
        (ClientAuth.OPTIONAL, "strange", False),
        (ClientAuth.OPTIONAL, "none", True),
        (ClientAuth.NONE, "strange", True),
    ],
)
async def test_clients_show_certificates_as_the_settings_say(
    scene: Scene, tmp_path: Path, auth: ClientAuth, shows: str, accepted: bool
) -> None:
    authority = scene.authority
    shown = {"own": authority, "strange": Authority(tmp_path, "stranger")}.get(shows)
    files = {} if shown is None else dict(zip(("cert_file", "key_file"), shown.certify("c"), strict=True))
    details: Any = {"ca_file": authority.cert} | files

    trusted = str(authority.cert)
    tls = scene.serving(tls_server_need_client_auth=auth, tls_server_trust_cert_path=trusted)
    async with peer_at(tls=tls) as peer, connections(tls=TLS(**details)) as client:
        expected = nullcontext() if accepted else pytest.raises(NetworkError)
        with expected:
            await client.request(peer.address, Command(ECHO))
        assert len(peer.commands) == accepted


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tls_server_cert_path": ""}, "tlsServerMode=enforcing needs a certificate"),
        ({"tls_server_cert_path": "missing.pem"}, "missing.pem cannot be read"),
        ({"tls_server_need_client_auth": ClientAuth.REQUIRE}, "give tlsServerTrustCertPath"),
        (
            {"tls_ciphers": "TLS_RSA_WITH_NONE"},
            "tlsCiphers TLS_RSA_WITH_NONE: no cipher can be selected: give",
        ),
        ({"tls_protocols": "TLSv1.1"}, "tlsProtocols TLSv1.1: TLSv1.1 is none of TLSv1.2, TLSv1.3"),
    ],
)
def test_settings_that_cannot_be_used_are_named(scene: Scene, change: dict[str, Any], words: str) -> None:
    cert, key = map(str, scene.files)
    usable = {"tls_server_cert_path": cert, "tls_server_key_path": key}
    with pytest.raises(SettingsError, match=words):
        ServerTls(TlsSettings(**{"tls_server_mode": TlsMode.ENFORCING} | usable | change))


@pytest.mark.parametrize(
    ("settings", "offered", "spoken"),
    [
        ({}, ssl.TLSVersion.TLSv1_3, "TLSv1.3"),
        ({}, ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
        ({"tls_protocols": "TLSv1.2"}, ssl.TLSVersion.TLSv1_3, "TLSv1.2"),
        ({"tls_protocols": "TLSv1.3"}, ssl.TLSVersion.TLSv1_2, None),
        ({"tls_ciphers": "ECDHE-ECDSA-AES256-GCM-SHA384"}, ssl.TLSVersion.TLSv1_2, "TLSv1.2"),
    ],
)
async def test_a_server_speaks_the_versions_and_ciphers_that_are_set(
    scene: Scene, settings: dict[str, Any], offered: ssl.TLSVersion, spoken: str | None
) -> None:
    context = ssl.create_default_context(cafile=scene.authority.cert)
    context.maximum_version = offered
    async with peer_at(tls=scene.serving(**settings)) as peer:
        connecting = asyncio.open_connection("127.0.0.1", port_of(peer.address), ssl=context)
        if spoken is None:
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                await connecting
            return
        _, writer = await connecting
        agreed: ssl.SSLObject = writer.get_extra_info("ssl_object")
        assert agreed.version() == spoken
        if ciphers := settings.get("tls_ciphers"):
            assert (agreed.cipher() or ("",))[0] == ciphers
        writer.close()


def test_a_changed_certificate_is_used_once_it_and_its_key_match(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    tls = scene.serving()
    first = tls._context
    assert not tls.renew()
    renewed = scene.authority.certify()
    os.replace(renewed.cert, scene.files.cert)
    assert not tls.renew() and not tls.renew()
    assert caplog.text.count("changed TLS files are not used") == 1
    assert "it is the key of another certificate" in caplog.text
    os.replace(renewed.key, scene.files.key)
    assert tls.renew() and not tls.renew()
    assert tls._context is not first
    scene.files.cert.write_text("broken")
    scene.files.key.unlink()
    assert not tls.renew()
    assert tls._context is not first


@asynccontextmanager
async def sending(address: str, tls: TLS, answered: list[bytes]) -> AsyncIterator[None]:
    """Send requests one after the other over many connections, each of which is closed after some."""

    async def send(number: int) -> None:
        turn = 0
        while not stopping.is_set():
            turn += 1
            async with connections(tls=tls) as client:
                for each in range(20):
                    body = b"%d %d %d" % (number, turn, each)
                    answer = await client.request(address, Command(ECHO, body=body))
                    assert answer.body == body
                    answered.append(body)

    stopping = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(send(number))
        yield
        stopping.set()


async def test_a_certificate_is_renewed_under_load_without_a_lost_request(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_server, "RENEW_S", 0.02)
    answered: list[bytes] = []

    async def serial(port: int) -> Any:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=scene.context())
        found = writer.get_extra_info("peercert")["serialNumber"]
        writer.close()
        return found

    async with peer_at(tls=scene.serving()) as peer, connections(tls=scene.tls) as old:
        await old.request(peer.address, Command(ECHO))
        port = port_of(peer.address)
        async with sending(peer.address, scene.tls, answered):
            for _ in range(3):
                before, count = await serial(port), len(answered)
                scene.authority.certify(renews=scene.files.cert.parent)
                async with asyncio.timeout(LIMIT_S):
                    while True:
                        if await serial(port) != before and len(answered) >= count + 100:
                            break
                        await asyncio.sleep(0.01)
        assert (await old.request(peer.address, Command(ECHO, body=b"old"))).body == b"old"
        assert len(peer.commands) == len(answered) + 2
    assert len(answered) == len(set(answered)) >= 300


class Flood:
    """Answers each request with a large body, and keeps the highest number of unsent bytes."""

    def __init__(self, size: int) -> None:
        self.body = bytes(size)
        self.unsent_max = 0
        self.congested = asyncio.Event()
        self.gone = asyncio.Event()
        self.answered = 0

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            session.when_drained(partial(self.answer, session, command), command)
            if session.congested:
                self.congested.set()

    def answer(self, session: Session, command: Command) -> None:
        session.send(response(command, body=self.body))
        self.answered += 1
        self.unsent_max = max(self.unsent_max, session._outbox.unsent)

    def closed(self, _: Session) -> None:
        self.gone.set()


LIMITS = FlowLimits(low_water=1 << 14, high_water=1 << 16, unsent_max=1 << 20)


async def test_a_peer_that_reads_late_makes_the_server_wait_and_gets_everything(scene: Scene) -> None:
    handler = Flood(1 << 16)
    server = Server(handler, limits=LIMITS, tls=scene.serving())
    port = await server.start("127.0.0.1", 0)
    narrow = socket.create_connection(("127.0.0.1", port))
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
    reader, writer = await asyncio.open_connection(
        sock=narrow, ssl=scene.context(), server_hostname="127.0.0.1", limit=1 << 16
    )
    count = 300
    writer.write(b"".join(encode(Command(KEEP, number)) for number in range(count)))
    await asyncio.wait_for(handler.congested.wait(), LIMIT_S)
    assert handler.answered < count
    frames, got = FrameReader(), list[int]()
    async with asyncio.timeout(LIMIT_S):
        while len(got) < count:
            got += [command.opaque for command in frames.receive_data(await reader.read(1 << 16))]
    assert got == list(range(count))
    assert handler.unsent_max <= LIMITS.unsent_max
    writer.close()
    await asyncio.wait_for(handler.gone.wait(), LIMIT_S)
    await server.stop()


async def test_a_peer_that_never_reads_holds_a_bounded_part_of_the_memory(scene: Scene) -> None:
    handler = Flood(1 << 16)
    server = Server(handler, limits=LIMITS, tls=scene.serving())
    port = await server.start("127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=scene.context(), limit=1)
    flood = b"".join(encode(Command(KEEP, number)) for number in range(2_000))
    writer.write(flood)
    await asyncio.wait_for(handler.congested.wait(), LIMIT_S)
    (session,) = server.sessions
    assert not session._transport.is_reading()
    assert handler.unsent_max <= LIMITS.high_water + 2 * len(handler.body)
    writer.transport.abort()
    await asyncio.wait_for(handler.gone.wait(), LIMIT_S)
    await server.stop()


async def test_what_was_sent_before_a_clean_end_is_handled(scene: Scene) -> None:
    async with peer_at(tls=scene.serving()) as peer:
        _, writer = await asyncio.open_connection("127.0.0.1", port_of(peer.address), ssl=scene.context())
        writer.write(b"".join(encode(Command(KEEP, number)) for number in range(1_000)))
        writer.close()
        await peer.until(lambda: len(peer.commands) == 1_000)


async def test_a_large_frame_and_many_small_ones_arrive_whole(scene: Scene) -> None:
    body = os.urandom(5 << 20)
    async with peer_at(tls=scene.serving()) as peer, connections(tls=scene.tls) as client:
        answers = [client.request(peer.address, Command(ECHO, body=b"%d" % n)) for n in range(2_000)]
        large = await client.request(peer.address, Command(ECHO, body=body))
        assert large.body == body
        got = await asyncio.gather(*answers)
        assert [answer.body for answer in got] == [b"%d" % number for number in range(2_000)]
