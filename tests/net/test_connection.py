"""One connection to a real server, and to servers that misbehave."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.net.peer import ASK_BACK, CLOSE, ECHO, KEEP, connections, listener, peer_at

from cometmq.errors import NetworkError, ProtocolError, RequestTimeout, SettingsError, WrongProtocol
from cometmq.message import Buffer
from cometmq.net.connection import OPAQUE_MAX, UNREAD_S_MAX, Connection
from cometmq.wire.codes import ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, encode, response


async def test_answers_may_come_in_any_order() -> None:
    async with peer_at() as peer, connections() as client:
        connection = await client.connect(peer.address)
        answers = [connection.request(Command(KEEP)) for _ in range(3)]
        await peer.until(lambda: len(peer.commands) == 3)
        for command in reversed(peer.commands):
            peer.sessions[0].send(response(command, body=b"%d" % command.opaque))
        assert [(await answer).body for answer in answers] == [b"1", b"2", b"3"]


class PlayedTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def write(self, data: Buffer) -> None:
        self.writes.append(bytes(data))


async def test_concurrent_requests_leave_in_one_write() -> None:
    transport = PlayedTransport()
    connection = Connection("192.0.2.1:1")
    connection.connection_made(transport)
    answers = [connection.request(Command(ECHO)) for _ in range(1000)]
    assert transport.writes == []
    turned = asyncio.Event()
    asyncio.get_running_loop().call_soon(turned.set)
    await turned.wait()
    (write,) = transport.writes
    requests = FrameReader().receive_data(write)
    assert len(requests) == 1000
    connection.data_received(b"".join(encode(response(request)) for request in requests))
    await asyncio.gather(*answers)
    connection.connection_lost(None)


async def test_opaque_numbers_stay_positive_for_ever() -> None:
    async with peer_at() as peer, connections() as client:
        connection = await client.connect(peer.address)
        connection._opaque = OPAQUE_MAX - 1
        for _ in range(3):
            await connection.request(Command(ECHO))
        assert [command.opaque for command in peer.commands] == [OPAQUE_MAX, 0, 1]


async def test_an_answer_that_says_no_is_an_answer() -> None:
    async with peer_at() as peer, connections() as client:
        connection = await client.connect(peer.address)
        answer = connection.request(Command(KEEP))
        await peer.until(lambda: bool(peer.commands))
        peer.sessions[0].send(response(peer.commands[0], 17, "no such topic"))
        assert (await answer).code == 17


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time moves only when told to."""

    now = 0.0

    def time(self) -> float:
        return self.now


def run_on_manual_time(main: Callable[[ManualLoop], Coroutine[Any, Any, None]]) -> None:
    loop = ManualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(main(loop))


def test_a_request_without_an_answer_times_out_and_its_late_answer_harms_nobody() -> None:
    async def main(loop: ManualLoop) -> None:
        async with peer_at() as peer, connections() as client:
            connection = await client.connect(peer.address)
            long = connection.request(Command(KEEP), 60_000)
            short = connection.request(Command(KEEP), 20)
            loop.now += 0.019
            await connection.request(Command(ECHO), 60_000)
            assert not short.done()
            loop.now += 0.001
            with pytest.raises(RequestTimeout, match=f"no answer from {peer.address} within 20 ms"):
                await short
            for command in peer.commands:
                peer.sessions[0].send(response(command))
            assert (await long).is_response
            assert not connection.closed

    run_on_manual_time(main)


def test_each_request_ends_at_its_own_deadline_whatever_their_order() -> None:
    async def main(loop: ManualLoop) -> None:
        async with peer_at() as peer, connections() as client:
            connection = await client.connect(peer.address)
            waits_ms = (3_000, 1_000, 2_000, 60_000)
            answers = [connection.request(Command(KEEP), wait_ms) for wait_ms in waits_ms]
            ended = []
            for _ in range(6):
                loop.now += 0.5
                await connection.request(Command(ECHO), 60_000)
                ended.append([answer.done() for answer in answers])
            assert ended == [
                [False, False, False, False],
                [False, True, False, False],
                [False, True, False, False],
                [False, True, True, False],
                [False, True, True, False],
                [True, True, True, False],
            ]
            assert [type(answer.exception()) for answer in answers[:3]] == [RequestTimeout] * 3
            assert len(connection._pending) == 1

    run_on_manual_time(main)


async def test_a_oneway_request_waits_for_nothing() -> None:
    async with peer_at() as peer, connections() as client:
        await client.oneway(peer.address, Command(ECHO, body=b"told"))
        await peer.until(lambda: bool(peer.commands))
        assert peer.commands[0].is_oneway and peer.commands[0].body == b"told"
        assert (await client.request(peer.address, Command(ECHO))).opaque == 2


async def test_what_the_server_asks_is_given_to_the_client_and_answered() -> None:
    asked: list[int] = []

    def on_request(connection: Connection, command: Command) -> None:
        asked.append(command.code)
        if not command.is_oneway:
            connection.send(response(command, body=command.body))

    async with peer_at() as peer, connections(on_request=on_request) as client:
        await client.oneway(peer.address, Command(ASK_BACK, body=b"how are you?"))
        await peer.until(lambda: any(command.is_response for command in peer.commands))
        assert asked == [40, 307]
        assert (peer.commands[1].opaque, peer.commands[1].body) == (7, b"how are you?")


async def test_what_the_client_does_not_know_is_answered_so() -> None:
    async with peer_at() as peer, connections() as client:
        await client.oneway(peer.address, Command(ASK_BACK))
        await peer.until(lambda: any(command.is_response for command in peer.commands))
        answer = peer.commands[1]
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert answer.remark == " request type 307 not supported"


async def test_a_failure_to_handle_what_the_server_asks_spares_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):

        def on_request(connection: Connection, command: Command) -> None:
            raise KeyError(connection, command)

        async with peer_at() as peer, connections(on_request=on_request) as client:
            await client.oneway(peer.address, Command(ASK_BACK))
            await peer.until(lambda: any(command.is_response for command in peer.commands))
            assert peer.commands[1].code == ResponseCode.SYSTEM_ERROR
            assert (await client.request(peer.address, Command(ECHO))).code == 0
    assert len(caplog.records) == 2


async def test_nobody_listening_is_said_with_the_address() -> None:
    async with peer_at() as peer:
        address = peer.address
    async with connections() as client:
        with pytest.raises(NetworkError, match=f"no connection to {address}: Connection refused"):
            await client.request(address, Command(ECHO))


async def test_an_address_that_is_none_is_refused() -> None:
    async with connections() as client:
        with pytest.raises(SettingsError, match="host:port"):
            await client.request("localhost", Command(ECHO))


async def test_a_server_that_speaks_another_protocol_is_left() -> None:
    async with listener(lambda writer: writer.write(b"SSH-2.0-OpenSSH_9.9\r\n")) as address:
        connection = await Connection.open(address)
        with pytest.raises(NetworkError, match="this is SSH"):
            await connection.request(Command(ECHO))
        await connection.close()


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ((b"HTTP/1.1 400 Bad Request\r\n",), "this is HTTP;"),
        ((b"HT", b"TP/1.1 400 Bad Request\r\n"), "this is HTTP;"),
        ((b"\x15\x03\x01\x00\x02\x02\x0a",), r"this is TLS; connect by TLS \(tls=True, --tls\)"),
        ((bytes.fromhex("000012040000000000000300000080"),), "this is HTTP/2, as gRPC speaks it;"),
    ],
)
async def test_a_server_of_another_protocol_is_named(answer: tuple[bytes, ...], name: str) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        for part in answer:
            writer.write(part)
            await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server, connections() as client:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(WrongProtocol, match=f"no server of RocketMQ listens at {address}: {name}"):
            await client.request(address, Command(ECHO))


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "this is HTTP;"),
        (b"<!DOCTYPE HTML>\n<html lang='en'>", "this is HTTP;"),
        (b"-ERR unknown command\r\n", "this is Redis;"),
    ],
)
async def test_a_server_that_waits_for_the_end_of_a_line_is_named(answer: bytes, name: str) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server, connections() as client:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(WrongProtocol, match=f"no server of RocketMQ listens at {address}: {name}"):
            await client.request(address, Command(ECHO), 20)


async def test_pythons_own_server_of_http_is_named() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            async with connections() as client:
                with pytest.raises(WrongProtocol, match="this is HTTP;"):
                    await client.request(f"127.0.0.1:{server.server_port}", Command(ECHO), 20)
        finally:
            server.shutdown()
            thread.join()


async def test_a_port_that_closes_at_once_or_says_nothing_is_perhaps_none_of_a_server() -> None:
    async with listener(lambda writer: writer.close()) as address, connections() as client:
        with pytest.raises(NetworkError, match=f"lost {address}: .* not a name server or broker"):
            await client.request(address, Command(ECHO))
    async with listener(lambda _: None) as address, connections() as client:
        with pytest.raises(RequestTimeout, match="within 20 ms: it accepts connections but sends nothing"):
            await client.request(address, Command(ECHO), 20)


async def test_a_server_that_has_answered_before_is_one() -> None:
    async with peer_at() as peer, connections() as client:
        await client.request(peer.address, Command(ECHO))
        with pytest.raises(NetworkError, match=r"closed by the server$"):
            await client.request(peer.address, Command(CLOSE))
        await client.request(peer.address, Command(ECHO))
        with pytest.raises(RequestTimeout, match=r"within 20 ms$"):
            await client.request(peer.address, Command(KEEP), 20)


async def test_an_answer_counts_that_comes_before_what_is_none() -> None:
    answer = encode(response(Command(ECHO, opaque=1), body=b"first"))
    async with listener(lambda writer: writer.write(answer + b"SSH-2.0-OpenSSH_9.9\r\n")) as address:
        connection = await Connection.open(address)
        first, second = connection.request(Command(ECHO)), connection.request(Command(ECHO))
        assert (await first).body == b"first"
        with pytest.raises(NetworkError, match="frame length"):
            await second


async def test_a_command_that_cannot_be_encoded_is_refused_and_costs_nothing() -> None:
    async with peer_at() as peer, connections() as client:
        with pytest.raises(ProtocolError, match="frame length"):
            await client.request(peer.address, Command(ECHO, body=bytes(17 << 20)))
        assert (await client.request(peer.address, Command(ECHO))).code == 0


async def test_a_server_that_never_reads_costs_bounded_memory() -> None:
    async def flood(connection: Connection) -> None:
        for _ in range(1000):
            connection.oneway(Command(ECHO, body=bytes(1 << 20)))
            await asyncio.sleep(0)

    async with listener(lambda _: None) as address:
        connection = await Connection.open(address)
        with pytest.raises(NetworkError, match="unread"):
            await flood(connection)
        waiting = asyncio.ensure_future(connection.drained())
        connection.abort("the test ends")
        await waiting
        await connection.close()


class Unread(PlayedTransport):
    """Of what was written so much is unread."""

    size = 1 << 20

    def get_write_buffer_size(self) -> int:
        return self.size

    def abort(self) -> None:
        pass


def test_a_server_that_reads_slowly_is_waited_for_and_one_that_reads_nothing_is_left() -> None:
    """As one that was frozen: where all is one-way, no request is there to tell."""

    async def main(loop: ManualLoop) -> None:
        async def pass_time() -> None:
            loop.now += UNREAD_S_MAX
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        connection, transport = Connection("broker"), Unread()
        connection.connection_made(transport)
        connection.pause_writing()
        waiting = asyncio.ensure_future(connection.drained())
        for _ in range(3):
            transport.size -= 1
            await pass_time()
            assert not waiting.done()
        await pass_time()
        await waiting
        with pytest.raises(NetworkError, match="the connection to broker is closed"):
            connection.oneway(Command(ECHO))

    run_on_manual_time(main)


def test_who_reads_again_in_time_is_kept() -> None:
    async def main(loop: ManualLoop) -> None:
        connection = Connection("broker")
        connection.connection_made(Unread())
        connection.pause_writing()
        connection.resume_writing()
        loop.now += UNREAD_S_MAX
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not connection.closed

    run_on_manual_time(main)


@pytest.mark.parametrize(
    ("host", "reason"),
    [("a..b", "label"), ("a" * 64, "label"), ("a\0b", "")],
    ids=["dots", "long", "null"],
)
async def test_a_host_that_can_be_nobodys_name_is_not_reached(host: str, reason: str) -> None:
    async with connections() as client:
        with pytest.raises(NetworkError, match=f"no connection to {host}:1: .*{reason}"):
            await client.request(f"{host}:1", Command(ECHO))


def test_a_server_that_answers_nothing_at_all_is_left_and_connected_to_anew() -> None:
    async def main(loop: ManualLoop) -> None:
        async with peer_at() as peer, connections() as client:
            first = await client.connect(peer.address)
            long = first.request(Command(KEEP), 60_000)
            short = first.request(Command(KEEP), 3_000)
            loop.now += 3
            with pytest.raises(RequestTimeout):
                await short
            with pytest.raises(NetworkError, match="answers no request"):
                await long
            assert first.closed
            assert await client.connect(peer.address) is not first

    run_on_manual_time(main)
