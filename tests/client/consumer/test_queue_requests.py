"""What only a broker of ours heeds of requests about queues; the rest is in ``..._end_to_end``."""

import asyncio
from pathlib import Path

from tests.client.brokers import RoutesOnly
from tests.shop import QUEUE, shop

from cometmq.client.consumer.queue_requests import QueuePull, QueueRequests
from cometmq.client.routes import Routes
from cometmq.format.record import decode_many
from cometmq.net import inproc
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response


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
