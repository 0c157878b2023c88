"""Appending sends that kernels have read: records made, written and dispatched without a loop in Python."""

from collections.abc import Callable

from cometmq.kernels.ops import Longs
from cometmq.kernels.sends import Hosts, SendBatch
from cometmq.store.dispatch import Dispatcher
from cometmq.store.parts import Parts


class BulkAppend:
    """The store's side of the bulk path.

    Args:
        begin: sees that the store takes messages and gives their store time, ms; raises StoreNotWritable.
        end: called after each append.
        readable_offset: gives the log's offset up to which messages may be read.
    """

    def __init__(
        self,
        parts: Parts,
        dispatcher: Dispatcher,
        begin: Callable[[], int],
        end: Callable[[], None],
        readable_offset: Callable[[], int],
    ) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._dispatcher = dispatcher
        self._begin = begin
        self._end = end
        self._readable_offset = readable_offset

    @property
    def next_offsets(self) -> Longs:
        """What the next message of each queue gets, by the queue's number; negative for one that is gone."""
        return self._queues.next_offsets.longs

    def queue_number(self, topic: str, queue_id: int) -> int:
        """Give the number of a queue, which is made if it is not there. Raises IllegalName."""
        return self._queues.get(topic, queue_id).number

    def append(self, batch: SendBatch, hosts: Hosts) -> None:
        """Append sends, as far as they fit into the log's file: ``batch.count`` becomes how many did.

        The next one, and the first of all, are for ``MessageStore.append``. Raises StoreNotWritable.
        """
        store_time = self._begin()
        self._log.append_sends(batch, hosts, self.next_offsets, store_time)
        if batch.count:
            self._dispatcher.take_sends(batch.entries[: batch.count], self._readable_offset())
            self._end()
