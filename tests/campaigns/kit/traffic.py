"""A real broker in a process of its own, and producers that know afterwards what it has promised them."""

import asyncio
import itertools
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.storage.strategies import Strategy

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, PullConsumer
from cometmq.errors import CometMQError
from cometmq.message import Message, MessageQueue

CONNECTIONS: Final = 8
SENDS_AT_ONCE: Final = 4
TOPICS: Final = ("A", "B")
QUEUES: Final = 4
SMALL: Final = {
    "mappedFileSizeCommitLog": "1048576",
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "1000",
    "maxIndexNum": "20000",
}
"""Files so small that the rolling of all of them is hit, too."""


class Place(NamedTuple):
    """Where a message must be found."""

    topic: str
    queue_id: int
    queue_offset: int


class Acknowledgement(NamedTuple):
    """A body that was acknowledged, and when, by ``time.monotonic``."""

    body: bytes
    time_s: float


class Outcome(NamedTuple):
    """What became of the messages in all cycles of a campaign.

    Attributes:
        lost: acknowledged messages that are gone.
        oldest_lost_s: how long before the fault the oldest of them had been acknowledged.
    """

    cycles: int
    acknowledged: int
    stored: int
    lost: int
    oldest_lost_s: float

    def __str__(self) -> str:
        lost = f"{self.lost:,} lost, the oldest after {self.oldest_lost_s:.2f} s" if self.lost else "0 lost"
        return f"of {self.acknowledged:,} acknowledged {lost}"


def ages_of_lost(
    acknowledged: Mapping[Place, Acknowledgement], stored: Mapping[Place, bytes], time_s: float
) -> list[float]:
    """Return how long before a fault at ``time_s`` each message had been acknowledged that is gone.

    Raises AssertionError if another message is at the place of one.
    """
    ages = []
    for place, one in acknowledged.items():
        if place not in stored:
            ages.append(time_s - one.time_s)
        else:
            assert stored[place] == one.body, f"another message is at {place}"
    return ages


def body_of(run: int, sender: int, number: int) -> bytes:
    """A body that cannot be mistaken for another, of any length up to 2,000 bytes."""
    text = b"%d/%d/%d;" % (run, sender, number)
    return text * random.Random(text).randint(1, 150)


def check_bodies(stored: Mapping[Place, bytes]) -> None:
    """Each message is some sender's, whole, and there is none twice."""
    for body in stored.values():
        run, sender, number = body[: body.index(b";")].split(b"/")
        assert body == body_of(int(run), int(sender), int(number)), "a message is not what was sent"
    assert len(set(stored.values())) == len(stored), "a message is there twice"


def write_settings(strategy: Strategy, folder: Path) -> Path:
    """Write a ``broker.conf`` with the strategy's settings."""
    path = folder / f"{strategy.flush}-{strategy.path.replace(' ', '-')}.conf"
    path.write_text("".join(f"{name}={value}\n" for name, value in (SMALL | strategy.settings).items()))
    return path


@contextmanager
def broker(store: Path, settings: Path, port: int, namesrv_port: int) -> Iterator["subprocess.Popen[str]"]:
    """A broker in a process of its own; stopped in the end, if it still runs."""
    command = [sys.executable, "-m", "cometmq.cli.main", "dev", "--store", str(store)]
    command += ["--config", str(settings), "--port", str(port), "--namesrv-port", str(namesrv_port)]
    log_path = settings.parent / "broker.log"
    with (
        log_path.open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready"), log_path.read_text()[-2000:]
        try:
            yield process
        finally:
            process.terminate()


async def make_topics(name_server: str) -> None:
    """Create the topics, which a store that has none needs."""
    async with TopicAdmin(name_server) as admin:
        for topic in TOPICS:
            await admin.create(topic, queues=QUEUES)


async def send_all_the_time(
    name_server: str, run: int, acknowledged: dict[Place, Acknowledgement], is_over: Callable[[], bool]
) -> None:
    """Send over eight connections until it is over or the broker is gone; note what is acknowledged."""
    chance = random.Random(run)

    async def send(producer: Producer, sender: int) -> None:
        for number in itertools.count():
            body = body_of(run, sender, number)
            try:
                result = await producer.send(Message(chance.choice(TOPICS), body, tags="kill"))
            except CometMQError:
                return  # killed: nobody was told that this one is stored
            place = Place(result.queue.topic, result.queue.queue_id, result.queue_offset)
            acknowledged[place] = Acknowledgement(body, time.monotonic())
            if is_over():
                return

    async def connection(number: int) -> None:
        async with Producer(name_server, tries=1) as producer:
            senders = (send(producer, number * SENDS_AT_ONCE + n) for n in range(SENDS_AT_ONCE))
            await asyncio.gather(*senders)

    await asyncio.gather(*(connection(number) for number in range(CONNECTIONS)))


async def read_on(name_server: str, ends: dict[MessageQueue, int]) -> dict[Place, bytes]:
    """Read every queue from where it was read to; each offset must follow the one before it."""
    found: dict[Place, bytes] = {}
    async with PullConsumer(name_server, "reader") as consumer:
        for topic in TOPICS:
            for queue in await consumer.queues(topic):
                expected = ends.get(queue, 0)
                async for message in consumer.messages(queue, expected):
                    assert message.queue_offset == expected, f"{queue}: gap or repeat at {expected}"
                    found[Place(topic, queue.queue_id, expected)] = message.body
                    expected += 1
                ends[queue] = expected
    return found
