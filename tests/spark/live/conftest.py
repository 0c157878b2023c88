"""A broker for all tests of live topics, and the means to fill it."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from tests.live import BROKER, in_thread

from cometmq import blocking
from cometmq.admin.topics import TopicAdmin
from cometmq.message import Message, MessageQueue
from cometmq.net.connection import Connection
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.offsets import NestedOffsets
from cometmq.spark.live.options import LiveOptions, parse
from cometmq.wire.codes import RequestCode
from cometmq.wire.pull_request import PullRequest


class Topics(NamedTuple):
    """Topics of a live broker."""

    name_server: str

    def create(self, topic: str, queues: int = 2) -> None:
        """Create a topic, or give it more queues, and wait until the name server knows them."""

        async def create() -> None:
            async with TopicAdmin(self.name_server) as admin:
                await admin.create(topic, queues=queues)

        asyncio.run(create())
        made = {queue(topic, number) for number in range(queues)}
        with Cluster(self.options(subscribe=topic, retrySeconds="60")) as cluster:
            assert made <= cluster.wait_for_queues(made), "the name server does not learn of it"

    def send(self, topic: str, bodies: Sequence[bytes], queue_id: int = 0, tags: str | None = None) -> None:
        with blocking.Producer(self.name_server) as producer:
            producer.send_batch([Message(topic, body, tags) for body in bodies], queue(topic, queue_id))

    def delete(self, topic: str) -> None:
        async def delete() -> None:
            async with TopicAdmin(self.name_server) as admin:
                await admin.delete(topic)

        asyncio.run(delete())

    def options(self, **options: str) -> LiveOptions:
        """Return the options of a read of this broker, which gives up soon."""
        return parse({"namesrv": self.name_server, "retrySeconds": "1"} | options)


class Traffic(NamedTuple):
    """What this process has asked of servers.

    Attributes:
        requests: how many of each code.
        opened: the addresses to which it has connected.
    """

    requests: Counter[int]
    opened: list[str]

    @property
    def total(self) -> int:
        """All requests."""
        return self.requests.total()


@contextmanager
def counted() -> Iterator[Traffic]:
    """Count requests and connections of all clients."""
    traffic = Traffic(Counter(), [])
    request, open_one = Connection.request, Connection.open

    def count(connection: Connection, command: Any, *arguments: Any) -> Any:
        is_pull = isinstance(command, PullRequest)
        code = RequestCode.PULL_MESSAGE if is_pull else RequestCode.SEND_MESSAGE_V2
        traffic.requests[getattr(command, "code", code)] += 1
        return request(connection, command, *arguments)

    def note(address: str, *arguments: Any) -> Any:
        traffic.opened.append(address)
        return open_one(address, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Connection, "request", count)
        patched.setattr(Connection, "open", note)
        yield traffic


def plain(nested: NestedOffsets) -> NestedOffsets:
    """Leave out the first messages of topics, of which other tests are."""
    return {topic: by_broker for topic, by_broker in nested.items() if not topic.startswith("@")}


def queue(topic: str, queue_id: int = 0) -> MessageQueue:
    return MessageQueue(topic, BROKER, queue_id)


@pytest.fixture(scope="session")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topics]:
    """Provide a broker for all tests: each makes topics of its own."""
    with in_thread(tmp_path_factory.mktemp("live")) as live:
        yield Topics(live.name_server)


@pytest.fixture(scope="session")
def scattered(topics: Topics) -> Topics:
    """Provide the broker with the topic ``scattered``: 60 queues, a message in each third one."""
    topics.create("scattered", queues=60)
    for queue_id in range(0, 60, 3):
        topics.send("scattered", [b"%d" % queue_id], queue_id)
    return topics


@pytest.fixture(scope="session")
def orders(topics: Topics) -> Topics:
    """Provide the broker with the topic ``orders``: ``paid`` 0..99 in queue 0, ``new`` 0..39 in queue 1."""
    topics.create("orders")
    topics.send("orders", [b"paid %d" % n for n in range(100)], 0, "paid")
    topics.send("orders", [b"new %d" % n for n in range(40)], 1, "new")
    return topics
