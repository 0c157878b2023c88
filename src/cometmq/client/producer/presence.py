"""A producer's presence: each broker that it sends to knows that it lives, until it leaves."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from cometmq.client.group.heartbeat import HEARTBEAT_S, beat, say_goodbye
from cometmq.client.routes import Routes
from cometmq.client.waiting import wait_within
from cometmq.cluster.route import MASTER
from cometmq.errors import CometMQError, NetworkError
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire.bodies.heartbeat import Heartbeat, ProducerData

GOODBYE_S_MAX: Final = 1.0
"""How long the end of a producer waits for brokers that do not answer its goodbye."""
LOOK_AGAIN_S: Final = 5.0
"""How soon a topic's brokers are looked for again that could not be found."""

_log = logging.getLogger(__name__)


class Presence:
    """Sends heartbeats to the brokers that were met, and to all of some topics: at once, then each 30 s."""

    def __init__(self, connections: Connections, client_id: str, group: str) -> None:
        self._connections = connections
        self._client_id = client_id
        self._group = group
        self._heartbeat = Heartbeat(client_id=client_id, producers=[ProducerData(group=group)])
        self._met: set[str] = set()
        self._someone_new = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None
        self._topics: set[str] = set()
        self._routes: Routes | None = None
        self._missed: set[str] = set()
        self._known: dict[str, Connection] = {}
        self._introducing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def follow(self, topics: Iterable[str], routes: Routes) -> None:
        """Be known, from now on, to all brokers of some topics, whether they are sent to or not."""
        self._routes = routes
        if not self._topics.issuperset(topics):
            self._topics.update(topics)
            self._someone_new.set()
            self._begin()

    def meet(self, address: str) -> None:
        """Note that a broker is sent to."""
        if address not in self._met:
            self._met.add(address)
            self._someone_new.set()
            self._begin()

    async def be_known(self, address: str) -> None:
        """See to it that a broker knows, on its present connection, whom it can pass replies to.

        Raises NetworkError if it cannot be told, or does not take it.
        """
        async with self._introducing[address]:
            connection = await self._connections.connect(address)
            if self._known.get(address) is connection:
                return
            if not await beat(self._connections, (address,), self._heartbeat):
                raise NetworkError(f"{address} takes no heartbeat: it could not pass replies on")
            self._known[address] = connection

    async def close(self) -> None:
        """Take leave of the brokers."""
        if self._beating is None:
            return
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_S_MAX):
                await say_goodbye(self._connections, self._met, self._client_id, producer_group=self._group)

    def _begin(self) -> None:
        self._beating = self._beating or asyncio.create_task(self._beat(), name="presence")

    async def _beat(self) -> None:
        while True:
            self._someone_new.clear()
            all_found = self._routes is None or await self._look(self._routes)
            await beat(self._connections, list(self._met), self._heartbeat)
            await wait_within(self._someone_new, HEARTBEAT_S if all_found else LOOK_AGAIN_S)

    async def _look(self, routes: Routes) -> bool:
        """Find the brokers of the topics; tell whether there are some of each."""
        missed = set()
        for topic in list(self._topics):
            try:
                route = await routes.get(topic)
            except CometMQError as error:
                missed.add(topic)
                if topic not in self._missed:  # once, not each time that this goes on
                    _log.warning("brokers that are to know of this producer are not found yet: %s", error)
            else:
                self._met.update(by_id[MASTER] for by_id in route.addresses.values() if MASTER in by_id)
        self._missed = missed
        return not missed
