"""Subscribers: they hand the messages of a topic to handlers, or return them one by one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from faststream._internal.configs import SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherProto
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.subscriber.utils import MultiLock
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import SetupError
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, SubscriberSpec

from cometmq.client.calling import calling_tasks
from cometmq.client.consumer.lite_pull import LitePullConsumer
from cometmq.client.handling.outcome import Retry
from cometmq.client.handling.subscription import Subscription
from cometmq.escaping import printable
from cometmq.faststream.config import RocketMQBrokerConfig, SubscriberOptions, check_names
from cometmq.faststream.groups import GroupOptions
from cometmq.faststream.message import Delivery, RocketMQMessage, decode, parse
from cometmq.faststream.publisher import ReplyPublisher
from cometmq.filter import tag
from cometmq.message import StoredMessage


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    """What FastStream's subscriber is made of."""

    _outer_config: RocketMQBrokerConfig = field(default_factory=RocketMQBrokerConfig)

    @property
    def ack_policy(self) -> AckPolicy:
        """What becomes of a message: as the subscriber says, else its broker, else retried if it fails."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR


@dataclass(kw_only=True)
class SubscriberChannel(SubscriberSpecificationConfig):
    """What AsyncAPI shows of a subscriber."""

    topic: str


class RocketMQSubscriberSpecification(SubscriberSpecification[RocketMQBrokerConfig, SubscriberChannel]):
    """A subscriber in AsyncAPI."""

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return self._outer_config.prefix + self.config.topic

    @property
    def channel_labels(self) -> list[str]:
        """The labels of its only channel."""
        return [self.topic]

    def get_schema(self) -> dict[str, SubscriberSpec]:
        """Build its entry of the document. AsyncAPI has no bindings for RocketMQ."""
        message = Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads()))
        operation = Operation(message=message, bindings=None)
        return {
            self.name: SubscriberSpec(
                address=self.topic, description=self.description, operation=operation, bindings=None
            )
        }


class RocketMQSubscriber(SubscriberUsecase[Delivery]):
    """Subscribes a group to a topic."""

    _outer_config: RocketMQBrokerConfig

    def __init__(
        self,
        config: SubscriberConfig,
        specification: SubscriberSpecification[Any, Any],
        calls: CallsCollection[Delivery],
        options: SubscriberOptions,
    ) -> None:
        config.parser, config.decoder = parse, decode
        super().__init__(config, specification, calls)
        self._topic: str = specification.config.topic
        self._options = options
        self._group_options = GroupOptions(
            **{name: value for name, value in options.items() if name in GroupOptions._fields}  # type: ignore[arg-type] # of a TypedDict
        )
        self._poller: LitePullConsumer | None = None
        self._handling: set[asyncio.Task[Any] | None] = set()

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return self._outer_config.prefix + self._topic

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._options.get("group") or self._outer_config.group

    @property
    def subscription(self) -> Subscription:
        """What the group subscribes to. Raises IllegalName or FormatError."""
        options = self._options
        return Subscription(
            self.topic,
            self._handle,
            options.get("tags", "*"),
            options.get("sql"),
            options.get("ordered", False),
        )

    async def start(self) -> None:
        """Subscribe; messages come when the broker starts, or at once if it runs.

        Raises SetupError or SettingsError: see ``GroupConsumers.subscribe``.
        """
        await super().start()
        if self.calls:
            self._outer_config.consumers.subscribe(self.group, self._group_options, self.subscription)
        self._post_start()
        if self._outer_config.consumers.are_running:
            await self._outer_config.consumers.start()

    async def stop(self) -> None:
        """Wait for the running handlers, and unsubscribe."""
        was_running = self.running
        if isinstance(self.lock, MultiLock) and not self._handling.isdisjoint(calling_tasks()):
            self.lock.release()  # its own handler stops it, which would wait for itself
        await super().stop()
        if self.calls and was_running:
            self._outer_config.consumers.unsubscribe(self.group, self.topic)
        poller, self._poller = self._poller, None
        if poller is not None:
            await poller.__aexit__(None)

    async def _handle(self, stored: StoredMessage) -> None:
        """Handle a message. Raises Retry or DeadLetter unless it is done."""
        if not self.running:
            raise Retry
        delivery = Delivery(stored)
        task = asyncio.current_task()
        self._handling.add(task)
        try:
            await self.consume(delivery)
        finally:
            self._handling.discard(task)
        delivery.settle()

    async def get_one(self, *, timeout: float = 5) -> RocketMQMessage | None:  # noqa: ASYNC109 FastStream's name
        """Return the next message, None if there is none within ``timeout`` seconds.

        It is done when the next one is asked for, or the broker stops: its ``ack`` and ``nack`` do nothing.

        Raises SetupError if the subscriber has handlers, which get its messages, or options for them.
        """
        if self.calls:
            raise SetupError(f"topic {self.topic!r}: its messages go to handlers; ask a subscriber without")
        for name in ("pop", "broadcasting", "max_reconsume_times"):
            if self._options.get(name):
                raise SetupError(
                    f"topic {self.topic!r}: {name} is for handlers; leave it out to ask for messages"
                )
        if self._poller is None:
            poller = self._outer_config.consumers.new_poller(self.group, self._group_options)
            subscription = self.subscription
            await poller.subscribe(subscription.topic, subscription.tags, sql=subscription.sql)
            self._poller = poller
        found = await self._poller.poll(int(timeout * 1000), max_count=1)
        return await self._processed(Delivery(found[0])) if found else None

    async def __aiter__(self) -> AsyncIterator[RocketMQMessage]:
        """Iterate over the messages that come; each is done when the next one is asked for."""
        while True:
            if (message := await self.get_one()) is not None:
                yield message

    async def _processed(self, delivery: Delivery) -> RocketMQMessage:
        context = self._outer_config.context
        parser, decoder = self._get_parser_and_decoder()
        middlewares = (one(delivery, context=context) for one in self._broker_middlewares)
        message = await process_msg(msg=delivery, middlewares=middlewares, parser=parser, decoder=decoder)
        return cast("RocketMQMessage", message)

    def _make_response_publisher(self, message: StreamMessage[Delivery]) -> Sequence[PublisherProto[Any]]:
        return (ReplyPublisher(self._outer_config.producer, message.raw_message.message),)

    def get_log_context(self, message: StreamMessage[Delivery] | None) -> dict[str, str]:
        """Return what a log line shows of a message."""
        shown = {name: printable(text) for name, text in super().get_log_context(message).items()}
        return {**shown, "topic": self.topic, "group": self.group}


def new_subscriber(
    config: RocketMQBrokerConfig, topic: str, options: SubscriberOptions
) -> RocketMQSubscriber:
    """Create a subscriber.

    Raises:
        TypeError: an option is not known.
        FormatError, IllegalArgument: ``tags`` are illegal, or ``sql`` is given, too.
    """
    check_names(options, SubscriberOptions, "a subscriber")
    tag.check_filter(options.get("tags", "*"), options.get("sql"))
    calls: CallsCollection[Delivery] = CallsCollection()
    channel = SubscriberChannel(
        topic=topic,
        title_=options.get("title"),
        description_=options.get("description"),
        include_in_schema=options.get("include_in_schema", True),
    )
    return RocketMQSubscriber(
        SubscriberConfig(
            _outer_config=config,
            _ack_policy=options.get("ack_policy", EMPTY),
            no_reply=options.get("no_reply", False),
        ),
        RocketMQSubscriberSpecification(config, channel, calls),
        calls,
        options,
    )
