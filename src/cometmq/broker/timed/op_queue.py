"""The op queue: which half messages are ended, as recorded in ``cluster.transaction.Endings``.

The half messages that are ended in one turn of the loop share an op message. It is written at the end of the
turn, after the committed messages, so that no crash loses one of these. (RocketMQ's broker collects endings
for three seconds; if it is killed meanwhile, their producers are asked again.)
"""

import asyncio
from collections.abc import Sequence

from cometmq.broker.reads import read
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.timed.half_message import ended_by, op_messages
from cometmq.cluster.transaction import Endings
from cometmq.errors import StoreNotWritable
from cometmq.format.record import Record, decode
from cometmq.format.transaction import HALF_OP_TOPIC, HALF_TOPIC, QUEUE_ID, TRANSACTION_GROUP
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.append import NewMessage
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore

_log = get_logger(__name__)


class OpQueue:
    """Writes and reads op messages.

    Args:
        store_host: the broker's address as records hold it.
        size_max: bytes from which an op message's body is full.

    Attributes:
        endings: which half messages are ended.
    """

    def __init__(
        self, store: MessageStore, offsets: Offsets, clock: Clock, *, store_host: bytes, size_max: int
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._store_host = store_host
        self._size_max = size_max
        self._unwritten: list[int] = []
        self.endings = Endings(self._committed(HALF_TOPIC), self._committed(HALF_OP_TOPIC))

    def end(self, half_offset: int) -> None:
        """Record that a half message is ended; its op message is written at the end of the turn."""
        self.endings.end(half_offset)
        if not self._unwritten:
            asyncio.get_running_loop().call_soon(self.write)
        self._unwritten.append(half_offset)

    def write(self) -> None:
        """Write the op messages of recorded endings; those that the store refuses wait for the next call."""
        unwritten, self._unwritten = self._unwritten, []
        for op, half_offsets in self._messages(unwritten):
            try:
                (appended,) = self._store.append([op])
            except StoreNotWritable as error:
                self._unwritten += half_offsets
                _log.warning("%d ended transactions are not noted yet: %s", len(half_offsets), error)
            else:
                self._note(appended.queue_offset, half_offsets)

    def put_back(self, half_offset: int, message: NewMessage) -> tuple[int, int]:
        """Append the copy of a half message, with the op message that ends the former one.

        Raises MessageIllegal or StoreNotWritable.

        Returns:
            Its offset in the CommitLog and in the half queue.
        """
        ((op, _),) = self._messages([half_offset])
        back, noted = self._store.append([message, op])
        self.endings.put_back(half_offset, back.queue_offset)
        self._note(noted.queue_offset, [half_offset])
        return back.physical_offset, back.queue_offset

    async def read_on(self) -> None:
        """Record all op messages up to the end of the op queue. Raises OSError."""
        endings = self.endings
        while (offset := endings.next_op_offset) < self._store.max_queue_offset(HALF_OP_TOPIC, QUEUE_ID):
            found = await read(self._store, self._store.readings.get(HALF_OP_TOPIC, QUEUE_ID, offset))
            if found.status is GetStatus.FOUND:
                self._note_all([decode(data) for data in found.records])
            elif found.next_offset > offset:  # retention removed some
                endings.record_op(offset, (), found.next_offset)
            else:
                return

    def restart_if_recreated(self) -> None:
        """Restart at the beginning of both queues if one ends before its offset: it was recreated."""
        reached = {HALF_TOPIC: self.endings.half_offset, HALF_OP_TOPIC: self.endings.next_op_offset}
        if any(self._store.max_queue_offset(topic, QUEUE_ID) < offset for topic, offset in reached.items()):
            self.endings = Endings(*(self._store.min_queue_offset(topic, QUEUE_ID) for topic in reached))

    async def save(self) -> None:
        """Commit the offsets of half and op queue once the messages that were put back are on the disk.

        Raises StoreNotWritable if it will never be there.
        """
        reached = {HALF_TOPIC: self.endings.half_offset, HALF_OP_TOPIC: self.endings.op_offset}
        await asyncio.wrap_future(self._store.wait_flushed())
        for topic, offset in reached.items():
            if offset != self._offsets.committed(TRANSACTION_GROUP, topic, QUEUE_ID):
                self._offsets.commit(TRANSACTION_GROUP, topic, QUEUE_ID, offset)

    def _committed(self, topic: str) -> int:
        committed = self._offsets.committed(TRANSACTION_GROUP, topic, QUEUE_ID)
        return self._store.min_queue_offset(topic, QUEUE_ID) if committed is None else committed

    def _messages(self, half_offsets: Sequence[int]) -> list[tuple[NewMessage, list[int]]]:
        return op_messages(half_offsets, self._clock.now_ms(), self._store_host, self._size_max)

    def _note(self, op_offset: int, half_offsets: Sequence[int]) -> None:
        """Record an op message that was just written, unless others before it have yet to be read."""
        if op_offset == self.endings.next_op_offset:
            self.endings.record_op(op_offset, half_offsets, op_offset + 1)

    def _note_all(self, ops: Sequence[Record]) -> None:
        for op in ops:
            if op.queue_offset >= self.endings.next_op_offset:
                self.endings.record_op(op.queue_offset, ended_by(op), op.queue_offset + 1)
