"""Publishers: they send what handlers return, and what they are called with."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from faststream._internal.configs import PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.producer import ProducerProto
from faststream._internal.types import PublisherMiddleware
from faststream.response.publish_type import PublishType
from faststream.response.response import PublishCommand
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec

from cometmq.client.producer.send_result import SendResult
from cometmq.faststream.command import REQUEST_TIMEOUT_S, RocketMQPublishCommand, SendOptions
from cometmq.faststream.config import RocketMQBrokerConfig, check_names
from cometmq.faststream.message import RocketMQMessage
from cometmq.message import StoredMessage


class PublisherOptions(TypedDict, total=False):
    """How a publisher is declared: what each of its messages has, and what AsyncAPI shows of it."""

    tags: str | None
    keys: tuple[str, ...]
    headers: dict[str, str]
    persistent: bool
    title: str | None
    description: str | None
    schema: Any
    include_in_schema: bool


@dataclass(kw_only=True)
class PublisherConfig(PublisherUsecaseConfig):
    """What FastStream's publisher is made of."""

    _outer_config: RocketMQBrokerConfig = field(default_factory=RocketMQBrokerConfig)


@dataclass(kw_only=True)
class PublisherChannel(PublisherSpecificationConfig):
    """What AsyncAPI shows of a publisher."""

    topic: str


class RocketMQPublisherSpecification(PublisherSpecification[RocketMQBrokerConfig, PublisherChannel]):
    """A publisher in AsyncAPI."""

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return self._outer_config.prefix + self.config.topic

    @property
    def name(self) -> str:
        """The key of its channel."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        """Build its entry of the document. AsyncAPI has no bindings for RocketMQ."""
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        operation = Operation(message=Message(title=f"{self.name}:Message", payload=payload), bindings=None)
        description = self.config.description_
        return {
            self.name: PublisherSpec(
                address=self.topic, description=description, operation=operation, bindings=None
            )
        }


class RocketMQPublisher(PublisherUsecase):
    """Publishes to a topic, with the options that it was declared with."""

    _outer_config: RocketMQBrokerConfig

    def __init__(
        self,
        config: PublisherConfig,
        specification: PublisherSpecification[Any, Any],
        options: PublisherOptions,
    ) -> None:
        super().__init__(config, specification)
        self._topic: str = specification.config.topic
        self._headers = options.get("headers") or {}
        self._options = {name: value for name, value in options.items() if name in {"tags", "keys"}}

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return self._outer_config.prefix + self._topic

    async def publish(
        self,
        message: Any,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> SendResult:
        """Publish a message to its topic, or another, and wait until it is stored.

        Raises like ``Producer.send``.
        """
        cmd = RocketMQPublishCommand(
            message, topic=topic, headers=headers, correlation_id=correlation_id, **options
        )
        return await self._send(cmd, ())

    async def _publish(
        self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]
    ) -> None:
        """Publish what a handler has returned."""
        await self._send(RocketMQPublishCommand.from_cmd(cmd), _extra_middlewares)

    async def request(
        self,
        message: Any,
        topic: str = "",
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        timeout: float = REQUEST_TIMEOUT_S,  # noqa: ASYNC109 FastStream's name
        **options: Unpack[SendOptions],
    ) -> RocketMQMessage:
        """Publish a message and wait for the reply of its handler. Raises like ``Producer.request``."""
        cmd = RocketMQPublishCommand(
            message,
            topic=topic,
            headers=headers,
            correlation_id=correlation_id,
            publish_type=PublishType.REQUEST,
            **options,
        )
        cmd.timeout_s = timeout
        reply: RocketMQMessage = await self._basic_request(
            self._completed(cmd), producer=self._outer_config.producer
        )
        return reply

    async def _send(
        self, cmd: RocketMQPublishCommand, middlewares: Iterable[PublisherMiddleware]
    ) -> SendResult:
        result: SendResult = await self._basic_publish(
            self._completed(cmd), producer=self._outer_config.producer, _extra_middlewares=middlewares
        )
        return result

    def _completed(self, cmd: RocketMQPublishCommand) -> RocketMQPublishCommand:
        """Add what the publisher was declared with, where the command does not say otherwise."""
        cmd.destination = cmd.destination or self.topic
        cmd.correlation_id = cmd.correlation_id or self._outer_config.id_generator()
        cmd.add_headers(self._headers, override=False)
        cmd.add_options(self._options)
        return cmd


class ReplyPublisher(FakePublisher):
    """Sends what a handler returns to the producer that waits for the reply to a message."""

    def __init__(self, producer: ProducerProto[Any], request: StoredMessage) -> None:
        super().__init__(producer=producer)
        self._request = request

    def patch_command(self, cmd: PublishCommand) -> RocketMQPublishCommand:
        """Direct a command to the producer that waits."""
        ours = RocketMQPublishCommand.from_cmd(super().patch_command(cmd))
        ours.request = self._request
        ours.destination = self._request.topic
        return ours


def new_publisher(config: RocketMQBrokerConfig, topic: str, options: PublisherOptions) -> RocketMQPublisher:
    """Create a publisher. Raises TypeError for an unknown option."""
    check_names(options, PublisherOptions, "a publisher")
    channel = PublisherChannel(
        topic=topic,
        title_=options.get("title"),
        description_=options.get("description"),
        schema_=options.get("schema"),
        include_in_schema=options.get("include_in_schema", True),
    )
    return RocketMQPublisher(
        PublisherConfig(_outer_config=config), RocketMQPublisherSpecification(config, channel), options
    )
