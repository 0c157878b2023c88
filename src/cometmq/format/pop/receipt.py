"""The receipt handle of a popped message: it is acknowledged, or hidden for longer, by it.

Eight tokens between single blanks, in the property POP_CK and the field ``extraInfo``::

    begin_offset pop_time invisible_ms revive_queue_id retry_flag broker_name queue_id offset
    2            1795602428484 15000   3               0          broker-a    2        3

What follows them is ignored, as RocketMQ does: its gRPC proxy adds the message's place in the CommitLog.

Source: RocketMQ ``remoting/protocol/header/ExtraInfoUtil.java``.
"""

from typing import Annotated, Final, NamedTuple

import msgspec

from cometmq.errors import FormatError
from cometmq.format.pop.names import RetryFlag

_BLANK: Final = " "
_TOKENS: Final = 8
_SHOWN_LENGTH: Final = 100
"""Longest handle in an error's text, in characters; longer ones are cut."""

_Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


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

    begin_offset: _Long
    pop_time_ms: _Long
    invisible_ms: _Long
    revive_queue_id: _Long
    retry_flag: RetryFlag
    broker_name: str
    queue_id: _Long
    offset: _Long

    def __str__(self) -> str:
        """Encode the handle."""
        return (
            f"{self.begin_offset} {self.pop_time_ms} {self.invisible_ms} {self.revive_queue_id} "
            f"{self.retry_flag:d} {self.broker_name} {self.queue_id} {self.offset}"
        )


def parse_receipt(text: str) -> ReceiptHandle:
    """Decode a handle. Raises FormatError, which shows it and says where handles come from."""
    try:
        return msgspec.convert(text.split(_BLANK)[:_TOKENS], ReceiptHandle, strict=False)
    except msgspec.ValidationError:
        raise FormatError(
            f"{text[:_SHOWN_LENGTH]!r} is not a receipt handle of eight tokens: give the property POP_CK of "
            "the message that was popped"
        ) from None
