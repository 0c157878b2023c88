"""Masters killed under load, again and again, as RocketMQ's controller elects the other broker each time."""

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.sets.controlled_set import NAME, BrokerSet, broker_set
from tests.campaigns.sets.failover_lanes import TOPIC, Lanes, Verdict
from tests.interop.patience import PATIENCE_S

LANES: Final = 8
CALM_S: Final = (0.3, 2.0)
"""For how long both brokers are in sync under load before the master is killed."""

Show = Callable[[str], None]


class Outcome(NamedTuple):
    """What a campaign has found.

    Attributes:
        verdict: what became of the messages.
        pauses_s: by product of the new master: from each kill to the first acknowledgement of a later send.
    """

    verdict: Verdict
    pauses_s: dict[str, list[float]]

    def __str__(self) -> str:
        found = self.verdict
        parts = [f"{found.acknowledged:,} acknowledged, {found.lost:,} lost, {found.doubled:,} twice"]
        parts.append(f"{found.disordered} of {LANES} queues out of order")
        for kind, pauses in sorted(self.pauses_s.items()):
            times = f"median {statistics.median(pauses):.2f} s, worst {max(pauses):.2f} s"
            parts.append(f"{kind} took over {len(pauses)} times: first send after {times}")
        return "; ".join(parts)


async def campaign(kinds: tuple[str, str], seed: int, kills: int, show: Show) -> Outcome:
    """Kill the master of a set ``kills`` times under load, and start it again."""
    chance, pauses_s = random.Random(seed), dict[str, list[float]]()
    with tempfile.TemporaryDirectory(prefix="cometmq-failover-") as folder:
        async with broker_set(Path(folder), kinds, TOPIC, LANES) as brokers:
            lanes = Lanes(brokers.namesrv, NAME, LANES)
            running = asyncio.create_task(lanes.run())
            try:
                for number in range(kills):
                    master = await brokers.until_both_in_sync()
                    await asyncio.sleep(chance.uniform(*CALM_S))
                    pause_s = await kill_master(brokers, lanes, master)
                    kind = kinds[1 - master]
                    pauses_s.setdefault(kind, []).append(pause_s)
                    show(f"{number + 1}: {kinds[master]} killed, {kind} took over after {pause_s:.2f} s")
                    await brokers.start(master)
                await brokers.until_both_in_sync()
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            return Outcome(await lanes.judge(), pauses_s)


async def kill_master(brokers: BrokerSet, lanes: Lanes, master: int) -> float:
    """Kill the master; return after how many seconds a later send was acknowledged by the other broker."""
    killed_s = time.monotonic()
    await brokers.kill(master)
    async with asyncio.timeout(PATIENCE_S):
        return await lanes.acknowledgement_begun_after(killed_s) - killed_s
