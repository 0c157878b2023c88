"""Two brokers, one of which dies and comes back while two streams run: no row may be lost.

    python -m tests.campaigns stream-brokers [--deaths 10] [--messages 400000] [--seed N]

Both topics have queues on both brokers. One broker is killed with SIGKILL while the streams read what was
just sent, stays away for some seconds, in which more is sent to the other one, and is started again on its
store: the streams must live through that. In the last round it stays away until the streams fail, which must
name it; started again, they go on. In the end the rows in Parquet must be the topic's messages exactly. Of
the copies in the other topic none may be lost; one whose acknowledgement died with a broker may be on both,
which ``drop_duplicates`` must put right.
"""

import asyncio
import json
import random
import tempfile
from argparse import ArgumentParser, Namespace
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.processes import serving_command
from tests.campaigns.kit.progress import tell
from tests.campaigns.spark.streams_process import TOPICS, Streams, send_numbers
from tests.campaigns.spark.streams_query import COPIES, ROWS

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.net.address import free_port

STAYS, DIES = "broker-a", "broker-b"
QUEUES: Final = 4
RETRY_S: Final = 15
WITHOUT_IT: Final = (f" {RETRY_S} s: ", "no broker known to the name server")
"""Why the streams fail: it was tried for so long, or, on a slow machine, the name server has forgotten it."""
AWAY_S_MAX: Final = 8.0
DIES_WITHIN_S: Final = 4.0


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, deaths=10, messages=400_000)


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    with tempfile.TemporaryDirectory(prefix="cometmq-brokers-") as folder:
        campaign = Campaign(Path(folder), random.Random(options.seed))
        found = asyncio.run(campaign.run(options.deaths, options.messages))
    sent = campaign.sent
    print(f"{sent:,} messages were sent; found: {found}")
    doubled = found.pop("copies") - sent
    print(f"{doubled} copies are on both brokers")
    wrong = [f"{name} {number}, not {sent}" for name, number in found.items() if number != sent]
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
        self._name_server = f"127.0.0.1:{free_port()}"
        self._ports = {STAYS: free_port(), DIES: free_port()}
        self._streams = Streams(self._name_server, folder, RETRY_S)

    async def run(self, deaths: int, messages: int) -> dict[str, int]:
        """Kill a broker while the streams run; return what they made of the messages."""
        names = ("namesrv", "--port", self._name_server.partition(":")[2])
        share = messages // (2 * deaths + 2)
        async with serving_command(self._folder / "namesrv.log", *names), self._broker(STAYS):
            async with self._broker(DIES), TopicAdmin(self._name_server) as admin:
                for topic in TOPICS:
                    assert await admin.create(topic, queues=QUEUES) == [STAYS, DIES]
            async with self._streams.running() as streams:
                for death in range(deaths):
                    async with self._broker(DIES):
                        await self._send(share)
                        await self._streams.until_done(streams)
                        await asyncio.sleep(self._chance.uniform(0, DIES_WITHIN_S))
                    away_s = self._chance.uniform(0, AWAY_S_MAX)
                    await asyncio.gather(self._send(share, [STAYS]), asyncio.sleep(away_s))
                    self._say(f"death {death + 1}, away for {away_s:.1f} s", streams)
                async with self._broker(DIES):
                    await self._send(share)
                    await self._streams.until_done(streams)
                await streams.wait()
            said = self._streams.said
            assert streams.returncode, "the streams have ended well, without a broker"
            named = [line for line in said.splitlines() if DIES in line]
            assert any(why in line for line in named for why in WITHOUT_IT), said
            self._say(f"the streams failed without it, and named {DIES}", None)
            async with self._broker(DIES):
                await self._send(share)
                output = await self._streams.drain("--count")
        found: dict[str, int] = json.loads(output.splitlines()[-1])
        return found

    def _say(self, what: str, streams: Process | None) -> None:
        assert streams is None or streams.returncode is None, f"{what}: the streams have failed"
        marks = zip((ROWS, COPIES), self._streams.done(), strict=True)
        done = ", ".join(f"{stream} {len(of_stream)}" for stream, of_stream in marks)
        tell(f"{what}: {self.sent:,} sent; micro-batches: {done}")

    async def _send(self, count: int, brokers: Iterable[str] = (STAYS, DIES)) -> None:
        """Send numbers to some of the brokers."""
        async with Producer(self._name_server) as producer:
            queues = [queue for queue in await producer.queues(TOPICS[0]) if queue.broker_name in brokers]
            assert {queue.broker_name for queue in queues} == set(brokers)
            await send_numbers(producer, range(self.sent, self.sent + count), queues)
        self.sent += count

    @asynccontextmanager
    async def _broker(self, name: str) -> AsyncIterator[None]:
        """Run a broker that the name server knows, and kill it."""
        settings = self._folder / f"{name}.toml"
        settings.write_text(f'brokerName = "{name}"\n')
        store, port = str(self._folder / name), str(self._ports[name])
        where = ("--config", str(settings), "--store", store, "--port", port, "--namesrv", self._name_server)
        async with serving_command(self._folder / "brokers.log", "broker", *where):
            yield
