"""What only a broker of ours heeds of requests about queues; the rest is in ``..._end_to_end``."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.client.brokers import RoutesOnly
from tests.shop import QUEUE, shop

from cometmq.client.requests.queue_requests import PullStatus, QueuePull, QueueRequests
from cometmq.client.routes import Routes
from cometmq.errors import RemoteError
from cometmq.format.record import decode_many
from cometmq.net import inproc
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PullHeader, PullResponseHeader, fields, parse


async def test_a_pull_gives_no_more_bytes_than_are_wanted_but_for_the_first_message(tmp_path: Path) -> None:
    async with shop(tmp_path) as here:
        await here.send(b"0", b"1", b"2")
        one = await here.requests.pull_records(QueuePull(QUEUE, 0, max_bytes=1))
        assert [record.body for record in decode_many(one.body)] == [b"0"]


SUCCESS = ResponseCode.SUCCESS


class Desk:
    """A broker that takes commits, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[Session, Command]] = asyncio.Queue()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            assert command.code == RequestCode.UPDATE_CONSUMER_OFFSET
            self.asked.put_nowait((session, command))

    def closed(self, session: Session) -> None:
        pass

    async def answer(self, *codes: int) -> None:
        """Wait for as many commits as there are codes, see that there are no more, and answer them."""
        asked = [await self.asked.get() for _ in codes]
        assert self.asked.empty()
        for (session, command), code in zip(asked, codes, strict=True):
            session.send(response(command, code))


async def test_the_first_commit_in_a_topic_goes_alone() -> None:
    desk = Desk()
    broker = Server(desk)
    address = f"{inproc.HOST}:{await broker.start(inproc.HOST, 0)}"
    name_server = Server(RoutesOnly({QUEUE.broker_name: address}))
    port = await name_server.start(inproc.HOST, 0)
    connections = Connections()
    requests = QueueRequests(connections, Routes(connections, [f"{inproc.HOST}:{port}"]), "me", 60_000)
    async with asyncio.timeout(60):
        commits = [
            asyncio.create_task(requests.commit(QUEUE._replace(topic=topic, queue_id=queue_id), 1))
            for topic in ("Orders", "Bills")
            for queue_id in range(3)
        ]
        await desk.answer(ResponseCode.SYSTEM_ERROR, SUCCESS)  # of each topic one
        await desk.answer(SUCCESS, SUCCESS, SUCCESS)
        await desk.answer(SUCCESS)
        failed = [one for one in await asyncio.gather(*commits, return_exceptions=True) if one is not None]
        assert len(failed) == 1
    await connections.close()
    await broker.stop()
    await name_server.stop()


class Shelf:
    """A broker that answers pulls at 7 as it is told: a code, the broker to pull from next, an offset."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, int, int]] = []

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            header = parse(PullHeader, command.ext_fields)
            assert header.queue_offset == 7
            code, suggested, next_offset = self.answers.pop(0)
            where = fields(PullResponseHeader(suggested, next_offset, 0, 9))
            session.send(response(command, code, "as told", where))

    def closed(self, session: Session) -> None:
        pass


@asynccontextmanager
async def shelves(*broker_ids: int) -> AsyncIterator[tuple[list[Shelf], QueueRequests]]:
    """Run brokers of one name, with these ids; yield them, and who pulls from them."""
    found = [Shelf() for _ in broker_ids]
    servers = [Server(shelf) for shelf in found]
    ports = [await server.start(inproc.HOST, 0) for server in servers]
    known = {one: f"{inproc.HOST}:{port}" for one, port in zip(broker_ids, ports, strict=True)}
    name_server = Server(RoutesOnly({QUEUE.broker_name: known}))
    address = f"{inproc.HOST}:{await name_server.start(inproc.HOST, 0)}"
    connections = Connections()
    try:
        async with asyncio.timeout(60):
            yield found, QueueRequests(connections, Routes(connections, [address]), "me", 60_000)
    finally:
        await connections.close()
        for server in (name_server, *servers):
            await server.stop()


NOTHING, RETRY = ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_the_next_pull_goes_to_the_broker_that_was_suggested() -> None:
    async with shelves(0, 1) as ((master, slave), requests):
        master.answers = [(SUCCESS, 1, 8), (NOTHING, 0, 7), (NOTHING, 0, 7)]
        slave.answers = [(SUCCESS, 1, 8), (SUCCESS, 0, 8)]
        for _ in range(4):
            await requests.pull(QUEUE, 7)
        assert (len(master.answers), len(slave.answers)) == (1, 0)
        await requests.pull(QUEUE._replace(queue_id=1), 7)  # each queue has a broker of its own
        assert master.answers == []


async def test_a_pull_that_commits_goes_to_the_master() -> None:
    async with shelves(0, 1) as ((master, slave), requests):
        master.answers = [(SUCCESS, 1, 8), (NOTHING, 1, 7)]
        slave.answers = [(SUCCESS, 1, 8)]
        await requests.pull(QUEUE, 7)
        await requests.pull(QUEUE, 7, commit_offset=7)
        assert master.answers == []
        await requests.pull(QUEUE, 7)
        assert slave.answers == []


async def test_after_a_refusal_by_a_slave_the_master_is_asked() -> None:
    async with shelves(0, 1) as ((master, slave), requests):
        master.answers, slave.answers = [(SUCCESS, 1, 8), (NOTHING, 0, 7)], [(ResponseCode.SYSTEM_BUSY, 0, 0)]
        await requests.pull(QUEUE, 7)
        with pytest.raises(RemoteError):
            await requests.pull(QUEUE, 7)
        assert (await requests.pull(QUEUE, 7)).status is PullStatus.NO_NEW_MESSAGE


async def test_a_slave_that_has_nothing_new_leads_to_the_master_at_once() -> None:
    """And never back: what the slave lacks yet is no reason to read anything again."""
    async with shelves(0, 1) as ((master, slave), requests):
        master.answers, slave.answers = [(SUCCESS, 1, 8), (SUCCESS, 0, 9)], [(RETRY, 0, 5)]
        await requests.pull(QUEUE, 7)
        assert (await requests.pull(QUEUE, 7)).next_offset == 9
        assert master.answers == slave.answers == []


async def test_where_no_master_is_known_there_is_nothing_new_then() -> None:
    async with shelves(1) as ((slave,), requests):
        slave.answers = [(RETRY, 0, 5)]
        pulled = await requests.pull(QUEUE, 7)
        assert (pulled.status, pulled.next_offset) == (PullStatus.NO_NEW_MESSAGE, 7)


async def test_a_slave_whose_messages_do_not_match_has_been_read_all_the_same() -> None:
    async with shelves(0, 1) as ((master, slave), requests):
        master.answers, slave.answers = [(SUCCESS, 1, 8)], [(RETRY, 0, 9)]
        await requests.pull(QUEUE, 7)
        pulled = await requests.pull(QUEUE, 7)
        assert (pulled.status, pulled.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 9)


async def test_a_pull_starts_at_once_where_its_broker_is_connected() -> None:
    async with shelves(0, 1) as ((master, slave), requests):
        wanted = QueuePull(QUEUE, 7)
        assert requests.start_pull(wanted) is None
        master.answers = [(SUCCESS, 0, 8), (SUCCESS, 1, 9), (NOTHING, 0, 7)]
        await requests.pull(QUEUE, 7)
        (started,) = [one for one in (requests.start_pull(wanted),) if one is not None]
        pulled = requests.pulled(QUEUE, 7, await started)
        assert pulled is not None and (pulled.status, pulled.next_offset) == (PullStatus.FOUND, 9)
        assert requests.start_pull(wanted) is None  # the slave that was suggested is not connected
        slave.answers = [(SUCCESS, 1, 8), (RETRY, 0, 7)]
        await requests.pull(QUEUE, 7)
        (started,) = [one for one in (requests.start_pull(wanted),) if one is not None]
        assert requests.pulled(QUEUE, 7, await started) is None  # sent back to the master
        await requests.pull(QUEUE, 7)
        assert master.answers == slave.answers == []


async def test_a_refused_pull_that_was_started_raises_when_its_response_is_read() -> None:
    async with shelves(0) as ((master,), requests):
        master.answers = [(SUCCESS, 0, 8), (ResponseCode.NO_PERMISSION, 0, 7)]
        await requests.pull(QUEUE, 7)
        (started,) = [one for one in (requests.start_pull(QueuePull(QUEUE, 7)),) if one is not None]
        with pytest.raises(RemoteError, match="as told"):
            requests.pulled(QUEUE, 7, await started)
