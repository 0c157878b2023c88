"""The server over real sockets, and what peers do to it."""

import asyncio
import logging
import socket
import struct

import pytest
from tests.kit.raw_peers import ECHO, FAIL, KEEP, Echo, echo, scene

from cometmq.errors import SettingsError
from cometmq.format.host import pack_host
from cometmq.message import Buffer
from cometmq.net.server import Server, Session
from cometmq.net.session import IDLE_MS_MAX, PARTIAL_FRAME_MS_MAX
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import FRAME_LENGTH_MAX, ONEWAY_FLAG, Command, SerializeType, encode, response


async def test_answers_with_the_opaque_number_and_the_serialize_type_of_the_request() -> None:
    async with scene() as here:
        peer = await here.connect()
        for serialize_type in SerializeType:
            await peer.send(encode(Command(ECHO, 7, body=b"hello", serialize_type=serialize_type)))
            answer = await peer.receive()
            assert answer.is_response
            assert (answer.code, answer.opaque, answer.body) == (0, 7, b"hello")
            assert answer.serialize_type is serialize_type


async def test_a_thousand_frames_in_one_write_are_answered_in_order() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(b"".join(echo(number) for number in range(1000)))
        assert [(await peer.receive()).opaque for _ in range(1000)] == list(range(1000))
        assert sum(here.handler.reads) == 1000
        assert len(here.handler.reads) <= 20, "commands of one read belong into one call"


async def test_a_frame_that_comes_byte_by_byte_is_one_command() -> None:
    async with scene() as here:
        peer = await here.connect()
        transport = peer.writer.transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in echo(1, b"drop by drop") + echo(2):
            await peer.send(bytes([byte]))
        assert (await peer.receive()).body == b"drop by drop"
        assert (await peer.receive()).opaque == 2


async def test_a_oneway_request_gets_no_answer() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(
            encode(Command(FAIL, 1, ONEWAY_FLAG)) + encode(Command(ECHO, 2, ONEWAY_FLAG)) + echo(3)
        )
        assert (await peer.receive()).opaque == 3


async def test_a_failing_request_spares_the_others_of_its_read_and_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(echo(1) + encode(Command(FAIL, 2)) + echo(3))
        answers = [await peer.receive() for _ in range(3)]
        assert [answer.code for answer in answers] == [0, ResponseCode.SYSTEM_ERROR, 0]
        assert "secret" not in (answers[1].remark or "")
        await peer.send(echo(4))
        assert (await peer.receive()).opaque == 4
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_late_answer_reaches_its_peer() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP, 1)) + encode(Command(KEEP, 2)))
        await here.handler.until(lambda: len(here.handler.kept) == 2)
        for session, command in here.handler.kept:
            session.send(encode(response(command)))
        assert [(await peer.receive()).opaque for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_session_knows_its_peer_as_records_hold_it(host: str) -> None:
    async with scene(host) as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP)))
        await here.handler.until(lambda: bool(here.handler.kept))
        session, _ = here.handler.kept[0]
        own = peer.writer.get_extra_info("sockname")
        assert session.peer == (host, own[1])
        assert session.born_host == pack_host(host, own[1])
        assert str(session) == (f"[{host}]:{own[1]}" if ":" in host else f"{host}:{own[1]}")
        session.attributes["client_id"] = "192.0.2.1@7"


class PlayedTransport(asyncio.Transport):
    """A peer whose address and number of writes the test knows."""

    def __init__(self, ip: str) -> None:
        super().__init__()
        self.ip = ip
        self.writes: list[bytes] = []

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.ip, 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def write(self, data: Buffer) -> None:
        self.writes.append(bytes(data))


async def test_an_ipv4_peer_of_a_dual_stack_socket_is_an_ipv4_peer() -> None:
    async with scene() as here:
        session = Session(here.server.shared)
        session.connection_made(PlayedTransport("::ffff:192.0.2.1"))
        assert session.peer == ("192.0.2.1", 5)
        assert session.born_host == pack_host("192.0.2.1", 5)
        session.connection_lost(None)


async def test_all_answers_to_what_came_in_one_turn_leave_in_one_write() -> None:
    async with scene() as here:
        transport = PlayedTransport("192.0.2.1")
        session = Session(here.server.shared)
        session.connection_made(transport)
        session.data_received(b"".join(echo(number) for number in range(50)))
        session.data_received(b"".join(echo(number) for number in range(50, 100)))
        assert here.handler.reads == []
        await asyncio.sleep(0)
        assert here.handler.reads == [100]
        (write,) = transport.writes
        assert [answer.opaque for answer in FrameReader().receive_data(write)] == list(range(100))
        session.connection_lost(None)


def frame(length: int, header_word: int, rest: bytes = b"") -> bytes:
    return struct.pack(">iI", length, header_word) + rest


@pytest.mark.parametrize(
    ("garbage", "cause"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "this is HTTP;"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "this is HTTP/2, as gRPC speaks it"),
        (frame(14, 0x0012_0003, struct.pack(">ih4s", 1, 4, b"prod")), "this is Kafka's protocol"),
        (b"GETTING THERE", "frame length 1195725908"),
        (frame(FRAME_LENGTH_MAX + 1, 0), "frame length 16777217"),
        (frame(-1, 0), "frame length -1"),
        (frame(8, 100), "header of 100 bytes"),
        (frame(8, 0x0700_0004, b"{}{}"), "serialize type 7"),
        (frame(8, 4, b"{}{}"), "JSON header"),
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
    ],
)
async def test_a_peer_that_breaks_the_protocol_loses_its_connection_and_nobody_else_does(
    caplog: pytest.LogCaptureFixture, garbage: bytes, cause: str
) -> None:
    with caplog.at_level(logging.INFO):
        async with scene() as here:
            good, bad = await here.connect(), await here.connect()
            await bad.send(garbage)
            assert await bad.closed_by_server()
            port = bad.writer.get_extra_info("sockname")[1]
            (line,) = [record.getMessage() for record in caplog.records]
            assert cause in line and f"127.0.0.1:{port}" in line and "\n" not in line
            await here.handler.until(lambda: len(here.handler.gone) == 1)
            await good.send(echo(1))
            assert (await good.receive()).opaque == 1


async def test_what_was_answered_before_the_protocol_was_broken_still_arrives() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(echo(1))
        await here.handler.until(lambda: here.handler.reads == [1])
        await peer.send(b"\xff" * 8)
        assert (await peer.receive()).opaque == 1
        assert await peer.closed_by_server()


async def test_a_byte_22_within_a_stream_is_no_tls() -> None:
    async with scene() as here:
        peer = await here.connect()
        data = echo(1, b"\x16" * 3)
        await peer.send(data[:-3])
        await here.handler.until(lambda: True)
        await peer.send(data[-3:])
        assert (await peer.receive()).body == b"\x16" * 3


async def test_half_a_frame_before_the_end_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(echo(1) + echo(2)[:10])
        assert (await peer.receive()).opaque == 1
        await peer.close()
        await here.handler.until(lambda: len(here.handler.gone) == 1)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "in the middle of a frame, after 10 bytes" in line


async def test_an_idle_peer_is_closed_and_one_that_speaks_is_not() -> None:
    async with scene() as here:
        silent, speaking = await here.connect(), await here.connect()
        for peer in (silent, speaking):
            await peer.send(echo(1))
            await peer.receive()
        here.pass_time(0)
        here.pass_time(IDLE_MS_MAX - 1)
        await speaking.send(echo(2))
        assert (await speaking.receive()).opaque == 2
        here.pass_time(1)
        assert await silent.closed_by_server()
        await speaking.send(echo(3))
        assert (await speaking.receive()).opaque == 3


async def test_how_long_a_peer_may_be_idle_is_a_setting() -> None:
    async with scene(idle_ms_max=1_000) as here:
        peer = await here.connect()
        await here.accepted()
        here.pass_time(999)
        assert here.server.sessions
        here.pass_time(1)
        assert await peer.closed_by_server()


async def test_a_peer_that_never_says_a_word_is_closed() -> None:
    async with scene() as here:
        peer = await here.connect()
        await here.accepted()
        here.pass_time(IDLE_MS_MAX)
        assert await peer.closed_by_server()


async def test_a_frame_that_is_not_finished_in_time_closes_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as here:
        slow, steady = await here.connect(), await here.connect()
        data = echo(2, bytes(100))
        for peer in (slow, steady):
            await peer.send(echo(1) + data[:5])
            await peer.receive()
        here.pass_time(0)
        for byte in data[5:15]:
            await slow.send(bytes([byte]))  # a byte now and then does not help
            await steady.send(data[5:] + data[:5])
            assert (await steady.receive()).opaque == 2
            here.pass_time(PARTIAL_FRAME_MS_MAX // 10)
        assert await slow.closed_by_server()
        await steady.send(data[5:])
        assert (await steady.receive()).opaque == 2
    (line,) = [record.getMessage() for record in caplog.records]
    assert "a frame was not finished within 30 s" in line


async def test_a_peer_that_never_reads_is_cut_at_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    limit = 4 << 20

    async with scene(unsent_max=limit) as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP)))
        await here.handler.until(lambda: bool(here.handler.kept))
        session, command = here.handler.kept[0]
        answer = encode(response(command, body=bytes(1 << 20)))
        sent = 0
        while not session.closed:
            session.send(answer)
            sent += len(answer)
            await asyncio.sleep(0)
            assert sent < limit + (64 << 20), "far more than the limit and any socket buffer"
        await here.handler.until(lambda: here.handler.gone == [session])
        session.send(answer)  # into the void
    (line,) = [record.getMessage() for record in caplog.records]
    assert "unread" in line


async def test_requests_of_a_peer_that_does_not_read_wait_until_it_does() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP)))
        await here.handler.until(lambda: bool(here.handler.kept))
        session, command = here.handler.kept[0]
        answer = encode(response(command, body=bytes(1 << 20)))
        sent = 0
        while not session.congested:
            session.send(answer)
            sent += 1
            await asyncio.sleep(0)
        session.when_drained(lambda: session.send(response(command, body=b"deferred")))
        session.when_drained(lambda: here.handler.answer(session, Command(FAIL)), Command(FAIL, 99))
        reads = len(here.handler.reads)
        await peer.send(echo(2))
        await here.accepted()  # and the loop has turned
        here.pass_time(IDLE_MS_MAX - 1)
        assert len(here.handler.reads) == reads + 1
        for _ in range(sent):
            assert len((await peer.receive()).body) == 1 << 20
        assert (await peer.receive()).body == b"deferred"
        assert (await peer.receive()).opaque == 99
        assert (await peer.receive()).opaque == 2


async def test_a_handler_that_fails_to_forget_a_session_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scene() as here:
        here.handler.fails_to_forget = True
        peer = await here.connect()
        await peer.send(echo(1))
        await peer.receive()
        await peer.close()
    assert any(record.exc_info for record in caplog.records)


async def test_a_session_can_be_closed_by_its_handler_after_the_answer() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP)))
        await here.handler.until(lambda: bool(here.handler.kept))
        session, command = here.handler.kept[0]
        session.send(response(command, body=b"bye"))
        session.close()
        session.close()
        assert session.closed
        assert (await peer.receive()).body == b"bye"
        assert await peer.closed_by_server()


async def test_stop_closes_every_session_and_frees_the_port() -> None:
    async with scene() as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP)))
        await here.handler.until(lambda: bool(here.handler.kept))
        session, command = here.handler.kept[0]
        session.send(response(command, body=b"last"))
        await here.server.stop()
        assert (await peer.receive()).body == b"last"
        assert await peer.closed_by_server()
        assert here.handler.gone == [session] and not here.server.sessions
        with pytest.raises(ConnectionRefusedError):
            await here.connect()
        assert await here.server.start("127.0.0.1", here.port) == here.port
        await (again := await here.connect()).send(echo(1))
        assert (await again.receive()).opaque == 1


async def test_stop_does_not_wait_for_ever_for_a_peer_that_does_not_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cometmq.net.server.STOP_MS_MAX", 10)

    async with scene() as here:
        peer = await here.connect()
        await peer.send(encode(Command(KEEP)))
        await here.handler.until(lambda: bool(here.handler.kept))
        session, command = here.handler.kept[0]
        while not session.congested:
            session.send(response(command, body=bytes(1 << 20)))
            await asyncio.sleep(0)
        await here.server.stop()
        assert here.handler.gone == [session]
    assert "does not read its responses" in caplog.text


async def test_listens_on_several_addresses_at_once() -> None:
    async with scene() as here:
        here.port = await here.server.start("127.0.0.1", 0)
        peer = await here.connect()
        await peer.send(echo(1))
        assert (await peer.receive()).opaque == 1


async def test_an_address_in_use_is_named_with_the_remedy() -> None:
    async with scene() as here:
        with pytest.raises(SettingsError, match=f"{here.port}: another service of this process"):
            await Server(here.handler).start("127.0.0.1", here.port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
async def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="not an address of this machine"):
        await Server(Echo()).start(host, 0)
