"""Commit the buffers of the transient store pool to the files, in a thread.

A failed commit loses nothing: the data stays in its buffer, the store refuses messages, and the commit is
retried until it succeeds.

Source: RocketMQ ``store/CommitLog.java`` (CommitRealTimeService).
"""

import threading
from collections.abc import Callable
from typing import Final

from cometmq.errors import StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.log.commit_log import CommitLog, describe
from cometmq.store.log.refusals import Cause
from cometmq.store.settings import PAGE_SIZE, StoreSettings

UNCOMMITTED_MAX: Final = 32 * 1024 * 1024
"""Uncommitted bytes beyond which an append commits them itself."""

log = get_logger(__name__)


class Committer:
    """The thread that commits.

    Args:
        on_committed: called in the thread that committed, each time that more can be read.
    """

    def __init__(
        self, commit_log: CommitLog, settings: StoreSettings, clock: Clock, on_committed: Callable[[], None]
    ) -> None:
        self._log = commit_log
        self._settings = settings
        self._clock = clock
        self._on_committed = on_committed
        self._last_ms = clock.monotonic_ms()
        self._stopping = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cometmq-commit", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def keep_up(self) -> None:
        """Wake the thread if enough pages are uncommitted; commit here if too many are. Called by appends."""
        if self._log.written_offset - self._log.committed_offset > UNCOMMITTED_MAX:
            self.commit()
        elif self._settings.wake_commit_when_put_message and self._has_pages():
            self._wake.set()

    def commit(self) -> bool:
        """Commit all that is written; return whether that succeeded. Safe from any thread."""
        before = self._log.committed_offset
        self._last_ms = self._clock.monotonic_ms()
        failed: StoreNotWritable | None
        try:
            self._log.commit()
        except OSError as error:
            failed = StoreNotWritable(f"commit failed: {describe(error, self._log.chain.directory)}")
            log.warning("%s", failed)
        else:
            failed = None
        self._log.refusals.set(Cause.COMMIT, failed)
        if self._log.committed_offset > before:
            self._on_committed()
        return failed is None

    def stop(self) -> None:
        """End the thread and commit the rest."""
        self._stopping = True
        self._wake.set()
        self._thread.join()
        self.commit()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._settings.commit_interval_commit_log / 1000)
            self._wake.clear()
            if self._has_pages() or self._is_late():
                self.commit()

    def _has_pages(self) -> bool:
        """Return whether at least ``commit_commit_log_least_pages`` are uncommitted, if 0 any byte."""
        written, committed = self._log.written_offset, self._log.committed_offset
        pages = written // PAGE_SIZE - committed // PAGE_SIZE
        return written > committed and pages >= self._settings.commit_commit_log_least_pages

    def _is_late(self) -> bool:
        waited_ms = self._clock.monotonic_ms() - self._last_ms
        return (
            self._log.written_offset > self._log.committed_offset
            and waited_ms >= self._settings.commit_commit_log_thorough_interval
        )
