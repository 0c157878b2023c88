"""Lives through a random history with a broker and members as processes, under load, and judges it."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.interop.peers import HOST, cometmq_command, free_port
from tests.rebalance.history import Kind, Size, Step, draw
from tests.rebalance.judge import Handled, Verdict, judge

from cometmq import Message, Producer
from cometmq.admin.topics import TopicAdmin
from cometmq.client.waiting import wait_within
from cometmq.errors import CometMQError

TOPIC = GROUP = "Rebalanced"
ROOT = Path(__file__).parents[2]
PATIENCE_S = 180
SEND_AGAIN_S = 0.2
LOAD_PAUSE_S = 0.002
QUEUES_MORE = 4


class Crew:
    """The members, and what they say."""

    def __init__(self, name_server: str, strategy: str, way: str) -> None:
        self.handled: list[Handled] = []
        self._arguments = (name_server, GROUP, TOPIC, strategy, way)
        self._members: dict[int, asyncio.subprocess.Process] = {}
        self._readers: dict[int, asyncio.Task[None]] = {}
        self._came = 0
        self._seen: set[int] = set()
        self._news = asyncio.Event()

    async def join(self) -> None:
        """Let one more member join."""
        member = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.rebalance.member", *self._arguments),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )
        number, self._came = self._came, self._came + 1
        self._members[number] = member
        joined = asyncio.Event()
        self._readers[number] = asyncio.create_task(self._read(number, member, joined))
        await joined.wait()

    async def end(self, choice: int, with_signal: signal.Signals) -> None:
        """Let a member leave, or kill it."""
        number = sorted(self._members)[choice % len(self._members)]
        member = self._members.pop(number)
        member.send_signal(with_signal)
        await self._readers.pop(number)
        await member.wait()

    async def end_all(self) -> None:
        """Let all leave."""
        while self._members:
            await self.end(0, signal.SIGTERM)

    async def have_seen(self, numbers: set[int], patience_s: float) -> None:
        """Wait until all numbers were handled, or the patience is at its end."""
        deadline = asyncio.get_running_loop().time() + patience_s
        while not numbers <= self._seen and (left := deadline - asyncio.get_running_loop().time()) > 0:
            self._news.clear()
            await wait_within(self._news, left)

    async def _read(self, number: int, member: asyncio.subprocess.Process, joined: asyncio.Event) -> None:
        assert member.stdout is not None
        at: dict[tuple[int, int], int] = {}  # where what it handles is among all that was handled
        async for line in member.stdout:
            if not line.endswith(b"\n"):
                break  # it was killed in the middle of a word
            time_ns, event, *what = json.loads(line)
            if event == "joined":
                joined.set()
                continue
            queue_id, queue_offset, sent = what
            if event == "begin":
                at[queue_id, queue_offset] = len(self.handled)
                self.handled.append(Handled(number, queue_id, queue_offset, sent, time_ns, None))
            else:
                place = at.pop((queue_id, queue_offset))
                self.handled[place] = self.handled[place]._replace(end_ns=time_ns)
                self._seen.add(sent)
                self._news.set()
        joined.set()


class BrokerProcess:
    """A broker that can be ended and started again on its ports and its store."""

    def __init__(self, store: Path) -> None:
        self._port, self._namesrv_port = free_port(), free_port()
        self._command = cometmq_command(store, port=self._port, namesrv_port=self._namesrv_port)
        self.name_server = f"{HOST}:{self._namesrv_port}"

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        ready = asyncio.Event()
        self._reader = asyncio.create_task(self._read(ready))
        await ready.wait()

    async def end(self, with_signal: signal.Signals) -> None:
        """End it, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.send_signal(with_signal)
        await self._reader
        await self._process.wait()

    async def _read(self, ready: asyncio.Event) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if f"{HOST}:{self._port}".encode() in line:
                ready.set()
        ready.set()


async def live_through(seed: int, strategy: str, way: str, size: Size, directory: Path) -> Verdict:
    """Live through the history of a seed; give what it showed."""
    broker = BrokerProcess(directory / "store")
    await broker.start()
    crew = Crew(broker.name_server, strategy, way)
    sent: set[int] = set()
    try:
        async with TopicAdmin(broker.name_server) as admin:
            await admin.create(TOPIC, queues=size.queues)
        for _ in range(size.first_members):
            await crew.join()
        async with _load(broker.name_server, sent):
            queues = size.queues
            for step in draw(seed, size):
                await asyncio.sleep(step.pause_s)
                queues = await _happen(step, broker, crew, queues)
        await crew.have_seen(sent, PATIENCE_S)
    finally:
        await crew.end_all()
        await broker.end(signal.SIGTERM)
    return judge(sent, crew.handled, ordered=way == "ordered")


async def _happen(step: Step, broker: BrokerProcess, crew: Crew, queues: int) -> int:
    """Let something happen; give how many queues the topic has then."""
    match step.kind:
        case Kind.JOIN:
            await crew.join()
        case Kind.LEAVE:
            await crew.end(step.choice, signal.SIGTERM)
        case Kind.CRASH:
            await crew.end(step.choice, signal.SIGKILL)
        case Kind.MORE_QUEUES:
            queues += QUEUES_MORE
            async with TopicAdmin(broker.name_server) as admin:
                await admin.create(TOPIC, queues=queues)
        case Kind.RESTART | Kind.BROKER_CRASH:
            await broker.end(signal.SIGTERM if step.kind is Kind.RESTART else signal.SIGKILL)
            await broker.start()
    return queues


@asynccontextmanager
async def _load(name_server: str, sent: set[int]) -> AsyncIterator[None]:
    """Send numbers all the while; in ``sent`` are those that the broker has."""

    async def send() -> None:
        number = 0
        async with Producer(name_server, "makers") as producer:
            while True:
                try:
                    await producer.send(Message(TOPIC, b"%d" % number))
                except CometMQError:
                    await asyncio.sleep(SEND_AGAIN_S)
                    continue
                sent.add(number)
                number += 1
                await asyncio.sleep(LOAD_PAUSE_S)

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
