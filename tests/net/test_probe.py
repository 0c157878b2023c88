"""What a server speaks that does not say a word to RocketMQ's protocol."""

import asyncio

import pytest
from tests.net.peer import listener, peer_at

from cometmq.net.address import parse_address
from cometmq.net.probe import REQUEST, protocol_at


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "this is HTTP"),
        (b"-ERR unknown command 'HEAD'\r\n", "this is Redis"),
        (b"250 hello\r\n", None),
        (b"", None),
    ],
)
async def test_it_is_told_by_the_answer_to_a_request_in_http(answer: bytes, name: str | None) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readuntil(b"\r\n\r\n") == REQUEST
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        assert await protocol_at("127.0.0.1", server.sockets[0].getsockname()[1]) == name


async def test_a_server_of_rocketmq_one_that_hangs_and_none_have_no_name() -> None:
    async with peer_at() as peer:
        assert await protocol_at(*parse_address(peer.address)) is None
    async with listener(lambda _: None) as address:
        assert await protocol_at(*parse_address(address)) is None
    assert await protocol_at(*parse_address(address)) is None
