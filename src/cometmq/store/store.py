"""MessageStore: the storage engine as all others see it.

One thread owns a store: it appends, reads and calls ``tick``; nothing in here locks. Two things happen
elsewhere: the flusher's thread syncs, and files may be synced in a thread of the caller's.
"""

import logging
import os
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple, Self

from cometmq.errors import StoreLocked, StoreNotWritable
from cometmq.format import layout
from cometmq.format.delay_level import DelayLevels
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.store.append import Appended, NewMessage
from cometmq.store.checkpoint import CheckpointFile
from cometmq.store.commit_log import CommitLog, describe
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.dispatch import Arrival, Dispatcher, has_queue_entry
from cometmq.store.flush import Flusher
from cometmq.store.get import GetResult, get_messages
from cometmq.store.index import Index
from cometmq.store.queues import Queues
from cometmq.store.recover import Progress, Recovered, recover
from cometmq.store.seek import NEVER, offset_by_time, store_time_at
from cometmq.store.settings import PAGE_SIZE, StoreSettings

log = logging.getLogger(__name__)

TIME_MAX = 2**63 - 1


class QueryResult(NamedTuple):
    """What a query by key gave: raw records, oldest first, and how far the index goes.

    Only the keys' hashes were compared: who must be exact looks at the records' keys.
    """

    records: list[bytes]
    index_last_update_time: int
    index_last_update_offset: int


class MessageStore:
    """A store directory, open for appending and reading.

    Use ``open``; as a context manager it closes itself.

    Args:
        run_soon: how the flusher's thread asks the owner to dispatch what a sync made readable (a loop's
            ``call_soon_threadsafe``). Without it ``append`` itself waits for the disk under SYNC_FLUSH.

    Attributes:
        recovered: what opening found.
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
        """Open a store directory, made if it is not there, and recover it.

        Raises:
            StoreLocked: another process has it open.
            StoreDamaged: a file cannot be used as it is.
            OSError: the disk refuses.
        """
        root = Path(directory)
        layer = files or Disk()
        layer.make_directory(root)
        token = layer.lock(layout.lock_path(root))
        if token is None:
            raise StoreLocked(f"{root} is open in another process: stop it first, or use another directory")
        try:
            return cls(
                root, settings or StoreSettings(), layer, clock or SystemClock(), run_soon, progress, token
            )
        except BaseException:
            layer.unlock(token)
            raise

    def __init__(
        self,
        root: Path,
        settings: StoreSettings,
        layer: FileLayer,
        clock: Clock,
        run_soon: Callable[[Callable[[], None]], object] | None,
        progress: Progress | None,
        lock_token: int,
    ) -> None:
        self.root = root
        self.settings = settings
        self._layer = layer
        self._clock = clock
        self._lock_token = lock_token
        self._files = OpenFiles(layer, writable=True)
        self._log = CommitLog(self._files, layout.commitlog_dir(root), settings.mapped_file_size_commit_log)
        self._queues = Queues(self._files, root, settings.queue_file_size)
        self._index: Index | None = None
        if settings.message_index_enable:
            self._index = Index(self._files, root, settings.max_hash_slot_num, settings.max_index_num)
        self._delay_levels = DelayLevels.parse(settings.message_delay_level)
        self._checkpoint = CheckpointFile(self._files, layout.checkpoint_path(root))
        self.recovered = self._recover(progress)
        self._dispatcher = Dispatcher(self._log, self._index, self._delay_levels)
        self._run_soon = run_soon
        self._flusher = Flusher(self._log, layer, settings, clock, self._on_flushed)
        self._closed = False
        self._derived_failed: StoreNotWritable | None = None
        self._last_write_back_ms = self._last_thorough_ms = clock.monotonic_ms()
        layer.save(layout.abort_path(root), str(os.getpid()).encode())
        self._flusher.start()

    def __enter__(self) -> Self:
        """Give the store."""
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
        self._check_writable()
        queues: list[ConsumeQueue | None] = []
        queue_offsets: list[int] = []
        for message in messages:
            queue = self._queues.get(message.topic, message.queue_id)
            if has_queue_entry(message.sys_flag):
                queues.append(queue)
                queue_offsets.append(queue.next_offset)
                queue.next_offset += 1
            else:
                queues.append(None)
                queue_offsets.append(0)
        try:
            appended = self._log.append(messages, queue_offsets, self._clock.now_ms())
        except BaseException:
            for taken in queues:
                if taken is not None:
                    taken.next_offset -= 1
            raise
        self._dispatcher.take(queues, messages, appended, self._readable_offset())
        if self.settings.sync_flush:
            self._flusher.sync_soon()  # those that do not wait for the disk must become readable too
        if self._run_soon is None:
            self._append_alone()
        return appended

    def wait_flushed(self, offset: int | None = None) -> "Future[None]":
        """Give a future that is done once all that is written (before ``offset``) is synced."""
        written = self._log.written_offset
        return self._flusher.wait(written if offset is None else min(offset, written))

    @property
    def written_offset(self) -> int:
        """CommitLog offset behind the last appended record."""
        return self._log.written_offset

    @property
    def flushed_offset(self) -> int:
        """CommitLog offset before which all is on the disk."""
        return self._flusher.flushed_offset

    @property
    def dispatched_offset(self) -> int:
        """CommitLog offset before which all can be read through the queues."""
        return self._dispatcher.dispatched_offset

    @property
    def min_offset(self) -> int:
        """CommitLog offset of the first record that is still there."""
        return self._log.min_offset

    @property
    def not_writable(self) -> StoreNotWritable | None:
        """Why nothing can be appended now, or None."""
        if self._closed:
            return StoreNotWritable(f"the store {self.root} is closed")
        return self._flusher.failed or self._derived_failed

    def on_arrival(self, callback: Callable[[list[Arrival]], None]) -> None:
        """Have ``callback`` told what can newly be read, a batch at a time."""
        self._dispatcher.on_arrival = callback

    # Reading

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = TIME_MAX,
        tags_codes: Container[int] | None = None,
    ) -> GetResult:
        """Read messages of one queue: see ``get.get_messages``."""
        return get_messages(
            self._log,
            self._queues.find(topic, queue_id),
            queue_offset,
            self.settings,
            max_count=max_count,
            max_bytes=max_bytes,
            tags_codes=tags_codes,
        )

    def read_record(self, physical_offset: int) -> bytes | None:
        """Give the record at a CommitLog offset, or None if none begins there."""
        return self._log.read_record(physical_offset)

    def query(
        self, topic: str, key: str, max_count: int = 32, begin_time: int = 0, end_time: int = TIME_MAX
    ) -> QueryResult:
        """Find messages by one of their keys or their unique key, stored within a time range (ms)."""
        if self._index is None:
            return QueryResult([], 0, 0)
        self._dispatcher.catch_up_index()
        offsets = self._index.find(
            topic,
            key,
            begin_time=begin_time,
            end_time=end_time,
            max_count=min(max_count, self.settings.max_msgs_num_batch),
        )
        records = [record for offset in offsets if (record := self._log.read_record(offset)) is not None]
        return QueryResult(records, *self._index.last_update)

    def min_queue_offset(self, topic: str, queue_id: int) -> int:
        """Give the first queue offset that can be read; 0 for a queue without messages."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.min_offset

    def max_queue_offset(self, topic: str, queue_id: int) -> int:
        """Give the queue offset behind the last readable message; 0 for a queue without messages."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else queue.max_offset

    def offset_by_time(self, topic: str, queue_id: int, time_ms: int, *, upper: bool = False) -> int:
        """Find a queue offset by store time: see ``seek.offset_by_time``; 0 for a queue without messages."""
        queue = self._queues.find(topic, queue_id)
        return 0 if queue is None else offset_by_time(self._log, queue, time_ms, upper=upper)

    def store_time_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """Give when a message was stored, ms; -1 if it is not there."""
        queue = self._queues.find(topic, queue_id)
        return NEVER if queue is None else store_time_at(self._log, queue, queue_offset)

    def queues(self) -> list[tuple[str, int]]:
        """Give topic and id of every queue that has had a message."""
        return [(queue.topic, queue.queue_id) for queue in self._queues]

    def delete_topic(self, topic: str) -> None:
        """Remove a topic's queues; its records stay in the CommitLog until they expire."""
        self._queues.delete(topic)

    # Keeping up

    def tick(self) -> list[Path]:
        """Do what is due: write back tails, let the index catch up, renew the checkpoint.

        Called by the owner about once a second. Gives the files of a thorough round: once they are
        synced (``sync_files``, in any thread), ``vouch`` may be called with ``dispatched_time``.
        """
        now = self._clock.monotonic_ms()
        settings = self.settings
        if now - self._last_write_back_ms < settings.flush_interval_consume_queue:
            return []
        self._last_write_back_ms = now
        self._files.drop_pages()
        self._dispatcher.catch_up_index()
        thorough = now - self._last_thorough_ms >= settings.flush_consume_queue_thorough_interval
        least = 1 if thorough else settings.flush_consume_queue_least_pages * PAGE_SIZE
        self._write_back(least, index=thorough)
        self.vouch(0)
        if not thorough or self._derived_failed:
            return []
        self._last_thorough_ms = now
        return self._derived_files()

    def sync_files(self, paths: Sequence[Path]) -> None:
        """Sync files; those that are gone by now are passed over. Safe from any thread. Raises OSError."""
        for path in paths:
            if self._layer.exists(path):
                self._layer.sync(path)

    @property
    def dispatched_time(self) -> int:
        """Store time, ms, up to which everything is dispatched."""
        return self._log.written_time if self.dispatched_offset == self.written_offset else 0

    def vouch(self, dispatched_time: int) -> None:
        """Note in the checkpoint that ConsumeQueues are on the disk up to a store time, ms."""
        try:
            self._checkpoint.renew(flushed_time=self._flusher.flushed_time, dispatched_time=dispatched_time)
        except OSError as error:
            log.warning("checkpoint not renewed: %s", describe(error, self.root))

    def close(self) -> None:
        """Write and sync everything; a store closed so is opened quickly. May be called twice."""
        if self._closed:
            return
        self._flusher.stop()
        self._dispatcher.dispatch(self._readable_offset())
        self._dispatcher.catch_up_index()
        self._write_back(1, index=True)
        failed = self._flusher.failed or self._derived_failed
        self._closed = True
        if failed is None:
            self.sync_files(self._derived_files())
            self.vouch(self._log.written_time)
            self._checkpoint.sync()
            self._layer.remove(layout.abort_path(self.root))
        else:
            log.error("%s is not closed cleanly: %s", self.root, failed)
        self._files.close()
        self._layer.unlock(self._lock_token)

    # Inside

    def _recover(self, progress: Progress | None) -> Recovered:
        clean = not self._layer.exists(layout.abort_path(self.root))
        self._checkpoint.load()
        self._log.chain.load()
        self._queues.load(trusted=clean)
        if self._index is not None:
            self._index.load(trusted=clean)
        return recover(
            self._log,
            self._queues,
            self._index,
            clean=clean,
            checkpoint=self._checkpoint.value,
            delay_levels=self._delay_levels,
            files=self._files,
            root=self.root,
            progress=progress,
        )

    def _readable_offset(self) -> int:
        return self._flusher.flushed_offset if self.settings.sync_flush else self._log.written_offset

    def _on_flushed(self) -> None:
        """In the flusher's thread: have the owner dispatch what can be read now."""
        if self.settings.sync_flush and self._run_soon is not None:
            self._run_soon(self._dispatch_flushed)

    def _dispatch_flushed(self) -> None:
        if not self._closed:
            self._dispatcher.dispatch(self._flusher.flushed_offset)

    def _append_alone(self) -> None:
        """Without a loop: wait for the disk, and keep up, within the append."""
        if self.settings.sync_flush:
            self.wait_flushed().result()
            self._dispatch_flushed()
        if paths := self.tick():
            time = self.dispatched_time
            self.sync_files(paths)
            self.vouch(time)

    def _check_writable(self) -> None:
        if self._derived_failed and not self._closed:
            self._write_back(1, index=True)  # space may have been freed
        if (why := self.not_writable) is not None:
            raise why

    def _write_back(self, least_bytes: int, *, index: bool) -> None:
        try:
            self._queues.write_back(least_bytes)
            if index and self._index is not None:
                self._index.write_back()
        except OSError as error:
            self._derived_failed = StoreNotWritable(describe(error, self.root))
            log.warning("%s", self._derived_failed)
        else:
            self._derived_failed = None

    def _derived_files(self) -> list[Path]:
        index = self._index.paths()[-2:] if self._index is not None else []
        return self._queues.take_unsynced() + index
