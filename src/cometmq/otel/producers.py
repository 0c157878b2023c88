"""Producers whose sends are spans; without OpenTelemetry's SDK they cost little and record nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from opentelemetry.trace import Tracer

from cometmq.client.producer.producer import REPLY_TIMEOUT_MS, Producer
from cometmq.client.producer.send_result import SendResult
from cometmq.client.producer.sending import Where
from cometmq.client.producer.transaction_producer import TransactionProducer
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.otel.send_spans import TRACER, sending


class TracedProducer(Producer):
    """A producer with the arguments and methods of :class:`cometmq.Producer`, whose sends are spans.

    Attributes:
        tracer: makes the spans; by default of the global tracer provider.
    """

    tracer: Tracer = TRACER

    async def send(self, message: Message, queue: Where = None) -> SendResult:
        """Send a message within a span."""
        with sending([message], self.tracer) as one:
            return one.stored(await super().send(one.message, queue))

    async def send_many(
        self,
        messages: Iterable[Message],
        queue_of: Callable[[Message], MessageQueue | None] | None = None,
    ) -> list[SendResult]:
        """Send messages within one span."""
        with sending(messages, self.tracer) as many:
            return await super().send_many(many.messages, queue_of)

    async def send_batch(self, messages: Sequence[Message], queue: Where = None) -> SendResult:
        """Send messages of one topic to one queue within a span."""
        with sending(messages, self.tracer) as many:
            return many.stored(await super().send_batch(many.messages, queue))

    async def send_oneway(self, message: Message, queue: Where = None) -> None:
        """Send a message within a span that ends before the broker has it."""
        with sending([message], self.tracer) as one:
            await super().send_oneway(one.message, queue)

    async def request(
        self, message: Message, timeout_ms: int = REPLY_TIMEOUT_MS, queue: Where = None
    ) -> StoredMessage:
        """Send a message within a span that ends when the reply is there."""
        with sending([message], self.tracer) as one:
            return await super().request(one.message, timeout_ms, queue)

    async def reply(
        self,
        request: StoredMessage,
        body: bytes,
        *,
        tags: str | None = None,
        keys: tuple[str, ...] = (),
        properties: Mapping[str, str] = {},
    ) -> SendResult:
        """Reply to a message within a span."""
        message = Message(request.topic, body, tags, keys, properties)
        with sending([message], self.tracer) as one:
            properties = one.message.properties
            return one.stored(await super().reply(request, body, tags=tags, keys=keys, properties=properties))


class TracedTransactionProducer(TracedProducer, TransactionProducer):
    """A producer of transactions, whose sends are spans; that of a half message ends when it is stored."""

    async def send_half(self, message: Message, queue: Where = None) -> SendResult:
        """Send a half message within a span."""
        with sending([message], self.tracer) as one:
            return one.stored(await super().send_half(one.message, queue))
