"""Dispatch appended messages to ConsumeQueues and Index, in the running store.

Queue entries are staged right after the append (under SYNC_FLUSH after the sync: nobody reads what is not on
the disk). The index follows the log by reading it, a stretch at a time, so that no append pays for it; it
catches up before a query.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Final, NamedTuple

from cometmq import kernels
from cometmq.format import properties
from cometmq.format.consume_queue_ext import pack
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.dispatch import queue_tags_code
from cometmq.format.java.java_hash import tags_code
from cometmq.format.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from cometmq.store.append import Appended, NewMessage
from cometmq.store.index.index import Index
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.log_scan import Chunk, LogScan
from cometmq.store.queue.ledger import Ledger
from cometmq.store.queue.queues import Queues
from cometmq.store.recovery.replay import Replay
from cometmq.store.upkeep.received_entries import ReceivedEntries

INDEX_LAG_BYTES = 1024 * 1024
"""Bytes of the log by which the index may lag behind."""

NO_QUEUE: Final = -1
"""The queue number of messages that go to no queue."""

TAGS_KNOWN_MAX = 10_000
TAGS_LENGTH_MAX = 100
"""Limits of the cache of tag hashes: number of tags, and length of a tag."""


class Arrival(NamedTuple):
    """A message that can be read from now on.

    Attributes:
        next_offset: queue offset behind it.
        tags_code: hash of its tags, 0 for none.
    """

    topic: str
    queue_id: int
    next_offset: int
    tags_code: int


class _AppendedBatch(NamedTuple):
    """Messages of one append, and the numbers of their queues."""

    end_offset: int
    store_time: int
    queues: Sequence[int]
    messages: Sequence[NewMessage]
    appended: Sequence[Appended]


class _AppendedSends(NamedTuple):
    """Sends of one bulk append; ``Staged`` has their entries."""

    end_offset: int
    store_time: int
    size: int


class _ReceivedRecords(NamedTuple):
    """Records that a master has encoded."""

    end_offset: int
    store_time: int
    chunk: Chunk


class Dispatcher:
    """Dispatches appended messages.

    Args:
        index: receives the keys, or None if messages are not indexed.
        queues: receive the queue entries.
        ledger: says which records that a master has encoded are those of deleted topics.

    Attributes:
        dispatched_offset: CommitLog offset before which all records can be read through their queues.
        dispatched_time: store time of the last of them, ms.
        on_arrival: called with the messages that have become readable.
        on_arrival_of: by topic, called when its messages have become readable; not for bulk sends.
        calculate_bitmap: returns the bitmap of the filters that a message passes, for the unit in its queue's
            extension; None if entries get no units.
        follow: called when the index lags behind by INDEX_LAG_BYTES, or ``dispatched_time`` went back.
        awaiting: collections of those who wait for arrivals; if all are empty, none are collected.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        index: Index | None,
        delay_levels: DelayLevels,
        queues: Queues,
        ledger: Ledger,
    ) -> None:
        self.dispatched_offset = commit_log.written_offset
        self.dispatched_time = commit_log.written_time
        self.on_arrival: Callable[[list[Arrival]], None] = lambda _: None
        self.on_arrival_of: dict[str, Callable[[], None]] = {}
        self.awaiting: list[Sized] = []
        self._callbacks: list[Callable[[list[Arrival]], None]] = []
        self.calculate_bitmap: Callable[[NewMessage], bytes] | None = None
        self._staged = queues.staged
        self._received = ReceivedEntries(queues, delay_levels, ledger)
        self.follow: Callable[[], None] = lambda: None
        self._log = commit_log
        self._index = index
        self._indexed_offset = commit_log.written_offset
        self._delay_levels = delay_levels
        self._replay = Replay(None, index, delay_levels)
        self._tags_codes: dict[str | None, int] = {None: 0}
        self._waiting: deque[_AppendedBatch | _AppendedSends | _ReceivedRecords] = deque()

    def listen(self, callback: Callable[[list[Arrival]], None], awaiting: Iterable[Sized]) -> None:
        """Add a callback to ``on_arrival``, and to ``awaiting``."""
        self._callbacks.append(callback)
        self.awaiting += awaiting
        self.on_arrival = callback if len(self._callbacks) == 1 else self._call_all

    def _call_all(self, arrivals: list[Arrival]) -> None:
        for callback in self._callbacks:
            callback(arrivals)

    def add(
        self,
        queues: Sequence[int],
        messages: Sequence[NewMessage],
        appended: Sequence[Appended],
        readable_offset: int,
    ) -> None:
        """Add appended messages; dispatch all before ``readable_offset``.

        Args:
            queues: the numbers of the messages' queues, NO_QUEUE for a message that goes to none.
        """
        end_offset, time = self._log.written_offset, self._log.written_time
        if self._waiting or end_offset > readable_offset:
            self._waiting.append(_AppendedBatch(end_offset, time, queues, messages, appended))
            self.dispatch(readable_offset)
        elif arrivals := self._stage(end_offset, time, queues, messages, appended):
            self.on_arrival(arrivals)

    def add_sends(self, count: int, readable_offset: int) -> None:
        """Add the sends of a bulk append, whose rows are behind the staged ones; dispatch like ``add``."""
        self._staged.end += count
        end_offset, time = self._log.written_offset, self._log.written_time
        if self._waiting or end_offset > readable_offset:
            self._waiting.append(_AppendedSends(end_offset, time, count))
            self.dispatch(readable_offset)
        elif arrivals := self._release(end_offset, time, count):  # usually nobody waits
            self.on_arrival(arrivals)

    def begin_at(self, offset: int) -> None:
        """Begin at an offset, where the first file of an empty log begins."""
        self.dispatched_offset = self._indexed_offset = offset

    def add_received(self, chunk: Chunk, end_offset: int, store_time: int, readable_offset: int) -> None:
        """Add records that a master has encoded; dispatch all before ``readable_offset``.

        Args:
            end_offset: CommitLog offset behind them, and behind a blank that follows.
            store_time: of the last one, ms.
        """
        self._waiting.append(_ReceivedRecords(end_offset, store_time, chunk))
        self.dispatch(readable_offset)

    def dispatch(self, readable_offset: int) -> None:
        """Dispatch the added messages before ``readable_offset``."""
        arrivals: list[Arrival] = []
        while self._waiting and self._waiting[0].end_offset <= readable_offset:
            batch = self._waiting.popleft()
            if isinstance(batch, _AppendedSends):
                arrivals += self._release(*batch)
            elif isinstance(batch, _ReceivedRecords):
                arrivals += self._add_received(*batch)
            else:
                arrivals += self._stage(*batch)
        if arrivals:
            self.on_arrival(arrivals)

    @property
    def index_lag(self) -> int:
        """Bytes of the log by which the index lags behind."""
        return self.dispatched_offset - self._indexed_offset

    def catch_up_index(self) -> None:
        """Index all dispatched records. Raises OSError; what was indexed before stays."""
        if self._index is None:
            self._indexed_offset = self.dispatched_offset
        if self._index is None or self._indexed_offset >= self.dispatched_offset:
            return
        begin = self._index_sound_records(self._index)
        for chunk in LogScan(self._log, begin, self.dispatched_offset, verify_crc=False):
            self._replay.dispatch(chunk)
        self._indexed_offset = self.dispatched_offset

    def _index_sound_records(self, index: Index) -> int:
        """Fast path: index the sound records of the file that holds the next one; return where they end."""
        begin = self._indexed_offset
        if (stretch := self._log.stretch(begin)) is None:
            return begin
        start, end = stretch
        keys = kernels.loading.ops.read_keys(
            self._log.chain.file(start).view(),
            base_offset=start,
            start=begin - start,
            end=min(end, self.dispatched_offset) - start,
        )
        index.insert(keys.key_hash, keys.physical_offset, keys.store_time)
        return start + keys.stop_position

    def _release(self, end_offset: int, store_time: int, count: int) -> list[Arrival]:
        """Release staged sends to readers; return them if anybody waits for arrivals."""
        staged = self._staged
        staged.count += count
        self._advance(end_offset, store_time)
        if not any(self.awaiting):
            return []
        return [
            Arrival(queue.topic, queue.queue_id, queue_offset + 1, code)
            for number, queue_offset, _, _, code in staged.rows[staged.count - count : staged.count].tolist()
            if (queue := staged.queues.get(number)) is not None
        ]

    def _add_received(self, end_offset: int, store_time: int, chunk: Chunk) -> list[Arrival]:
        """Add a master's records to their queues; return them if anybody waits for arrivals."""
        found = self._received.add(chunk)
        self._advance(end_offset, store_time)
        if not any(self.awaiting):
            return []
        rows = zip(
            found.in_queue.tolist(),
            found.queue.tolist(),
            chunk.scan.queue_offset.tolist(),
            found.tags_code.tolist(),
            strict=True,
        )
        return [
            Arrival(found.queues[queue][0], found.queues[queue][1], queue_offset + 1, code)
            for is_in_queue, queue, queue_offset, code in rows
            if is_in_queue
        ]

    def _advance(self, end_offset: int, store_time: int) -> None:
        is_earlier = store_time < self.dispatched_time  # the clock was set back
        self.dispatched_offset, self.dispatched_time = end_offset, store_time
        if is_earlier or end_offset - self._indexed_offset >= INDEX_LAG_BYTES:
            self.follow()

    def _stage(
        self,
        end_offset: int,
        store_time: int,
        queues: Sequence[int],
        messages: Sequence[NewMessage],
        appended: Sequence[Appended],
    ) -> list[Arrival]:
        """Stage the queue entries of messages, which makes them readable; return them if anybody waits."""
        arrivals, rows, codes, watched = [], [], self._tags_codes, set()
        is_awaited = any(self.awaiting)
        for number, message, at in zip(queues, messages, appended, strict=True):
            if number == NO_QUEUE:
                continue
            topic = message.topic
            physical_offset, queue_offset, size, _ = at
            code = codes.get(message.tags)
            if code is None or topic == SCHEDULE_TOPIC:
                code = self._tags_code(message, store_time)
            held = code if self.calculate_bitmap is None else self._extended(number, message, at, code)
            rows.append((number, queue_offset, physical_offset, size, held))
            if is_awaited:
                arrivals.append(Arrival(topic, message.queue_id, queue_offset + 1, code))
            if topic in self.on_arrival_of:
                watched.add(topic)
        if rows:
            self._staged.add(rows)
        self._advance(end_offset, store_time)
        for topic in watched:
            self.on_arrival_of[topic]()
        return arrivals

    def _extended(self, number: int, message: NewMessage, at: Appended, code: int) -> int:
        """Return the entry's tags code, or the address of a new unit that holds it."""
        queue = self._staged.queues.get(number)
        if self.calculate_bitmap is None or queue is None or queue.ext is None:
            return code
        if message.topic == SCHEDULE_TOPIC:
            return code  # the due time, which only the entry holds
        address = queue.ext.put(pack(code, at.store_time, self.calculate_bitmap(message)))
        return code if address is None else address

    def _tags_code(self, message: NewMessage, store_time: int) -> int:
        if message.topic == SCHEDULE_TOPIC:
            by_name = properties.decode(message.properties)
            return queue_tags_code(message.topic, by_name, store_time, self._delay_levels)
        code = tags_code(message.tags)
        if message.tags is not None and len(message.tags) <= TAGS_LENGTH_MAX:
            if len(self._tags_codes) > TAGS_KNOWN_MAX:
                self._tags_codes = {None: 0}
            self._tags_codes[message.tags] = code
        return code


def has_queue_entry(sys_flag: int) -> bool:
    """Check whether a record gets a queue entry: prepared and rolled back transactions do not."""
    return sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
