"""Write ConsumeQueues and Index to the disk behind the CommitLog, and advance the checkpoint.

Full pages are written back each second, and more if many queues have little each. In a thorough round, once a
minute, the rest is written, the files are synced, and only then the checkpoint is advanced. A tick does this
for at most WRITE_MS_MAX: the rest waits for the next ticks. On a full disk the store accepts no messages
until the rest can be written. A failed sync is final, as for the CommitLog: the checkpoint vouches for no
further round, and the next start scans the log from the last one.

Source: RocketMQ ``store/DefaultMessageStore.java`` (FlushConsumeQueueService).
"""

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from cometmq.errors import StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.io.descriptors import is_scarce
from cometmq.logs import get_logger
from cometmq.store.files.sync_order import files_then_directories
from cometmq.store.log.commit_log import describe
from cometmq.store.log.flush import Flusher
from cometmq.store.log.refusals import Cause
from cometmq.store.parts import Parts
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.settings import PAGE_SIZE, StoreSettings
from cometmq.store.upkeep.dispatch import INDEX_LAG_BYTES, Dispatcher

log = get_logger(__name__)

WRITE_MS_MAX = 2
"""Time within one tick for each of: writing queues, writing the index, collecting the queues' files."""
TAILS_MAX_BYTES = 16 * 1024 * 1024
"""Memory for the unwritten tails of all queues together: each of ten thousand queues may have little."""
MAPPED_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of the log that the index reads before unused pages are dropped: mapped pages count as our memory."""


class Upkeep:
    """Writes and syncs the derived files of a store, and advances its checkpoint.

    Args:
        in_thread: calls a function soon, in another thread.

    Attributes:
        vouched_offset: CommitLog offset before which the derived entries of all records are on the disk.
    """

    def __init__(
        self,
        parts: Parts,
        dispatcher: Dispatcher,
        flusher: Flusher,
        settings: StoreSettings,
        clock: Clock,
        in_thread: Callable[[Callable[[], None]], object],
        vouched_offset: int = 0,
    ) -> None:
        self.vouched_offset = self._round_offset = vouched_offset
        self._root = parts.root
        self._files = parts.files
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._checkpoint = parts.checkpoint
        self._dispatcher = dispatcher
        self._flusher = flusher
        self._settings = settings
        self._clock = clock
        self._in_thread = in_thread
        self._last_write_back_ms = self._last_thorough_ms = clock.monotonic_ms()
        self._unwritten: deque[ConsumeQueue] = deque()  # to write back in this tick or the next ones
        self._in_round = False  # a thorough one
        self._uncollected: deque[ConsumeQueue] = deque()  # queues whose files to sync in this round …
        self._unsynced: list[Path] = []  # … are collected here
        self._round_time = self._round_index_time = 0
        self._back_offset = -1  # the log's end when the clock was set back …
        self._back_time = 0  # … and the time it was set to; the earliest, if several times since a sync
        self._can_vouch = False
        self._sync_failed = False
        self._postponed: list[Path] = []  # files that could not be synced for lack of descriptors
        self._dropped_offset = dispatcher.dispatched_offset
        dispatcher.follow = self.follow

    @property
    def failed(self) -> StoreNotWritable | None:
        """The error of the last write of derived files, None if it succeeded."""
        return self._log.refusals.of(Cause.DERIVED_FILES)

    @property
    def is_behind(self) -> bool:
        """Whether the last tick left work, and the disk accepts writes."""
        return (self._in_round or bool(self._unwritten)) and self.failed is None

    def tick(self, *, begins_round: bool = True) -> list[Path]:
        """Write what is due; at the end of a thorough round return the files to sync before ``vouch``."""
        now, settings = self._clock.monotonic_ms(), self._settings
        is_due = now - self._last_write_back_ms >= settings.flush_interval_consume_queue
        if not is_due and not self._unwritten and not self._in_round:
            return []
        if is_due:
            self._last_write_back_ms = now
            self._drop_unused_pages()
        if not self._in_round:
            since_round_ms = now - self._last_thorough_ms
            if begins_round and since_round_ms >= settings.flush_consume_queue_thorough_interval:
                self._begin_round(now)
            elif is_due:
                least_bytes = settings.flush_consume_queue_least_pages * PAGE_SIZE
                self._unwritten = deque(self._queues.due(least_bytes, TAILS_MAX_BYTES))
        is_over = self._write_part()
        if is_due or is_over:
            self.vouch(0)
        if not is_over:
            return []
        self._in_round = False
        self._can_vouch = not self._sync_failed
        self._round_index_time = self._full_index_time()
        return [*self._take_unsynced(), self._checkpoint.path]  # the checkpoint of the round before

    def follow(self) -> None:
        """Index what was dispatched if the index lags far behind; drop pages that it has read."""
        if self._dispatcher.dispatched_time < self._round_time:
            self._round_time = self._dispatcher.dispatched_time - 1  # the clock was set back
        if self._dispatcher.index_lag >= INDEX_LAG_BYTES:
            self.catch_up()
            if self._dispatcher.dispatched_offset - self._dropped_offset >= MAPPED_MAX_BYTES:
                self._dropped_offset = self._dispatcher.dispatched_offset
                self._drop_unused_pages()

    def catch_up(self) -> None:
        """Index all dispatched records, in memory; on a disk error set ``failed``."""
        try:
            self._dispatcher.catch_up_index()
        except OSError as error:
            self._record_failure(error)

    def write_back(self) -> None:
        """Write all that is in memory only; update ``failed``."""
        try:
            self._dispatcher.catch_up_index()
            self._queues.write_back()
            if self._index is not None:
                self._index.write_back()
        except OSError as error:
            self._record_failure(error)
        else:
            self._log.refusals.set(Cause.DERIVED_FILES, None)

    def try_again(self) -> None:
        """Write back if that failed the last time, and the store is not closed: space may have been freed."""
        refusals = self._log.refusals
        if refusals.of(Cause.DERIVED_FILES) is not None and refusals.of(Cause.CLOSED) is None:
            self.write_back()

    def sync(self, paths: Sequence[Path]) -> None:
        """Sync files and the directories that name them; files of topics deleted meanwhile are skipped.

        Safe from any thread.
        """
        try:
            self._files.layer.sync_all(files_then_directories(paths, self._root))
        except OSError as error:
            self._can_vouch = False
            if is_scarce(error):
                log.warning("a sync is postponed to the next round: %s", error)
                self._postponed += paths
                return
            self._sync_failed = True
            place = Path(error.filename or self._root)
            log.critical("%s; the next start reads more of the log", describe(error, place))

    def vouch(self, dispatched_time: int) -> None:
        """Write to the checkpoint that the derived files are on the disk up to a store time, ms.

        The CommitLog's time is the millisecond before its last sync: more messages may have been stored in
        that millisecond and, if the clock was set back, in those since.
        """
        offset, time = self._flusher.flushed_offset, self._flusher.flushed_time  # in this order
        if offset <= self._back_offset:
            time = min(time, self._back_time)
        self._advance(min(time, self._log.written_time) - 1, dispatched_time)

    def limit_flushed_time(self, time_ms: int) -> None:
        """Limit the log's time in the checkpoint until the next sync: the clock was set back to ``time_ms``.

        Messages with later times may be on the disk, but those that get such times from now on are not yet.
        """
        is_known = self._flusher.flushed_offset <= self._back_offset
        self._back_time = min(time_ms, self._back_time) if is_known else time_ms
        self._back_offset = self._log.written_offset

    def lower_checkpoint(self, time_ms: int) -> None:
        """Lower the checkpoint to ``time_ms``: the clock was set back, it must not vouch for new messages.

        Raises StoreNotWritable on a disk error.
        """
        self._can_vouch = False
        try:
            self._checkpoint.lower(time_ms)
        except OSError as error:
            raise StoreNotWritable(describe(error, self._root)) from error

    def finish(self, written_time: int) -> bool:
        """Write and sync everything; return whether all is on the disk. Raises OSError."""
        self.write_back()
        if self.failed or self._sync_failed:
            return False
        self._can_vouch = True
        self._round_time = written_time
        self._round_index_time = self._full_index_time()
        self.sync(self._queues.take_unsynced() + self._take_unsynced())
        self._advance(written_time, written_time)
        self._checkpoint.sync()
        return self._can_vouch

    def _advance(self, flushed_time: int, dispatched_time: int) -> None:
        try:
            self._checkpoint.advance(
                flushed_time=flushed_time,
                dispatched_time=min(dispatched_time, self._round_time) if self._can_vouch else 0,
                full_index_time=self._round_index_time if dispatched_time and self._can_vouch else 0,
            )
            if dispatched_time and self._can_vouch:
                self.vouched_offset = self._round_offset
        except OSError as error:
            log.warning("the checkpoint was not written: %s", describe(error, self._root))

    def _full_index_time(self) -> int:
        return 0 if self._index is None else self._index.full_time

    def _begin_round(self, now: int) -> None:
        """Begin to write all that is in memory only; messages from now on belong to the next round."""
        self._last_thorough_ms = now
        self._round_time = self._dispatcher.dispatched_time
        self._round_offset = self._dispatcher.dispatched_offset
        self._can_vouch = False
        self._in_round = True
        self._unwritten = deque(self._queues.pending())
        self._uncollected = deque(self._queues.by_number.values())

    def _write_part(self) -> bool:
        """Write back for WRITE_MS_MAX; return whether a thorough round is over."""
        try:
            self._dispatcher.catch_up_index()
            is_over = self._drain(self._unwritten, self._queues.write_back_queue) and self._in_round
            is_over = is_over and self._drain(self._uncollected, self._collect) and self._write_index()
        except OSError as error:
            self._record_failure(error)
            if not self._in_round:
                self._unwritten.clear()  # they will be due again
            return False
        self._log.refusals.set(Cause.DERIVED_FILES, None)
        return is_over

    def _drain(self, queues: deque[ConsumeQueue], action: Callable[[ConsumeQueue], None]) -> bool:
        """Remove queues for WRITE_MS_MAX after an action on each; return whether none is left."""
        deadline_ms = self._clock.monotonic_ms() + WRITE_MS_MAX
        while queues:
            action(queues[0])
            queues.popleft()
            if self._clock.monotonic_ms() >= deadline_ms:
                break
        return not queues

    def _collect(self, queue: ConsumeQueue) -> None:
        """Collect the files of a queue that must be synced."""
        self._unsynced += queue.take_unsynced()

    def _write_index(self) -> bool:
        """Write the index for WRITE_MS_MAX; return whether all of the round's first call is written."""
        deadline_ms = self._clock.monotonic_ms() + WRITE_MS_MAX
        while self._index is not None and not self._index.write_part():
            if self._clock.monotonic_ms() >= deadline_ms:
                return False
        return True

    def _drop_unused_pages(self) -> None:
        self._in_thread(self._files.unused_pages())  # to unmap a gigabyte takes some 30 ms

    def _record_failure(self, error: OSError) -> None:
        failed = StoreNotWritable(describe(error, self._root))
        self._log.refusals.set(Cause.DERIVED_FILES, failed)
        log.warning("%s", failed)

    def _take_unsynced(self) -> list[Path]:
        """Return and clear the files to sync: postponed ones, those collected of queues, and the index's."""
        index = self._index.take_unsynced() if self._index is not None else []
        paths, self._unsynced, self._postponed = [*self._postponed, *self._unsynced, *index], [], []
        return list(dict.fromkeys(paths))
