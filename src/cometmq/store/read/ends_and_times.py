"""The ends of a topic's queues, and when each got its newest message: what statistics of a topic consist of.

Exporters, dashboards and Spark's triggers ask for them over and over, and most of the queues have no new
message meanwhile. So the times are kept: to read one from the log takes as long as to look up ten queues.
"""

from typing import TypeAlias

from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.seek import store_time_at
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import Queues
from cometmq.store.reading import Reading

EndsAndTime: TypeAlias = tuple[int, int, int]
"""A queue's ``QueueEnds``, and the store time of its newest message, ms; 0 for a queue without messages."""


class EndsAndTimes:
    """Reads the ends of queues with the times of their newest messages."""

    def __init__(self, commit_log: CommitLog, queues: Queues) -> None:
        self._log = commit_log
        self._queues = queues
        self._kept: dict[int, tuple[int, int]] = {}
        """By a queue's number: where the record of its newest message ends in the log, and its store time."""

    def of(self, topic: str, queue_ids: range) -> Reading[list[EndsAndTime]]:
        """Return those of some queues of a topic, in their order."""
        found: list[EndsAndTime] = []
        for queue_id in queue_ids:
            queue = self._queues.find(topic, queue_id)
            if queue is None:
                found.append((0, 0, 0))
                continue
            low, high, time = queue.min_offset, queue.max_offset, 0
            if low < high:
                end, time = self._kept.get(queue.number, (-1, 0))
                if end != queue.physical_end:
                    time = yield from self._newest_time(queue)
            found.append((low, high, time))
        return found

    def _newest_time(self, queue: ConsumeQueue) -> Reading[int]:
        end, offset = queue.physical_end, queue.max_offset - 1
        time = max((yield from store_time_at(self._log, queue, offset)), 0)
        self._kept[queue.number] = end, time
        there = self._queues.by_number
        if len(self._kept) > len(there):  # some are of deleted queues
            self._kept = {number: kept for number, kept in self._kept.items() if number in there}
        return time
