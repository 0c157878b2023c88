"""The producer.

::

    async with Producer("127.0.0.1:9876", group="orders") as producer:
        result = await producer.send(Message("orders", b"paid", tags="paid", keys=("42",)))
"""

import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import Final, Self

from cometmq.client import outgoing
from cometmq.client.outgoing import Outgoing
from cometmq.client.routes import Routes, parse_name_servers
from cometmq.client.send_result import STORED, SendResult, SendStatus
from cometmq.cluster.route import choose_queue, queue_of_key
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.format.layout import valid_group
from cometmq.format.message_id import UniqueIdMaker
from cometmq.io.clock import Clock, SystemClock
from cometmq.message import Message, MessageQueue
from cometmq.net.client import Connections
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendResponseHeader, parse

Selector = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Chooses one of a topic's queues, which come in an order that all producers see."""

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
"""Answers after which another broker may take the message."""


class Producer:
    """Sends messages.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the producer group.
        timeout_ms: how long one try may take.
        tries: how many brokers or queues are tried before a send fails.
        compress_over: bodies of at least so many bytes are compressed; None for none.
    """

    def __init__(
        self,
        name_servers: str,
        group: str = "DEFAULT_PRODUCER_GROUP",
        *,
        timeout_ms: int = SEND_TIMEOUT_MS,
        tries: int = TRIES,
        compress_over: int | None = outgoing.COMPRESS_OVER_BYTES,
        clock: Clock | None = None,
    ) -> None:
        self.group = valid_group(group)
        self._addresses = parse_name_servers(name_servers)
        self._timeout_ms = timeout_ms
        self._tries = tries
        self._compress_over = compress_over
        self._clock = clock or SystemClock()
        self._ids = UniqueIdMaker(_own_address(), os.getpid(), secrets.randbits(31))
        self._turns: dict[str, int] = {}

    async def __aenter__(self) -> Self:
        """Get ready to send."""
        self._connections = Connections()
        self._routes = Routes(self._connections, self._addresses)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Send what is waiting, and close."""
        await self._connections.close()

    async def send(self, message: Message, queue: MessageQueue | Selector | None = None) -> SendResult:
        """Send a message and wait until the broker has stored it.

        Args:
            queue: where to, or a function that chooses among the topic's queues. Without it a message with a
                sharding key goes to the key's queue; for others the queues take turns, and a failure tries
                another one.

        Raises:
            MessageIllegal, IllegalName: the message breaks a limit.
            NoRoute: no broker takes the topic.
            RemoteError: the broker refuses.
            NetworkError: no broker answers; the message may be stored nevertheless.
        """
        return await self._send(self._prepare(message), queue)

    async def send_batch(
        self, messages: Sequence[Message], queue: MessageQueue | Selector | None = None
    ) -> SendResult:
        """Send messages of one topic to one queue with one request. Raises like ``send``."""
        ids = [self._new_id() for _ in messages]
        return await self._send(outgoing.many(messages, ids, self._new_id()), queue)

    async def send_oneway(self, message: Message, queue: MessageQueue | Selector | None = None) -> None:
        """Send a message without waiting for an answer: it can be lost unseen. Raises like ``send``."""
        ready = self._prepare(message)
        chosen, address = await self._choose(ready, queue, set())
        await self._connections.oneway(address, self._request(ready, chosen))

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Give the queues that a topic's messages are sent to. Raises NoRoute or NetworkError."""
        return (await self._routes.get_for_sending(topic)).publish_queues()

    async def _send(self, ready: Outgoing, queue: MessageQueue | Selector | None) -> SendResult:
        failed: set[str] = set()
        tries = self._tries if queue is None and ready.sharding_key is None else 1
        while True:
            tries -= 1
            chosen, address = await self._choose(ready, queue, failed)
            try:
                command = self._request(ready, chosen)
                answer = await self._connections.request(address, command, self._timeout_ms)
                return _result(answer, ready, chosen)
            except (NetworkError, RemoteError) as error:
                if tries <= 0 or (isinstance(error, RemoteError) and error.code not in RETRIABLE):
                    raise
                failed.add(chosen.broker_name)
                self._routes.forget(ready.topic)

    async def _choose(
        self, ready: Outgoing, queue: MessageQueue | Selector | None, failed: set[str]
    ) -> tuple[MessageQueue, str]:
        topic = ready.topic
        route = await self._routes.get_for_sending(topic)
        if not isinstance(queue, MessageQueue):
            queues = route.publish_queues()
            if not queues:
                raise NoRoute(
                    f"no queue of topic {topic!r} can be written to: its perm or its brokers forbid it"
                )
            if queue is not None:
                queue = queue(queues)
            elif ready.sharding_key is not None:
                queue = queue_of_key(queues, ready.sharding_key)
            else:
                queue = choose_queue(queues, self._next_turn(topic), failed)
        address = route.master(queue.broker_name)
        if address is None:
            raise NoRoute(f"no master of broker {queue.broker_name!r} is known for topic {topic!r}")
        return queue, address

    def _next_turn(self, topic: str) -> int:
        """Count up for each topic by itself: with one count for all, each would get some queues only."""
        turn = self._turns.get(topic)
        if turn is None:
            turn = secrets.randbelow(2**16)  # producers should not all begin at queue 0
        self._turns[topic] = turn + 1
        return turn

    def _prepare(self, message: Message) -> Outgoing:
        return outgoing.one(message, self._new_id(), compress_over=self._compress_over)

    def _request(self, ready: Outgoing, queue: MessageQueue) -> Command:
        return ready.request(self.group, queue, self._clock.now_ms())

    def _new_id(self) -> str:
        return self._ids.make(self._clock.now_ms())


def _result(answer: Command, ready: Outgoing, queue: MessageQueue) -> SendResult:
    if answer.code not in STORED:
        raise RemoteError(answer.code, answer.remark or "")
    header = parse(SendResponseHeader, answer.ext_fields)
    return SendResult(
        SendStatus(answer.code),
        ready.message_id,
        header.message_id.split(","),
        queue._replace(queue_id=header.queue_id),
        header.queue_offset,
    )


def _own_address() -> bytes:
    """Give an IPv4 address of this machine for unique ids; packets are not sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            host: str = probe.getsockname()[0]
        except OSError:
            host = "127.0.0.1"  # no network at all
    return socket.inet_aton(host)
