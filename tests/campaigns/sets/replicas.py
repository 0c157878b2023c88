"""Java and CometMQ brokers as master and slave of each other, killed under load: both must have the same.

    python -m tests.campaigns replicas [--size 2GiB] [--kills 6] [--seed N] [--only cometmq]

First a Java slave follows a CometMQ master, then a CometMQ slave a Java master; ``--only`` takes the product
of the master. Messages of so many bytes are sent to each pair; meanwhile the master, the slave or both are
killed with SIGKILL and started again. In the end the CommitLogs must be equal byte by byte, with every
acknowledged message in them, the queues of both must be those that are rebuilt from the log alone, and
nothing that ``cometmq store verify`` checks may be wrong.
"""

import asyncio
import contextlib
import json
import operator
import random
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.kit.brokers import Broker
from tests.campaigns.kit.options import add_numbers, size_of
from tests.campaigns.sets.replicas_comparison import first_difference, numbers_in, queues_of, rebuilt_queues
from tests.campaigns.sets.replicas_load import TOPICS, Load
from tests.interop import peers
from tests.kit.replication_peers import BOTH, HA_STATUS, SLAVE, asked, ha_port

from cometmq.admin.topics import TopicAdmin
from cometmq.store.settings import from_properties
from cometmq.store.verify import State, verify

PAIRS: Final = (("cometmq", "rocketmq"), ("rocketmq", "cometmq"))
COMMON: Final[Mapping[str, object]] = {
    "mappedFileSizeCommitLog": 16 << 20,
    "registerNameServerPeriod": 10_000,  # a slave learns so of a master that was not there
    "messageIndexSafe": "true",  # else a killed Java broker does not index all again that it forgets
}
# A killed Java broker destroys the index file that it was writing, and indexes again from where its recovery
# begins: if a full file came before it, the messages between them are in neither. It gets one for all.
SIZES: Final[Mapping[str, Mapping[str, object]]] = {
    "cometmq": {**COMMON, "maxHashSlotNum": 100_000, "maxIndexNum": 400_000},
    "rocketmq": COMMON,
}
QUEUES: Final = 4
MASTER, SLAVE_SIDE, BOTH_SIDES = ("master",), ("slave",), ("master", "slave")
LOOK_S: Final = 0.1
CATCH_UP_S: Final = 600


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=6)
    parser.add_argument("--size", type=size_of, default="2GiB", help="of what is sent to each pair")
    parser.add_argument("--only", choices=[leads for leads, _ in PAIRS], help="the product of the master")


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it found."""
    chance, wrong = random.Random(options.seed), list[str]()
    for leads, follows in PAIRS:
        if options.only not in (None, leads):
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="cometmq-replicas-") as folder:
            pair = Pair(leads, follows, Path(folder), chance)
            found = asyncio.run(pair.run(options.size, options.kills))
        print(f"{pair.name}: {found}, {time.monotonic() - begin:.0f} s", flush=True)
        wrong += [f"{pair.name}: {fault}" for fault in found.wrong]
    return wrong


class Found(NamedTuple):
    """What a pair was seen to do.

    Attributes:
        kills: of each side.
        failed: batches that were not acknowledged.
        end: of both logs, bytes.
        wrong: what is not as it must be.
    """

    acknowledged: int
    kills: dict[str, int]
    failed: int
    end: int
    queues: int
    wrong: list[str]

    def __str__(self) -> str:
        kills = " and ".join(f"the {side} {count} times" for side, count in self.kills.items())
        return (
            f"{self.acknowledged:,} messages acknowledged, {self.failed} batches not; {kills} killed; "
            f"{self.end:,} bytes of log and {self.queues} files of queues compared"
        )


class Side(Broker):
    """One broker of a pair, on its ports and its store."""

    def __init__(self, product: str, store: Path, namesrv: str, settings: Mapping[str, object]) -> None:
        self.store = store
        self.settings = from_properties(SIZES[product])
        port, own = peers.free_port(), {**BOTH, **SIZES[product], **ha_port(), **settings}
        run = partial(peers.START_BROKER[product], store, namesrv, own, port=port)
        super().__init__(f"{peers.HOST}:{port}", run)

    def end_offset(self) -> int:
        """Ask for the end of its log."""
        status = json.loads(asked(self.address, HA_STATUS).body)
        if status["master"]:
            return int(status["masterCommitLogMaxOffset"])
        return int(status["haClientRuntimeInfo"]["maxOffset"])


class Pair:
    """A master and its slave.

    Args:
        leads, follows: the products, ``cometmq`` or ``rocketmq``.
    """

    def __init__(self, leads: str, follows: str, folder: Path, chance: random.Random) -> None:
        self.name = f"{follows} behind {leads}"
        self._products = leads, follows
        self._folder = folder
        self._chance = chance
        self._load = Load(chance)

    async def run(self, size: int, kills: int) -> Found:
        """Send so many bytes, with kills meanwhile, and compare what both sides have.

        A Java master sends a new slave only its last file, so both are there from the beginning.
        """
        with contextlib.ExitStack() as stack:
            namesrv = await asyncio.to_thread(stack.enter_context, self._name_server())
            sides = self._sides = {
                "master": Side(self._products[0], self._folder / "master", namesrv, {}),
                "slave": Side(self._products[1], self._folder / "slave", namesrv, SLAVE),
            }
            for side in sides.values():
                stack.callback(side.stop)
                await asyncio.to_thread(side.start)
            async with TopicAdmin(namesrv) as admin:
                for topic in TOPICS:
                    await admin.create(topic, queues=QUEUES)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._load.run(namesrv))
                await self._send(size, kills)
                self._load.end()
            end = await self._until(operator.eq)
            for side in sides.values():  # the master first: the slave gets what it may still store
                await asyncio.to_thread(side.stop)
        return await asyncio.to_thread(self._compare, end)

    def _name_server(self) -> contextlib.AbstractContextManager[str]:
        return peers.START_NAMESRV[self._products[0]](self._folder / "names")

    async def _send(self, size: int, kills: int) -> None:
        """Send all, in shares; within each but the last, one side or both are killed."""
        share = size // (kills + 1)
        for number in range(kills):
            begin = share * number
            self._load.allow(begin + share)
            await self._load.reach(begin + int(share * self._chance.uniform(0.2, 0.8)))
            killed = self._chance.choice((MASTER, SLAVE_SIDE, BOTH_SIDES))
            await asyncio.gather(*(asyncio.to_thread(self._sides[side].kill) for side in killed))
            had = await self._end("slave") if "slave" not in killed else None
            for side in killed:
                await asyncio.to_thread(self._sides[side].start)
            await self._load.reach(begin + share)
            await self._follows_again(had)
        self._load.allow(size)
        await self._load.reach(size)

    async def _follows_again(self, had: int | None) -> None:
        """Wait until the slave has more than it had, or all: else the next kill would find it unconnected."""
        if had is None:
            had = await self._end("slave")
        await self._until(lambda own, masters: own > had or own == masters)

    async def _until(self, holds: Callable[[int, int], bool]) -> int:
        """Wait until something holds for the ends of the slave's log and its master's; return the former."""
        async with asyncio.timeout(CATCH_UP_S):
            while True:
                own = await self._end("slave")
                if holds(own, await self._end("master")):
                    return own
                await asyncio.sleep(LOOK_S)

    async def _end(self, side: str) -> int:
        return await asyncio.to_thread(self._sides[side].end_offset)

    def _compare(self, end: int) -> Found:
        """Compare logs and queues of both, and with the queues that are rebuilt from the log."""
        queues = queues_of(self._sides["master"].store)
        return Found(
            len(self._load.acknowledged),
            {name: side.kills for name, side in self._sides.items()},
            self._load.failed,
            end,
            len(queues),
            list(self._faults(end, queues)),
        )

    def _faults(self, end: int, queues: dict[str, bytes]) -> Iterator[str]:
        """Yield what is not as it must be."""
        master, slave = self._sides["master"], self._sides["slave"]
        if (offset := first_difference(master.store, slave.store, end)) is not None:
            yield f"the logs differ at offset {offset:,}"
        if lost := self._load.acknowledged - numbers_in(slave.store, end):
            yield f"{len(lost):,} acknowledged messages are lost, such as number {min(lost)}"
        rebuilt = rebuilt_queues(master.store, master.settings, self._folder / "rebuilt")
        for name, found in (("master", queues), ("slave", queues_of(slave.store))):
            if other := {file for file in found | rebuilt if found.get(file) != rebuilt.get(file)}:
                yield f"queues of the {name} are not those of its log: {min(other)} and {len(other) - 1} more"
        for name, side in self._sides.items():
            verified = verify(side.store, side.settings)
            if verified.state is not State.SOUND:
                yield f"the {name}'s store {verified.state.value}: {verified.findings[0]}"
