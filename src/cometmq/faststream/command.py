"""What is to be published, and with which options of RocketMQ."""

from collections.abc import Mapping
from typing import Any, Self, TypedDict, Unpack, cast

from faststream.response.publish_type import PublishType
from faststream.response.response import BatchPublishCommand, PublishCommand, Response

from cometmq.message import StoredMessage

REQUEST_TIMEOUT_S = 3.0


class SendOptions(TypedDict, total=False):
    """Fields of :class:`cometmq.Message` that FastStream has no word for."""

    tags: str | None
    keys: tuple[str, ...]
    sharding_key: str | None
    delay_level: int
    delay_ms: int
    deliver_time: int


class RocketMQPublishCommand(BatchPublishCommand):
    """One or more bodies for a topic.

    Attributes:
        options: of each message.
        timeout_s: how long a request waits for its reply.
        request: the message that this replies to; None for a message of its own.
    """

    def __init__(
        self,
        message: Any,
        /,
        *messages: Any,
        topic: str = "",
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        publish_type: PublishType = PublishType.PUBLISH,
        **options: Unpack[SendOptions],
    ) -> None:
        super().__init__(
            message,
            *messages,
            destination=topic,
            headers=headers,
            correlation_id=correlation_id,
            _publish_type=publish_type,
        )
        self.options = options
        self.timeout_s = REQUEST_TIMEOUT_S
        self.request: StoredMessage | None = None

    def add_options(self, options: Mapping[str, Any]) -> None:
        """Add options that are not set yet."""
        self.options = cast("SendOptions", {**options, **self.options})

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> Self:
        """Return a command of any broker as one of this; those of this one as they are."""
        if isinstance(cmd, cls):
            return cmd
        body, others = cls._parse_bodies(cmd.body, batch=batch)
        return cls(
            body,
            *others,
            topic=cmd.destination,
            headers=cmd.headers,
            correlation_id=cmd.correlation_id,
            publish_type=cmd.publish_type,
        )


class RocketMQResponse(Response):
    """What a handler returns to publish a body with options: ``RocketMQResponse(bill, keys=(bill.id,))``."""

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.options = options

    def as_publish_command(self) -> RocketMQPublishCommand:
        """Build the command that publishes it."""
        return RocketMQPublishCommand(
            self.body, headers=self.headers, correlation_id=self.correlation_id, **self.options
        )
