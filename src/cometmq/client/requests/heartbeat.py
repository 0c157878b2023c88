"""Heartbeats: they register a client, its groups and its subscriptions with every broker of its topics.

A broker removes a client from its groups two minutes after its last heartbeat, or when the connection breaks.
So one is sent at intervals, every 30 s by default, and at once on a new connection.
(RocketMQ: MQClientInstance.java, sendHeartbeatToAllBroker.)
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from cometmq.arguments import number
from cometmq.errors import CometMQError
from cometmq.logs import get_logger
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.heartbeat import Heartbeat
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import UnregisterClientHeader, fields

HEARTBEAT_INTERVAL_MS: Final = 30_000
HEARTBEAT_INTERVAL: Final = number(100)
"""The kind of intervals that clients accept, ms: a shorter one would be a load on all brokers."""

_log = get_logger(__name__)


async def send_heartbeat(
    connections: Connections, addresses: Iterable[str], heartbeat: Heartbeat
) -> set[str]:
    """Send a heartbeat to the brokers at ``addresses``; return the addresses that accepted it."""
    body = encode(heartbeat)
    return await _send_to_all(
        connections, addresses, lambda: Command(RequestCode.HEART_BEAT, ext_fields={}, body=body)
    )


async def unregister(
    connections: Connections,
    addresses: Iterable[str],
    client_id: str,
    *,
    producer_group: str | None = None,
    consumer_group: str | None = None,
) -> None:
    """Unregister a client from its groups at brokers, so that its queues are reassigned without a delay."""
    header = UnregisterClientHeader(client_id, producer_group, consumer_group)
    await _send_to_all(
        connections, addresses, lambda: Command(RequestCode.UNREGISTER_CLIENT, ext_fields=fields(header))
    )


async def _send_to_all(
    connections: Connections, addresses: Iterable[str], make: Callable[[], Command]
) -> set[str]:
    """Send a request to all addresses concurrently; return those that responded with SUCCESS."""

    async def send(address: str) -> str | None:
        try:
            answer = await connections.request(address, make())
        except CometMQError as error:  # also of an illegal address: the other brokers must get the request
            _log.warning("a heartbeat or unregistration was not sent: %s", error)
            return None
        if answer.code == ResponseCode.SUCCESS:
            return address
        _log.warning("%s refuses a heartbeat: code %d: %s", address, answer.code, answer.remark)
        return None

    accepted = await asyncio.gather(*map(send, addresses))
    return {address for address in accepted if address is not None}
