"""A slave's connection to what is no master, or speaks no TLS; the rest is in ``test_entrance``."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.certificates import Authority
from tests.replication.conftest import name_server, running

from cometmq.errors import NetworkError, ProtocolError, TLSError
from cometmq.net.tls.client import TLS
from cometmq.replication.connecting import connect

HERE = "127.0.0.1"
LIMIT_MS = 60_000
SIZE_MAX = 1 << 16

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def server(talk: Talk, authority: Authority) -> AsyncIterator[str]:
    """Run a server with TLS; yield its address."""
    made = authority.certify()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.cert, made.key)
    listening = await asyncio.start_server(talk, HERE, 0, ssl=context)
    try:
        yield f"{HERE}:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        await listening.wait_closed()


async def test_a_master_that_speaks_no_tls_is_said_to_speak_none(
    tmp_path: Path, authority: Authority
) -> None:
    async with name_server() as names, running(tmp_path / "m", names) as master:
        address = f"{HERE}:{master.parts.replication.port}"
        with pytest.raises(NetworkError, match=r"does not speak TLS there \(haTlsEnable"):
            await connect(address, LIMIT_MS, SIZE_MAX, TLS(ca_file=authority.cert), None)


async def test_a_certificate_that_is_not_trusted_is_not_accepted(
    tmp_path: Path, authority: Authority
) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    other = Authority(tmp_path, "other")
    async with server(talk, authority) as address:
        with pytest.raises(TLSError, match="its certificate is not accepted"):
            await connect(address, LIMIT_MS, SIZE_MAX, TLS(ca_file=other.cert), None)


async def test_what_greets_otherwise_is_no_master(authority: Authority) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(100))
        writer.close()

    async with server(talk, authority) as address:
        with pytest.raises(ProtocolError, match="no CometMQ master"):
            await connect(address, LIMIT_MS, SIZE_MAX, TLS(ca_file=authority.cert), None)


async def test_one_that_closes_before_it_greets_is_named(authority: Authority) -> None:
    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with server(talk, authority) as address:
        with pytest.raises(NetworkError, match="closed the connection before it greeted"):
            await connect(address, LIMIT_MS, SIZE_MAX, TLS(ca_file=authority.cert), None)


async def test_one_that_does_not_answer_is_given_up(authority: Authority) -> None:
    over = asyncio.Event()

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    async with server(talk, authority) as address:
        with pytest.raises(NetworkError, match="no connection within 100 ms"):
            await connect(address, 100, SIZE_MAX, TLS(ca_file=authority.cert), None)
        over.set()
