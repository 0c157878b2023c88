"""A set of two brokers of either product under RocketMQ's controller, whose master can be killed."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.interop import peers
from tests.interop.patience import PATIENCE_S

from cometmq.admin.topics import TopicAdmin
from cometmq.errors import CometMQError
from cometmq.net.client import Connections
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.controller import ReplicasOfSet, SyncStateData, encode_broker_names
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

NAME: Final = "failing"
LOOK_S: Final = 0.05
SETTINGS: Final[dict[str, object]] = peers.PATIENT | {
    "brokerName": NAME,
    "enableControllerMode": "true",
    "allAckInSyncStateSet": "true",
    "mappedFileSizeCommitLog": 1 << 20,
    "haSendHeartbeatInterval": 1_000,
    "slaveReadEnable": "true",
}


class BrokerSet:
    """Two brokers; the addresses of a killed one stay the same.

    Attributes:
        kinds: their products, ``cometmq`` or ``rocketmq``.
        addresses: theirs, for clients.
        stores: their directories.
        namesrv: the name server's address.
    """

    def __init__(self, root: Path, kinds: tuple[str, str], namesrv: str, controller: str) -> None:
        self.kinds = kinds
        self.addresses = [f"{peers.HOST}:{peers.free_port()}" for _ in kinds]
        self.stores = [root / f"{number}-{kind}" for number, kind in enumerate(kinds)]
        self.connections = Connections()
        self.pids = [0] * len(kinds)
        self.namesrv = namesrv
        self._controller = controller
        self._settings = SETTINGS | {"controllerAddr": controller}
        self._found = ReplicasOfSet()
        self._running: list[AbstractContextManager[peers.Peer] | None] = [None] * len(kinds)

    async def start(self, number: int) -> None:
        """Start a broker, and wait until name servers know it."""
        port = int(self.addresses[number].partition(":")[2])
        run = peers.START_BROKER[self.kinds[number]](
            self.stores[number], self.namesrv, self._settings, port=port, ended_by=signal.SIGKILL
        )
        self._running[number] = run
        self.pids[number] = (await asyncio.to_thread(run.__enter__)).pid

    async def kill(self, number: int) -> None:
        """Kill a broker, if it runs."""
        run, self._running[number] = self._running[number], None
        if run is not None:
            await asyncio.to_thread(run.__exit__, None, None, None)

    async def close(self) -> None:
        """Kill both."""
        for number in range(len(self.kinds)):
            await self.kill(number)
        await self.connections.close()

    async def start_with(self, topic: str, queues: int) -> None:
        """Start all with a topic, the first one as the master."""
        first, *others = range(len(self.kinds))
        await self.start(first)
        async with TopicAdmin(self.namesrv) as admin:
            await admin.create(topic, queues=queues)
        for number in others:
            await self.start(number)
        for address in self.addresses:
            await until(partial(self._has_topic, address, topic))
        await self.until_both_in_sync()

    async def master(self) -> int:
        """Wait until the controller names a master, and return which broker that is."""
        await until(self._has_master)
        return self.addresses.index(self._found.master_address or "")

    async def until_both_in_sync(self) -> int:
        """Wait until both are in sync, and return which is the master."""
        try:
            await until(self._are_in_sync)
        except TimeoutError:
            command = Command(RequestCode.GET_BROKER_HA_STATUS)
            answers = [await self._ask(address, command) for address in self.addresses]
            states = [None if answer is None else answer.body for answer in answers]
            raise AssertionError(f"not both are in sync: {self._found}, {states}") from None
        return await self.master()

    async def _has_master(self) -> bool:
        command = Command(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=encode_broker_names([NAME]))
        if (answer := await self._ask(self._controller, command)) is not None:
            self._found = decode(SyncStateData, answer.body).sets.get(NAME, ReplicasOfSet())
        return self._found.master_address in self.addresses

    async def _are_in_sync(self) -> bool:
        return await self._has_master() and len(self._found.in_sync) == len(self.kinds)

    async def _has_topic(self, address: str, topic: str) -> bool:
        command = Command(RequestCode.GET_TOPIC_CONFIG, ext_fields={"topic": topic})
        return await self._ask(address, command) is not None

    async def _ask(self, address: str, command: Command) -> Command | None:
        """Return a successful answer; None without one."""
        with contextlib.suppress(CometMQError):
            answer = await self.connections.request(address, command)
            if answer.code == ResponseCode.SUCCESS:
                return answer
        return None


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again until something holds that nobody reports."""
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():  # noqa: ASYNC110  see above
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def broker_set(root: Path, kinds: tuple[str, str], topic: str, queues: int) -> AsyncIterator[BrokerSet]:
    """Run two brokers that have a topic, with a name server and a controller of RocketMQ's."""
    names = peers.rocketmq_namesrv_with_controller(root / "namesrv")
    namesrv, controller = await asyncio.to_thread(names.__enter__)
    found = BrokerSet(root, kinds, namesrv, controller)
    try:
        await found.start_with(topic, queues)
        yield found
    finally:
        await found.close()
        await asyncio.to_thread(names.__exit__, None, None, None)
