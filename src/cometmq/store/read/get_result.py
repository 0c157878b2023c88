"""The result of a read of a queue, and its status."""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from cometmq.errors import DamagedRecord
from cometmq.message import Buffer


class GetStatus(Enum):
    """How a read ended, by RocketMQ's names; ``get`` has the conditions."""

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
    """The result of a read.

    Attributes:
        next_offset: queue offset to read from next.
        min_offset: first queue offset that can be read.
        max_offset: queue offset behind the last message.
        runs: the messages' CommitLog records, byte for byte, in their order; several may be one run.
        sizes: the size of each record in bytes.
        is_far_behind: whether the record of the last entry examined counts as on disk.
        damaged: the error of the first message, if that is damaged and was skipped.
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
    """Split adjacent records by their sizes in bytes."""
    records, position = [], 0
    for size in sizes:
        records.append(data[position : position + size])
        position += size
    return records
