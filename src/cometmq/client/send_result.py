"""What a send gave."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec

from cometmq.message import MessageQueue
from cometmq.wire.codes import ResponseCode


class SendStatus(IntEnum):
    """How safely a message is stored; it is stored in every case."""

    SEND_OK = ResponseCode.SUCCESS
    FLUSH_DISK_TIMEOUT = ResponseCode.FLUSH_DISK_TIMEOUT
    FLUSH_SLAVE_TIMEOUT = ResponseCode.FLUSH_SLAVE_TIMEOUT
    SLAVE_NOT_AVAILABLE = ResponseCode.SLAVE_NOT_AVAILABLE


STORED: Final[dict[int, SendStatus]] = {status.value: status for status in SendStatus}
"""The response codes that say that the message is stored, and what they mean."""


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message went.

    Attributes:
        message_id: the message's unique id, made by the producer; of a batch, the first message's.
        offset_ids: the broker's id of each message: what ``cometmq store find --id`` takes.
        queue_offset: of the message, or of the first of a batch.
    """

    status: SendStatus
    message_id: str
    offset_ids: list[str]
    queue: MessageQueue
    queue_offset: int


def of_each(result: SendResult, message_ids: Sequence[str]) -> list[SendResult]:
    """Give the result of each message of a batch, whose unique ids are given, from that of the batch."""
    status, offset_ids, queue, first = result.status, result.offset_ids, result.queue, result.queue_offset
    return [
        SendResult(status, message_id, offset_ids[place : place + 1], queue, first + place)
        for place, message_id in enumerate(message_ids)
    ]
