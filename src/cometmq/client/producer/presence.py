"""Heartbeats of a producer: it is registered with each broker that it sends to until it is closed."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cometmq.client.background import start_task
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS, send_heartbeat, unregister
from cometmq.client.routes import Routes
from cometmq.client.waiting import wait_within
from cometmq.cluster.route import MASTER
from cometmq.errors import CometMQError, NetworkError
from cometmq.logs import get_logger
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire.bodies.heartbeat import Heartbeat, ProducerData

UNREGISTER_S_MAX: Final = 1.0
"""How long closing a producer waits for the brokers to unregister it."""
ROUTE_RETRY_S: Final = 5.0
"""How soon a missing route is queried again."""

_log = get_logger(__name__)


class Presence:
    """Sends heartbeats to added brokers and to those of some topics: at once, then at intervals."""

    def __init__(
        self,
        connections: Connections,
        client_id: str,
        group: str,
        interval_ms: int = HEARTBEAT_INTERVAL_MS,
    ) -> None:
        self._connections = connections
        self._client_id = client_id
        self._group = group
        self._interval_s = interval_ms / 1000
        self._heartbeat = Heartbeat(client_id=client_id, producers=[ProducerData(group=group)])
        self._brokers: set[str] = set()
        self._has_new = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._topics: set[str] = set()
        self._routes: Routes | None = None
        self._unrouted: set[str] = set()
        self._registered: dict[str, Connection] = {}
        self._registering: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def add_topics(self, topics: Iterable[str], routes: Routes) -> None:
        """Send heartbeats to all brokers of some topics too, whether or not the producer sends to them."""
        self._routes = routes
        if not self._topics.issuperset(topics):
            self._topics.update(topics)
            self._send_soon()

    def add_broker(self, address: str) -> None:
        """Send heartbeats to a broker too."""
        if address not in self._brokers:
            self._brokers.add(address)
            self._send_soon()

    async def register(self, address: str) -> None:
        """Send a broker a heartbeat on its present connection, unless it had one: it can push replies then.

        Raises NetworkError if the broker does not respond or refuses.
        """
        async with self._registering[address]:
            connection = await self._connections.connect(address)
            if self._registered.get(address) is connection:
                return
            if not await send_heartbeat(self._connections, (address,), self._heartbeat):
                raise NetworkError(f"{address} refuses heartbeats: it could not push replies")
            self._registered[address] = connection

    async def close(self) -> None:
        """Stop the heartbeats and unregister at the brokers."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(UNREGISTER_S_MAX):
                await unregister(
                    self._connections, self._brokers, self._client_id, producer_group=self._group
                )

    def _send_soon(self) -> None:
        self._has_new.set()
        self._task = self._task or start_task(self._run(), "presence")

    async def _run(self) -> None:
        while True:
            self._has_new.clear()
            all_found = self._routes is None or await self._find_brokers(self._routes)
            await send_heartbeat(self._connections, list(self._brokers), self._heartbeat)
            await wait_within(
                self._has_new, self._interval_s if all_found else min(ROUTE_RETRY_S, self._interval_s)
            )

    async def _find_brokers(self, routes: Routes) -> bool:
        """Add the brokers of the topics; return whether all topics have a route."""
        unrouted = set()
        for topic in list(self._topics):
            try:
                route = await routes.get(topic)
            except CometMQError as error:
                unrouted.add(topic)
                if topic not in self._unrouted:  # log it once
                    _log.warning("no heartbeats to the brokers of a topic yet: %s", error)
            else:
                self._brokers.update(by_id[MASTER] for by_id in route.addresses.values() if MASTER in by_id)
        self._unrouted = unrouted
        return not unrouted
