"""Histories of partitions: lines between brokers and their controller are cut, brokers killed and stopped.

    python -m tests.campaigns partitions [--histories 100] [--brokers 3] [--steps 4] [--seed N]

RocketMQ's controller and CometMQ's brokers run on hosts of their own (network namespaces: needs root and
Linux). The name server is where the campaign runs, on a line that nobody cuts: producers always learn who is
the master, and always reach each broker, also one that is cut off from the others and does not know it; they
note each acknowledgement with the broker and the place of the message. After a history all is healed; once
all brokers are in sync, the log is read. Each message that was acknowledged must be at its place, in order,
and each epoch must have had one master.
"""

import asyncio
import os
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Coroutine
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from tests.campaigns.kit.brokers import Broker, ControlledSet
from tests.campaigns.kit.judge import Epoch, Verdict
from tests.campaigns.kit.lanes import Lanes
from tests.campaigns.kit.network import OWN_ADDRESS, Host, Network
from tests.campaigns.kit.options import add_numbers
from tests.campaigns.kit.progress import tell
from tests.campaigns.sets.histories import Kind, Size, Step, draw
from tests.interop import class_archive, jvm
from tests.interop.peers import CONTROLLER_OPENS, Process, cometmq_program, write_settings

from cometmq.admin.topics import TopicAdmin
from cometmq.client.answer import successful
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import EpochsOfBroker, ReplicasOfSet
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

OWN_NAMESPACE: Final = "COMETMQ_OWN_NAMESPACE"
PROGRAM: Final = ("-m", "tests.campaigns", "partitions")
MORE_SENDS: Final = 20
"""So many sends must be acknowledged once all is healed."""
QUEUES: Final = 4
BROKER_NAME: Final = "broker-a"
NAME_SERVER: Final = f"{OWN_ADDRESS}:9876"
BROKER_PORT: Final = 10_911
CONTROLLER_PORT: Final = 28_301
PAUSED_S: Final = 8.0
"""Longer than the controller waits for a heartbeat."""
SETTLED_S: Final = 120.0
SETTINGS: Final = {
    "brokerName": BROKER_NAME,
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "controllerHeartBeatTimeoutMills": 3_000,
    "haHousekeepingInterval": 5_000,
    "haSendHeartbeatInterval": 1_000,
    "slaveTimeout": 2_000,
}
CONTROLLER_SETTINGS: Final = {
    "controllerDLegerGroup": "group1",
    "controllerDLegerSelfId": "n0",
    "mappedFileSize": 1024 * 1024,
    "scanNotActiveBrokerInterval": 1_000,
    "scanInactiveMasterInterval": 1_000,
}


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, histories=100, brokers=Size().brokers, steps=Size().steps)


def main(options: Namespace) -> list[str]:
    """Run the histories in a network namespace of their own, and print what each showed."""
    if OWN_NAMESPACE not in os.environ:
        os.environ[OWN_NAMESPACE] = "1"
        arguments = [part for name, value in vars(options).items() for part in (f"--{name}", str(value))]
        os.execvp("unshare", ["unshare", "--net", sys.executable, *PROGRAM, *arguments])
    size = Size(brokers=options.brokers, steps=options.steps)
    with tempfile.TemporaryDirectory(prefix="cometmq-partitions-") as folder:
        wrong = asyncio.run(run(Path(folder), size, options.histories, options.seed))
    return [f"{wrong} histories are wrong"] if wrong else []


async def run(folder: Path, size: Size, histories: int, seed: int) -> int:
    """Run histories on one set of brokers, each with a topic of its own; return how many were wrong."""
    wrong = acknowledged = 0
    with Cluster(folder, size.brokers) as cluster:
        await cluster.settle()
        for number in range(histories):
            verdict = await one_history(cluster, f"history-{number}", seed + number, size)
            acknowledged += verdict.acknowledged
            wrong += not verdict.is_right
            tell(f"history {number + 1}: {verdict}")
        await cluster.brokers.connections.close()
    print(f"{acknowledged:,} sends acknowledged", flush=True)
    return wrong


async def one_history(cluster: "Cluster", topic: str, seed: int, size: Size) -> Verdict:
    """Run one history; return what it showed."""
    async with TopicAdmin(NAME_SERVER) as admin:
        await admin.create(topic, queues=QUEUES)
    async with Lanes(NAME_SERVER, BROKER_NAME, topic, QUEUES) as lanes:
        await lanes.more(MORE_SENDS)
        for step in draw(seed, size):
            print(f"         {step.text(cluster.names)}", flush=True)
            await asyncio.sleep(step.pause_s)
            await cluster.carry_out(step)
        await asyncio.sleep(size.pause_s_max)
        await cluster.settle()
        await lanes.more(MORE_SENDS)
    replicas = await cluster.settle()
    assert replicas.master_address is not None
    print(f"         {lanes.failed} attempts failed, epoch {replicas.master_epoch}", flush=True)
    return await lanes.judge(await cluster.epochs(replicas.master_address))


class Cluster:
    """The brokers, their controller and their name server, each on its host; open it with ``with``.

    Attributes:
        brokers: the set.
    """

    def __init__(self, folder: Path, brokers: int) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._network = Network()
        self._number = brokers
        self._cuts: set[tuple[int, int]] = set()
        self._starting: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Start all."""
        with ExitStack() as stack:
            network = stack.enter_context(self._network)
            hosts = [network.add(f"broker-{number + 1}") for number in range(self._number)]
            host = network.add("controller")
            controller = f"{host.address}:{CONTROLLER_PORT}"
            stack.enter_context(_name_server())
            stack.enter_context(_controller(host, controller, self._folder / "controller"))
            members = [_broker(host, controller, self._folder) for host in hosts]
            self.brokers = ControlledSet(BROKER_NAME, controller, members)
            for broker in members:
                stack.callback(broker.stop)
                broker.start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End all."""
        self._stack.close()

    @property
    def names(self) -> list[str]:
        """The hosts' names, by their numbers in a history."""
        return [host.name for host in self._network.hosts]

    async def carry_out(self, step: Step) -> None:
        """Carry out a step of a history."""
        match step.kind:
            case Kind.CUT:
                self._silence({(step.one, step.other), (step.other, step.one)})
            case Kind.DEAFEN:
                self._silence({(step.one, step.other)})
            case Kind.ISOLATE:
                others = [host for host in range(len(self._network.hosts)) if host != step.one]
                self._silence({line for other in others for line in ((step.one, other), (other, step.one))})
            case Kind.KILL:
                broker = self.brokers.members[step.one]
                await asyncio.to_thread(broker.kill)
                self._begin(asyncio.to_thread(broker.start))
            case Kind.PAUSE:
                self._begin(_pause(self.brokers.members[step.one]))
            case Kind.HEAL:
                self._heal()

    async def settle(self) -> ReplicasOfSet:
        """Heal all, and wait until all brokers are in sync; return what the controller says of them.

        Raises AssertionError if that takes too long.
        """
        self._heal()
        await asyncio.gather(*self._starting)
        return await self.brokers.until_in_sync(SETTLED_S)

    async def epochs(self, master: str) -> list[Epoch]:
        """Return the epochs of the master's log."""
        answer = await self.brokers.connections.request(master, Command(RequestCode.GET_BROKER_EPOCH_CACHE))
        found = decode(EpochsOfBroker, successful(answer).body)
        return [Epoch(one.epoch, one.start_offset, one.end_offset) for one in found.epochs]

    def _silence(self, lines: set[tuple[int, int]]) -> None:
        hosts = self._network.hosts
        for one, other in lines - self._cuts:
            hosts[one].silence(hosts[other])
        self._cuts |= lines

    def _heal(self) -> None:
        hosts = self._network.hosts
        for one, other in self._cuts:
            hosts[one].restore(hosts[other])
        self._cuts.clear()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)


async def _pause(broker: Broker) -> None:
    broker.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(PAUSED_S)
    finally:
        broker.signal(signal.SIGCONT)


def _broker(host: Host, controller: str, folder: Path) -> Broker:
    settings = write_settings(
        folder / f"{host.name}.conf",
        {**SETTINGS, "controllerAddr": controller, "brokerIP1": host.address},
    )
    places = {
        "--namesrv": NAME_SERVER,
        "--host": host.address,
        "--port": str(BROKER_PORT),
        "--store": str(folder / host.name),
        "--config": str(settings),
    }
    words = [word for place in places.items() for word in place]
    command = host.command(cometmq_program(), "broker", "--insecure", *words)
    ready = "ready: broker "
    run = partial(Process, command, ready=ready, environment=os.environ, ended_by=signal.SIGKILL)
    return Broker(f"{host.address}:{BROKER_PORT}", run)


def _name_server() -> Process:
    host, _, port = NAME_SERVER.partition(":")
    command = [cometmq_program(), "namesrv", "--host", host, "--port", port, "--insecure"]
    return Process(command, ready="ready: name server ", environment=os.environ)


def _controller(host: Host, address: str, home: Path) -> Process:
    home.mkdir(parents=True)
    settings = {
        **CONTROLLER_SETTINGS,
        "controllerDLegerPeers": f"n0-{address}",
        "controllerStorePath": home / "controller",
    }
    java = ("-Xms64m", "-Xmx160m", *jvm.QUICK_START, *jvm.BROKER_OPENS, *CONTROLLER_OPENS)
    main_class = "org.apache.rocketmq.controller.ControllerStartup"
    command = jvm.command(
        main_class,
        *("-c", write_settings(home / "controller.conf", settings)),
        home=home,
        options=(*java, *class_archive.options()),
    )
    return Process(
        host.command(*command),
        ready="boot success",
        environment=jvm.environment(home),
        ended_by=signal.SIGKILL,
    )
