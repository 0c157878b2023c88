"""The receipt handle of a popped message: it is acknowledged, or hidden for longer, by it.

Eight tokens between single blanks, in the property POP_CK and the field ``extraInfo``::

    begin_offset pop_time invisible_ms revive_queue_id retry_flag broker_name queue_id offset
    2            1795602428484 15000   3               0          broker-a    2        3

Source: RocketMQ ``remoting/protocol/header/ExtraInfoUtil.java``.
"""

from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format.pop.names import RetryFlag

_BLANK: Final = " "
_SHOWN_LENGTH: Final = 100
"""Longest handle in an error's text, in characters; longer ones are cut."""


class ReceiptHandle(NamedTuple):
    """A message that was popped.

    Attributes:
        begin_offset: queue offset at which its check point begins.
        pop_time_ms: when it was popped, by the broker's clock, ms since the epoch.
        invisible_ms: how long it is hidden after that.
        revive_queue_id: the queue of the revive topic that has its check point.
        retry_flag: whether its queue is one of a retry topic.
        broker_name: the broker that has its queue.
        queue_id: its queue.
        offset: its queue offset.
    """

    begin_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    retry_flag: RetryFlag
    broker_name: str
    queue_id: int
    offset: int

    def __str__(self) -> str:
        """Encode the handle."""
        return (
            f"{self.begin_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_queue_id} "
            f"{self.retry_flag:d} {self.broker_name} {self.queue_id} {self.offset}"
        )


def parse_receipt(text: str) -> ReceiptHandle:
    """Decode a handle. Raises FormatError, which shows it and says where handles come from."""
    try:
        begin_offset, pop_time, invisible, revive_queue, flag, broker, queue, offset = text.split(_BLANK)
        return ReceiptHandle(
            int(begin_offset),
            int(pop_time),
            int(invisible),
            int(revive_queue),
            RetryFlag(int(flag)),
            broker,
            int(queue),
            int(offset),
        )
    except ValueError:
        raise FormatError(
            f"{text[:_SHOWN_LENGTH]!r} is not a receipt handle of eight tokens: give the property POP_CK of "
            "the message that was popped"
        ) from None
