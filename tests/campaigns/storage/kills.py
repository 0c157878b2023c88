"""Real brokers, killed for real: what a producer was told is stored must be there, whole and in its place."""

import asyncio
import random
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests.campaigns.kit.traffic import (
    Acknowledgement,
    Place,
    broker,
    check_bodies,
    make_topics,
    read_on,
    send_all_the_time,
    write_settings,
)
from tests.campaigns.storage.strategies import Strategy

from cometmq.message import MessageQueue
from cometmq.net.address import free_port

ACKNOWLEDGED_MAX: Final = 3_000
"""A broker is killed when it has acknowledged so many messages, at the latest."""
COMMIT_WINDOW_S: Final = 0.4
"""commitIntervalCommitLog and commitCommitLogThoroughInterval: what is older has been committed …"""
SLACK_S: Final = 1.0
"""… unless the machine was busy."""


class Outcome(NamedTuple):
    """What a campaign has found.

    Attributes:
        lost: acknowledged messages that are gone; never any without the transient store pool.
        oldest_lost_s: how long before the kill the oldest of them had been acknowledged.
    """

    cycles: int
    acknowledged: int
    stored: int
    lost: int
    oldest_lost_s: float


class Killed(NamedTuple):
    """A broker's end, and what it had acknowledged in its life."""

    time_s: float
    acknowledged: dict[Place, Acknowledgement]


def campaign(strategy: Strategy, seed: int, cycles: int) -> Outcome:
    """Start a broker on one store and kill it under load, ``cycles`` times.

    Raises AssertionError if a promise was broken.
    """
    chance = random.Random(seed)
    port, namesrv_port = free_port(), free_port()
    name_server = f"127.0.0.1:{namesrv_port}"
    killed = Killed(0, {})
    stored: dict[Place, bytes] = {}
    ends: dict[MessageQueue, int] = {}
    acknowledged, ages = 0, [0.0]
    with tempfile.TemporaryDirectory(prefix="cometmq-kills-") as folder:
        store, settings = Path(folder) / "store", write_settings(strategy, Path(folder))
        for cycle in range(cycles + 1):
            with broker(store, settings, port, namesrv_port) as process:
                if cycle == 0:
                    asyncio.run(make_topics(name_server))
                stored |= asyncio.run(read_on(name_server, ends))
                acknowledged += len(killed.acknowledged)
                ages += _ages_of_lost(killed, stored)
                if cycle < cycles:
                    killed = _send_and_kill(name_server, process, cycle, chance.randint(1, ACKNOWLEDGED_MAX))
                else:
                    assert asyncio.run(read_on(name_server, {})) == stored
    check_bodies(stored)
    assert strategy.has_pool or len(ages) == 1, f"{strategy.name}: lost {len(ages) - 1} messages"
    assert max(ages) < COMMIT_WINDOW_S + SLACK_S, f"{strategy.name}: a message was not committed in time"
    return Outcome(cycles, acknowledged, len(stored), len(ages) - 1, max(ages))


def _send_and_kill(name_server: str, process: "subprocess.Popen[str]", run: int, last: int) -> Killed:
    acknowledged: dict[Place, Acknowledgement] = {}
    times: list[float] = []

    def kill_in_time() -> bool:
        if len(acknowledged) == last:
            times.append(time.monotonic())
            process.kill()
        return len(acknowledged) >= last

    asyncio.run(send_all_the_time(name_server, run, acknowledged, kill_in_time))
    assert process.wait(60) == -9
    return Killed(times[0], acknowledged)


def _ages_of_lost(killed: Killed, stored: dict[Place, bytes]) -> list[float]:
    """Return how long before the kill each message had been acknowledged that is gone."""
    ages = []
    for place, (body, time_s) in killed.acknowledged.items():
        if place not in stored:
            ages.append(killed.time_s - time_s)
        else:
            assert stored[place] == body, f"another message is at {place}"
    return ages
