"""A set of brokers under RocketMQ's controller, each process on a host of its own.

The name server is where the campaign runs, on a line that nobody cuts: clients always learn who is the
master, and always reach each broker, also one that is cut off from the others and does not know it.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from tests.campaigns.kit.network import OWN_ADDRESS, Host, Network
from tests.campaigns.sets.partitions_history import Kind, Step
from tests.campaigns.sets.partitions_judge import Epoch
from tests.interop import class_archive, jvm
from tests.interop.peers import CONTROLLER_OPENS, Process, cometmq_program, write_settings

from cometmq.client.answer import successful
from cometmq.errors import CometMQError
from cometmq.net.client import Connections
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import EpochsOfBroker, ReplicasOfSet, SyncStateData, encode_broker_names
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

BROKER_NAME: Final = "broker-a"
NAME_SERVER: Final = f"{OWN_ADDRESS}:9876"
BROKER_PORT: Final = 10_911
CONTROLLER_PORT: Final = 28_301
PAUSED_S: Final = 8.0
"""Longer than the controller waits for a heartbeat."""
SETTLED_S: Final = 120.0
LOOK_S: Final = 0.2
HEARTBEAT_TIMEOUT_MS: Final = 3_000

SETTINGS: Final = {
    "brokerName": BROKER_NAME,
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "controllerHeartBeatTimeoutMills": HEARTBEAT_TIMEOUT_MS,
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


class Broker:
    """One broker, which can be killed, started again and stopped for a while."""

    def __init__(self, host: Host, controller: str, folder: Path) -> None:
        self.host = host
        self.address = f"{host.address}:{BROKER_PORT}"
        store = folder / host.name
        settings = write_settings(
            folder / f"{host.name}.conf",
            {**SETTINGS, "controllerAddr": controller, "brokerIP1": host.address},
        )
        options = {
            "--namesrv": NAME_SERVER,
            "--host": host.address,
            "--port": str(BROKER_PORT),
            "--store": str(store),
            "--config": str(settings),
        }
        words = [word for option in options.items() for word in option]
        self._command = host.command(cometmq_program(), "broker", "--insecure", *words)
        self._running = ExitStack()
        self._process: Process | None = None

    def start(self) -> None:
        """Start it, until it is a master or a slave."""
        self._process = self._running.enter_context(
            Process(self._command, ready="ready: broker ", environment=os.environ, ended_by=signal.SIGKILL)
        )

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._running.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    @property
    def output(self) -> str:
        """The last lines that it printed."""
        return "" if self._process is None else self._process.output


class Cluster:
    """The set, its controller and its name server; open it with ``with``."""

    def __init__(self, folder: Path, brokers: int) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.connections = Connections()
        self._network = Network()
        self.brokers: list[Broker] = []
        self._number = brokers
        self._cuts: set[tuple[int, int]] = set()
        self._starting: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        """Start all."""
        with ExitStack() as stack:
            network = stack.enter_context(self._network)
            hosts = [network.add(f"broker-{number + 1}") for number in range(self._number)]
            host = network.add("controller")
            self.controller = f"{host.address}:{CONTROLLER_PORT}"
            stack.enter_context(_name_server())
            stack.enter_context(_controller(host, self.controller, self._folder / "controller"))
            self.brokers = [Broker(host, self.controller, self._folder) for host in hosts]
            for broker in self.brokers:
                stack.callback(broker.kill)
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
                broker = self.brokers[step.one]
                await asyncio.to_thread(broker.kill)
                self._begin(asyncio.to_thread(broker.start))
            case Kind.PAUSE:
                self._begin(_pause(self.brokers[step.one]))
            case Kind.HEAL:
                self._heal()

    async def settle(self) -> ReplicasOfSet:
        """Heal all, and wait until all brokers are in sync; return what the controller says of them.

        Raises AssertionError if that takes too long.
        """
        self._heal()
        await asyncio.gather(*self._starting)
        found: ReplicasOfSet | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S):
                while found is None or not self._is_whole(found):
                    await asyncio.sleep(LOOK_S)
                    found = await self._replicas()
                return found
        outputs = "\n".join(f"{broker.host.name}:\n{broker.output}" for broker in self.brokers)
        raise AssertionError(f"the set is not whole after {SETTLED_S} s: {found}\n{outputs}")

    async def epochs(self, master: str) -> list[Epoch]:
        """Return the epochs of the master's log."""
        answer = await self.connections.request(master, Command(RequestCode.GET_BROKER_EPOCH_CACHE))
        found = decode(EpochsOfBroker, successful(answer).body)
        return [Epoch(one.epoch, one.start_offset, one.end_offset) for one in found.epochs]

    def _is_whole(self, replicas: ReplicasOfSet) -> bool:
        return replicas.master_address is not None and len(replicas.in_sync) == len(self.brokers)

    async def _replicas(self) -> ReplicasOfSet | None:
        command = Command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_broker_names([BROKER_NAME]))
        try:
            answer = await self.connections.request(self.controller, command)
            return decode(SyncStateData, successful(answer).body).sets.get(BROKER_NAME)
        except CometMQError:
            return None

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
    options = ("-Xms64m", "-Xmx160m", *jvm.QUICK_START, *jvm.BROKER_OPENS, *CONTROLLER_OPENS)
    main_class = "org.apache.rocketmq.controller.ControllerStartup"
    command = jvm.command(
        main_class,
        *("-c", write_settings(home / "controller.conf", settings)),
        home=home,
        options=(*options, *class_archive.options()),
    )
    return Process(
        host.command(*command),
        ready="boot success",
        environment=jvm.environment(home),
        ended_by=signal.SIGKILL,
    )
