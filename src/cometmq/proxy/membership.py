"""The proxy as a member of its clients' groups: brokers so create the groups, and operators see them.

Brokers tell members of a group apart by their connections, which all clients of a proxy share. So the proxy
is one member of each group. Messages are popped, which needs no members.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple

from cometmq.client.identity import client_id
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS, send_heartbeat, unregister
from cometmq.cluster.route import MASTER
from cometmq.errors import CometMQError, NoRoute
from cometmq.logs import get_logger
from cometmq.proxy.brokers import Brokers
from cometmq.wire.bodies.heartbeat import ConsumerData, ConsumeType, Heartbeat, SubscriptionData

_log = get_logger(__name__)

CONSUME_TYPE: Final = ConsumeType.CONSUME_POP
SUBSCRIPTIONS_MAX: Final = 4_000
"""Most subscriptions of a group, as no broker takes more; those before are forgotten then."""


class _Joined(NamedTuple):
    """A group: its subscriptions by topic, and the addresses of the brokers that know them."""

    subscriptions: dict[str, SubscriptionData]
    brokers: set[str]


class ProxyMembership:
    """Registers this proxy in groups with the brokers of their topics, each 30 s."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._client_id = client_id()
        self._groups: dict[str, _Joined] = {}

    async def join(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Join a group, or change its subscriptions. Failures are logged: a later heartbeat may succeed."""
        wanted = {data.topic: data for data in subscriptions}
        joined = self._groups.get(group)
        if joined is not None and _same(joined.subscriptions, wanted):
            return
        known = {} if joined is None else joined.subscriptions
        together = known | wanted
        self._groups[group] = _Joined(together if len(together) <= SUBSCRIPTIONS_MAX else wanted, set())
        await self._send(group)

    def subscriptions(self, group: str) -> list[SubscriptionData]:
        """Return a group's subscriptions; none if it was not joined."""
        joined = self._groups.get(group)
        return [] if joined is None else list(joined.subscriptions.values())

    async def leave(self, group: str) -> None:
        """Leave a group."""
        joined = self._groups.pop(group, None)
        if joined is not None:
            await unregister(self._brokers.connections, joined.brokers, self._client_id, consumer_group=group)

    async def close(self) -> None:
        """Leave all groups."""
        await asyncio.gather(*(self.leave(group) for group in list(self._groups)))

    async def run(self) -> None:
        """Send heartbeats for all groups, each 30 s."""
        while True:
            await asyncio.sleep(HEARTBEAT_INTERVAL_MS / 1000)
            for group in list(self._groups):
                await self._send(group)

    async def _send(self, group: str) -> None:
        joined = self._groups.get(group)
        if joined is None:
            return
        data = ConsumerData(group, list(joined.subscriptions.values()), CONSUME_TYPE)
        heartbeat = Heartbeat(self._client_id, consumers=[data])
        addresses = await self._addresses(joined.subscriptions)
        joined.brokers.update(await send_heartbeat(self._brokers.connections, addresses, heartbeat))

    async def _addresses(self, topics: Iterable[str]) -> set[str]:
        """Return the addresses of the masters of some topics."""
        found: set[str] = set()
        for topic in topics:
            try:
                route = await self._brokers.routes.get(topic)
            except NoRoute:
                continue
            except CometMQError as error:
                _log.warning("no heartbeats to the brokers of topic %s: %s", topic, error)
            else:
                found.update(by_id[MASTER] for by_id in route.addresses.values() if MASTER in by_id)
        return found


def _same(known: dict[str, SubscriptionData], wanted: dict[str, SubscriptionData]) -> bool:
    """Return whether the filters of all wanted topics are known already."""
    return all(
        (data := known.get(topic)) is not None
        and (data.expression, data.expression_type) == (new.expression, new.expression_type)
        for topic, new in wanted.items()
    )
