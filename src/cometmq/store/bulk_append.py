"""Appending sends that kernels take: records made, written and dispatched without a loop in Python."""

from collections.abc import Callable, Iterable

from cometmq.io.clock import Clock
from cometmq.kernels.sends.rows import MESSAGES_MAX, SendBatch
from cometmq.store.parts import Parts
from cometmq.store.upkeep.dispatch import Dispatcher


class BulkAppend:
    """The store's side of the bulk path.

    Args:
        begin: sees that the store takes messages at a store time, ms; raises StoreNotWritable.
        end: called after each append.
        readable_offset: gives the log's offset up to which messages may be read.
    """

    def __init__(
        self,
        parts: Parts,
        dispatcher: Dispatcher,
        clock: Clock,
        begin: Callable[[int], None],
        end: Callable[[], None],
        readable_offset: Callable[[], int],
    ) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._staged = parts.queues.staged
        self._dispatcher = dispatcher
        self._clock = clock
        self._begin = begin
        self._end = end
        self._readable_offset = readable_offset

    def queue_number(self, topic: str, queue_id: int) -> int:
        """Give the number of a queue, made if it is not there. Raises like ``Queues.find_or_create``."""
        return self._queues.find_or_create(topic, queue_id).number

    def append(
        self, batch: SendBatch, reads: Iterable[tuple[bytes, int, bytes]]
    ) -> list[tuple[int, int, int]]:
        """Take the sends of some reads, and append what is taken.

        A send that does not fit into the log's file, and the first of all, are for ``MessageStore.append``.
        Raises StoreNotWritable; nothing is taken then.

        Args:
            reads: what was read, where to begin in it, and whence it came: see ``SendBatch.take``.

        Returns:
            What ``SendBatch.take`` gives for each.
        """
        log, staged, time = self._log, self._staged, self._clock.now_ms()
        entries, next_offsets = staged.with_room(MESSAGES_MAX), self._queues.next_offsets.longs
        batch.begin(next_offsets, entries, staged.end, log.written_offset, log.file_room, time)
        try:
            taken = [batch.take(*read) for read in reads]
            if not batch.count:
                return taken
            self._begin(time)
            log.append_encoded(batch.records, time)
        except BaseException:
            batch.take_back()
            raise
        self._dispatcher.add_sends(batch.count, self._readable_offset())
        self._end()
        return taken
