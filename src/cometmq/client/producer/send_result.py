"""The result of a send."""

from collections.abc import Sequence
from enum import IntEnum
from itertools import count
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
"""The response codes of a stored message, and their statuses."""


class SendResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message was stored. Python's garbage collector does not track it.

    Attributes:
        message_id: the message's unique id, made by the producer; of a batch, the first message's.
        offset_id: the broker's id of the message, as ``cometmq store find --id`` takes it; of a batch, those
            of its messages joined by commas.
        queue_offset: of the message, or of the first of a batch.
        recall_handle: argument of ``Producer.recall`` for a delayed message; else None.
    """

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    recall_handle: str | None = None

    @property
    def offset_ids(self) -> list[str]:
        """The broker's id of each message of a batch."""
        return self.offset_id.split(",") if self.offset_id else []


def result_of_each(result: SendResult, message_ids: Sequence[str]) -> list[SendResult]:
    """Split a batch's result into one for each message; ``message_ids`` are the messages' unique ids."""
    if len(message_ids) == 1:
        return [result]
    status, queue = result.status, result.queue
    offset_ids = result.offset_ids  # one, if the broker keeps the batch as one record
    offset_ids += [""] * (len(message_ids) - len(offset_ids))
    return [
        SendResult(status, message_id, offset_id, queue, queue_offset)
        for message_id, offset_id, queue_offset in zip(message_ids, offset_ids, count(result.queue_offset))
    ]
