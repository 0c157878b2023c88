"""Heartbeats: a client tells every broker of its topics that it lives, in which groups, and what it wants.

A broker that has heard nothing for two minutes, or whose connection breaks, takes the client out of its
groups. So a beat goes out every 30 s, and at once to a broker that was connected to anew.
(RocketMQ: MQClientInstance.java, sendHeartbeatToAllBroker.)
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from cometmq.errors import CometMQError
from cometmq.net.client import Connections
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.heartbeat import Heartbeat
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import UnregisterClientHeader, fields

HEARTBEAT_S: Final = 30.0

_log = logging.getLogger(__name__)


async def beat(connections: Connections, addresses: Iterable[str], heartbeat: Heartbeat) -> set[str]:
    """Send a heartbeat to the brokers at ``addresses``; give those that took it."""
    body = encode(heartbeat)
    return await _tell(
        connections, addresses, lambda: Command(RequestCode.HEART_BEAT, ext_fields={}, body=body)
    )


async def say_goodbye(
    connections: Connections,
    addresses: Iterable[str],
    client_id: str,
    *,
    producer_group: str | None = None,
    consumer_group: str | None = None,
) -> None:
    """Tell brokers that a client leaves its groups, so that the others need not wait until it is missed."""
    header = UnregisterClientHeader(client_id, producer_group, consumer_group)
    await _tell(
        connections, addresses, lambda: Command(RequestCode.UNREGISTER_CLIENT, ext_fields=fields(header))
    )


async def _tell(connections: Connections, addresses: Iterable[str], make: Callable[[], Command]) -> set[str]:
    """Send a request to each address at once; give those that answered with success."""

    async def tell(address: str) -> str | None:
        try:
            answer = await connections.request(address, make())
        except CometMQError as error:  # also of an address that is none: the other brokers must hear it
            _log.warning("a heartbeat or goodbye got lost: %s", error)
            return None
        if answer.code == ResponseCode.SUCCESS:
            return address
        _log.warning("%s refuses a heartbeat: code %d: %s", address, answer.code, answer.remark)
        return None

    answers = await asyncio.gather(*map(tell, addresses))
    return {address for address in answers if address is not None}
