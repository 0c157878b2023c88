"""A test broker: what is published goes to the handlers at once, in memory.

::

    async with TestRocketMQBroker(broker):
        await broker.publish(order, "orders", tags="paid")
        handle.mock.assert_called_once_with(...)

A message goes to one subscriber of each group, if its filter accepts it. Delays, retries and dead letters
need a real broker: pass ``with_real=True`` and the address of the fixture ``rocketmq``.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, cast
from unittest.mock import patch

from faststream._internal.testing.broker import TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from cometmq.client.handling.start import Start
from cometmq.client.producer.send_result import SendResult, SendStatus
from cometmq.faststream.broker import RocketMQBroker
from cometmq.faststream.command import RocketMQPublishCommand
from cometmq.faststream.groups import Connecting, GroupConsumers
from cometmq.faststream.message import Delivery
from cometmq.faststream.producer import MessageProducer
from cometmq.faststream.publisher import RocketMQPublisher
from cometmq.faststream.subscriber import RocketMQSubscriber
from cometmq.filter import tag
from cometmq.message import Message, MessageQueue, StoredMessage

NOWHERE = "127.0.0.1:1"
HOST = "127.0.0.1:10911"


class TestRocketMQBroker(TestBroker[RocketMQBroker, RocketMQBroker], broker=RocketMQBroker):
    """Tests a broker's handlers, in memory or ``with_real``, against a broker that runs.

    Args:
        brokers: those whose handlers get what any of them publishes.
        with_real: whether to connect to the brokers' own name servers.
        connect_only: whether not to start them; None to find out if a TestApp does.
    """

    def __init__(
        self, *brokers: RocketMQBroker, with_real: bool = False, connect_only: bool | None = None
    ) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    def create_publisher_fake_subscriber(
        self, broker: RocketMQBroker, publisher: RocketMQPublisher
    ) -> tuple[RocketMQSubscriber, bool]:
        """Find the subscriber of a publisher's topic, or create one that only records what comes.

        Returns the subscriber, and whether it is the application's own.
        """
        for subscriber in _subscribers(self.brokers):
            if subscriber.topic == publisher.topic:
                return subscriber, True
        topic = publisher.topic.removeprefix(broker.config.prefix)
        now_ms = time.time_ns() // 1_000_000
        group = f"test-{publisher.topic.replace('%', '-')}-{now_ms}"
        return broker.subscriber(topic, group=group, start=Start.at(now_ms), persistent=False), False

    @contextmanager
    def _patch_producer(self, broker: RocketMQBroker) -> Iterator[None]:
        config = broker.config.broker_config
        with (
            change_producer(config, MemoryProducer(broker, self.brokers)),
            patch.object(config, "consumers", GroupConsumers(Connecting(NOWHERE))),
        ):
            yield

    async def _fake_connect(self, broker: RocketMQBroker, *_: Any, **__: Any) -> None:
        """Connect to nothing."""


class MemoryProducer(MessageProducer):
    """Calls the handlers of the brokers under test with what is published."""

    def __init__(self, broker: RocketMQBroker, brokers: tuple[RocketMQBroker, ...]) -> None:
        super().__init__(broker._parser, broker._decoder, broker.config.broker_codec)  # noqa: SLF001 as FastStream's do
        self.connect(None, broker.config.fd_config._serializer)  # noqa: SLF001 as FastStream's brokers do
        self._brokers = brokers
        self._queue_offsets = count()

    async def publish(self, cmd: RocketMQPublishCommand) -> SendResult:
        """Call a handler of each group. Raises what a handler raises."""
        stored = self._store(await self.encode(cmd, cmd.body))
        called: set[str] = set()
        for subscriber in _subscribers(self._brokers):
            if subscriber.group not in called and is_for(subscriber, stored):
                called.add(subscriber.group)
                await subscriber.process_message(Delivery(stored))
        queue = MessageQueue(stored.topic, "test", stored.queue_id)
        return SendResult(SendStatus.SEND_OK, stored.message_id, "", queue, stored.queue_offset)

    async def publish_batch(self, cmd: RocketMQPublishCommand) -> list[SendResult]:
        """Call the handlers with each message. Raises what a handler raises."""
        results = []
        for body in cmd.batch_bodies:
            one = RocketMQPublishCommand(body, topic=cmd.destination, headers=cmd.headers, **cmd.options)
            one.correlation_id = cmd.correlation_id
            results.append(await self.publish(one))
        return results

    async def request(self, cmd: RocketMQPublishCommand) -> Delivery:
        """Call the handler of a topic and return its answer.

        Raises SubscriberNotFound if there is none, and what the handler raises.
        """
        stored = self._store(await self.encode(cmd, cmd.body))
        for subscriber in _subscribers(self._brokers):
            if is_for(subscriber, stored):
                answer = await subscriber.process_message(Delivery(stored))
                reply = RocketMQPublishCommand(answer.body, topic=cmd.destination, headers=answer.headers)
                reply.correlation_id = answer.correlation_id
                return Delivery(self._store(await self.encode(reply, reply.body)))
        raise SubscriberNotFound(f"no subscriber of topic {cmd.destination!r} that accepts the message")

    def _store(self, message: Message) -> StoredMessage:
        """Return a message as if a broker had stored it."""
        queue_offset, now_ms = next(self._queue_offsets), time.time_ns() // 1_000_000
        return StoredMessage(
            topic=message.topic,
            queue_id=0,
            queue_offset=queue_offset,
            physical_offset=-1,
            message_id=f"TEST{queue_offset:028X}",
            offset_id="",
            tags=message.tags,
            keys=message.keys,
            properties=message.properties,
            body=message.body,
            flag=message.flag,
            sys_flag=0,
            born_time=now_ms,
            born_host=HOST,
            store_time=now_ms,
            store_host=HOST,
            reconsume_times=0,
            body_crc=0,
        )


def is_for(subscriber: RocketMQSubscriber, stored: StoredMessage) -> bool:
    """Return whether a subscriber's topic and filter accept a message.

    Raises MissingExtra for a condition in SQL92 where the extra ``broker`` is not installed.
    """
    subscription = subscriber.subscription
    if subscription.topic != stored.topic:
        return False
    if subscription.sql is not None:
        from cometmq.filter import sql92  # noqa: PLC0415 it needs lark, which applications do not

        tags = {} if stored.tags is None else {"TAGS": stored.tags}
        return sql92.compile(subscription.sql).matches({**stored.properties, **tags})
    tags_wanted = tag.parse(subscription.tags)
    return tags_wanted is None or stored.tags in tags_wanted


def _subscribers(brokers: tuple[RocketMQBroker, ...]) -> Iterator[RocketMQSubscriber]:
    for broker in brokers:
        yield from cast("list[RocketMQSubscriber]", broker.subscribers)
