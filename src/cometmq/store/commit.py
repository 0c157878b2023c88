"""Commits what waits in the transient store pool, in a thread of its own.

A commit that fails loses nothing: what waits stays in its buffer, the store takes no more messages, and it
is tried again until the disk takes it.

Source: RocketMQ ``store/CommitLog.java`` (CommitRealTimeService).
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from cometmq.errors import StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.store.commit_log import CommitLog, describe
from cometmq.store.settings import PAGE_SIZE, StoreSettings

UNCOMMITTED_MAX: Final = 32 * 1024 * 1024
"""What may wait; an append that leaves more commits it."""

log = logging.getLogger(__name__)


class Committer:
    """The thread that commits.

    Args:
        on_committed: called in the thread that committed, each time that more can be read.

    Attributes:
        failed: why nothing can be committed now, or None.
    """

    def __init__(
        self, commit_log: CommitLog, settings: StoreSettings, clock: Clock, on_committed: Callable[[], None]
    ) -> None:
        self.failed: StoreNotWritable | None = None
        self._log = commit_log
        self._settings = settings
        self._clock = clock
        self._on_committed = on_committed
        self._last_ms = clock.monotonic_ms()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cometmq-commit", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def keep_up(self) -> None:
        """Commit now if too much waits. For who appends."""
        if self._log.written_offset - self._log.committed_offset > UNCOMMITTED_MAX:
            self.commit()

    def commit(self) -> bool:
        """Commit all that is written; tell whether that worked, as ``failed`` does. Safe from any thread."""
        before = self._log.committed_offset
        self._last_ms = self._clock.monotonic_ms()
        try:
            self._log.commit()
        except OSError as error:
            self.failed = StoreNotWritable(f"commit failed: {describe(error, self._log.chain.directory)}")
            log.warning("%s", self.failed)
        else:
            self.failed = None
        if self._log.committed_offset > before:
            self._on_committed()
        return self.failed is None

    def stop(self) -> None:
        """End the thread, and commit what is left."""
        self._stopping.set()
        self._thread.join()
        self.commit()

    def _run(self) -> None:
        while not self._stopping.wait(self._settings.commit_interval_commit_log / 1000):
            if self._is_due():
                self.commit()

    def _is_due(self) -> bool:
        settings, written, committed = self._settings, self._log.written_offset, self._log.committed_offset
        pages = written // PAGE_SIZE - committed // PAGE_SIZE
        waited_ms = self._clock.monotonic_ms() - self._last_ms
        return written > committed and (
            pages >= settings.commit_commit_log_least_pages
            or waited_ms >= settings.commit_commit_log_thorough_interval
        )
