"""Members of consumer groups without a broker: settings, routes, and connections that a test scripts."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.routes import Routes
from cometmq.cluster.rebalance import Strategy, averagely
from cometmq.cluster.route import QueueCounts, Route
from cometmq.errors import CometMQError, NoRoute
from cometmq.io.clock import Clock, SystemClock
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response

TOPIC, GROUP = "Orders", "readers"

Answer = Command | CometMQError
"""What a request gets: a response, or the error that it raises."""


def settings_of(
    client_id: str,
    *,
    group: str = GROUP,
    strategy: Strategy | None = averagely,
    on_rebalance: Callable[[list[MessageQueue]], None] = lambda _: None,
    clock: Clock | None = None,
) -> MemberSettings:
    return MemberSettings(
        name_servers=("127.0.0.1:9876",),
        group=group,
        client_id=client_id,
        instance=client_id,
        process_id=os.getpid(),
        consume_type=ConsumeType.CONSUME_PASSIVELY,
        where=ConsumeFromWhere.FIRST_OFFSET,
        strategy=strategy,
        on_rebalance=on_rebalance,
        clock=clock or SystemClock(),
    )


def queues_of(broker_name: str, count: int) -> list[MessageQueue]:
    return [MessageQueue(TOPIC, broker_name, queue_id) for queue_id in range(count)]


class ScriptedConnections:
    """Connections whose servers respond by a function of the address and the request.

    Attributes:
        requests: all requests, with the addresses that they were sent to.
    """

    def __init__(self, answer: Callable[[str, Command], Answer] | None = None) -> None:
        self.requests: list[tuple[str, Command]] = []
        self.answer = answer or (lambda _, command: response(command))

    async def request(self, address: str, command: Command, timeout_ms: int = 3_000) -> Command:
        assert timeout_ms > 0
        self.requests.append((address, command))
        answer = self.answer(address, command)
        if isinstance(answer, CometMQError):
            raise answer
        return answer

    def sent(self, code: int) -> list[tuple[str, Command]]:
        """Return the requests with a code."""
        return [(address, command) for address, command in self.requests if command.code == code]

    def as_connections(self) -> Connections:
        return cast(Connections, self)


class FixedRoutes:
    """Routes to topics on brokers that are masters at ``address-NAME``."""

    def __init__(self, counts: Mapping[str, int], topics: Sequence[str] = (TOPIC,)) -> None:
        self.counts = dict(counts)
        self.topics = list(topics)
        self.expired: list[str] = []

    async def get(self, topic: str) -> Route:
        if topic not in self.topics:
            raise NoRoute(f"no route for topic {topic!r}", topic)
        counts = tuple(QueueCounts(name, count, count, 6) for name, count in self.counts.items())
        return Route(topic, counts, {name: {0: f"address-{name}"} for name in self.counts})

    async def master(self, queue: MessageQueue) -> str:
        if queue.broker_name not in self.counts:
            raise NoRoute(f"no master of broker {queue.broker_name!r}")
        return f"address-{queue.broker_name}"

    def expire(self, topic: str) -> None:
        self.expired.append(topic)

    def as_routes(self) -> Routes:
        return cast(Routes, self)


def refused(command: Command, remark: str = "no") -> Command:
    """Return a response that refuses a request."""
    return response(command, ResponseCode.SYSTEM_ERROR, remark)


async def settled(condition: Callable[[], bool]) -> None:
    """Run the loop until a condition holds; it must hold after some turns."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")
