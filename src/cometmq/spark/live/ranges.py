"""Ranges of queue offsets, and how they are split among Spark tasks."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cometmq.message import MessageQueue


class QueueRange(NamedTuple):
    """The messages of a queue from queue offset ``start`` to before ``end``."""

    queue: MessageQueue
    start: int
    end: int

    def __str__(self) -> str:
        topic, broker_name, queue_id = self.queue
        what = f"offset {self.start}" if self.size == 1 else f"offsets {self.start} to {self.end - 1}"
        return f"topic {topic}, broker {broker_name}, queue {queue_id}, {what}"

    @property
    def size(self) -> int:
        """The number of queue offsets."""
        return self.end - self.start


def split(ranges: Iterable[QueueRange], records_max: Callable[[MessageQueue], int]) -> list[list[QueueRange]]:
    """Split ranges into parts for one task each; small ranges share a part.

    Args:
        records_max: returns how many records of a queue fill a part.
    """
    parts: list[list[QueueRange]] = []
    room = 0.0  # of the last part, from 0 to 1
    for one in ranges:
        most = records_max(one.queue)
        left = one
        while left.size:
            count = min(round(room * most), left.size)
            if count == 0:
                parts.append([])
                room = 1.0
                continue
            parts[-1].append(left._replace(end=left.start + count))
            left = left._replace(start=left.start + count)
            room -= count / most
    return parts
