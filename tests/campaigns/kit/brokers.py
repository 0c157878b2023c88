"""Brokers of either product that are killed and started again, alone or under RocketMQ's controller."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Final, Protocol

from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Process

from cometmq.client.answer import successful
from cometmq.errors import CometMQError
from cometmq.net.client import Connections
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import ReplicasOfSet, SyncStateData, encode_broker_names
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

LOOK_S: Final = 0.05


class Running(Protocol):
    """A process that runs."""

    @property
    def pid(self) -> int:
        """Its process id."""


class Broker:
    """A broker that can be killed, and started again at its address and on its store.

    Args:
        address: ``host:port``.
        run: runs it, always alike, until a block ends.

    Attributes:
        kills: how often it was killed.
    """

    def __init__(self, address: str, run: Callable[[], AbstractContextManager[Running]]) -> None:
        self.address = address
        self.kills = 0
        self._run = run
        self._running = ExitStack()
        self._process: Running | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """The last lines that it printed, if somebody keeps them."""
        return self._process.output if isinstance(self._process, Process) else ""

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self._process = self._running.enter_context(self._run())

    def kill(self) -> None:
        """Kill it."""
        self.kills += 1
        self.signal(signal.SIGKILL)
        self.stop()

    def stop(self) -> None:
        """End it as ``run`` does, if it runs."""
        self._running.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


class ControlledSet:
    """Brokers of one name under a controller.

    Args:
        name: theirs.
        controller: the address of the controller.
    """

    def __init__(self, name: str, controller: str, members: Sequence[Broker]) -> None:
        self.members = members
        self.connections = Connections()
        self._name = name
        self._controller = controller
        self._found = ReplicasOfSet()

    async def until_in_sync(self, patience_s: float = PATIENCE_S) -> ReplicasOfSet:
        """Wait until all are in sync, and return what the controller says of them.

        Raises AssertionError if that takes too long.
        """
        try:
            await until(self._are_in_sync, patience_s)
        except TimeoutError:
            command = Command(RequestCode.GET_BROKER_HA_STATUS)
            answers = [await self.ask(broker.address, command) for broker in self.members]
            states = [None if answer is None else answer.body for answer in answers]
            outputs = "\n".join(f"{broker.address}:\n{broker.output}" for broker in self.members)
            raise AssertionError(f"not all are in sync: {self._found}, {states}\n{outputs}") from None
        return self._found

    async def until_has_topic(self, topic: str) -> None:
        """Wait until all have a topic."""
        command = Command(RequestCode.GET_TOPIC_CONFIG, ext_fields={"topic": topic})
        for broker in self.members:
            await until(partial(self._answers, broker.address, command))

    async def ask(self, address: str, command: Command) -> Command | None:
        """Return a successful answer; None without one."""
        with contextlib.suppress(CometMQError):
            return successful(await self.connections.request(address, command))
        return None

    async def _answers(self, address: str, command: Command) -> bool:
        return await self.ask(address, command) is not None

    async def _are_in_sync(self) -> bool:
        command = Command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_broker_names([self._name]))
        if (answer := await self.ask(self._controller, command)) is not None:
            self._found = decode(SyncStateData, answer.body).sets.get(self._name, ReplicasOfSet())
        addresses = {broker.address for broker in self.members}
        return self._found.master_address in addresses and len(self._found.in_sync) == len(addresses)


async def until(holds: Callable[[], Awaitable[bool]], patience_s: float = PATIENCE_S) -> None:
    """Ask again and again until something holds that nobody reports. Raises TimeoutError."""
    async with asyncio.timeout(patience_s):
        while not await holds():  # noqa: ASYNC110  see above
            await asyncio.sleep(LOOK_S)
