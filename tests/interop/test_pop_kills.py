"""Brokers and consumers are killed under load in pop mode: nothing is lost, nothing comes before its time."""

import asyncio
import json
import random
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
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
ANSWER_MS = 1_000
"""So long after a kill the answers that were on their way arrive."""
EVENTS = ("forgot", "asked", "acked", "changed")
"""What consumers do with a message: each is the name of its key in a line."""
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
        ends_ms: when each consumer was killed.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.sent: set[str] = set()
        self.kills_ms: list[int] = []
        self.ends_ms: list[int] = []
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
        lines = [
            line | {"consumer": number}
            for number, consumer in enumerate(self._consumers)
            for line in consumer.lines
        ]
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
        self.ends_ms.append(now_ms())
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
    """How often messages came before their time, or came again, by cause.

    Attributes:
        early: before their time, though the broker was not killed about then.
        early_after_kill: before their time, and the broker was killed about then.
        again: after they had been acknowledged in time, and the broker was not killed about then.
        again_after_kill: the same, and the broker was killed.
        forgotten: their consumer did not acknowledge them, as it likes to do.
        too_late: they were acknowledged after their time.
        consumer_killed: their consumer was killed before it had their acknowledgement confirmed.
        broker_killed: the same, and the broker was killed.
        unexplained: none of these.
    """

    early: int
    early_after_kill: int
    again: int
    again_after_kill: int
    forgotten: int
    too_late: int
    consumer_killed: int
    broker_killed: int
    unexplained: int


@dataclass
class Held:
    """A message as a consumer has got it last, and what that one did with it."""

    handle: Handle
    consumer: int
    at_ms: int
    acked_ms: int | None = None
    is_forgotten: bool = False


class Judge:
    """Holds each time that a message came against what was said about it before.

    Args:
        kills_ms: when the broker was killed.
        ends_ms: when each consumer was killed.
    """

    def __init__(self, kills_ms: list[int], ends_ms: list[int]) -> None:
        self._kills_ms, self._ends_ms = kills_ms, ends_ms
        self._first_ms: dict[str, int] = {}
        self._held: dict[str, Held] = {}
        self._counts = dict.fromkeys(Verdict._fields, 0)

    def judge(self, lines: list[Line]) -> Verdict:
        """Return the verdict over all that consumers wrote, in the order of time."""
        for line in lines:
            handle, at_ms = Handle.parse(line["handle"]), int(line["at"])
            if "key" in line:
                assert line["intact"], f"{line['key']} is not what was sent"
                self._take(line["key"], Held(handle, line["consumer"], at_ms))
                continue
            event = next(event for event in EVENTS if event in line)
            held = self._held[line[event]]
            if event == "changed" and held.consumer == line["consumer"]:
                held.handle, held.is_forgotten = handle, True
            elif held.handle == handle:
                held.is_forgotten |= event == "forgot"
                held.acked_ms = at_ms if event == "acked" else held.acked_ms
        return Verdict(**self._counts)

    def _take(self, key: str, now: Held) -> None:
        """Count why a message came that had come before."""
        if (last := self._held.get(key)) is not None:
            killed = self._is_broker_killed(self._first_ms[key] - ECHO_MS, now.at_ms)
            if last.acked_ms is not None and last.acked_ms < last.handle.due_ms:
                cause = "again_after_kill" if killed else "again"
            elif now.at_ms < last.handle.due_ms:
                cause = "early_after_kill" if killed else "early"
            else:
                cause = self._cause(last, now.at_ms)
            self._counts[cause] += 1
        self._first_ms.setdefault(key, now.at_ms)
        self._held[key] = now

    def _cause(self, last: Held, at_ms: int) -> str:
        """Return why a message was not acknowledged in its time."""
        if last.acked_ms is not None:
            return "too_late"
        if last.is_forgotten:
            return "forgotten"
        if last.at_ms - ANSWER_MS <= self._ends_ms[last.consumer] <= at_ms:
            return "consumer_killed"
        return "broker_killed" if self._is_broker_killed(last.at_ms - ANSWER_MS, at_ms) else "unexplained"

    def _is_broker_killed(self, since_ms: int, until_ms: int) -> bool:
        return any(since_ms <= kill_ms <= until_ms for kill_ms in self._kills_ms)


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
    """All that comes again has a cause; what the Java broker hands out once too often is only counted."""
    load, seed = Load(name, tmp_path), random.randrange(2**32)
    try:
        lost = asyncio.run(campaign(load, run_java, random.Random(seed)))
    finally:
        load.end()
    lines = load.lines
    handled = {line["asked"] for line in lines if "asked" in line}
    verdict = Judge(load.kills_ms, load.ends_ms).judge(lines)
    counts = f"{len(load.sent)} sent, {len(handled)} handled, {len(lost)} lost"
    print(f"\n{name}: seed {seed}, {KILLS} kills, {counts}, {verdict}", end="")
    assert lost == set()
    if name == "cometmq":
        assert (verdict.early, verdict.again, verdict.unexplained) == (0, 0, 0)
        assert (verdict.early_after_kill, verdict.again_after_kill) == (0, 0)
