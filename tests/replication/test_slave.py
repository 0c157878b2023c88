"""A slave and its connection to a master."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.conftest import SMALL
from tests.certificates import Authority
from tests.replication.conftest import (
    answer_of,
    caught_up,
    client_of,
    name_server,
    running,
    slave,
    until,
)
from tests.store.conftest import new_message

from cometmq.errors import NetworkError, ProtocolError, TLSError
from cometmq.io.clock import ManualClock
from cometmq.net.tls.client import TLS
from cometmq.replication import slave as link
from cometmq.replication.frames import encode_frames
from cometmq.replication.intakes import ClassicIntake
from cometmq.replication.settings import ReplicationSettings
from cometmq.replication.slave import connect
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import TextTable, TopicConfig, decode
from cometmq.wire.codes import RequestCode


async def test_a_slave_follows_a_master_that_comes_back_at_another_port(tmp_path: Path) -> None:
    async with name_server() as names, slave(tmp_path / "s", names) as follower:
        for count in (1, 2):
            async with running(tmp_path / "m", names) as master:
                master.store.append([new_message(topic="T")])
                follower.parts.replication.registered(answer_of(master))
                await caught_up(master, follower)
                assert follower.store.max_queue_offset("T", 0) == count
            await until(lambda: bool(follower.parts.replication.problems()))


async def test_a_slave_with_messages_that_its_master_lacks_says_so_and_appends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "RECONNECT_MS", 50)
    async with name_server() as names:
        async with running(tmp_path / "s", names) as former:
            former.parts.topics.put(TopicConfig(topic="Old"))
            former.store.append([new_message(topic="Old", body=b"z" * 500)] * 3)
            end = former.store.written_offset
        async with running(tmp_path / "m", names) as master, slave(tmp_path / "s", names) as follower:
            master.store.append([new_message(topic="T")])
            replica = follower.parts.replication
            await until(lambda: replica.has_diverged)
            async with client_of(follower) as client:
                answer = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
                problems = decode(TextTable, answer.body).table["replicationProblems"]
            assert "start this slave with an empty store" in problems
            assert str(end) in problems
            assert follower.store.written_offset == end
            master.store.append([new_message(topic="T", body=b"other" * 300)] * 9)
            assert master.store.written_offset > end
            await until(lambda: "does not continue this log" in "".join(replica.problems()))
            assert follower.store.written_offset == end
            await until(lambda: "its log is not replicated now" in "".join(replica.problems()))
            assert follower.parts.topics.find("Old"), "what only the slave has is not deleted"
            assert follower.store.max_queue_offset("Old", 0) == 3


async def test_a_slave_reports_its_end_at_once_after_each_append_and_while_there_is_nothing(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path / "m") as master:
        master.append([new_message("T"), new_message("T")])
        data = bytes(run(master.readings.log_bytes(0, 1 << 20)) or b"")
    heard: asyncio.Queue[int] = asyncio.Queue()
    writers: list[asyncio.StreamWriter] = []

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heard.put_nowait(int.from_bytes(await reader.readexactly(8), "big"))

    async with await asyncio.start_server(lead, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with open_store(tmp_path / "s") as store:
            follower = link.MasterLink(
                store, lambda: ClassicIntake(store), ReplicationSettings(ha_send_heartbeat_interval=50)
            )
            follower.set_address(f"{host}:{port}")
            follower.start()
            async with asyncio.timeout(60):
                assert [await heard.get(), await heard.get()] == [0, 0], "at once, and a heartbeat"
                half = len(data) // 2 + 20
                writers[0].write(b"".join(encode_frames(0, data[:half], 64)))
                while await heard.get() != len(data) // 2:
                    pass
                writers[0].write(b"".join(encode_frames(half, data[half:], 64)))
                while await heard.get() != len(data):
                    pass
            assert follower.is_connected and not follower.problem
            await follower.stop()
        for writer in writers:
            writer.close()


def open_store(root: Path) -> MessageStore:
    return MessageStore.open(root, StoreSettings(**SMALL), clock=ManualClock())


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
