"""Dispatch in the running store: from what was appended to ConsumeQueues and Index.

Queue entries are put right after the append (under SYNC_FLUSH after the sync: nobody reads what is not
on the disk). The index follows the log by reading it, a stretch at a time, so that no append pays for
it; a query lets it catch up first.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

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
from cometmq.store.queue.staged import Staged
from cometmq.store.recovery.log_scan import LogScan
from cometmq.store.recovery.replay import Replay

INDEX_LAG_BYTES = 1024 * 1024
"""How far the index follows behind."""

NO_QUEUE: Final = -1
"""In place of a queue's number, for messages that go to no queue."""

TAGS_KNOWN_MAX = 10_000
TAGS_LENGTH_MAX = 100
"""Hashes of so many tags are remembered, of those that are not longer: senders decide about both."""


class Arrival(NamedTuple):
    """A message that can now be read.

    Attributes:
        next_offset: queue offset behind it.
        tags_code: hash of its tags, 0 for none.
    """

    topic: str
    queue_id: int
    next_offset: int
    tags_code: int


class _AppendedBatch(NamedTuple):
    """Messages that were appended together, and the numbers of their queues."""

    end_offset: int
    store_time: int
    queues: Sequence[int]
    messages: Sequence[NewMessage]
    appended: Sequence[Appended]


class _Sends(NamedTuple):
    """Sends that were appended in bulk, so many; ``Staged`` has their entries."""

    end_offset: int
    store_time: int
    size: int


class Dispatcher:
    """Dispatches what is appended.

    Args:
        index: gets the keys, or None if messages are not indexed.
        staged: gets the queue entries.

    Attributes:
        dispatched_offset: all records before it can be read through their queues.
        dispatched_time: store time of the last of them, ms.
        on_arrival: called with what can newly be read.
        on_arrival_of: by topic, of those that go the plain way only: called when a message can newly be read.
        calculate_bitmap: says for a message which filters it passes, as the unit in its queue's extension
            holds it; None if entries get no units.
        is_awaited: whether anybody wants to be told, or how many do; asked before arrivals of bulk sends are
            gathered.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        index: Index | None,
        delay_levels: DelayLevels,
        staged: Staged,
    ) -> None:
        self.dispatched_offset = commit_log.written_offset
        self.dispatched_time = commit_log.written_time
        self.on_arrival: Callable[[list[Arrival]], None] = lambda _: None
        self.on_arrival_of: dict[str, Callable[[], None]] = {}
        self.is_awaited: Callable[[], int] = lambda: True
        self.calculate_bitmap: Callable[[NewMessage], bytes] | None = None
        self._staged = staged
        self._log = commit_log
        self._index = index
        self._indexed_offset = commit_log.written_offset
        self._delay_levels = delay_levels
        self._replay = Replay(None, index, delay_levels)
        self._tags_codes: dict[str | None, int] = {None: 0}
        self._waiting: deque[_AppendedBatch | _Sends] = deque()

    def take(
        self,
        queues: Sequence[int],
        messages: Sequence[NewMessage],
        appended: Sequence[Appended],
        readable_offset: int,
    ) -> None:
        """Take in what was appended; dispatch all that lies before ``readable_offset``.

        Args:
            queues: the numbers of the messages' queues, NO_QUEUE for one that goes to none.
        """
        time = self._log.written_time
        self._waiting.append(_AppendedBatch(self._log.written_offset, time, queues, messages, appended))
        self.dispatch(readable_offset)

    def take_sends(self, count: int, readable_offset: int) -> None:
        """Take in sends that were appended in bulk, like ``take``; their rows lie behind the staged ones."""
        self._staged.end += count
        end_offset, time = self._log.written_offset, self._log.written_time
        if self._waiting or end_offset > readable_offset:
            self._waiting.append(_Sends(end_offset, time, count))
            self.dispatch(readable_offset)
        elif arrivals := self._release(end_offset, time, count):  # nearly always nobody waits
            self.on_arrival(arrivals)

    def dispatch(self, readable_offset: int) -> None:
        """Dispatch what waits and lies before ``readable_offset``."""
        arrivals: list[Arrival] = []
        while self._waiting and self._waiting[0].end_offset <= readable_offset:
            batch = self._waiting.popleft()
            if isinstance(batch, _Sends):
                arrivals += self._release(*batch)
            else:
                arrivals += self._put(batch)
        if arrivals:
            self.on_arrival(arrivals)

    @property
    def index_lag(self) -> int:
        """How far the index is behind, in bytes of the log."""
        return self.dispatched_offset - self._indexed_offset

    def catch_up_index(self) -> None:
        """Bring the index up to what is dispatched. Raises OSError; what is done until then stays."""
        if self._index is None or self._indexed_offset >= self.dispatched_offset:
            return
        begin = self._index_usual(self._index)
        for chunk in LogScan(self._log, begin, self.dispatched_offset, verify_crc=False):
            self._replay.dispatch(chunk)
        self._indexed_offset = self.dispatched_offset

    def _index_usual(self, index: Index) -> int:
        """Index records as nearly all are, in the file that holds the next one; give where they end."""
        begin = self._indexed_offset
        if (stretch := self._log.stretch(begin)) is None:
            return begin
        start, end = stretch
        keys = kernels.current().read_keys(
            self._log.chain.file(start).view(),
            base_offset=start,
            start=begin - start,
            end=min(end, self.dispatched_offset) - start,
        )
        index.insert(keys.key_hash, keys.physical_offset, keys.store_time)
        return start + keys.stop_position

    def _release(self, end_offset: int, store_time: int, count: int) -> list[Arrival]:
        """Let sends be read; give them if somebody waits for any."""
        staged = self._staged
        staged.count += count
        self.dispatched_offset, self.dispatched_time = end_offset, store_time
        if not self.is_awaited():
            return []
        return [
            Arrival(queue.topic, queue.queue_id, queue_offset + 1, code)
            for number, queue_offset, _, _, code in staged.rows[staged.count - count : staged.count].tolist()
            if (queue := staged.queues.get(number)) is not None
        ]

    def _put(self, batch: _AppendedBatch) -> list[Arrival]:
        """Stage the queue entries of messages; give what can be read now."""
        arrivals, rows, codes, watched = [], [], self._tags_codes, set()
        for number, message, at in zip(batch.queues, batch.messages, batch.appended, strict=True):
            if number == NO_QUEUE:
                continue
            code = codes.get(message.tags)
            if code is None or message.topic == SCHEDULE_TOPIC:
                code = self._tags_code(message, at.store_time)
            held = code if self.calculate_bitmap is None else self._extended(number, message, at, code)
            rows.append((number, at.queue_offset, at.physical_offset, at.size, held))
            arrivals.append(Arrival(message.topic, message.queue_id, at.queue_offset + 1, code))
            if message.topic in self.on_arrival_of:
                watched.add(message.topic)
        if rows:
            self._staged.add(np.array(rows, np.int64))
        self.dispatched_offset, self.dispatched_time = batch.end_offset, batch.store_time
        for topic in watched:
            self.on_arrival_of[topic]()
        return arrivals

    def _extended(self, number: int, message: NewMessage, at: Appended, code: int) -> int:
        """Give what the entry holds: the tags code, or the address of a unit that holds it."""
        queue = self._staged.queues.get(number)
        if self.calculate_bitmap is None or queue is None or queue.ext is None:
            return code
        if message.topic == SCHEDULE_TOPIC:
            return code  # when it is due, which nothing but the entry says
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
    """Tell whether a record gets a queue entry: prepared and rolled back transactions do not."""
    return sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)
