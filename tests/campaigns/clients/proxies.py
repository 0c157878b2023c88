"""What gRPC clients lose while their proxy and their broker are killed, and what idle ones cost.

    python -m tests.campaigns proxies [--kills 20] [--idle 30] [--seed N]

Two clients send, and two simple consumers receive and acknowledge, through one proxy in front of one broker.
Half of the kills (SIGKILL) are of the proxy, the others of the broker; each is started again at once. What a
client is not told that it was stored, it sends again. In the end each message that was confirmed must have
been handled. A message that is handled once more must have a reason: it was stored twice, as the answer to
the first send was lost; or no acknowledgement was confirmed in its time.

Then 1,000 clients with a telemetry stream each, that send a heartbeat every ten seconds, and 200 long polls
are idle for some seconds (``benches.bench_proxy``): the proxy may take 5 % of a core and 200 MB for them.
"""

import asyncio
import logging
import random
import signal
import tempfile
import time
from argparse import ArgumentParser, Namespace
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from benches.idle_clients import POLLS, STREAMS, Idle, create_quiet_topic, idle
from google.protobuf.duration_pb2 import Duration
from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from h2.exceptions import ProtocolError
from tests.campaigns.clients.proxies_judge import Handling, History, Verdict
from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.processes import BrokerProcess, serving_command
from tests.campaigns.kit.progress import print_head, print_row
from tests.interop.peers import HOST, free_port
from tests.proxy.conftest import GrpcClient, message_of, receive_request

from cometmq.admin.topics import TopicAdmin
from cometmq.client.waiting import wait_within
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.receipts import parse_client_receipt

SHARE_MAX: Final = 0.05
MEMORY_MB_MAX: Final = 200
SHOWN: Final = 2_000
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


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, kills=20, idle=30)


def main(options: Namespace) -> list[str]:
    """Run the campaign, then the idle clients."""
    logging.disable(logging.WARNING)  # that connections are cut is what this is about
    wrong = []
    if options.kills:
        verdict = asyncio.run(_kill(options.kills, options.seed))
        if not verdict.is_right:
            wrong.append(str(verdict)[:SHOWN])
    if options.idle:
        cost = asyncio.run(_idle(options.idle))
        print(f"{STREAMS:,} idle streams, {POLLS} long polls: {cost}")
        if cost.share >= SHARE_MAX or cost.memory_mb >= MEMORY_MB_MAX:
            wrong.append(f"{SHARE_MAX:.0%} of a core and {MEMORY_MB_MAX} MB are allowed")
    return wrong


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
        self._running = AsyncExitStack()
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
        self._proxy = await self._running.enter_async_context(serving_command(self._log, "proxy", *options))

    async def kill(self, which: Victim) -> None:
        """Kill one, and wait until it is gone."""
        if which is Victim.BROKER:
            await self._broker.end(signal.SIGKILL)
        else:
            await self._running.aclose()


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


async def _kill(kills: int, seed: int) -> Verdict:
    """Run the campaign; print a line for each kill, and what came of all."""
    with tempfile.TemporaryDirectory() as directory:
        campaign = Campaign(Path(directory), seed)
        async for kill in campaign.run(kills):
            print(
                f"kill {len(campaign.kills)}: {kill.victim.value}, sends again after {kill.sends_s:.1f} s, "
                f"acknowledgements after {kill.acks_s:.1f} s",
                flush=True,
            )
    print_head("killed", "times", "sends again after, at most", "acknowledgements, at most")
    for victim in Victim:
        of_victim = [kill for kill in campaign.kills if kill.victim is victim]
        sends_s = max((kill.sends_s for kill in of_victim), default=0.0)
        acks_s = max((kill.acks_s for kill in of_victim), default=0.0)
        print_row(victim.value, len(of_victim), f"{sends_s:.1f} s", f"{acks_s:.1f} s")
    verdict = campaign.history.judge()
    rows = {
        "messages whose sends were confirmed": verdict.sent,
        "sends that were not, and were repeated": campaign.load.failed_sends,
        "messages lost": len(verdict.lost),
        "messages handled": verdict.handled,
        "… once more, as they were stored twice": verdict.stored_twice,
        "… once more, as no acknowledgement was confirmed in time": verdict.unconfirmed,
        "… once more, for no reason": len(verdict.unexplained),
        "acknowledgements that were not confirmed": campaign.load.failed_acks,
    }
    print_head("", "")
    for name, number in rows.items():
        print_row(name, number)
    return verdict


async def _idle(seconds: int) -> Idle:
    """Measure what idle clients cost a proxy of their own."""
    with tempfile.TemporaryDirectory() as directory:
        servers = Servers(Path(directory))
        async with servers.running():
            await create_quiet_topic(servers.name_server)
            return await idle(servers.address, servers.proxy_pid, seconds)
