"""MessageStore: the storage engine's interface.

One thread owns a store: it appends, reads and calls ``tick``, without locks. Work that waits for the disk is
done by other threads: the flusher syncs, readers fetch pages that are not in memory (``reading``), and the
caller may sync files in a thread.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from cometmq.arguments import check, instance_of, or_none
from cometmq.errors import SettingsError, StoreLocked, StoreNotWritable
from cometmq.format import layout
from cometmq.format.record import RecordHead
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.store.append import Appended, NewMessage
from cometmq.store.appending import Appending
from cometmq.store.clock_steps import ClockSteps
from cometmq.store.log.commit_log import Pointers, describe
from cometmq.store.log.flush import Flusher
from cometmq.store.log.full_disk import explain_full_disk
from cometmq.store.log.refusals import Cause
from cometmq.store.mend import mend
from cometmq.store.messages import Messages
from cometmq.store.parts import Parts, make_parts
from cometmq.store.progress import Progress, ProgressLines
from cometmq.store.queue.queue_ends import EndsOfAllQueues, QueueEnds
from cometmq.store.read.readings import Readings
from cometmq.store.reading import Step, run
from cometmq.store.received_log import ReceivedLog
from cometmq.store.recovery.recent import recent_records
from cometmq.store.recovery.recover import recover
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep.deletions import Deletions
from cometmq.store.upkeep.dispatch import Arrival, Dispatcher
from cometmq.store.upkeep.retention import Retention
from cometmq.store.upkeep.upkeep import Upkeep
from cometmq.store.whereabouts import check_can_open

log = get_logger(__name__)

ALWAYS = (None,)
"""Stands for somebody who always waits for messages."""
READ_THREADS = 4
"""Number of reads that may wait for the disk at once."""


class MessageStore(Messages):
    """A store directory, open for appending and reading.

    Use ``open``, best in a ``with`` statement. ``Messages`` has the methods for whole messages; the methods
    here work on records, as a broker does.

    Args:
        run_soon: schedules a call in the owner's thread, from any thread (a loop's ``call_soon_threadsafe``):
            the dispatch of records that a sync or a commit made readable. Without it ``append`` itself waits
            for the disk under SYNC_FLUSH, and commits what is in the transient store pool.

    Attributes:
        recovered: the outcome of recovery.
        clock: the clock, which detects steps of the wall clock.
        appending: appends messages, and sends that leaf operations encode.
        received: appends the bytes of a master's log, for a slave.
        flusher: syncs the CommitLog.
        on_synced: called by ``run_soon`` after each commit, and each sync under SYNC_FLUSH, done or failed.
        retention: deletes expired files.
        deletions: deletes topics and queues, and their files.
        readings: the reading methods as readings, for callers that must not wait.
        queue_ends: the ends of all queues at once, for statistics.
    """

    @classmethod
    def open(
        cls,
        directory: Path | str,
        settings: StoreSettings | None = None,
        *,
        files: FileLayer | None = None,
        clock: Clock | None = None,
        run_soon: Callable[[Callable[[], None]], object] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Open a store directory, created if it does not exist, and recover it.

        Args:
            progress: called with the progress of recovery; by default it is logged once it takes long.

        Raises:
            SettingsError: it has held messages, and its CommitLog is not there; or a Java broker keeps in it
                what CometMQ does not read.
            StoreLocked: another process has it open.
            StoreDamaged: a file cannot be used as it is.
            StoreNotWritable: the disk is full.
            OSError: the disk refuses.
        """
        check(instance_of(Path, str), directory=directory)
        check(or_none(instance_of(StoreSettings)), settings=settings)
        root, settings = Path(directory), settings or StoreSettings()
        layer, clock = files or Disk(), clock or SystemClock()
        check_can_open(layer, root, settings)
        with explain_full_disk(root):
            layer.make_directory(root)
            token = layer.lock(layout.lock_path(root))
            if token is None:
                raise StoreLocked(
                    f"{root} is open in another process: stop it first, or use another directory"
                )
            opened = OpenFiles(layer, writable=True)
            try:
                parts = make_parts(root, opened, settings)
                progress = progress or ProgressLines(f"recovering {root}", log.info, clock)
                return cls(root, settings, parts, clock, run_soon, progress, token)
            except BaseException:
                opened.close()
                layer.unlock(token)
                raise

    def __init__(
        self,
        root: Path,
        settings: StoreSettings,
        parts: Parts,
        clock: Clock,
        run_soon: Callable[[Callable[[], None]], object] | None,
        progress: Progress,
        lock_token: int,
    ) -> None:
        self.root, self.settings = root, settings
        self._reads_later = settings.reads_later
        self._limit: Callable[[], int] | None = None
        self.recovered = recover(parts, progress, whole=mend(root, settings, parts.files.layer))
        self.on_synced: list[Callable[[], None]] = []
        self._parts, self._log, self._queues, self._index = parts, parts.log, parts.queues, parts.index
        self._record_files()
        self.clock = clock = ClockSteps(clock, lambda: parts.log.written_offset)
        self._lock_token, self._run_soon, self._closed = lock_token, run_soon, False
        self._dispatcher = Dispatcher(parts.log, parts.index, parts.delay_levels, parts.queues, parts.ledger)
        self.calculate_bitmaps(lambda _: b"")
        self.flusher = Flusher(parts.log, settings, clock, self._in_flusher)
        self._readers = ThreadPoolExecutor(READ_THREADS, "cometmq-read")
        self._upkeep = Upkeep(
            parts,
            self._dispatcher,
            self.flusher,
            settings,
            clock,
            self._readers.submit,
            vouched_offset=self.recovered.begin,
        )
        self.appending = Appending(
            parts,
            settings,
            self._dispatcher,
            self._upkeep,
            clock,
            self._end_append if run_soon is None or self._reads_later or settings.wakes_flush else None,
            (lambda: self.confirm_offset) if self._reads_later else None,
        )
        self.received = ReceivedLog(parts.log, self.appending)
        self.retention = Retention(parts, self.flusher, self._upkeep, settings, clock)
        self.deletions = Deletions(parts)
        self.readings = Readings(parts, settings, self._upkeep.catch_up, lambda: self.confirm_offset)
        self.queue_ends = EndsOfAllQueues(parts.queues)
        if settings.duplication_enable:
            parts.checkpoint.confirmed_offset = parts.log.written_offset
            self.limit_reads(lambda: parts.checkpoint.confirmed_offset)
            log.warning("duplicationEnable: messages can be read once a program has confirmed them")
        self.flusher.start()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    # Appending

    def append(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Append messages, all or none; they can be read on return (under SYNC_FLUSH once synced).

        Raises:
            MessageIllegal: a message breaks a limit of the format.
            StoreNotWritable: disk full, a sync failed, or the store is closed.
        """
        return self.appending.messages(messages)

    def wait_flushed(self, offset: int | None = None) -> "Future[None]":
        """Return a future that is done once all that is written (before ``offset``) is synced."""
        written = self._log.written_offset
        return self.flusher.wait(written if offset is None else min(offset, written))

    def be_slave(self, reason: str | None) -> None:
        """Refuse messages, as only a master's records are appended; None to accept messages again."""
        self._log.refusals.set(Cause.SLAVE, None if reason is None else StoreNotWritable(reason))

    def confirm(self, offset: int) -> None:
        """Allow reads of the messages that end at or before a CommitLog offset, with ``duplicationEnable``.

        For a program that replicates the store by its own means. What a start finds in the log is confirmed;
        an offset before what is confirmed changes nothing. Raises SettingsError without the setting.
        """
        if not self.settings.duplication_enable:
            raise SettingsError("confirm: open the store with duplicationEnable = true")
        checkpoint = self._parts.checkpoint
        if offset > checkpoint.confirmed_offset:
            checkpoint.confirmed_offset = min(offset, self._log.written_offset)
            self.limit_moved()

    def limit_reads(self, limit: Callable[[], int]) -> None:
        """Hide messages that are appended from now on, and end behind the offset that ``limit`` returns."""
        self._limit = limit
        self.appending.readable_offset = lambda: self.confirm_offset

    def limit_moved(self) -> None:
        """Dispatch what is before the limit now."""
        if not self._closed:
            self._dispatcher.dispatch(self.confirm_offset)

    @property
    def not_writable(self) -> StoreNotWritable | None:
        """The reason why the store refuses messages now, or None."""
        return self._log.refusals.first

    @property
    def refusal_of_disk(self) -> StoreNotWritable | None:
        """The reason why not even a master's records are stored now, or None."""
        return self._log.refusals.of_disk

    def on_arrival(
        self, callback: Callable[[list[Arrival]], None], awaiting: Iterable[Sized] = (ALWAYS,)
    ) -> None:
        """Call ``callback`` with messages that have become readable; it may be one of several.

        Args:
            awaiting: collections of those who wait for messages: while those of all callbacks are empty,
                arrivals are not collected. By default somebody always waits.
        """
        self._dispatcher.listen(callback, awaiting)

    def on_arrival_of(self, topic: str, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever a message of a topic becomes readable; for the broker's own topics."""
        self._dispatcher.on_arrival_of[topic] = callback

    def calculate_bitmaps(self, calculate: Callable[[NewMessage], bytes]) -> None:
        """Set the function for the bitmap of filters that a message passes, for its queue's extension."""
        if self.settings.enable_consume_queue_ext:
            self._dispatcher.calculate_bitmap = calculate

    # Reading

    def fetch(self, step: Step) -> "Future[Any]":
        """Fetch a reading's step in a thread, where it may wait for the disk: see ``reading``."""
        return self._readers.submit(step.fetch)

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the first readable queue offset; 0 for a queue without messages."""
        return 0 if (queue := self._queues.find(topic, queue_id)) is None else queue.min_offset

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        """Return the queue offset behind the last readable message; 0 for a queue without messages."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def max_queue_offsets(self, topic: str, queue_ids: Iterable[int]) -> list[int]:
        """Return the queue offset behind the last readable message of each of some queues of a topic."""
        return self._queues.max_offsets(topic, queue_ids)

    def ends_of(self, topic: str, queue_id: int) -> QueueEnds:
        """Return the ends of what can be read of a queue; both are 0 for a queue without messages."""
        queue = self._queues.find(topic, queue_id)
        return QueueEnds(0, 0) if queue is None else QueueEnds(queue.min_offset, queue.max_offset)

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False) -> int:
        """Find a queue offset by store time: see ``seek.offset_by_time``; 0 for a queue without messages."""
        return run(self.readings.offset_by_time(topic, queue_id, time_ms, upper=upper))

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Return the store time of a message, ms; -1 if there is no such message."""
        return run(self.readings.store_time_at(topic, queue_id, queue_offset))

    def queues(self) -> list[tuple[str, int]]:
        """Return topic and id of every queue that has had a message."""
        return [(queue.topic, queue.queue_id) for queue in self._queues if queue.next_offset]

    def topics(self) -> list[str]:
        """Return the topics that have had a message."""
        return self._queues.topics()

    def delete_topic(self, topic: str) -> None:
        """Delete a topic's queues; its records stay in the CommitLog until they expire.

        Raises StoreNotWritable if the disk refuses to record the deletion, or the store is closed.
        """
        if (closed := self._log.refusals.of(Cause.CLOSED)) is not None:
            raise closed.with_traceback(None)
        run(self.deletions.topics([topic]))
        self.deletions.remove_files()

    def recent(self, since_ms: int, bytes_max: int, having: bytes) -> Iterator[tuple[Buffer, RecordHead]]:
        """Find records near the log's end by bytes in them: see ``recent.recent_records``. For any thread."""
        return recent_records(self._log, since_ms, bytes_max, having)

    @property
    def is_any_deleted(self) -> bool:
        """Whether topics were deleted whose records are still in the CommitLog."""
        return bool(self._parts.ledger.deleted)

    def deleted_before(self, topic: str) -> int:
        """Return the CommitLog offset before which a topic's records are deleted; 0 if none are."""
        return self._parts.ledger.deleted.get(topic, 0)

    # Offsets

    @property
    def min_offset(self) -> int:
        """CommitLog offset of the first record that is left."""
        return self._log.min_offset

    @property
    def written_offset(self) -> int:
        """CommitLog offset behind the last appended record."""
        return self._log.written_offset

    @property
    def committed_offset(self) -> int:
        """CommitLog offset before which all is in the log's files and survives a kill of the process."""
        return self._log.committed_offset

    @property
    def flushed_offset(self) -> int:
        """CommitLog offset before which all is on the disk."""
        return self.flusher.flushed_offset

    @property
    def sync_count(self) -> int:
        """Number of syncs of CommitLog files so far."""
        return self.flusher.sync_count

    @property
    def confirm_offset(self) -> int:
        """CommitLog offset before which all may be read: under SYNC_FLUSH what is on the disk."""
        if not self._reads_later:
            offset = self._log.written_offset
        else:
            offset = self.flushed_offset if self.settings.sync_flush else self.committed_offset
        return offset if self._limit is None else min(offset, self._limit())

    @property
    def dispatched_offset(self) -> int:
        """CommitLog offset before which all can be read through the queues."""
        return self._dispatcher.dispatched_offset

    @property
    def free_buffers(self) -> int | None:
        """Number of free buffers of the transient store pool, None without a pool."""
        return self._log.free_buffers

    @property
    def pointers(self) -> Pointers:
        """All pointers, read from the hindmost on since other threads move them."""
        dispatched, confirmed, flushed = self.dispatched_offset, self.confirm_offset, self.flushed_offset
        committed = self.committed_offset
        return Pointers(self.min_offset, self.written_offset, committed, flushed, confirmed, dispatched)

    # Upkeep

    def tick(self, *, begins_round: bool = True) -> list[Path]:
        """Write back tails, index new records and renew the checkpoint, as far as is due.

        Called by the owner about once a second. Returns the files of a thorough round: once they are
        synced (``sync_files``, in any thread), ``vouch`` may be called with ``dispatched_time``. Until then
        no other round may begin.
        """
        return [] if self._closed else self._upkeep.tick(begins_round=begins_round)

    @property
    def is_behind(self) -> bool:
        """Whether ``tick`` left work over and should be called again soon."""
        return self._upkeep.is_behind

    def sync_files(self, paths: Sequence[Path]) -> None:
        """Sync files; those deleted meanwhile are skipped. Safe from any thread."""
        self._upkeep.sync(paths)

    @property
    def dispatched_time(self) -> int:
        """Store time, ms, up to which everything is dispatched."""
        return self._dispatcher.dispatched_time

    def vouch(self, dispatched_time: int) -> None:
        """Record in the checkpoint that ConsumeQueues and Index are on the disk up to a store time, ms."""
        if not self._closed:
            self._upkeep.vouch(dispatched_time)

    def close(self) -> None:
        """Write and sync everything and close the files: the next start is quick. May be called twice."""
        if self._closed:
            return
        self._run_soon = self._limit = None  # the loop may have ended; what is written is dispatched
        self._dispatcher.on_arrival = lambda _: None
        self.flusher.stop()
        self._dispatcher.dispatch(self.confirm_offset)
        self._closed = True
        self._log.refusals.set(Cause.CLOSED, StoreNotWritable(f"the store {self.root} is closed"))
        try:
            self._finish()
        except OSError as error:
            log.critical("%s is not closed cleanly: %s", self.root, describe(error, self.root))
        finally:
            self._readers.shutdown(cancel_futures=True)
            self._log.close()
            self._parts.files.close()
            self._parts.files.layer.unlock(self._lock_token)

    # Inside

    def _end_append(self) -> None:
        if self._run_soon is None:
            self._append_alone()
        else:
            self.flusher.keep_up()

    def _record_files(self) -> None:
        try:
            index_files = {} if self._index is None else self._index.begin_offsets()
            self._parts.ledger.record_files(self._queues, index_files, self._log.min_offset)
        except OSError as error:
            log.warning("the list of files is not saved: %s", describe(error, self.root))

    def _finish(self) -> None:
        """Sync everything and mark the store as closed. Raises OSError."""
        if self.flusher.not_writable is None:
            self._log.clear_failed()
            if self._upkeep.finish(self._log.written_time):
                self._queues.discarded.close()
                self._record_files()
                self._parts.files.layer.remove(layout.abort_path(self.root))
                return
        why = self.flusher.not_writable or self._upkeep.failed
        log.critical("%s is not closed cleanly: %s", self.root, why)

    def _in_flusher(self) -> None:
        """Schedule the dispatch of newly readable records in the owner's thread."""
        run_soon = self._run_soon  # ``close`` may remove it meanwhile, in another thread
        if self._reads_later and run_soon is not None:
            run_soon(self._after_sync)

    def _after_sync(self) -> None:
        if not self._closed:
            self._dispatcher.dispatch(self.confirm_offset)
            for action in self.on_synced:
                action()

    def _append_alone(self) -> None:
        """Wait for the disk, dispatch and do the upkeep within the append, as there is no loop."""
        if self._reads_later:
            self.flusher.make_readable()
            self._after_sync()
        else:
            self.flusher.keep_up()
        if paths := self.tick():
            time = self.dispatched_time
            self.sync_files(paths)
            self.vouch(time)
