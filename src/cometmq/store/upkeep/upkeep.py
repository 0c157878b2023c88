"""Keeping up: ConsumeQueues and Index follow the CommitLog to the disk, and the checkpoint vouches for them.

They are written back each second by the page, or sooner where many queues have little each. In a thorough
round, once a minute, all that is left is written, the files are synced, and only then the checkpoint says
so. Neither takes more than a blink of the loop at a time: what many queues have waits for the next ticks. A
full disk stops the store from taking messages until what waits can be written. A failed sync is final, as
it is for the CommitLog: the checkpoint vouches for no further round, so that the next start walks the log
from the last one.

Source: RocketMQ ``store/DefaultMessageStore.java`` (FlushConsumeQueueService).
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from cometmq.errors import StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.io.descriptors import is_scarce
from cometmq.store.log.commit_log import describe
from cometmq.store.log.flush import Flusher
from cometmq.store.parts import Parts
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.settings import PAGE_SIZE, StoreSettings
from cometmq.store.upkeep.dispatch import INDEX_LAG_BYTES, Dispatcher
from cometmq.store.upkeep.sync_order import files_then_directories

log = logging.getLogger(__name__)


WRITE_MS_MAX = 2
"""So long queues are written back within one tick, or the index; or queues are asked for their files."""


TAILS_MAX_BYTES = 16 * 1024 * 1024
"""What the tails of all queues together may keep in memory: of ten thousand queues each may have little."""


MAPPED_MAX_BYTES = 32 * 1024 * 1024
"""What the index may read until pages that nobody uses are let go: mapped ones count as our memory."""


class Upkeep:
    """Writes back, syncs and vouches.

    Args:
        in_thread: calls a function soon, in another thread.

    Attributes:
        failed: why the derived files cannot be written now, or None.
        vouched_offset: CommitLog offset before which all that is derived from records is on the disk.
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
        self.failed: StoreNotWritable | None = None
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
        self._waiting: deque[ConsumeQueue] = deque()  # to be written back in this tick or the next ones
        self._in_round = False  # a thorough one
        self._unasked: deque[ConsumeQueue] = deque()  # to be asked in this round what must be synced …
        self._unsynced: list[Path] = []  # … which is this, of those that were asked
        self._round_time = 0
        self._back_offset = -1  # where the log was when the clock was put back …
        self._back_time = 0  # … and to when; the earliest, if that was more than once since a sync
        self._can_vouch = False
        self._sync_failed = False
        self._put_off: list[Path] = []  # files that could not be synced for want of descriptors
        self._dropped_offset = dispatcher.dispatched_offset

    @property
    def is_behind(self) -> bool:
        """Whether more is due than was done in one go, and can be done."""
        return (self._in_round or bool(self._waiting)) and self.failed is None

    def tick(self, *, begins_round: bool = True) -> list[Path]:
        """Do what is due; give the files of a thorough round, which are to be synced before ``vouch``."""
        now, settings = self._clock.monotonic_ms(), self._settings
        is_due = now - self._last_write_back_ms >= settings.flush_interval_consume_queue
        if not is_due and not self._waiting and not self._in_round:
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
                self._waiting = deque(self._queues.due(least_bytes, TAILS_MAX_BYTES))
        is_over = self._go_on()
        if is_due or is_over:
            self.vouch(0)
        if not is_over:
            return []
        self._in_round = False
        self._can_vouch = not self._sync_failed
        return [*self._take_unsynced(), self._checkpoint.path]  # as the round before this one left it

    def follow(self) -> None:
        """Let the index catch up if it has fallen far behind; keep little of what it read mapped."""
        if self._dispatcher.dispatched_time < self._round_time:
            self._round_time = self._dispatcher.dispatched_time - 1  # the clock was put back
        if self._dispatcher.index_lag >= INDEX_LAG_BYTES:
            self.catch_up()
            if self._dispatcher.dispatched_offset - self._dropped_offset >= MAPPED_MAX_BYTES:
                self._dropped_offset = self._dispatcher.dispatched_offset
                self._drop_unused_pages()

    def catch_up(self) -> None:
        """Bring the index up to what is dispatched, in memory; on a full disk as far as it goes."""
        try:
            self._dispatcher.catch_up_index()
        except OSError as error:
            self._note_failure(error)

    def write_back(self) -> None:
        """Write all that is in memory only; ``failed`` says whether that worked."""
        try:
            self._dispatcher.catch_up_index()
            self._queues.write_back()
            if self._index is not None:
                self._index.write_back()
        except OSError as error:
            self._note_failure(error)
        else:
            self.failed = None

    def sync(self, paths: Sequence[Path]) -> None:
        """Sync files, and the directories that name them; those of topics deleted by now are passed over.

        Safe from any thread.
        """
        try:
            self._files.layer.sync_all(files_then_directories(paths, self._root))
        except OSError as error:
            self._can_vouch = False
            if is_scarce(error):
                log.warning("a sync has to wait for the next round: %s", error)
                self._put_off += paths
                return
            self._sync_failed = True
            place = Path(error.filename or self._root)
            log.critical("%s; the next start reads more of the log", describe(error, place))

    def vouch(self, dispatched_time: int) -> None:
        """Note in the checkpoint that the derived files are on the disk up to a store time, ms.

        For the CommitLog it vouches up to the millisecond before that of its last sync: more messages may
        have come in that one, and if the clock was put back, in those since.
        """
        offset, time = self._flusher.flushed_offset, self._flusher.flushed_time  # in this order
        if offset <= self._back_offset:
            time = min(time, self._back_time)
        self._renew(min(time, self._log.written_time) - 1, dispatched_time)

    def note_back(self, time_ms: int) -> None:
        """Note that the clock was put back: what comes now is not on the disk, though later times may be."""
        is_known = self._flusher.flushed_offset <= self._back_offset
        self._back_time = min(time_ms, self._back_time) if is_known else time_ms
        self._back_offset = self._log.written_offset

    def go_back(self, time_ms: int) -> None:
        """Take back what the checkpoint says of later times: the clock was put back, they come again.

        Raises StoreNotWritable if the disk refuses.
        """
        self._can_vouch = False
        try:
            self._checkpoint.go_back(time_ms)
        except OSError as error:
            raise StoreNotWritable(describe(error, self._root)) from error

    def finish(self, written_time: int) -> bool:
        """Write and sync everything; tell whether all is on the disk. Raises OSError."""
        self.write_back()
        if self.failed or self._sync_failed:
            return False
        self._can_vouch = True
        self._round_time = written_time
        self.sync(self._queues.take_unsynced() + self._take_unsynced())
        self._renew(written_time, written_time)
        self._checkpoint.sync()
        return self._can_vouch

    def _renew(self, flushed_time: int, dispatched_time: int) -> None:
        try:
            self._checkpoint.renew(
                flushed_time=flushed_time,
                dispatched_time=min(dispatched_time, self._round_time) if self._can_vouch else 0,
            )
            if dispatched_time and self._can_vouch:
                self.vouched_offset = self._round_offset
        except OSError as error:
            log.warning("checkpoint not renewed: %s", describe(error, self._root))

    def _begin_round(self, now: int) -> None:
        """Begin to write all that is in memory only; what comes from now on is the next round's."""
        self._last_thorough_ms = now
        self._round_time = self._dispatcher.dispatched_time
        self._round_offset = self._dispatcher.dispatched_offset
        self._can_vouch = False
        self._in_round = True
        self._waiting = deque(self._queues.pending())
        self._unasked = deque(self._queues.by_number.values())

    def _go_on(self) -> bool:
        """Write back for a while; tell whether a thorough round is over."""
        try:
            self._dispatcher.catch_up_index()
            is_over = self._with_each(self._waiting, self._queues.write_back_queue) and self._in_round
            is_over = is_over and self._with_each(self._unasked, self._ask) and self._write_index()
        except OSError as error:
            self._note_failure(error)
            if not self._in_round:
                self._waiting.clear()  # they are due again in a while
            return False
        self.failed = None
        return is_over

    def _with_each(self, queues: deque[ConsumeQueue], action: Callable[[ConsumeQueue], None]) -> bool:
        """Do something with each queue for a while, and take it away; tell whether none is left."""
        deadline_ms = self._clock.monotonic_ms() + WRITE_MS_MAX
        while queues:
            action(queues[0])
            queues.popleft()
            if self._clock.monotonic_ms() >= deadline_ms:
                break
        return not queues

    def _ask(self, queue: ConsumeQueue) -> None:
        """Ask a queue which of its files must be synced."""
        self._unsynced += queue.take_unsynced()

    def _write_index(self) -> bool:
        """Write the index for a while; tell whether all is that was there at the first time in a round."""
        deadline_ms = self._clock.monotonic_ms() + WRITE_MS_MAX
        while self._index is not None and not self._index.write_part():
            if self._clock.monotonic_ms() >= deadline_ms:
                return False
        return True

    def _drop_unused_pages(self) -> None:
        self._in_thread(self._files.unused_pages())  # to unmap a gigabyte takes some 30 ms

    def _note_failure(self, error: OSError) -> None:
        self.failed = StoreNotWritable(describe(error, self._root))
        log.warning("%s", self.failed)

    def _take_unsynced(self) -> list[Path]:
        """Take what the round has found of the queues, and the index's files."""
        index = self._index.take_unsynced() if self._index is not None else []
        paths, self._unsynced, self._put_off = [*self._put_off, *self._unsynced, *index], [], []
        return list(dict.fromkeys(paths))
