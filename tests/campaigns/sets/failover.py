"""Failover by RocketMQ's own controller: the master is killed under load, and nothing acknowledged is lost.

    python -m tests.campaigns failover [--kills 30] [--seed N] [--beside 10]

Two brokers, one of each product, have the same name; the controller elects the other one after each kill.
Sends are acknowledged by all brokers in sync. ``--beside`` is for how many kills the same is done with two
brokers of RocketMQ's, for its times; 0 leaves that out.
"""

import asyncio
import logging
import random
import signal
import statistics
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.campaigns.kit.brokers import Broker, ControlledSet
from tests.campaigns.kit.judge import Verdict
from tests.campaigns.kit.lanes import Lanes
from tests.campaigns.kit.options import add_numbers
from tests.interop import peers
from tests.interop.patience import PATIENCE_S

from cometmq.admin.topics import TopicAdmin

NAME: Final = "failing"
TOPIC: Final = "Failover"
LANES: Final = 8
PACE_S: Final = 0.005
CALM_S: Final = (0.3, 2.0)
"""For how long both brokers are in sync under load before the master is killed."""
SETTINGS: Final[dict[str, object]] = peers.PATIENT | {
    "brokerName": NAME,
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "mappedFileSizeCommitLog": 1 << 20,
    "haSendHeartbeatInterval": 1_000,
    "slaveReadEnable": "true",
}


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=30, beside=10)


def main(options: Namespace) -> list[str]:
    """Run the campaigns; print each kill, then what was found."""
    logging.disable(logging.WARNING)  # that peers vanish is what this is about
    verdict = asyncio.run(campaign(("cometmq", "rocketmq"), options.seed, options.kills))
    if options.beside:
        asyncio.run(campaign(("rocketmq", "rocketmq"), options.seed, options.beside))
    return [] if verdict.is_right else [str(verdict)]


class Pair(ControlledSet):
    """Two brokers; the addresses of a killed one stay the same.

    Attributes:
        kinds: their products, ``cometmq`` or ``rocketmq``.
        stores: their directories.
        namesrv: the name server's address.
    """

    def __init__(self, root: Path, kinds: tuple[str, str], namesrv: str, controller: str) -> None:
        self.kinds = kinds
        self.stores = [root / f"{number}-{kind}" for number, kind in enumerate(kinds)]
        self.namesrv = namesrv
        settings = SETTINGS | {"controllerAddr": controller}
        brokers = []
        for kind, store in zip(kinds, self.stores, strict=True):
            port, start = peers.free_port(), peers.START_BROKER[kind]
            run = partial(start, store, namesrv, settings, port=port, ended_by=signal.SIGKILL)
            brokers.append(Broker(f"{peers.HOST}:{port}", run))
        super().__init__(NAME, controller, brokers)

    async def start(self, number: int) -> None:
        """Start a broker, and wait until name servers know it."""
        await asyncio.to_thread(self.members[number].start)

    async def until_both_in_sync(self) -> int:
        """Wait until both are in sync, and return which is the master."""
        found = await self.until_in_sync()
        return [broker.address for broker in self.members].index(found.master_address or "")


@asynccontextmanager
async def pair(root: Path, kinds: tuple[str, str], queues: int) -> AsyncIterator[Pair]:
    """Run two brokers that have the topic, with a name server and a controller of RocketMQ's."""
    names = peers.rocketmq_namesrv_with_controller(root / "namesrv")
    namesrv, controller = await asyncio.to_thread(names.__enter__)
    found = Pair(root, kinds, namesrv, controller)
    try:
        await found.start(0)
        async with TopicAdmin(namesrv) as admin:
            await admin.create(TOPIC, queues=queues)
        await found.start(1)
        await found.until_has_topic(TOPIC)
        await found.until_both_in_sync()
        yield found
    finally:
        for broker in found.members:
            await asyncio.to_thread(broker.stop)
        await found.connections.close()
        await asyncio.to_thread(names.__exit__, None, None, None)


async def campaign(kinds: tuple[str, str], seed: int, kills: int) -> Verdict:
    """Kill the master of a pair ``kills`` times under load, and start it again; print what happens."""
    print(f"{kinds[0]} and {kinds[1]}:", flush=True)
    chance, pauses_s = random.Random(seed), dict[str, list[float]]()
    with tempfile.TemporaryDirectory(prefix="cometmq-failover-") as folder:
        async with pair(Path(folder), kinds, LANES) as brokers:
            async with Lanes(brokers.namesrv, NAME, TOPIC, LANES, pace_s=PACE_S) as lanes:
                for number in range(kills):
                    master = await brokers.until_both_in_sync()
                    await asyncio.sleep(chance.uniform(*CALM_S))
                    pause_s, kind = await kill_master(brokers, lanes, master), kinds[1 - master]
                    pauses_s.setdefault(kind, []).append(pause_s)
                    text = f"{kinds[master]} killed, {kind} took over after {pause_s:.2f} s"
                    print(f"{number + 1}: {text}", flush=True)
                    await brokers.start(master)
                await brokers.until_both_in_sync()
            verdict = await lanes.judge()
    print(f"{kills} kills: {verdict}")
    for kind, pauses in sorted(pauses_s.items()):
        times = f"median {statistics.median(pauses):.2f} s, worst {max(pauses):.2f} s"
        print(f"{kind} took over {len(pauses)} times: first send after {times}", flush=True)
    return verdict


async def kill_master(brokers: Pair, lanes: Lanes, master: int) -> float:
    """Kill the master; return after how many seconds a later send was acknowledged by the other broker."""
    killed_s = time.monotonic()
    await asyncio.to_thread(brokers.members[master].kill)
    async with asyncio.timeout(PATIENCE_S):
        return await lanes.acknowledgement_begun_after(killed_s) - killed_s
