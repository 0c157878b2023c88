"""Whether each message has its effect once: duplicates are sent, and consumers killed while they handle.

    python -m tests.campaigns idempotence [--messages 100000] [--kills 50] [--members 2] [--way mark]

Members as processes write a row for each message that they handle, and messages come again in three ways:

* of a tenth the producer hears no answer, as the connection is cut, and sends it again;
* a tenth is sent again by the broker, as it had not heard that it was handled;
* one member after the other is killed at random, and another one started: the group rebalances, and gets
  again what was not committed, which some slow messages hold back.

How many came again in each way is printed, and must be a tenth at least. In the end each message must have
its row, and with ``transaction`` just one. With ``mark``, where the row is written before the message is
marked as done, a kill between the two doubles a row: they are counted.
"""

import asyncio
import contextlib
import logging
import random
import signal
import sqlite3
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Final

from tests.campaigns.kit.options import add_numbers

from cometmq import Message, Producer, PullConsumer
from cometmq.testing import EmbeddedBroker, Fault

TOPIC: Final = "parcels"
GROUP: Final = "shipping"
TENTH: Final = 10
BLOCK: Final = 1_000
"""Of so many messages a tenth is sent by requests whose answers are lost."""
LOOK_S: Final = 0.1
DELAYED_S: Final = 5.0
"""In this time what was put off comes again: a member's lease, and the delay that is not shorter."""


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, messages=100_000, kills=50, members=2)
    parser.add_argument("--way", choices=["transaction", "mark"], default="transaction")


def main(options: Namespace) -> list[str]:
    """Run the campaign."""
    logging.disable(logging.WARNING)  # that connections are cut is what this is about
    with tempfile.TemporaryDirectory() as directory, EmbeddedBroker() as broker:
        campaign = Campaign(options, broker, Path(directory) / "effects.db")
        asyncio.run(campaign.run())
        wrong = campaign.verdict()
    return [wrong] if wrong else []


class Campaign:
    """The members, and the file that they write to."""

    def __init__(self, options: Namespace, broker: EmbeddedBroker, path: Path) -> None:
        self._options = options
        self._broker = broker
        self._path = path
        self._came = path.with_name("came")
        self._members: list[asyncio.subprocess.Process] = []
        self._chance = random.Random(options.seed)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE effects (key TEXT NOT NULL)")

    async def run(self) -> None:
        """Send all, kill as often as was asked for, and wait until nothing is left to handle."""
        await self._send()
        try:
            for _ in range(self._options.members):
                await self._join()
            for kill in range(1, self._options.kills + 1):
                await self._reach(self._options.messages * kill // (self._options.kills + 1))
                await asyncio.sleep(self._chance.uniform(0, LOOK_S))
                await self._kill()
                await self._join()
            await self._reach(self._options.messages)
            await asyncio.sleep(DELAYED_S)
            await self._drain()
        finally:
            for member in self._members:
                member.send_signal(signal.SIGTERM)
                await member.wait()

    def verdict(self) -> str | None:
        """Print what was found; give what is wrong."""
        rows, keys = self._count("SELECT count(*), count(DISTINCT key) FROM effects")
        print(f"{keys:,} messages have {rows:,} effects")
        by_way = came_again(self._came.read_text().splitlines())
        print(", ".join(f"{count:,} came again by {way}" for way, count in by_way.items()))
        if keys != self._options.messages:
            return f"{self._options.messages - keys} have none"
        if self._options.way == "mark":
            return None
        few = [way for way, count in by_way.items() if count < self._options.messages // TENTH]
        return f"{rows - keys} too many" if rows > keys else f"few came again by {few}" if few else None

    async def _send(self) -> None:
        self._broker.create_topic(TOPIC)
        messages = [Message(TOPIC, b"%d" % n, keys=(str(n),)) for n in range(self._options.messages)]
        self._chance.shuffle(messages)
        async with Producer(self._broker.name_server, "makers") as producer:
            for at in range(0, len(messages), BLOCK):
                block = messages[at : at + BLOCK]
                self._broker.fail_next(topic=TOPIC, fault=Fault.LOSE_ANSWER)
                await producer.send_many(block[: -(-len(block) // TENTH)])
                await producer.send_many(block[-(-len(block) // TENTH) :])

    async def _join(self) -> None:
        member = Path(__file__).with_name("idempotence_member.py")
        arguments = (self._broker.name_server, GROUP, TOPIC, self._path, self._came, self._options.way)
        self._members.append(await asyncio.create_subprocess_exec(sys.executable, member, *arguments))

    async def _kill(self) -> None:
        member = self._members.pop(0)
        with contextlib.suppress(ProcessLookupError):
            member.kill()
        await member.wait()

    async def _reach(self, count: int) -> None:
        """Wait until so many messages have an effect; to count rows first costs next to nothing."""
        for reached in ("coalesce(max(rowid), 0)", "count(DISTINCT key)"):
            while self._count(f"SELECT {reached} FROM effects")[0] < count:  # noqa: ASYNC110 other processes set no event of ours
                await asyncio.sleep(LOOK_S)

    async def _drain(self) -> None:
        """Wait until the group has committed all, so that what was sent twice has come twice."""
        async with PullConsumer(self._broker.name_server, GROUP) as consumer:
            for topic in (TOPIC, f"%RETRY%{GROUP}"):
                for queue in await consumer.queues(topic):
                    while (await consumer.committed(queue) or 0) < await consumer.max_offset(queue):  # noqa: ASYNC110 other processes set no event of ours
                        await asyncio.sleep(LOOK_S)

    def _count(self, query: str) -> tuple[int, ...]:
        with closing(sqlite3.connect(self._path)) as connection:
            row: tuple[int, ...] = connection.execute(query).fetchone()
            return row


def came_again(lines: Iterable[str]) -> dict[str, int]:
    """Count what came more than once, by why: lines of number, queue id, queue offset, reconsume times."""
    seen: set[tuple[str, ...]] = set()
    copies: set[str] = set()
    counts = {"producer retry": 0, "broker resend": 0, "rebalance": 0}
    for line in lines:
        number, *place = line.split()
        if (number, *place) in seen:
            counts["rebalance"] += 1
            continue
        seen.add((number, *place))
        if place[-1] != "0":
            counts["broker resend"] += 1
        elif number in copies:
            counts["producer retry"] += 1
        copies.add(number)
    return counts
