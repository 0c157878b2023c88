"""Two brokers, one of which dies and comes back while two streams run: no row may be lost.

    python -m tests.campaigns stream-brokers [--deaths 10] [--messages 400000] [--seed N]

Both topics have queues on both brokers. One broker is killed with SIGKILL while the streams (``query.py``)
read what was just sent, stays away for some seconds, in which more is sent to the other one, and is started
again on its store: the streams must live through that. In the last round it stays away until the streams
fail, which must name it; started again, they go on. In the end the rows in Parquet must be the topic's
messages exactly. Of the copies in the other topic none may be lost; one whose acknowledgement died with a
broker may be on both, which ``drop_duplicates`` must put right.
"""

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.processes import start_python
from tests.campaigns.spark import checkpoints
from tests.campaigns.spark.streams_query import COPIES, ROWS

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.message import Message
from cometmq.net.address import free_port

STAYS, DIES = "broker-a", "broker-b"
QUEUES: Final = 4
RETRY_S: Final = 15
WITHOUT_IT: Final = (f" {RETRY_S} s: ", "no broker known to the name server")
"""Why the streams fail: it was tried for so long, or, on a slow machine, the name server has forgotten it."""
AWAY_S_MAX: Final = 8.0
DIES_WITHIN_S: Final = 4.0
LOOK_S: Final = 0.05
AT_ONCE: Final = 1_000
LOG: Final = "streams.log"


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, deaths=10, messages=400_000)


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    with tempfile.TemporaryDirectory(prefix="cometmq-brokers-") as folder:
        campaign = Campaign(Path(folder), random.Random(options.seed))
        found = asyncio.run(campaign.run(options.deaths, options.messages))
    print(f"{campaign.sent:,} messages were sent; found: {found}")
    doubled = found.pop("copies") - campaign.sent
    wrong = [
        f"{name} {number}, not {campaign.sent}" for name, number in found.items() if number != campaign.sent
    ]
    print(f"{doubled} copies are on both brokers")
    return [*wrong, f"{-doubled} copies are lost"] if doubled < 0 else wrong


class Campaign:
    """A name server, two brokers and the streams, each a process of its own.

    Attributes:
        sent: how many messages were.
    """

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.sent = 0
        self._folder = folder
        self._chance = chance
        self._begin = time.monotonic()
        self._name_server = f"127.0.0.1:{free_port()}"
        self._ports = {STAYS: free_port(), DIES: free_port()}

    async def run(self, deaths: int, messages: int) -> dict[str, int]:
        """Kill a broker while the streams run; return what they made of the messages."""
        _, port = self._name_server.split(":")
        share = messages // (2 * deaths + 2)
        async with self._serving("namesrv", "--port", port), self._broker(STAYS):
            async with self._broker(DIES), TopicAdmin(self._name_server) as admin:
                for topic in ("numbers", "copies"):
                    assert await admin.create(topic, queues=QUEUES) == [STAYS, DIES]
            async with self._streams() as streams:
                for death in range(deaths):
                    async with self._broker(DIES):
                        await self._send(share)
                        await self._until_done(streams)
                        await asyncio.sleep(self._chance.uniform(0, DIES_WITHIN_S))
                    away_s = self._chance.uniform(0, AWAY_S_MAX)
                    await asyncio.gather(self._send(share, [STAYS]), asyncio.sleep(away_s))
                    self._say(f"death {death + 1}, away for {away_s:.1f} s", streams)
                async with self._broker(DIES):
                    await self._send(share)
                    await self._until_done(streams)
                await streams.wait()
            told = (self._folder / LOG).read_text()
            assert streams.returncode, "the streams have ended well, without a broker"
            named = [line for line in told.splitlines() if DIES in line]
            assert any(why in line for line in named for why in WITHOUT_IT), told
            self._say(f"the streams failed without it, and named {DIES}", None)
            async with self._broker(DIES):
                await self._send(share)
                async with self._streams("--drain", "--count") as streams:
                    output, _ = await streams.communicate()
                    assert streams.returncode == 0, (self._folder / LOG).read_text()
        found: dict[str, int] = json.loads(output.splitlines()[-1])
        return found

    def seconds(self) -> float:
        """Return how long it has taken up to now."""
        return time.monotonic() - self._begin

    def _say(self, what: str, streams: Process | None) -> None:
        assert streams is None or streams.returncode is None, f"{what}: the streams have failed"
        done = ", ".join(
            f"{stream} {len(marks)}" for stream, marks in zip((ROWS, COPIES), self._done(), strict=True)
        )
        print(f"{self.seconds():4.0f} s  {what}: {self.sent:,} sent; micro-batches: {done}", flush=True)

    async def _send(self, count: int, brokers: Iterable[str] = (STAYS, DIES)) -> None:
        """Send numbers to some of the brokers."""
        async with Producer(self._name_server) as producer:
            queues = [queue for queue in await producer.queues("numbers") if queue.broker_name in brokers]
            assert {queue.broker_name for queue in queues} == set(brokers)
            for first in range(self.sent, self.sent + count, AT_ONCE):
                numbers = range(first, min(first + AT_ONCE, self.sent + count))
                messages = [Message("numbers", b"%08d" % number) for number in numbers]
                await producer.send_many(messages, lambda message: queues[int(message.body) % len(queues)])
        self.sent += count

    def _done(self) -> list[set[Path]]:
        return [checkpoints.done(self._folder / f"{stream}-checkpoint") for stream in (ROWS, COPIES)]

    async def _until_done(self, streams: Process) -> None:
        """Wait until each stream has done one micro-batch more."""
        before = self._done()
        while any(now <= then for then, now in zip(before, self._done(), strict=True)):
            assert streams.returncode is None, (self._folder / LOG).read_text()
            await asyncio.sleep(LOOK_S)

    @asynccontextmanager
    async def _broker(self, name: str) -> AsyncIterator[None]:
        """Run a broker that the name server knows, and kill it."""
        settings = self._folder / f"{name}.toml"
        settings.write_text(f'brokerName = "{name}"\n')
        store, port = str(self._folder / name), str(self._ports[name])
        where = ("--config", str(settings), "--store", store, "--port", port, "--namesrv", self._name_server)
        async with self._serving("broker", *where):
            yield

    @asynccontextmanager
    async def _serving(self, *arguments: str) -> AsyncIterator[None]:
        """Run a command that serves once it has printed a line, and kill it."""
        command = (sys.executable, "-m", "cometmq.cli.main", *arguments)
        with (self._folder / f"{arguments[0]}.log").open("a") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=log)
        assert process.stdout is not None
        try:
            assert await process.stdout.readline(), f"{arguments} has ended"
            yield
        finally:
            process.kill()
            await process.wait()

    @asynccontextmanager
    async def _streams(self, *arguments: str) -> AsyncIterator[Process]:
        """Run the streams; kill them, and Spark's Java with them, if they still run in the end."""
        command = (
            "tests.campaigns.spark.streams_query",
            self._name_server,
            str(self._folder),
            "--retry-s",
            str(RETRY_S),
        )
        with (self._folder / LOG).open("w") as log:
            process = await start_python(*command, *arguments, stderr=log)
        try:
            yield process
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
