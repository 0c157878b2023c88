"""A store's pointers: CommitLog offsets up to which records are written, flushed, dispatched."""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.flush import Flusher
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep.dispatch import Dispatcher


class Pointers(NamedTuple):
    """``written ≥ committed ≥ flushed`` and ``committed ≥ confirmed ≥ dispatched``.

    Attributes:
        begin: offset of the first record that is left.
        written: all before it is appended.
        committed: … is in the page cache; behind ``written`` only with the transient store pool.
        flushed: … is on the disk.
        confirmed: … may be read: what is committed, under SYNC_FLUSH what is flushed; under a controller only
            what all brokers in sync have.
        dispatched: … can be read through its queue.
    """

    begin: int
    written: int
    committed: int
    flushed: int
    confirmed: int
    dispatched: int


class HasPointers:
    """The properties of ``MessageStore`` that are CommitLog offsets."""

    settings: StoreSettings
    _reads_later: bool
    _limit: Callable[[], int] | None
    _log: CommitLog
    flusher: Flusher
    _dispatcher: Dispatcher

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
