"""Delete topics and queues in steps, since a deletion may concern tens of thousands of queues.

A deletion is recorded on the disk first, in any thread. Then the owner's thread removes the queues from the
store, some in each turn, and moves their directories away. Until then nothing may be appended to them.
``remove_files`` removes their files later, in any thread.

The steps are those of a reading (``store/reading.py``).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from cometmq.errors import StoreNotWritable
from cometmq.store.log.commit_log import describe
from cometmq.store.parts import Parts
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import QueueKey
from cometmq.store.reading import PAUSE, Reading

TURN_MAX: Final = 500
"""Number of queues that are removed from the store, or checked, in one turn."""
MOVE_WEIGHT: Final = 5
"""Moving a directory, a system call, counts as this many queues."""


class Deletions:
    """Deletes topics and unused queues of a store."""

    def __init__(self, parts: Parts) -> None:
        self._root = parts.root
        self._log = parts.log
        self._queues = parts.queues
        self._ledger = parts.ledger

    def topics(self, topics: Collection[str]) -> Reading[None]:
        """Delete all messages of topics. Raises StoreNotWritable if the disk refuses to record it."""
        log = self._log
        record = self._ledger.record_deleted_topics(topics, log.written_offset, log.min_offset)
        yield from self._recorded(record)
        done = 0
        for topic in topics:
            queues = self._queues.of_topic(topic)
            for part in _parts(queues):
                self._queues.remove(part)
                done += len(part)
                if done >= TURN_MAX:
                    done = 0
                    yield PAUSE
            self._queues.discard(topic, [queue.queue_id for queue in queues])
            done += MOVE_WEIGHT

    def unused(
        self, is_used: Callable[[str, int], bool], on_deleted: Callable[[list[QueueKey]], None]
    ) -> Reading[None]:
        """Delete the queues whose messages have all expired and that nobody uses any more.

        A deleted queue would begin again at queue offset 0, so one in use must stay. Raises StoreNotWritable
        if the disk refuses to record it.

        Args:
            on_deleted: called with queues as they are deleted.
        """

        def are_unused(queues: Iterable[ConsumeQueue]) -> list[ConsumeQueue]:
            return [queue for queue in queues if self._is_empty(queue) and not is_used(*_key(queue))]

        unused: list[ConsumeQueue] = []
        for part in _parts(list(self._queues)):
            unused += are_unused(part)
            yield PAUSE
        record = self._ledger.record_deleted_queues(map(_key, unused), self._log.written_offset)
        yield from self._recorded(record)
        for part in _parts(unused, TURN_MAX // MOVE_WEIGHT):
            deleted = are_unused(part)  # still
            self._queues.remove(deleted)
            for topic, queues in groupby(deleted, lambda queue: queue.topic):
                self._queues.discard(topic, [queue.queue_id for queue in queues])
            on_deleted([*map(_key, deleted)])
            yield PAUSE

    def remove_files(self) -> None:
        """Remove the files of deleted queues. Safe from any thread, one at a time."""
        self._queues.discarded.remove()

    @property
    def has_files(self) -> bool:
        """Whether there are files to remove."""
        return bool(self._queues.discarded)

    def _is_empty(self, queue: ConsumeQueue) -> bool:
        """Return whether all messages of a queue have expired, and none waits for dispatch."""
        return queue.physical_end <= self._log.min_offset and queue.next_offset == queue.max_offset

    def _recorded(self, record: Reading[None]) -> Reading[None]:
        try:
            yield from record
        except OSError as error:
            raise StoreNotWritable(describe(error, self._root)) from error


def _key(queue: ConsumeQueue) -> QueueKey:
    return queue.topic, queue.queue_id


def _parts(queues: Sequence[ConsumeQueue], size: int = TURN_MAX) -> Iterator[Sequence[ConsumeQueue]]:
    return (queues[first : first + size] for first in range(0, len(queues), size))
