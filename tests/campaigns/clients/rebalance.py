"""What rebalances cost, and that they lose nothing: random histories of consumer groups, lived through.

    python -m tests.campaigns rebalance [--histories 100] [--members 8] [--queues 64] [--steps 8]

Members as processes join, leave and are killed, topics get more queues and fewer, and the broker is restarted
and killed, all under load. Each strategy has a group with an ordered topic and a concurrent one, and all
strategies live through each history (``by_circle`` is what the literature calls round robin); intervals are
a tenth of what they are else (``hurry.py``). A lost message, or an ordered queue with two owners or out of
order, ends the run; its seed shows it again.
"""

import asyncio
import json
import signal
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from tests.campaigns.clients.hurry import OFFSETS_SAVED_MS, TIMES, hurry
from tests.campaigns.clients.rebalance_history import QUEUES_CHANGE, Kind, Size, Step, draw
from tests.campaigns.clients.rebalance_judge import Handled, Owned, Verdict, judge
from tests.campaigns.clients.rebalance_member import BROKER_NAME, STRATEGIES, WAYS, run, topic_of
from tests.campaigns.kit.processes import BrokerProcess, Process
from tests.campaigns.kit.progress import print_head, print_row

from cometmq import Message, Producer
from cometmq.admin.shrink import SETTLE_S, shrink
from cometmq.admin.topics import TopicAdmin
from cometmq.client.waiting import wait_within
from cometmq.errors import CometMQError

COLUMNS = {
    "histories": "histories",
    "handled": "handled",
    "lost": "lost",
    "shared": "two owners",
    "disordered": "disordered",
    "duplicates": "duplicates",
}
"""By what is counted, how the table calls it."""
Kinds = list[tuple[str, str]]
KINDS: Kinds = list(product(STRATEGIES, WAYS))
TOPICS = [topic_of(*kind) for kind in KINDS]
PATIENCE_S = 120
SHRUNK_S = 600
AGAIN_S = 0.2
LOAD_PAUSE_S = 0.02


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--members", type=int, default=Size().members, help="at first and at most")
    parser.add_argument("--queues", type=int, default=Size().queues, help="of each topic at the beginning")
    parser.add_argument("--steps", type=int, default=Size().steps, help="of each history")
    parser.add_argument("--at-once", type=int, default=2, help="histories side by side")


def main(options: Namespace) -> list[str]:
    """Live through the histories; print a line for each, and a Markdown table of all."""
    hurry()
    sums, wrong = asyncio.run(_live(options))
    print("\n" + ", ".join(f"{count} times {kind.value}" for kind, count in _happened(options).items()))
    print_head("strategy, way", *COLUMNS.values())
    for kind, counts in sums.items():
        print_row(", ".join(kind), *(counts[name] for name in COLUMNS))
    return wrong


class Seen:
    """What members said of one topic."""

    def __init__(self) -> None:
        self.handled: list[Handled] = []
        self.owned: list[Owned] = []
        self.numbers: set[int] = set()


class Crew:
    """The members, and what they say."""

    def __init__(self, name_server: str, size: Size) -> None:
        self.seen = {topic: Seen() for topic in TOPICS}
        self._name_server = name_server
        self._size = size
        self._members: dict[int, Member] = {}
        self._came = 0
        self._news = asyncio.Event()

    async def join(self) -> None:
        """Start one more member, at the first place that is free."""
        place = min(set(range(self._size.members)) - self._members.keys())
        member = self._members[place] = Member(self._came, self.seen, self._news.set)
        self._came += 1
        await member.start(self._name_server, place, self._size.members, self._size.queues_max)

    async def end(self, choice: int, with_signal: signal.Signals) -> None:
        """Stop a member, or kill it."""
        place = sorted(self._members)[choice % len(self._members)]
        await self._members.pop(place).end(with_signal)

    async def fill(self) -> None:
        """Start members at all places."""
        await asyncio.gather(*(self.join() for _ in range(self._size.members - len(self._members))))

    async def end_all(self) -> None:
        """Stop all members."""
        await asyncio.gather(*(self.end(0, signal.SIGTERM) for _ in range(len(self._members))))

    async def have_seen(self, sent: dict[str, set[int]], patience_s: float) -> None:
        """Wait until all that was sent was handled, or nothing was for so long."""
        while not all(numbers <= self.seen[topic].numbers for topic, numbers in sent.items()):
            self._news.clear()
            await wait_within(self._news, patience_s)
            if not self._news.is_set():
                return


class Member:
    """One process, and what it is at."""

    def __init__(self, number: int, seen: dict[str, Seen], news: Any) -> None:
        self._number = number
        self._seen = seen
        self._news = news
        self._joined = asyncio.Event()
        self._handles: dict[tuple[str, int, int], int] = {}
        """Where what it handles is among all that was handled."""
        self._owns: dict[tuple[str, int], int] = {}
        """Since when it has an ordered queue."""
        self._last_ns = 0

    async def start(self, *arguments: Any) -> None:
        """Start it, and wait until it has joined."""
        self._process = await Process.start(run, *arguments, on_line=self._take)
        await self._process.until(self._joined)

    async def end(self, with_signal: signal.Signals) -> None:
        """Stop it, or kill it."""
        await self._process.end(with_signal)
        for topic in TOPICS:
            self._note_owned(topic, set())

    def _take(self, line: bytes) -> None:
        self._last_ns, event, *what = json.loads(line)
        if event == "joined":
            self._joined.set()
        elif event == "owns":
            topic, queue_ids = what
            self._note_owned(topic, set(queue_ids))
        else:
            topic, queue_id, queue_offset, number = what
            seen, place = self._seen[topic], (topic, queue_id, queue_offset)
            if event == "begin":
                self._handles[place] = len(seen.handled)
                seen.handled.append(
                    Handled(self._number, queue_id, queue_offset, number, self._last_ns, None)
                )
            else:
                at = self._handles.pop(place)
                seen.handled[at] = seen.handled[at]._replace(end_ns=self._last_ns)
                seen.numbers.add(number)
                self._news()

    def _note_owned(self, topic: str, queue_ids: set[int]) -> None:
        for owned_topic, queue_id in [place for place in self._owns if place[0] == topic]:
            if queue_id not in queue_ids:
                begin_ns = self._owns.pop((owned_topic, queue_id))
                self._seen[topic].owned.append(Owned(self._number, queue_id, begin_ns, self._last_ns))
        for queue_id in queue_ids:
            self._owns.setdefault((topic, queue_id), self._last_ns)


class Topics:
    """The topics, which get more queues and fewer."""

    def __init__(self, name_server: str, queues: int) -> None:
        self._name_server = name_server
        self._queues = queues
        self._most = queues
        """So many a topic may have yet: of a shrink that is stopped nobody knows how far it came."""
        self._shrinking: asyncio.Task[None] | None = None

    async def make(self) -> None:
        """Create them."""
        await self.change(0)

    async def change(self, by: int) -> None:
        """Add queues, or begin to remove some, which lasts until their messages are handled."""
        if self._shrinking is not None:
            self._shrinking.cancel()
            await asyncio.wait((self._shrinking,))
        self._queues = by + (self._queues if by < 0 else self._most)
        work = self._shrink() if by < 0 else self._create()
        self._shrinking = asyncio.create_task(work)
        if by >= 0:
            await self._shrinking

    async def are_as_wanted(self) -> None:
        """Wait until what was begun is done."""
        if self._shrinking is not None:
            await self._shrinking

    async def _create(self) -> None:
        async with TopicAdmin(self._name_server) as admin:
            for topic in TOPICS:
                await _surely(partial(admin.create, topic, queues=self._queues))
        self._most = self._queues

    async def _shrink(self) -> None:
        settle_s = SETTLE_S / TIMES
        async with TopicAdmin(self._name_server) as admin:
            works = [partial(shrink, admin, topic, self._queues, settle_s=settle_s) for topic in TOPICS]
            await asyncio.gather(*map(_surely, works))
        self._most = self._queues


async def _surely(work: Callable[[], Awaitable[object]]) -> None:
    """Repeat what can be repeated until it succeeds: the broker may be away, or very busy."""
    while True:
        try:
            await work()
        except CometMQError:
            await asyncio.sleep(AGAIN_S)
        else:
            return


async def live_through(seed: int, size: Size, directory: Path) -> dict[tuple[str, str], Verdict]:
    """Live through the history of a seed; give what it showed, by strategy and way."""
    broker = BrokerProcess(
        directory / "store",
        hurry,
        broker_name=BROKER_NAME,
        flush_consumer_offset_interval=OFFSETS_SAVED_MS,
    )
    await broker.start()
    crew, topics = Crew(broker.name_server, size), Topics(broker.name_server, size.queues)
    sent: dict[str, set[int]] = {topic: set() for topic in TOPICS}
    try:
        await topics.make()
        await crew.fill()
        async with _load(broker.name_server, sent):
            for step in draw(seed, size):
                await asyncio.sleep(step.pause_s)
                await _happen(step, broker, crew, topics)
            await crew.fill()
        await crew.have_seen(sent, PATIENCE_S)
        async with asyncio.timeout(SHRUNK_S):
            await topics.are_as_wanted()
    finally:
        await crew.end_all()
        await broker.end(signal.SIGTERM)
    return {
        (strategy, way): judge(sent[topic], seen.handled, seen.owned, ordered=way == "ordered")
        for (strategy, way), (topic, seen) in zip(KINDS, crew.seen.items(), strict=True)
    }


async def _happen(step: Step, broker: BrokerProcess, crew: Crew, topics: Topics) -> None:
    """Cause the next event."""
    match step.kind:
        case Kind.JOIN:
            await crew.join()
        case Kind.LEAVE:
            await crew.end(step.choice, signal.SIGTERM)
        case Kind.CRASH:
            await crew.end(step.choice, signal.SIGKILL)
        case Kind.MORE_QUEUES | Kind.FEWER_QUEUES:
            await topics.change(QUEUES_CHANGE[step.kind])
        case Kind.RESTART | Kind.BROKER_CRASH:
            await broker.end(signal.SIGTERM if step.kind is Kind.RESTART else signal.SIGKILL)
            await broker.start()


@asynccontextmanager
async def _load(name_server: str, sent: dict[str, set[int]]) -> AsyncIterator[None]:
    """Send numbers all the while; in ``sent`` are those that the broker has."""

    async def send_one(producer: Producer, topic: str, number: int) -> None:
        with suppress(CometMQError):
            await producer.send(Message(topic, b"%d" % number))
            sent[topic].add(number)

    async def send() -> None:
        number = 0
        async with Producer(name_server, "makers") as producer:
            while True:
                await asyncio.gather(*map(partial(send_one, producer, number=number), TOPICS))
                number += 1
                await asyncio.sleep(LOAD_PAUSE_S)

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


async def _live(options: Namespace) -> tuple[dict[tuple[str, str], Counter[str]], list[str]]:
    """Return the sums by strategy and way, and what was wrong."""
    sums: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    wrong: list[str] = []
    seeds = iter(range(options.seed, options.seed + options.histories))

    async def live_on() -> None:
        for seed in seeds:
            if wrong:
                return
            begin = time.monotonic()
            with tempfile.TemporaryDirectory() as directory:
                verdicts = await live_through(seed, _size(options), Path(directory))
            for kind, verdict in verdicts.items():
                sums[kind]["histories"] += 1
                for name, value in verdict._asdict().items():
                    sums[kind][name] += value if isinstance(value, int) else len(value)
                if not verdict.is_right:
                    wrong.append(f"history {seed}, {', '.join(kind)}: {verdict}"[:2_000])
            handled = sum(verdict.handled for verdict in verdicts.values())
            duplicates = sum(verdict.duplicates for verdict in verdicts.values())
            seconds = time.monotonic() - begin
            print(
                f"history {seed}: {handled:,} handled, {duplicates:,} twice, {seconds:.0f} s"
                + (": WRONG" if wrong else ""),
                flush=True,
            )

    await asyncio.gather(*(live_on() for _ in range(options.at_once)))
    return sums, wrong


def _happened(options: Namespace) -> Counter[Kind]:
    """Count what the histories consist of."""
    seeds = range(options.seed, options.seed + options.histories)
    return Counter(step.kind for seed in seeds for step in draw(seed, _size(options)))


def _size(options: Namespace) -> Size:
    return Size(options.members, options.queues, options.steps)
