"""Real brokers, killed for real: what a producer was told is stored must be there, whole and in its place."""

import asyncio
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.kit import traffic
from tests.campaigns.storage.strategies import Strategy

from cometmq.message import MessageQueue
from cometmq.net.address import free_port

ACKNOWLEDGED_MAX: Final = 3_000
"""A broker is killed when it has acknowledged so many messages, at the latest."""
COMMIT_WINDOW_S: Final = 0.4
"""commitIntervalCommitLog and commitCommitLogThoroughInterval: what is older has been committed …"""
SLACK_S: Final = 1.0
"""… unless the machine was busy."""


class Killed(NamedTuple):
    """A broker's end, and what it had acknowledged in its life."""

    time_s: float
    acknowledged: dict[traffic.Place, traffic.Acknowledgement]


def campaign(strategy: Strategy, seed: int, cycles: int) -> traffic.Outcome:
    """Start a broker on one store and kill it under load, ``cycles`` times.

    Raises AssertionError if a promise was broken: only a transient store pool may lose anything.
    """
    chance = random.Random(seed)
    port, namesrv_port = free_port(), free_port()
    name_server = f"127.0.0.1:{namesrv_port}"
    killed = Killed(0, {})
    stored: dict[traffic.Place, bytes] = {}
    ends: dict[MessageQueue, int] = {}
    acknowledged, ages = 0, [0.0]
    with tempfile.TemporaryDirectory(prefix="cometmq-kills-") as folder:
        store, settings = Path(folder) / "store", traffic.write_settings(strategy, Path(folder))
        for cycle in range(cycles + 1):
            with traffic.broker(store, settings, port, namesrv_port) as process:
                if cycle == 0:
                    asyncio.run(traffic.make_topics(name_server))
                stored |= asyncio.run(traffic.read_on(name_server, ends))
                acknowledged += len(killed.acknowledged)
                ages += traffic.ages_of_lost(killed.acknowledged, stored, killed.time_s)
                if cycle < cycles:
                    killed = _send_and_kill(name_server, process, cycle, chance.randint(1, ACKNOWLEDGED_MAX))
                else:
                    assert asyncio.run(traffic.read_on(name_server, {})) == stored
    traffic.check_bodies(stored)
    assert strategy.has_pool or len(ages) == 1, f"{strategy.name}: lost {len(ages) - 1} messages"
    assert max(ages) < COMMIT_WINDOW_S + SLACK_S, f"{strategy.name}: a message was not committed in time"
    return traffic.Outcome(cycles, acknowledged, len(stored), len(ages) - 1, max(ages))


def _send_and_kill(name_server: str, process: "subprocess.Popen[str]", run: int, last: int) -> Killed:
    acknowledged: dict[traffic.Place, traffic.Acknowledgement] = {}
    times: list[float] = []

    def kill_in_time() -> bool:
        if len(acknowledged) == last:
            times.append(time.monotonic())
            process.kill()
        return len(acknowledged) >= last

    asyncio.run(traffic.send_all_the_time(name_server, run, acknowledged, kill_in_time))
    assert process.wait(60) == -9
    return Killed(times[0], acknowledged)
