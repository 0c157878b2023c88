"""What a pop has found, and its answer.

A client computes the receipt handle of each message from the answer's strings, by the topic in the record. So
a record of the group's retry topic, which is delivered under the name of the topic that was popped, carries
its handle along. (RocketMQ: PopMessageProcessor.java, ExtraInfoUtil.java.)
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from cometmq.broker.requests.pop.in_order import PopInOrder
from cometmq.broker.requests.pop.sources import Source
from cometmq.errors import CometMQError, MessageIllegal
from cometmq.format import property_crc
from cometmq.format.pop.offset_info import (
    PoppedQueue,
    encode_begin_offsets,
    encode_offsets,
    encode_order_counts,
)
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.format.properties import MAX_LENGTH, NAME_END, POP_CK, VALUE_END
from cometmq.format.record import LONG, QUEUE_OFFSET_AT, Record, decode, encode
from cometmq.message import Buffer
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.frame import encode as encode_frame
from cometmq.wire.headers import PopResponseHeader, fields
from cometmq.wire.template import ResponseTemplate

FOUND: Final = "FOUND"
"""The remark of an answer with messages."""
_FOUND: Final = ResponseTemplate(
    ("startOffsetInfo", "msgOffsetInfo", "popTime", "invisibleTime", "reviveQid", "restNum"), {}, FOUND
)

_QUEUE_OFFSET: Final = Struct(f">{LONG}")
_HANDLE_BEGIN: Final = f"{POP_CK}{NAME_END}".encode()
_END: Final = VALUE_END.encode()


class ReadQueue(NamedTuple):
    """Messages that were read of one queue.

    Attributes:
        key: of group and topic: see ``offsets.key_of``.
        begin_offset: where the read began.
        offsets: the queue offsets of the messages.
        next_offset: where the next read begins.
        data: their records.
        sizes: the size of each record in bytes.
    """

    source: Source
    key: str
    queue_id: int
    begin_offset: int
    offsets: tuple[int, ...]
    next_offset: int
    data: Buffer
    sizes: Sequence[int]


class Popped:
    """What one pop has found so far.

    Args:
        topic, group: of the pop.
        sources: what it reads, in this order.
        pop_time_ms: when it began, ms since the epoch.

    Attributes:
        count: the messages that were read.
        size: the bytes of their records.
        rest: about how many further messages there are.
        queues: what was handed out.
        unstored: what was read, but has no check point yet.
        refusal: why messages could not be handed out, or None.
        in_order: what it is besides if it pops in order; else None.
        waited: whether the visit of the queues has waited for the disk.
        paused: whether the read under way has.
        passed_over: whether a queue has more messages behind those that the filter rejects.
    """

    def __init__(
        self,
        topic: str,
        group: str,
        sources: Sequence[Source],
        *,
        broker_name: str,
        pop_time_ms: int,
        invisible_ms: int,
        revive_queue_id: int,
    ) -> None:
        self.topic = topic
        self.group = group
        self.sources = sources
        self.broker_name = broker_name
        self.pop_time_ms = pop_time_ms
        self.invisible_ms = invisible_ms
        self.revive_queue_id = revive_queue_id
        self.count = self.size = self.rest = 0
        self.queues: list[PoppedQueue] = []
        self.unstored: list[ReadQueue] = []
        self.refusal: CometMQError | None = None
        self.in_order: PopInOrder | None = None
        self.waited = self.paused = self.passed_over = False
        self._records: list[Buffer] = []

    def add(self, read: ReadQueue, *, as_popped_topic: bool) -> None:
        """Add messages that are handed out.

        Args:
            as_popped_topic: whether those of a retry topic are delivered under the name of the popped one.
        """
        source = read.source
        self.queues.append(PoppedQueue(source.retry_flag, read.queue_id, read.begin_offset, read.offsets))
        if source.topic == self.topic or not as_popped_topic:
            self._records.append(read.data)
        else:
            self._records += self._renamed(read)

    def refuse(self, read: Iterable[ReadQueue], error: CometMQError) -> None:
        """Drop messages whose check points could not be stored."""
        for one in read:
            self.count -= len(one.offsets)
            self.size -= len(one.data)
            self.rest += len(one.offsets)
        self.refusal = error

    def copy_records(self) -> None:
        """Copy the records out of the store's maps, which must not be held across a turn of the loop."""
        self._records = [b"".join(self._records)]

    def answer(self, command: Command) -> bytes:
        """Return the frame of the response with the messages that are handed out."""
        in_order, queues, records = self.in_order, self.queues, b"".join(self._records)
        numbers = self.pop_time_ms, self.invisible_ms, self.revive_queue_id, self.rest
        texts = encode_begin_offsets(queues), encode_offsets(queues)
        if in_order is None:
            return _FOUND.encode(command, (*texts, *map(str, numbers)), len(records)) + records
        header = PopResponseHeader(*numbers, *texts, _order_counts(queues, in_order))
        return encode_frame(response(command, ResponseCode.SUCCESS, FOUND, fields(header), records))

    def nothing_fields(self) -> dict[str, str]:
        """Return the header of a response without messages."""
        return fields(PopResponseHeader(self.pop_time_ms, self.invisible_ms, self.revive_queue_id, self.rest))

    def _renamed(self, read: ReadQueue) -> list[bytes]:
        """Return the records of a retry topic under the popped topic's name, with their handles."""
        records, position = [], 0
        for offset, size in zip(read.offsets, read.sizes, strict=True):
            handle = ReceiptHandle(
                read.begin_offset,
                self.pop_time_ms,
                self.invisible_ms,
                self.revive_queue_id,
                read.source.retry_flag,
                self.broker_name,
                read.queue_id,
                offset,
            )
            data = bytes(read.data[position : position + size])
            records.append(with_handle(data, self.topic, str(handle)))
            position += size
        return records


def _order_counts(queues: Iterable[PoppedQueue], in_order: PopInOrder) -> str:
    return encode_order_counts(dict(zip(queues, in_order.consumed, strict=True)))


def with_handle(data: bytes, topic: str, handle: str) -> bytes:
    """Return a record under another topic, with a receipt handle if it has none.

    A record whose properties have no room for a handle stays as it is: then a client finds it by the name of
    the retry topic.
    """
    record: Record = decode(data)
    named = record.properties
    if named[-property_crc.SIZE :].startswith(property_crc.NAME):
        named = named[: -property_crc.SIZE]  # it covers the other name
    if not named.startswith(_HANDLE_BEGIN) and _END + _HANDLE_BEGIN not in named:
        between = b"" if not named or named.endswith(_END) else _END
        named = b"".join((named, between, _HANDLE_BEGIN, handle.encode(), _END))
    if len(named) > MAX_LENGTH:
        return data
    try:
        return encode(record._replace(topic=topic, properties=named, magic=None))
    except MessageIllegal:
        return data


def queue_offsets(data: Buffer, sizes: Iterable[int]) -> tuple[int, ...]:
    """Return the queue offsets in adjacent records."""
    offsets, position = [], 0
    for size in sizes:
        offsets.append(_QUEUE_OFFSET.unpack_from(data, position + QUEUE_OFFSET_AT)[0])
        position += size
    return tuple(offsets)
