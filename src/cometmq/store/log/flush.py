"""Sync the CommitLog to the disk, in a thread.

Group commit: one sync answers all waiters that were there when it began. Without waiters or a request the
thread syncs at intervals, if enough pages are unsynced or enough time has passed. Unless flushes are timed,
appends or commits end an interval as soon as there are enough pages.

A failed sync is final: the kernel may have dropped pages, and a retry would report success for them. So the
store refuses messages until it is opened again and recovers. A sync that could not begin, because the system
had no descriptor or memory for it, has not failed: it is retried soon, and its waiters keep waiting. Files
are held open from their first sync to their last, so that a sync needs no descriptor.

With the transient store pool a sync commits first, and a thread commits more often: ``commit.py``.

Source: RocketMQ ``store/CommitLog.java`` (GroupCommitService, FlushRealTimeService).
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from cometmq.errors import StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.io.descriptors import is_scarce
from cometmq.io.files import File
from cometmq.logs import get_logger
from cometmq.store.log.commit import Committer
from cometmq.store.log.commit_log import CommitLog, describe
from cometmq.store.log.refusals import Cause
from cometmq.store.settings import PAGE_SIZE, StoreSettings

log = get_logger(__name__)

RETRY_S: Final = 0.05
"""Delay before the retry of a sync that could not begin …"""
RETRIES_AT_STOP: Final = 100
"""… and the number of retries while the store is being closed."""

Waiter = tuple[int, "Future[None]"]


class Flusher:
    """The thread that syncs the CommitLog.

    Args:
        on_synced: called in the flusher's thread after each sync, done or failed, before the waiters are
            answered.

    Attributes:
        flushed_offset: all before it is on the disk.
        flushed_time: store time of the last message before it, ms.
        sync_count: number of syncs so far, each of one file.
    """

    def __init__(
        self,
        commit_log: CommitLog,
        settings: StoreSettings,
        clock: Clock,
        on_synced: Callable[[], None],
    ) -> None:
        self.flushed_offset = commit_log.written_offset
        self.flushed_time = commit_log.written_time
        self.sync_count = 0
        self._log = commit_log
        self._refusals = commit_log.refusals
        self._settings = settings
        self._clock = clock
        self._on_synced = on_synced
        self._committer: Committer | None = None
        if settings.transient_store_pool_enable:
            self._committer = Committer(commit_log, settings, clock, self._on_committed)
        self._last_sync_ms = clock.monotonic_ms()
        self._waiters: list[Waiter] = []
        self._is_requested = False
        self._has_pages = False  # for a sync before the interval is over
        self._wake = threading.Condition()
        self._stopping = False
        self._files: dict[int, File] = {}  # held, by their start offset
        self._is_postponed = False
        self._thread = threading.Thread(target=self._run, name="cometmq-flush", daemon=True)

    def start(self) -> None:
        """Start the thread, and with the transient store pool that of the commits."""
        self._thread.start()
        if self._committer is not None:
            self._committer.start()

    @property
    def failed(self) -> StoreNotWritable | None:
        """The error of a failed sync, after which the store must not be written to, or None."""
        return self._refusals.of(Cause.SYNC)

    @property
    def not_writable(self) -> StoreNotWritable | None:
        """The error that stops appends, for good or until a commit succeeds again; or None."""
        return self.failed or self._refusals.of(Cause.COMMIT)

    def keep_up(self) -> None:
        """Start the sync or commit that appended records are due for. Called by appends."""
        if self._settings.sync_flush:
            self.sync_soon()
        elif self._committer is not None:
            self._committer.keep_up()
        elif self._settings.wakes_flush:
            self._end_interval()

    def make_readable(self) -> None:
        """Sync or commit appended records, and wait for that. Raises StoreNotWritable if the sync fails."""
        if self._settings.sync_flush:
            self.wait(self._log.written_offset).result()
        elif self._committer is not None:
            self._committer.commit()

    def wait(self, offset: int) -> "Future[None]":
        """Return a future that is done once all before ``offset`` is on the disk.

        It raises StoreNotWritable if a sync failed, and cannot be cancelled.
        """
        future: Future[None] = Future()
        future.set_running_or_notify_cancel()  # a cancelled future would raise in the thread
        with self._wake:
            if offset <= self.flushed_offset:
                future.set_result(None)
            elif self.failed or self._stopping:
                future.set_exception(self.failed or StoreNotWritable("the store is closed"))
            else:
                self._waiters.append((offset, future))
                self._wake.notify()
        return future

    def sync_soon(self) -> None:
        """Request a sync of all that is written, without waiting for it."""
        with self._wake:
            if not self._is_requested:
                self._is_requested = True
                self._wake.notify()

    def stop(self) -> None:
        """End the thread, sync the rest and answer all waiters."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()
        if self._committer is not None:
            self._committer.stop()
        retries = 0
        while not self.failed:
            self._sync(is_last_try=retries >= RETRIES_AT_STOP)
            if not self._is_postponed:
                break
            retries += 1
            threading.Event().wait(RETRY_S)
        self._release_before(None)
        self._answer_rest()

    def _run(self) -> None:
        while not self.failed:
            with self._wake:
                if self._is_postponed:
                    self._wake.wait_for(lambda: self._stopping, RETRY_S)
                elif not (self._waiters or self._is_requested or self._has_pages or self._stopping):
                    self._wake.wait(self._settings.flush_interval_commit_log / 1000)
                if self._stopping:
                    return
                waiters, self._waiters = self._waiters, []
                is_requested, self._is_requested = self._is_requested, False
                self._has_pages = False
            if self._is_postponed or self._has_request(waiters, is_requested=is_requested) or self._is_due():
                self._sync()
            self._answer(waiters)
        self._answer_rest()

    def _has_request(self, waiters: list[Waiter], *, is_requested: bool) -> bool:
        """Return whether a request or a waiter needs records synced that the last sync left out."""
        return (is_requested and self._log.written_offset > self.flushed_offset) or any(
            offset > self.flushed_offset for offset, _ in waiters
        )

    def _on_committed(self) -> None:
        if not self._settings.flush_commit_log_timed:
            self._end_interval()
        self._on_synced()

    def _end_interval(self) -> None:
        """Wake the thread if enough pages are unsynced. Safe from any thread."""
        if self._is_full() and not self._has_pages:
            with self._wake:
                self._has_pages = True
                self._wake.notify()

    def _is_full(self) -> bool:
        """Return whether ``flush_commit_log_least_pages`` are unsynced, if 0 any byte."""
        pending = self._log.written_offset - self.flushed_offset
        return pending >= max(self._settings.flush_commit_log_least_pages * PAGE_SIZE, 1)

    def _is_due(self) -> bool:
        waited_ms = self._clock.monotonic_ms() - self._last_sync_ms
        return self._is_full() or (
            self._log.written_offset > self.flushed_offset
            and waited_ms >= self._settings.flush_commit_log_thorough_interval
        )

    def _sync(self, *, is_last_try: bool = False) -> None:
        time = self._log.written_time  # first: never ahead of offset
        if self._committer is not None and not self._committer.commit():
            time = self.flushed_time
        chain, offset = self._log.chain, self._log.committed_offset
        time = min(time, self._log.written_time)  # the clock may have been set back in between
        try:
            for start in list(chain.starts):
                if start < offset and start + chain.file_size > self.flushed_offset:
                    self._file(start).sync()
                    self.sync_count += 1
        except OSError as error:
            if is_scarce(error) and not is_last_try:
                self._postpone(error)
                return
            failed = StoreNotWritable(
                f"sync failed: {describe(error, chain.directory)}; messages acknowledged since offset "
                f"{self.flushed_offset} may not be on the disk: check the disk, then restart to recover"
            )
            self._refusals.set(Cause.SYNC, failed)
            log.critical("%s", failed)
        else:
            self.flushed_time, self.flushed_offset = time, offset  # in this order: see ``Upkeep.vouch``
            self._last_sync_ms = self._clock.monotonic_ms()
            self._release_before(offset)
        self._is_postponed = False
        self._on_synced()

    def _file(self, start: int) -> File:
        """Return the file that begins at ``start``, held until all of it is synced."""
        if start not in self._files:
            self._files[start] = self._log.chain.files.hold(self._log.chain.path(start))
        return self._files[start]

    def _release_before(self, offset: int | None) -> None:
        """Release the files that end at or before ``offset``; None means all."""
        chain = self._log.chain
        for start in list(self._files):
            if offset is None or start + chain.file_size <= offset:
                chain.files.release(self._files.pop(start))

    def _postpone(self, error: OSError) -> None:
        """Postpone the sync by RETRY_S; its waiters keep waiting."""
        if not self._is_postponed:
            log.warning("a sync is postponed and will be retried: %s", error)
        self._is_postponed = True

    def _answer_rest(self) -> None:
        with self._wake:
            waiters, self._waiters = self._waiters, []
        self._answer(waiters)

    def _answer(self, waiters: list[Waiter]) -> None:
        for offset, future in waiters:
            if offset <= self.flushed_offset:
                future.set_result(None)
            elif why := self.not_writable:
                future.set_exception(why)
            else:  # appended after the sync began: the next one answers it
                with self._wake:
                    self._waiters.append((offset, future))
