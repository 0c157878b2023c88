"""A message as a handler of FastStream gets it, and what is to become of it then.

FastStream's headers are a message's properties, without those that RocketMQ reserves. The content type and
the correlation id are the properties ``content-type`` and ``correlation_id``.
"""

from dataclasses import dataclass
from typing import Any, Final

from faststream.message import AckStatus, StreamMessage, decode_message

from cometmq.arguments import check
from cometmq.client.handling.outcome import DELAY_LEVEL, DeadLetter, Retry
from cometmq.format.properties import REPLY_TO_CLIENT, RESERVED
from cometmq.message import StoredMessage

CONTENT_TYPE: Final = "content-type"
CORRELATION_ID: Final = "correlation_id"


@dataclass(eq=False)
class Delivery:
    """A stored message on its way through a handler.

    Attributes:
        outcome: what the handler has decided; None while it has not.
        delay_level: after which of the broker's delay levels a message that was not acknowledged is delivered
            again; 0 for one that grows with each retry.
    """

    message: StoredMessage
    outcome: AckStatus | None = None
    delay_level: int = 0

    def settle(self) -> None:
        """Report the outcome to the consumer: return for an acknowledgement.

        Raises:
            DeadLetter: the message was rejected.
            Retry: it was not acknowledged, or nothing was decided.
        """
        if self.outcome is AckStatus.REJECTED:
            raise DeadLetter("it was rejected")
        if self.outcome is not AckStatus.ACKED:
            raise Retry(delay_level=self.delay_level)


class RocketMQMessage(StreamMessage[Delivery]):
    """A message in a handler; the first of ``ack``, ``nack`` and ``reject`` counts."""

    @property
    def stored(self) -> StoredMessage:
        """The message as the log stores it: tags, keys, queue, offsets, times, number of retries."""
        return self.raw_message.message

    async def ack(self) -> None:
        """Acknowledge the message: it is done."""
        self._decide(AckStatus.ACKED)
        await super().ack()

    async def nack(self, delay_level: int = 0) -> None:
        """Refuse the message: it is delivered again after a delay. Raises like ``Retry``."""
        check(DELAY_LEVEL, delay_level=delay_level)
        if self.raw_message.outcome is None:
            self.raw_message.delay_level = delay_level
        self._decide(AckStatus.NACKED)
        await super().nack()

    async def reject(self) -> None:
        """Reject the message: it becomes a dead letter at once."""
        self._decide(AckStatus.REJECTED)
        await super().reject()

    def _decide(self, outcome: AckStatus) -> None:
        self.raw_message.outcome = self.raw_message.outcome or outcome


async def parse(delivery: Delivery) -> RocketMQMessage:
    """Build the message of a delivery."""
    stored = delivery.message
    headers = {name: value for name, value in stored.properties.items() if name not in RESERVED}
    return RocketMQMessage(
        raw_message=delivery,
        body=stored.body,
        headers=headers,
        reply_to=stored.properties.get(REPLY_TO_CLIENT, ""),
        content_type=headers.get(CONTENT_TYPE),
        correlation_id=headers.get(CORRELATION_ID),
        message_id=stored.message_id,
    )


async def decode(message: StreamMessage[Any]) -> Any:
    """Decode a message's body by its content type."""
    return decode_message(message)
