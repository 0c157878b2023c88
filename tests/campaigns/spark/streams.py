"""Streams killed for real: what they have written in the end must be what was sent, each message once.

    python -m tests.campaigns streams [--kills 20] [--messages 1000000] [--seed N]

Messages come in while a process with two streams (``streams_query.py``) is killed with SIGKILL, Spark's Java
with it, and started again from its checkpoints. Then both streams drain the topic with AvailableNow, which
must end while more comes in; and again, when nothing does. In the end the rows in Parquet must be the topic's
messages exactly, and so must be the copies in the other topic: the broker knows what is sent again by its
key. No micro-batch may have been larger than its limit: messages for the one stream, bytes for the other.
"""

import asyncio
import json
import random
import signal
import tempfile
from argparse import ArgumentParser, Namespace
from itertools import count
from pathlib import Path
from typing import Final

from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.processes import serving_command
from tests.campaigns.kit.progress import tell
from tests.campaigns.spark import checkpoints
from tests.campaigns.spark.streams_process import AT_ONCE, TOPICS, Streams, send_numbers
from tests.campaigns.spark.streams_query import BYTES_MAX, COPIES, OFFSETS_MAX, ROWS

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.net.address import free_port

QUEUES: Final = 4
KILL_WITHIN_S: Final = 3.0
"""How long after a micro-batch a kill may come: long enough to hit any moment of the next one."""
TRICKLE_S: Final = 2.0
"""So often some messages come in while the streams drain."""


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=20, messages=1_000_000)


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    with tempfile.TemporaryDirectory(prefix="cometmq-streams-") as folder:
        campaign = Campaign(Path(folder), random.Random(options.seed))
        sent, found = asyncio.run(campaign.run(options.kills, options.messages))
        wrong = campaign.limits_passed()
    print(f"{sent:,} messages were sent; found: {found}")
    return wrong + [f"{name} {number}, not {sent}" for name, number in found.items() if number != sent]


class Campaign:
    """A broker in a process of its own, and streams that are killed."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._within = dict.fromkeys((ROWS, COPIES), 0)
        port, namesrv_port = free_port(), free_port()
        self._name_server = f"127.0.0.1:{namesrv_port}"
        self._ports = ("--port", str(port), "--namesrv-port", str(namesrv_port))
        self._streams = Streams(self._name_server, folder)

    async def run(self, kills: int, messages: int) -> tuple[int, dict[str, int]]:
        """Kill the streams, then drain; return how many messages were sent, and what was made of them."""
        command = ("dev", "--store", str(self._store), *self._ports)
        async with serving_command(self._folder / "broker.log", *command, ended_by=signal.SIGTERM):
            async with TopicAdmin(self._name_server) as admin:
                for topic in TOPICS:
                    await admin.create(topic, queues=QUEUES)
            numbers = [messages * part // (kills + 1) for part in range(kills + 2)]
            await self._send(0, numbers[1])
            for kill in range(kills):
                sending = asyncio.create_task(self._send(numbers[kill + 1], numbers[kill + 2]))
                await self._run_and_kill()
                await sending
                self._tell(f"kill {kill + 1}")
            sent = await self._drain_while_more_comes(messages)
            found: dict[str, int] = json.loads((await self._streams.drain("--count")).splitlines()[-1])
            self._tell("drained")
            return sent, found

    def limits_passed(self) -> list[str]:
        """Print how large the micro-batches were; return those limits that were not kept."""
        rows = checkpoints.messages(self._streams.checkpoint(ROWS))
        copies = checkpoints.sizes(self._streams.checkpoint(COPIES), self._store, "numbers")
        print(f"killed within a micro-batch, which was repeated then: {self._within}")
        passed = []
        for stream, of_batches, unit, most in (
            (ROWS, rows, "messages", OFFSETS_MAX),
            (COPIES, copies, "bytes", BYTES_MAX),
        ):
            largest = of_batches.max()
            said = f"{stream}: {len(of_batches)} micro-batches of at most {largest:,} {unit}, limit {most:,}"
            print(said)
            if largest > most:
                passed.append(said)
        return passed

    @property
    def _store(self) -> Path:
        return self._folder / "store"

    def _read(self, stream: str) -> int:
        return int(checkpoints.ends(self._streams.checkpoint(stream))[-1].sum())

    def _tell(self, what: str) -> None:
        read = ", ".join(f"{stream} {self._read(stream):,}" for stream in self._within)
        tell(f"{what}: read by {read}")

    async def _send(self, begin: int, end: int) -> None:
        async with Producer(self._name_server) as producer:
            await send_numbers(producer, range(begin, end))

    async def _run_and_kill(self) -> None:
        """Start the streams, let each make one micro-batch at least, and kill them."""
        async with self._streams.running() as process:
            await self._streams.until_done(process)
            await asyncio.sleep(self._chance.uniform(0, KILL_WITHIN_S))
        for stream in self._within:
            self._within[stream] += checkpoints.is_within_batch(self._streams.checkpoint(stream))

    async def _drain_while_more_comes(self, sent: int) -> int:
        """Drain, which must not wait for what comes meanwhile; return how many messages were sent in all."""
        draining = asyncio.create_task(self._streams.drain())
        for first in count(sent, AT_ONCE):
            await asyncio.wait([draining], timeout=TRICKLE_S)
            if draining.done():
                break
            await self._send(first, first + AT_ONCE)
        await draining
        self._tell(f"AvailableNow drained {sent:,} and ended; {first - sent:,} more came meanwhile")
        for stream in self._within:
            assert sent <= self._read(stream) < first, f"{stream} was not drained, or read what came later"
        return first
