"""What a read of a queue gives."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from cometmq.errors import DamagedRecord
from cometmq.message import Buffer


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


class GetResult(NamedTuple):
    """What a read gave.

    Attributes:
        next_offset: queue offset to read from next.
        min_offset: first queue offset that can be read.
        max_offset: queue offset behind the last message.
        runs: the messages' CommitLog records, byte for byte; those that lie side by side are one run.
        sizes: the size of each record.
        is_far_behind: whether what was looked at last counts as on the disk.
        damaged: why the first message is not given, if it is damaged; it is passed over.
    """

    status: GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    runs: list[Buffer]
    sizes: Sequence[int] = ()
    is_far_behind: bool = False
    damaged: DamagedRecord | None = None

    @property
    def records(self) -> list[bytes]:
        """The records one by one."""
        return split(b"".join(self.runs), self.sizes)


def split(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut records that lie back to back."""
    records, position = [], 0
    for size in sizes:
        records.append(data[position : position + size])
        position += size
    return records
