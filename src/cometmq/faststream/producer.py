"""Sends what FastStream publishes, by a producer of CometMQ's."""

from typing import Any

from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream._internal.types import CustomCallable
from faststream.exceptions import IncorrectState

from cometmq.client.producer.producer import Producer
from cometmq.client.producer.send_result import SendResult
from cometmq.faststream.command import RocketMQPublishCommand
from cometmq.faststream.message import CONTENT_TYPE, CORRELATION_ID, Delivery, decode, parse
from cometmq.message import Message


class MessageProducer(ProducerProto[RocketMQPublishCommand]):
    """Encodes bodies and sends them.

    Args:
        parser, decoder: of replies, in the place of ours or around them.
        codec: encodes bodies; None for FastStream's: JSON, text, bytes as they are.
    """

    def __init__(
        self,
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
    ) -> None:
        self._parser = ParserComposition(parser, parse)
        self._decoder = ParserComposition(decoder, decode)
        self.codec = codec or DefaultCodec()
        self._client: Producer | None = None
        self._serializer: Any = None

    def connect(self, client: Producer | None, serializer: Any) -> None:
        """Set the producer that sends, and the serializer that bodies are encoded by; None for neither."""
        self._client, self._serializer = client, serializer

    @property
    def client(self) -> Producer:
        """The producer that sends. Raises IncorrectState before the broker has connected."""
        if self._client is None:
            raise IncorrectState("the broker is not connected: await broker.connect() or broker.start()")
        return self._client

    async def encode(self, cmd: RocketMQPublishCommand, body: Any) -> Message:
        """Encode one body of a command. Raises IllegalField for an option of the wrong type."""
        data, content_type = await self.codec.encode(body, self._serializer)
        headers = {name: str(value) for name, value in cmd.headers.items()}
        if content_type:
            headers.setdefault(CONTENT_TYPE, content_type)
        if cmd.correlation_id:
            headers[CORRELATION_ID] = cmd.correlation_id
        return Message(cmd.destination, bytes(data), properties=headers, **cmd.options)

    async def publish(self, cmd: RocketMQPublishCommand) -> SendResult:
        """Send a message, or the reply to one. Raises like ``Producer.send`` and ``Producer.reply``."""
        message = await self.encode(cmd, cmd.body)
        if cmd.request is None:
            return await self.client.send(message)
        return await self.client.reply(
            cmd.request, message.body, tags=message.tags, keys=message.keys, properties=message.properties
        )

    async def publish_batch(self, cmd: RocketMQPublishCommand) -> list[SendResult]:
        """Send many messages in few requests. Raises like ``Producer.send_many``."""
        return await self.client.send_many([await self.encode(cmd, body) for body in cmd.batch_bodies])

    async def request(self, cmd: RocketMQPublishCommand) -> Delivery:
        """Send a message and wait for its reply. Raises like ``Producer.request``."""
        message = await self.encode(cmd, cmd.body)
        return Delivery(await self.client.request(message, timeout_ms=int(cmd.timeout_s * 1000)))
