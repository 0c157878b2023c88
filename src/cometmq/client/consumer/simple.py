"""The simple consumer: its user receives messages, and acknowledges each by itself.

::

    async with SimpleConsumer("127.0.0.1:9876", group="billing") as consumer:
        await consumer.subscribe("orders", tags="paid")
        while True:
            for message in await consumer.receive():
                ...
                await consumer.ack(message)

Messages are popped: the broker hands each one to any member of the group, and hides it from the others for
its invisible time. What is not acknowledged by then is delivered again. So any number of members may share a
queue, and a slow one delays no other. (RocketMQ: SimpleConsumer of the clients for gRPC.)
"""

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Coroutine, Iterable
from typing import Any, Final, Self

from cometmq.arguments import FLAG, ArgumentKind, check, instance_of, number, several
from cometmq.client.consumer.pop.receipts import POPPED, PopReceipts
from cometmq.client.consumer.pop.turns import PopTurns
from cometmq.client.credentials import find_credentials
from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.group.pop_membership import PopMembership
from cometmq.client.handling.consume_trace import ConsumeTracer
from cometmq.client.handling.start import Start
from cometmq.client.handling.subscription import subscription_data
from cometmq.client.producer.trace import trace_sender
from cometmq.client.requests.bodies import decompress_first
from cometmq.client.requests.heartbeat import HEARTBEAT_INTERVAL_MS
from cometmq.client.requests.pop_requests import PopOptions
from cometmq.errors import CometMQError, ReceiptExpired, SettingsError, UndecodableBody
from cometmq.format.layout import valid_topic
from cometmq.format.pop.names import POP_COUNT_MAX
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.format.properties import POP_CK
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import StoredMessage
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, ConsumeType, SubscriptionData
from cometmq.wire.bodies.trace import Outcome

RECEIVE_COUNT: Final = 10
INVISIBLE_MS: Final = 60_000
WAIT_MS: Final = 15_000
_MESSAGES: Final = several(
    POPPED, "StoredMessages that were received by a pop: they have the property POP_CK"
)
_COUNT: Final = ArgumentKind(
    f"an int from 1 to {POP_COUNT_MAX}",
    number().is_type,
    lambda value: 1 <= value <= POP_COUNT_MAX,
)

_log = get_logger(__name__)


class SimpleConsumer:
    """Receives messages as a member of a group, and acknowledges them one by one.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group; all its members must have the same subscriptions.
        start: where the group begins in a queue that it has not read before: FIRST or LAST.
        instance: makes the client id ``ip@instance``; None for a random one.
        trace: whether to record in RMQ_SYS_TRACE_TOPIC when a message was received and acknowledged.
        start_timeout_ms: how long ``subscribe`` waits for a name server; None for no limit.
        heartbeat_interval_ms: interval of the heartbeats that keep this member in its group, at least 100:
            see ``docs/guide/consumer.md``.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.

    Raises:
        SettingsError: an argument cannot be used.
        IllegalName: the group's name.
    """

    def __init__(
        self,
        name_servers: str,
        group: str,
        *,
        start: Start = Start.LAST,
        instance: str | None = None,
        trace: bool = False,
        start_timeout_ms: int | None = None,
        heartbeat_interval_ms: int = HEARTBEAT_INTERVAL_MS,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
        clock: Clock | None = None,
    ) -> None:
        check(instance_of(Start), start=start)
        check(FLAG, trace=trace)
        if start.where is ConsumeFromWhere.TIMESTAMP:
            raise SettingsError("start: a group that pops begins at Start.FIRST or Start.LAST, at no time")
        kind = ConsumeType.CONSUME_POP
        self._settings = MemberSettings.new(
            name_servers, group, instance, kind, start.where, clock, start_timeout_ms, heartbeat_interval_ms
        )._replace(credentials=find_credentials(credentials), tls=tls_of(tls))
        self._clock = self._settings.clock
        self._has_trace = trace
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._receipts = PopReceipts(self._clock)
        self._member: PopMembership | None = None
        self._turns: PopTurns | None = None
        self._tracer: ConsumeTracer | None = None
        self._left: list[StoredMessage] = []
        """Popped messages, bodies as stored, that the next ``receive`` returns."""
        self._abandoned: set[asyncio.Task[list[StoredMessage]]] = set()
        """Pops under way whose ``receive`` was cancelled."""

    async def __aenter__(self) -> Self:
        """Open the consumer."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the group. Messages that were received and not acknowledged are delivered again later."""
        self._subscriptions.clear()
        member, self._member = self._member, None
        if member is None:
            return
        try:
            for popping in self._abandoned:
                popping.cancel()
            left, self._left = self._left, []
            await asyncio.gather(*(self._hand_back(member, message) for message in left))
            if self._tracer is not None:
                await self._tracer.close()
            await member.leave()
        except BaseException:  # this was cancelled
            await member.abandon()
            raise

    @property
    def client_id(self) -> str:
        """The client id of this member."""
        return self._settings.client_id

    async def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic.

        Args:
            tags: ``*``, or tags joined by ``||``.
            sql: a condition over the messages' properties, instead of tags.

        Raises:
            IllegalName, FormatError: the topic or the tags are illegal.
            IllegalArgument: both ``tags`` and ``sql`` are given.
            SettingsError: the topic is subscribed to already.
            NetworkError, RemoteError: no name server responds within ``start_timeout_ms``, or one refuses;
                RemoteError also if a broker refuses the condition ``sql``.
        """
        data = subscription_data(topic, tags, sql, self._clock.now_ms())
        if topic in self._subscriptions:
            raise SettingsError(f"topic {topic!r} is subscribed to already: unsubscribe it first")
        self._subscriptions[topic] = data
        try:
            await self._join()
        except BaseException:
            self._subscriptions.pop(topic, None)
            raise

    async def unsubscribe(self, topic: str) -> None:
        """Receive no further messages of a topic. Raises SettingsError if it is not subscribed to."""
        valid_topic(topic)
        if self._subscriptions.pop(topic, None) is None:
            raise SettingsError(f"topic {topic!r} is not subscribed to: {sorted(self._subscriptions)} are")
        await self._joined.subscribe(self._subscriptions)

    async def receive(
        self,
        *,
        max_count: int = RECEIVE_COUNT,
        invisible_ms: int = INVISIBLE_MS,
        wait_ms: int = WAIT_MS,
    ) -> list[StoredMessage]:
        """Return the next messages of one topic; wait for some up to ``wait_ms``.

        The topics' brokers are queried in turn, each call beginning at another one. Several tasks may receive
        at a time. When a message's body could not be decompressed, or did not fit into memory with those
        before it, the next call returns that message and those behind it.

        Args:
            max_count: most messages, at most 32.
            invisible_ms: how long they are hidden from the other members of the group: acknowledge them by
                then, or they are delivered again.

        Raises:
            SettingsError: nothing is subscribed to, or an argument is illegal.
            UndecodableBody: the next message's body cannot be decompressed; acknowledge ``error.message``, or
                it is delivered again. The next call continues after it.
            NoRoute, NetworkError, RemoteError: no topic has a broker, or all of them fail.
        """
        check(_COUNT, max_count=max_count)
        check(number(1), invisible_ms=invisible_ms)
        check(number(0), wait_ms=wait_ms)
        if not self._subscriptions or self._turns is None:
            raise SettingsError("nothing is subscribed to: use subscribe")
        self._left = [message for message in self._left if not self._receipts.is_expired(message)]
        if not self._left:
            is_first = self._settings.where is ConsumeFromWhere.FIRST_OFFSET
            options = PopOptions(max_count, invisible_ms, wait_ms, is_first)
            self._left += await self._pop(self._turns.pop(self._subscriptions, options))
        return self._next_messages(max_count)

    async def ack(self, message: StoredMessage) -> None:
        """Acknowledge a received message: it is consumed, and delivered no more.

        Raises:
            IllegalArgument, FormatError: the message was not received by a pop.
            ReceiptExpired: its invisible time has passed: it is delivered again.
            NoRoute, NetworkError, RemoteError: its broker is unknown, does not respond, or has it no more.
        """
        check(POPPED, message=message)
        handle = self._receipts.find(message)
        await self._joined.requests.ack(message.topic, handle)
        self._finish(message)

    async def ack_all(self, messages: Iterable[StoredMessage]) -> None:
        """Acknowledge received messages by one request to each broker. Raises like ``ack``.

        Those whose invisible time has not passed are acknowledged also when this raises ReceiptExpired.
        """
        messages = list(messages)
        check(_MESSAGES, messages=messages)
        expired: list[ReceiptExpired] = []
        by_topic: defaultdict[str, dict[ReceiptHandle, StoredMessage]] = defaultdict(dict)
        for message in messages:
            try:
                by_topic[message.topic][self._receipts.find(message)] = message
            except ReceiptExpired as error:
                expired.append(error)
        for topic, by_handle in by_topic.items():
            await self._joined.requests.ack_all(topic, by_handle)
            for message in by_handle.values():
                self._finish(message)
        if expired:
            raise ReceiptExpired(f"{len(expired)} of {len(messages)} messages are too late: {expired[0]}")

    async def change_invisible(self, message: StoredMessage, invisible_ms: int) -> None:
        """Hide a received message for another time from now on; it can still be acknowledged.

        Args:
            invisible_ms: 0 to have it delivered again as soon as possible, to any member.

        Raises like ``ack``.
        """
        check(POPPED, message=message)
        check(number(0), invisible_ms=invisible_ms)
        handle = self._receipts.find(message)
        changed = await self._joined.requests.change_invisible(message.topic, handle, invisible_ms)
        self._receipts.change(message, changed)

    @property
    def _joined(self) -> PopMembership:
        if self._member is None:
            raise SettingsError("nothing is subscribed to: use subscribe")
        return self._member

    async def _join(self) -> None:
        """Join the group, or send it the changed subscriptions."""
        if self._member is not None:
            await self._member.subscribe(self._subscriptions)
            return
        self._settings = settings = self._settings.of_this_process()
        member = self._member = PopMembership(settings, self._subscriptions)
        self._turns = PopTurns(member.requests, member.routes, member.starts, self._receipts)
        if self._has_trace:
            send = trace_sender(member.connections, member.routes, f"{settings.group}-SUB-1", self._clock)
            self._tracer = ConsumeTracer(send, settings.group, self._clock)
        try:
            await member.start()
        except BaseException:
            self._member = None
            raise

    async def _pop(self, work: Coroutine[Any, Any, list[StoredMessage]]) -> list[StoredMessage]:
        """Run a pop; if this is cancelled the next ``receive`` returns its messages."""
        popping = asyncio.create_task(work)
        try:
            return await asyncio.shield(popping)
        except asyncio.CancelledError:
            self._abandoned.add(popping)
            popping.add_done_callback(self._end_abandoned)
            raise

    def _end_abandoned(self, popping: "asyncio.Task[list[StoredMessage]]") -> None:
        self._abandoned.discard(popping)
        if not popping.cancelled() and popping.exception() is None:
            self._left += popping.result()

    def _next_messages(self, max_count: int) -> list[StoredMessage]:
        """Return the next popped messages, decompressed. Raises UndecodableBody."""
        try:
            whole = decompress_first(self._left[:max_count])
        except UndecodableBody:
            del self._left[0]
            raise
        del self._left[: len(whole)]
        if self._tracer is not None:
            for message in whole:
                self._tracer.begin([message], _request_id(message))
        return whole

    def _finish(self, message: StoredMessage) -> None:
        """Drop what is known of an acknowledged message."""
        self._receipts.forget(message)
        if self._tracer is not None:
            spent_ms = self._receipts.age_ms(message)
            self._tracer.end([message], _request_id(message), spent_ms, Outcome.SUCCESS)

    async def _hand_back(self, member: PopMembership, message: StoredMessage) -> None:
        """Return a message that nobody has received, so that others get it soon."""
        try:
            handle = self._receipts.find(message)
            await member.requests.change_invisible(message.topic, handle, 0, counts=False)
        except CometMQError as error:
            _log.warning("message %s is not handed back, it comes again later: %s", message.message_id, error)


def _request_id(message: StoredMessage) -> str:
    """Return the id by which a trace connects the receipt of a message and its acknowledgement."""
    return hashlib.md5(message.properties[POP_CK].encode(), usedforsecurity=False).hexdigest().upper()
