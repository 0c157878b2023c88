"""Appending to a store: messages, the sends that leaf operations encode, and the records of a master.

All are written behind the last record and dispatched. Messages and sends are numbered from the same next
queue offsets; a master's records have their numbers.
"""

from collections.abc import Callable, Sequence

import numpy as np

from cometmq.errors import IllegalName, MessageIllegal
from cometmq.format.dispatch import LIGHT_OFFSETS, without_light_offsets
from cometmq.io.clock import Clock
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Scan
from cometmq.kernels.sends.rows import MESSAGES_MAX, SendBatch, SendOps
from cometmq.store.append import Appended, NewMessage
from cometmq.store.log.log_scan import Chunk
from cometmq.store.parts import Parts
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep.dispatch import NO_QUEUE, Dispatcher, has_queue_entry
from cometmq.store.upkeep.upkeep import Upkeep


class Appending:
    """Appends to one store.

    Args:
        end: called after each append; None for nothing.

    Attributes:
        readable_offset: returns the log's offset up to which messages may be read; None if that is all.
        next_offsets: the next queue offset of each queue.
    """

    def __init__(
        self,
        parts: Parts,
        settings: StoreSettings,
        dispatcher: Dispatcher,
        upkeep: Upkeep,
        clock: Clock,
        end: Callable[[], None] | None,
        readable_offset: Callable[[], int] | None,
    ) -> None:
        self._log = parts.log
        self._refusals = parts.log.refusals
        self._checkpoint = parts.checkpoint
        self._queues = parts.queues
        self._staged = parts.queues.staged
        self.next_offsets = parts.queues.next_offsets
        self._dispatcher = dispatcher
        self._clock = clock
        self._upkeep = upkeep
        self._own_end = self._end = end
        self.readable_offset = readable_offset
        self.are_usual = not (settings.enable_consume_queue_ext or settings.enabled_append_prop_crc)

    def queue_number(self, topic: str, queue_id: int) -> int:
        """Return the number of a queue, which is created if need be. Raises like ``Queues.number_of``."""
        return self._queues.number_of(topic, queue_id)

    def messages(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Append messages, all or none: see ``MessageStore.append``.

        Their own offsets in light queues are left out: they are those of messages that were read before.
        """
        if any(LIGHT_OFFSETS in message.properties for message in messages):
            messages = [
                message._replace(properties=without_light_offsets(message.properties)) for message in messages
            ]
        store_time = self._clock.now_ms()
        self._begin(store_time)
        numbers: list[int] = []
        queue_offsets: list[int] = []
        try:
            for message in messages:
                number, queue_offset = NO_QUEUE, 0
                if has_queue_entry(message.sys_flag):
                    number, queue_offset = self._queues.take_offset(message.topic, message.queue_id)
                numbers.append(number)
                queue_offsets.append(queue_offset)
            appended = self._log.append(messages, queue_offsets, store_time)
        except BaseException as error:
            for number in numbers:
                if number != NO_QUEUE:
                    self.next_offsets.values[number] -= 1
            if isinstance(error, IllegalName):
                raise MessageIllegal(str(error)) from None
            raise
        self._dispatcher.add(numbers, messages, appended, self._readable())
        if self._end is not None:
            self._end()
        return appended

    def sends(self, ops: SendOps, batch: SendBatch, frames: Frames, hosts: bytes) -> int:
        """Encode the usual sends of some reads, and append them: see ``SendOps.encode``.

        A send that does not fit into the log's file, and the first of all, are for ``messages``. Raises
        StoreNotWritable; nothing is stored then.

        Args:
            ops: encodes sends to a store whose records and queue entries ``are_usual``.
            batch: gets the sends.

        Returns:
            How many messages were appended.
        """
        log, staged, time = self._log, self._staged, self._clock.now_ms()
        entries = staged.with_room(MESSAGES_MAX)
        batch.begin(self.next_offsets.longs, entries, staged.end, log.written_offset, log.file_room, time)
        try:
            ops.encode(batch, frames, hosts)
            count = batch.message_count
            if count:
                self._begin(time)
                log.append_encoded(batch.records, time)
        except BaseException:
            batch.take_back()
            raise
        if count:
            self._dispatcher.add_sends(count, self._readable())
            if self._end is not None:
                self._end()
        return count

    def begin_at(self, offset: int) -> None:
        """Begin an empty log at the offset of a file of the master's log."""
        self._log.begin_at(offset)
        self._dispatcher.begin_at(offset)

    def received(self, data: bytes, scan: Scan) -> None:
        """Append records that a master has encoded for ``written_offset``, and a blank that follows them.

        They may be appended by a slave, which accepts no others. Raises StoreNotWritable; nothing is stored
        then.
        """
        log, begin = self._log, self._log.written_offset
        time = int(scan.store_time[-1]) if scan.count else log.written_time
        self._begin(int(scan.store_time.min()) if scan.count else time, from_master=True)
        log.append_encoded(data, time)
        chunk = Chunk(np.frombuffer(data, np.uint8), begin, scan)
        self._dispatcher.add_received(chunk, log.written_offset, time, self._readable())
        if self._end is not None:
            self._end()

    def call_after(self, action: Callable[[], None] | None) -> None:
        """Set a function that is called after each append; None for nothing, which costs appends nothing."""
        self._end = _both(self._own_end, action)

    def _begin(self, store_time: int, *, from_master: bool = False) -> None:
        """Check that the store accepts messages at a store time, ms. Raises StoreNotWritable."""
        refusals = self._refusals
        if refusals.first is not None:
            self._upkeep.try_again()
            if (why := refusals.of_disk if from_master else refusals.first) is not None:
                raise why.with_traceback(None)  # it is raised again and again: its traceback would grow
        if store_time < self._log.written_time:
            self._upkeep.limit_flushed_time(store_time)
        if store_time <= self._checkpoint.vouched_time:
            self._upkeep.lower_checkpoint(store_time - 1)

    def _readable(self) -> int:
        """Return the log's offset up to which messages may be read."""
        return self._log.written_offset if self.readable_offset is None else self.readable_offset()


def _both(first: Callable[[], None] | None, second: Callable[[], None] | None) -> Callable[[], None] | None:
    """Return a function that calls both; None if there is none."""
    if first is None or second is None:
        return first or second

    def call() -> None:
        first()
        second()

    return call
