"""Send one message or batch: choose a queue, send the request, decode the response, retry elsewhere.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (sendDefaultImpl, sendKernelImpl).
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from cometmq.client.producer.hooks import Attempt, Hooks
from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.presence import Presence
from cometmq.client.producer.send_result import STORED, SendResult
from cometmq.client.routes import Routes, master_address
from cometmq.client.waiting import retry_while
from cometmq.cluster.fault import BrokerFaults
from cometmq.cluster.route import Route, choose_queue, queue_of_key
from cometmq.errors import CometMQError, MessageIllegal, NetworkError, NoRoute, RemoteError
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendResponseHeader, parse

SEND_TIMEOUT_MS: Final = 3_000
TRIES: Final = 3
RETRIABLE: Final = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.NO_PERMISSION,
        ResponseCode.GO_AWAY,
    }
)
"""Response codes after which another broker may accept the message."""

Selector = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Chooses one of a topic's queues, whose order is the same for all producers."""
Where = MessageQueue | Selector | None
"""A queue, a function that chooses one, or None: the message's key, or else round robin."""


class SendSettings(NamedTuple):
    """How a producer sends.

    Attributes:
        timeout_ms: timeout of one attempt, and of the wait for the first server.
        tries: how many brokers or queues are tried before a send fails.
    """

    group: str
    timeout_ms: int = SEND_TIMEOUT_MS
    tries: int = TRIES


class Sender:
    """Sends encoded messages and batches.

    Args:
        faults: statistics of the brokers' latencies and failures; None to ignore them.
    """

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        settings: SendSettings,
        clock: Clock,
        faults: BrokerFaults | None = None,
        hooks: Hooks | None = None,
        presence: Presence | None = None,
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._settings = settings
        self._clock = clock
        self._faults = faults
        self._presence = presence
        self._hooks = hooks if hooks is not None else Hooks(())
        self._is_observed = bool(self._hooks) or faults is not None
        self._turns: dict[str, int] = {}
        self._queues: dict[str, tuple[Route, list[MessageQueue]]] = {}

    async def send(self, ready: Outgoing, where: Where = None) -> SendResult:
        """Send and wait for the response. Raises like ``Producer.send``."""
        failed: set[str] = set()
        is_free = where is None and ready.sharding_key is None
        group, timeout_ms, tries = self._settings
        if not is_free and ready.idempotence_key is None:
            tries = 1
        while True:
            tries -= 1
            route = self._routes.fresh(ready.topic) or await self._route(ready.topic)
            queue, address = self._choose(route, ready, where, failed)
            try:
                if ready.wants_reply and self._presence is not None:
                    await self._presence.register(address)
                if self._is_observed:
                    return await self._try_observed(ready, queue, address)
                request = ready.request(group, queue, self._clock.now_ms())
                return _result(await self._connections.request(address, request, timeout_ms), ready, queue)
            except (NetworkError, RemoteError) as error:
                if isinstance(error, RemoteError) and error.code not in RETRIABLE:
                    raise
                self._routes.expire(ready.topic)  # another broker may be the master now
                if tries <= 0:
                    raise
                failed.add(queue.broker_name)

    async def oneway(self, ready: Outgoing, where: Where = None) -> None:
        """Send without a response. Raises like ``Producer.send_oneway``."""
        route = self._routes.fresh(ready.topic) or await self._route(ready.topic)
        queue, address = self._choose(route, ready, where, set())
        attempt = Attempt(self._settings.group, ready, queue, address, self._clock.now_ms())
        self._hooks.before(attempt)
        await self._connections.oneway(address, ready.request(attempt.group, queue, attempt.born_time))
        self._hooks.after(attempt)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages are sent to. Raises NoRoute or NetworkError."""
        return self._queues_of(await self._route(topic))

    async def queue_at(self, address: str, topic: str) -> MessageQueue | None:
        """Return one of a topic's queues at an address, or None. Raises NoRoute or NetworkError."""
        route = await self._route(topic)
        there = [queue for queue in self._queues_of(route) if route.master(queue.broker_name) == address]
        return there[self._next_turn(topic) % len(there)] if there else None

    async def address(self, queue: MessageQueue) -> str:
        """Return the address that a queue's messages are sent to. Raises NoRoute or NetworkError."""
        return master_address(await self._route(queue.topic), queue)

    async def _route(self, topic: str) -> Route:
        """Find a topic's route; wait for a first server if there is none. Raises NoRoute or NetworkError."""
        find = partial(self._routes.get_for_sending, topic)
        return await retry_while(self._routes.may_appear, find, self._settings.timeout_ms)

    async def _try_observed(self, ready: Outgoing, queue: MessageQueue, address: str) -> SendResult:
        """Send once, calling the hooks and recording the broker's latency or failure."""
        group, timeout_ms, _ = self._settings
        attempt = Attempt(group, ready, queue, address, self._clock.now_ms())
        request = ready.request(group, queue, attempt.born_time)
        self._hooks.before(attempt)
        begin_ms = self._clock.monotonic_ms()
        try:
            attempt.answer = await self._connections.request(address, request, timeout_ms)
            attempt.result = _result(attempt.answer, ready, queue)
        except CometMQError as error:
            attempt.error = error
            raise
        else:
            return attempt.result
        finally:
            attempt.cost_ms = self._clock.monotonic_ms() - begin_ms
            self._record(attempt)
            self._hooks.after(attempt)

    def _record(self, attempt: Attempt) -> None:
        """Record a broker's latency or failure."""
        if self._faults is None:
            return
        broker_name, now_ms = attempt.queue.broker_name, self._clock.monotonic_ms()
        if attempt.result is not None:
            self._faults.record_success(broker_name, attempt.cost_ms, now_ms)
        elif isinstance(attempt.error, NetworkError | RemoteError):
            self._faults.record_failure(broker_name, now_ms, refused=isinstance(attempt.error, RemoteError))

    def _choose(
        self, route: Route, ready: Outgoing, where: Where, failed: set[str]
    ) -> tuple[MessageQueue, str]:
        queue = where if isinstance(where, MessageQueue) else self._choose_queue(route, ready, where, failed)
        if where is not None and queue.topic != ready.topic:  # the request names only the queue's id
            raise MessageIllegal(
                f"message of topic {ready.topic!r} for a queue of topic {queue.topic!r}: give one of its own"
            )
        address = master_address(route, queue)
        if self._presence is not None:
            self._presence.add_broker(address)
        return queue, address

    def _choose_queue(
        self, route: Route, ready: Outgoing, selector: Selector | None, failed: set[str]
    ) -> MessageQueue:
        queues = self._queues_of(route)
        if selector is not None:
            return selector(queues)
        if (key := ready.queue_key) is not None:
            return queue_of_key(queues, key)
        turn = self._next_turn(route.topic)
        if self._faults is not None:
            return self._faults.choose(queues, turn, failed, self._clock.monotonic_ms())
        return choose_queue(queues, turn, failed)

    def _queues_of(self, route: Route) -> list[MessageQueue]:
        """Return a route's queues, from a cache with one entry for each topic. Raises NoRoute."""
        cached = self._queues.get(route.topic)
        if cached is None or cached[0] is not route:
            cached = self._queues[route.topic] = route, route.publish_queues()
        if not cached[1]:
            raise NoRoute(
                f"no queue of topic {route.topic!r} can be written to: its perm or its brokers forbid it"
            )
        return cached[1]

    def _next_turn(self, topic: str) -> int:
        """Count a topic's sends: with one count for all topics, a topic could miss some of its queues."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = secrets.randbelow(2**16)  # not all producers should begin at queue 0
        self._turns[topic] = turn + 1
        return turn


def _result(answer: Command, ready: Outgoing, queue: MessageQueue) -> SendResult:
    status = STORED.get(answer.code)
    if status is None:
        raise RemoteError(answer.code, answer.remark or "")
    header = parse(SendResponseHeader, answer.ext_fields)
    if header.queue_id != queue.queue_id:  # the broker chose another
        queue = queue._replace(queue_id=header.queue_id)
    place = queue, header.queue_offset, header.recall_handle
    return SendResult(status, ready.message_ids[0], header.message_id, *place)
