"""Reading a queue: from a queue offset, within limits, through a tag filter.

Source: RocketMQ ``store/DefaultMessageStore.java`` (getMessage), ``store/GetMessageStatus.java``.
"""

from collections.abc import Container
from enum import Enum, auto
from typing import NamedTuple, Protocol

from cometmq.format.consume_queue_ext import ADDRESS_MAX, ExtUnit
from cometmq.format.queue_entry import SIZE, unpack_many
from cometmq.store.commit_log import CommitLog
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.settings import StoreSettings


class GetStatus(Enum):
    """How a read ended; RocketMQ's names, which go to the consumer as they are."""

    FOUND = auto()
    NO_MATCHED_MESSAGE = auto()
    MESSAGE_WAS_REMOVING = auto()
    OFFSET_FOUND_NULL = auto()
    OFFSET_OVERFLOW_BADLY = auto()
    OFFSET_OVERFLOW_ONE = auto()
    OFFSET_TOO_SMALL = auto()
    NO_MATCHED_LOGIC_QUEUE = auto()
    NO_MESSAGE_IN_QUEUE = auto()


class RecordFilter(Protocol):
    """What a reader wants, as far as tags codes cannot say it."""

    def may_match(self, store_time: int, bitmap: bytes) -> bool:
        """Tell whether a record may be wanted, by what its queue's extension says of it."""

    def matches(self, record: bytes) -> bool:
        """Tell whether a record is wanted."""


class GetResult(NamedTuple):
    """What a read gave.

    Attributes:
        next_offset: queue offset to read from next.
        min_offset: first queue offset that can be read.
        max_offset: queue offset behind the last message.
        records: the messages' CommitLog records, byte for byte.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: list[bytes]


def get_messages(
    commit_log: CommitLog,
    queue: ConsumeQueue | None,
    queue_offset: int,
    settings: StoreSettings,
    *,
    max_count: int,
    max_bytes: int,
    tags_codes: Container[int] | None,
    record_filter: RecordFilter | None = None,
) -> GetResult:
    """Read messages of one queue from ``queue_offset`` on.

    Args:
        max_count: most messages wanted; the settings' own limit holds too, and one is given in any case.
        max_bytes: most bytes wanted; the first message is given whatever its size.
        tags_codes: the hashes of the wanted tags, or None for all. Different tags can have the same
            hash: who must be exact compares the tags again.
        record_filter: looks at each record that would be given, or None.
    """
    outside = _outside(queue, queue_offset)
    if queue is None or outside:
        return outside or GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, 0, 0, 0, [])
    max_count = min(max(max_count, 1), settings.max_transfer_count_on_message_in_memory)
    scan_count = max(settings.max_filter_message_size // SIZE, max_count)
    max_bytes = min(max_bytes, settings.max_transfer_bytes_on_message_in_memory)
    wanted = max_count if tags_codes is None and record_filter is None else scan_count
    records: list[bytes] = []
    status, next_offset, total = GetStatus.NO_MATCHED_MESSAGE, queue_offset, 0
    for physical_offset, size, tags_code in unpack_many(queue.read(queue_offset, wanted)):
        if records and (len(records) >= max_count or total + size > max_bytes):
            break
        next_offset += 1
        if tags_code <= ADDRESS_MAX:
            if not _may_match(queue.unit(tags_code), tags_codes, record_filter):
                continue
        elif tags_codes is not None and tags_code not in tags_codes:
            continue
        record = commit_log.read(physical_offset, size)
        if record is None:
            if not records:
                status = GetStatus.MESSAGE_WAS_REMOVING
            continue
        if record_filter is not None and not record_filter.matches(record):
            continue
        records.append(record)
        total += size
    if records:
        status = GetStatus.FOUND
    elif next_offset == queue_offset:
        status, next_offset = GetStatus.OFFSET_FOUND_NULL, _next_file(queue, queue_offset)
    return GetResult(status, next_offset, queue.min_offset, queue.max_offset, records)


def _may_match(
    unit: ExtUnit | None, tags_codes: Container[int] | None, record_filter: RecordFilter | None
) -> bool:
    """Tell whether an extended entry is wanted; if its unit is lost, it may be: the record decides."""
    if unit is None:
        return True
    if tags_codes is not None and unit.tags_code not in tags_codes:
        return False
    return record_filter is None or record_filter.may_match(unit.store_time, unit.bitmap)


def _outside(queue: ConsumeQueue | None, queue_offset: int) -> GetResult | None:
    """Say why nothing can be at ``queue_offset``, or None if something can."""
    if queue is None:
        return None
    low, high = queue.min_offset, queue.max_offset
    if high == 0:
        return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, low, high, [])
    if queue_offset < low:
        return GetResult(GetStatus.OFFSET_TOO_SMALL, low, low, high, [])
    if queue_offset == high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, high, low, high, [])
    if queue_offset > high:
        return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, high, low, high, [])
    return None


def _next_file(queue: ConsumeQueue, queue_offset: int) -> int:
    per_file = queue.chain.file_size // SIZE
    return min(queue_offset - queue_offset % per_file + per_file, queue.max_offset)
