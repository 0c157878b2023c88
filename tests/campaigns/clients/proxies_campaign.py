"""A proxy and a broker that are killed, under the sends and receives of gRPC clients."""

import asyncio
import random
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from google.protobuf.duration_pb2 import Duration
from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import ProtocolError
from tests.campaigns.clients.proxies_judge import Handling, History
from tests.campaigns.kit.processes import BrokerProcess, start_python
from tests.interop.peers import HOST, free_port
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq.admin.topics import TopicAdmin
from cometmq.client.waiting import wait_within
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.receipts import parse_client_receipt

TOPIC: Final = "ProxyKills"
GROUP: Final = "proxy-kills"
QUEUES: Final = 4
SENDERS: Final = 2
CONSUMERS: Final = 2
INVISIBLE: Final = Duration(seconds=10)
"""The shortest that a proxy allows."""
QUIET_S: Final = 15.0
"""After so long without a message nothing comes again: that is more than the invisible time."""
PATIENCE_S: Final = 120.0
CALL_S: Final = 60.0
LIFE_S: Final = (0.5, 3.0)
"""The shortest and the longest time from one kill to the next."""
PAUSE_S: Final = 0.005
AGAIN_S: Final = 0.1
FAILURES: Final = (OSError, TimeoutError, GRPCError, StreamTerminatedError, ProtocolError)
"""What a call ends with whose server, or connection, is gone."""


class Victim(Enum):
    """What is killed."""

    PROXY = "proxy"
    BROKER = "broker"


class Kill(NamedTuple):
    """A kill, and how long after it a send was confirmed, and an acknowledgement."""

    victim: Victim
    sends_s: float
    acks_s: float


class Servers:
    """A broker with its name server, and a proxy, each a process on a port of its own.

    Attributes:
        address: the proxy's.
    """

    def __init__(self, root: Path) -> None:
        self._broker = BrokerProcess(root / "store")
        self._log = root / "proxy.log"
        self._port = free_port()
        self._proxy: Process | None = None
        self.address = f"{HOST}:{self._port}"

    @property
    def proxy_pid(self) -> int:
        """The proxy's process id."""
        assert self._proxy is not None
        return self._proxy.pid

    @property
    def name_server(self) -> str:
        """The name server's address."""
        return self._broker.name_server

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run both."""
        try:
            await self.start(Victim.BROKER)
            await self.start(Victim.PROXY)
            yield
        finally:
            await self.kill(Victim.PROXY)
            await self.kill(Victim.BROKER)

    async def start(self, which: Victim) -> None:
        """Start one, and wait until it serves."""
        if which is Victim.BROKER:
            await self._broker.start()
            return
        options = ("--namesrv", self.name_server, "--host", HOST, "--port", str(self._port))
        with self._log.open("ab") as log:
            self._proxy = await start_python("cometmq.cli.main", "proxy", *options, stderr=log)
        assert self._proxy.stdout is not None
        line = await self._proxy.stdout.readline()
        assert line.startswith(b"ready: proxy"), self._log.read_text()

    async def kill(self, which: Victim) -> None:
        """Kill one, and wait until it is gone."""
        if which is Victim.BROKER:
            await self._broker.end(signal.SIGKILL)
        elif self._proxy is not None:
            self._proxy.kill()
            await self._proxy.wait()
            self._proxy = None


class Load:
    """Senders and simple consumers, each with a connection of its own.

    Attributes:
        failed_sends: sends that were not confirmed, so that the message was sent again.
        failed_acks: acknowledgements that were not confirmed.
    """

    def __init__(self, address: str, history: History) -> None:
        self._host, _, port = address.partition(":")
        self._port = int(port)
        self._history = history
        self._numbers = count()
        self._sends = True
        self._sent, self._handled, self._acked = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.failed_sends = self.failed_acks = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Send, receive and acknowledge all the time."""
        async with AsyncExitStack() as stack:
            works = [self._send] * SENDERS + [self._consume] * CONSUMERS
            tasks = []
            for number, work in enumerate(works):
                channel = await stack.enter_async_context(Channel(self._host, self._port))
                client = GrpcClient(channel, {"x-mq-client-id": f"client-{number}"})
                tasks.append(asyncio.create_task(work(client)))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception):
                    raise error

    async def goes_on(self) -> tuple[float, float]:
        """Wait until a send is confirmed, and an acknowledgement; return how long each took, in s."""
        began = time.monotonic()

        async def happens(event: asyncio.Event) -> float:
            event.clear()
            await wait_within(event, PATIENCE_S)
            assert event.is_set(), f"nothing goes on after {PATIENCE_S:.0f} s"
            return time.monotonic() - began

        sends_s, acks_s = await asyncio.gather(happens(self._sent), happens(self._acked))
        return sends_s, acks_s

    async def drain(self) -> None:
        """Send no more, and wait until nothing comes any more."""
        self._sends = False
        end = time.monotonic() + PATIENCE_S
        while True:
            self._handled.clear()
            await wait_within(self._handled, QUIET_S)
            is_quiet = not self._handled.is_set()
            if is_quiet and (self._history.sent <= self._history.numbers or time.monotonic() > end):
                return

    async def _send(self, client: GrpcClient) -> None:
        """Send one message after the other, each until that is confirmed."""
        while self._sends:
            number = next(self._numbers)
            for attempt in count(1):
                message = message_of(TOPIC, b"%d" % number, f"{number}-{attempt}")
                if await self._is_sent(client, message):
                    break
                self.failed_sends += 1
                await asyncio.sleep(AGAIN_S)
            self._history.sent.add(number)
            self._sent.set()
            await asyncio.sleep(PAUSE_S)

    async def _is_sent(self, client: GrpcClient, message: pb.Message) -> bool:
        try:
            answer = await client.call("SendMessage", pb.SendMessageRequest(messages=[message]))
        except FAILURES:
            return False
        return answer is not None and answer.status.code == pb.OK

    async def _consume(self, client: GrpcClient) -> None:
        """Receive and acknowledge."""
        request = receive_request(TOPIC, GROUP, invisible_duration=INVISIBLE)
        while True:
            try:
                status, messages = await client.receive(request, CALL_S)
            except FAILURES:
                await asyncio.sleep(AGAIN_S)
                continue
            if status.code not in (pb.OK, pb.MESSAGE_NOT_FOUND):
                await asyncio.sleep(AGAIN_S)
            for message in messages:
                await self._handle(client, message)

    async def _handle(self, client: GrpcClient, message: pb.Message) -> None:
        system = message.system_properties
        handle = parse_client_receipt(system.receipt_handle).handle
        due_ms = handle.pop_time_ms + handle.invisible_ms
        now_ms = time.time_ns() // 1_000_000
        handling = Handling(int(message.body), system.message_id, now_ms, due_ms)
        self._history.handle(handling)
        self._handled.set()
        entry = pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
        names = {"group": pb.Resource(name=GROUP), "topic": pb.Resource(name=TOPIC)}
        try:
            answer = await client.call("AckMessage", pb.AckMessageRequest(entries=[entry], **names))
        except FAILURES:
            answer = None
        if answer is not None and answer.status.code == pb.OK:
            self._history.confirm(handling)
            self._acked.set()
        else:
            self.failed_acks += 1


class Campaign:
    """Servers under load that are killed.

    Attributes:
        history: what the clients sent and handled.
        load: the clients.
        kills: what was killed.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._servers = Servers(root)
        self.history = History()
        self.load = Load(self._servers.address, self.history)
        self.kills: list[Kill] = []

    async def run(self, kills: int) -> AsyncIterator[Kill]:
        """Kill so often, the proxy and the broker equally often; iterate over the kills, then drain."""
        victims = [Victim.PROXY, Victim.BROKER] * (kills // 2) + [Victim.PROXY] * (kills % 2)
        self._chance.shuffle(victims)
        async with self._servers.running():
            async with TopicAdmin(self._servers.name_server) as admin:
                await admin.create(TOPIC, queues=QUEUES)
            async with self.load.running():
                await self.load.goes_on()
                for victim in victims:
                    await asyncio.sleep(self._chance.uniform(*LIFE_S))
                    killed = await self._kill(victim)
                    self.kills.append(killed)
                    yield killed
                await self.load.drain()

    async def _kill(self, victim: Victim) -> Kill:
        """Kill one and start it again at once; return how long sends and acknowledgements were missing."""
        began = time.monotonic()
        await self._servers.kill(victim)
        await self._servers.start(victim)
        started_s = time.monotonic() - began
        sends_s, acks_s = await self.load.goes_on()
        return Kill(victim, started_s + sends_s, started_s + acks_s)
