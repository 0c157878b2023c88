"""Brokers and consumers are killed under load in pop mode: nothing is lost, nothing comes before its time."""

import asyncio
import json
import random
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.interop import jvm, peers
from tests.interop.jvm import Run
from tests.interop.messages import like_java
from tests.interop.popping import Handle, now_ms, until

from cometmq import Producer
from cometmq.errors import CometMQError

pytestmark = [pytest.mark.interop, pytest.mark.interop_long]

TOPIC = "PopKills"
GROUP = "pop-kills"
QUEUES = 4
KILLS = 20
CONSUMERS = 2
INVISIBLE_MS = 5_000
ECHO_MS = INVISIBLE_MS + 2_000
"""So long after a kill what was handed out before it, and did not arrive, may come again."""
SEND_EVERY_S = 0.005
LIFE_S = (1.0, 5.0)
"""The shortest and the longest time from one kill to the next."""
SETTINGS = peers.PATIENT | {"brokerName": peers.BROKER_NAME}

Line = dict[str, Any]


class Consumer:
    """A Java process that pops until it is killed, and writes what it got and did: see PopUnderKills.java."""

    def __init__(self, broker: str, folder: Path) -> None:
        folder.mkdir()
        self._lines = folder / "lines.jsonl"
        command = jvm.command(
            "PopUnderKills",
            *(peers.BROKER_NAME, broker, TOPIC, GROUP, INVISIBLE_MS),
            home=folder,
            programs=(jvm.PROGRAMS,),
            options=(*jvm.SMALL_HEAP, *jvm.QUICK_START),
            properties=jvm.SILENT,
        )
        with self._lines.open("wb") as output:
            self._child = subprocess.Popen([*jvm.dies_with_parent(), *command], stdout=output)

    @property
    def lines(self) -> list[Line]:
        """What it has written; a line that the kill cut off is left out."""
        *whole, _ = self._lines.read_bytes().split(b"\n")
        return [json.loads(line) for line in whole]

    @property
    def has_begun(self) -> bool:
        """Whether it has written anything."""
        return self._lines.stat().st_size > 0

    def kill(self) -> None:
        """Kill it, and wait until it is gone."""
        self._child.kill()
        self._child.wait()


class Load:
    """A topic under load, with its servers and consumers in processes of their own.

    Attributes:
        sent: the keys of the messages that were acknowledged to the producer.
        kills_ms: when the broker was killed.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.sent: set[str] = set()
        self.kills_ms: list[int] = []
        self._start, self._folder = peers.START[name], folder
        self._ports = {"port": peers.free_port(), "namesrv_port": peers.free_port()}
        self._servers = ExitStack()
        self._consumers: list[Consumer] = []
        self._running: list[Consumer] = []

    @property
    def name_server(self) -> str:
        return f"{peers.HOST}:{self._ports['namesrv_port']}"

    @property
    def broker(self) -> str:
        return f"{peers.HOST}:{self._ports['port']}"

    @property
    def lines(self) -> list[Line]:
        """What all consumers have written, in the order of time."""
        lines = [line for consumer in self._consumers for line in consumer.lines]
        return sorted(lines, key=lambda line: int(line["at"]))

    def start_servers(self) -> None:
        """Start the name server and the broker."""
        store = self._folder / "store"
        self._servers.enter_context(self._start(store, SETTINGS, **self._ports, ended_by=signal.SIGKILL))

    def start_consumer(self) -> None:
        """Start one more consumer."""
        consumer = Consumer(self.broker, self._folder / f"consumer-{len(self._consumers)}")
        self._consumers.append(consumer)
        self._running.append(consumer)

    def kill_servers(self) -> None:
        """Kill the name server and the broker."""
        self.kills_ms.append(now_ms())
        self._servers.close()

    def kill_consumer(self) -> None:
        """Kill the consumer that has run for the longest time."""
        self._running.pop(0).kill()

    def end(self) -> None:
        """Kill all that runs."""
        while self._running:
            self.kill_consumer()
        self._servers.close()

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Send all the time."""
        task = asyncio.create_task(self._send())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _send(self) -> None:
        async with Producer(self.name_server, "pop-kills", tries=1) as producer:
            for number in count():  # what was not acknowledged may be stored: it is not sent again
                message = like_java(TOPIC, "load", number)
                try:
                    await producer.send(message)
                    self.sent.add(message.keys[0])
                except CometMQError:
                    pass  # the broker is gone, and will come back
                await asyncio.sleep(SEND_EVERY_S)

    async def all_work(self) -> bool:
        """Wait until each running consumer has got something: to start one takes seconds."""
        return await until(lambda: all(consumer.has_begun for consumer in self._running))

    async def drained(self) -> set[str]:
        """Wait until all that was sent is handled to its end; return what is not when patience is over."""
        await until(lambda: not self._left())
        return self._left()

    def _left(self) -> set[str]:
        return self.sent - {line["asked"] for line in self.lines if "asked" in line}


class Verdict(NamedTuple):
    """How often what was.

    Attributes:
        early: came before its time, though the broker was not killed about then.
        early_after_kill: came before its time, and the broker was killed about then.
        again: came after it had been acknowledged in time, and the broker was not killed about then.
        again_after_kill: the same, and the broker was killed.
        too_late: came again because it was acknowledged after its time.
        in_time: came again because it was not acknowledged in its time.
    """

    early: int
    early_after_kill: int
    again: int
    again_after_kill: int
    too_late: int
    in_time: int


def judge(lines: list[Line], kills_ms: list[int]) -> Verdict:
    """Hold each time that a message came against what was said about it before."""
    first_ms: dict[str, int] = {}
    handles: dict[str, Handle] = {}
    acked_ms: dict[str, int] = {}
    counts = dict.fromkeys(Verdict._fields, 0)
    for line in lines:
        at_ms = int(line["at"])
        if "asked" in line:
            continue
        if "acked" in line:
            acked_ms[line["acked"]] = at_ms
        elif "changed" in line:
            handles[line["changed"]] = Handle.parse(line["handle"])
        else:
            key = line["key"]
            assert line["intact"], f"{key} is not what was sent"
            if key in handles:
                since_ms = first_ms[key] - ECHO_MS
                killed = any(since_ms <= kill_ms <= at_ms for kill_ms in kills_ms)
                counts[_kind(handles[key], acked_ms.get(key), at_ms, killed=killed)] += 1
            first_ms.setdefault(key, at_ms)
            handles[key] = Handle.parse(line["handle"])
    return Verdict(**counts)


def _kind(last: Handle, acked_ms: int | None, at_ms: int, *, killed: bool) -> str:
    """Return what it is called that a message came again."""
    if acked_ms is not None and acked_ms < last.due_ms:
        return "again_after_kill" if killed else "again"
    if at_ms < last.due_ms:
        return "early_after_kill" if killed else "early"
    return "in_time" if acked_ms is None else "too_late"


async def campaign(load: Load, run_java: Run, chance: random.Random) -> set[str]:
    """Kill the broker and consumers in turn while there is load; return what was lost."""
    await asyncio.to_thread(load.start_servers)
    await asyncio.to_thread(run_java, "CreateTopic", load.name_server, load.broker, QUEUES, TOPIC)
    for _ in range(CONSUMERS):
        load.start_consumer()
    async with load.sending():
        for number in range(KILLS):
            assert await load.all_work(), "a consumer gets nothing"
            await asyncio.sleep(chance.uniform(*LIFE_S))
            if number % 2:
                load.kill_consumer()
                load.start_consumer()
            else:
                await asyncio.to_thread(load.kill_servers)
                await asyncio.to_thread(load.start_servers)
    return await load.drained()


@pytest.mark.parametrize("name", peers.START)
@pytest.mark.timeout(1_200)  # a life is seconds long, and a Java broker needs seconds more to start
def test_under_kills_each_message_is_handled_and_none_comes_before_its_time(
    name: str, run_java: Run, tmp_path: Path
) -> None:
    """What comes again though its broker was killed is counted: Java saves offsets each five seconds."""
    load, seed = Load(name, tmp_path), random.randrange(2**32)
    try:
        lost = asyncio.run(campaign(load, run_java, random.Random(seed)))
    finally:
        load.end()
    verdict = judge(load.lines, load.kills_ms)
    print(f"\n{name}: seed {seed}, {KILLS} kills, {len(load.sent)} sent, {len(lost)} lost, {verdict}", end="")
    assert lost == set()
    assert (verdict.early, verdict.again) == (0, 0)
