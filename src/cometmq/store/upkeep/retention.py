"""Remove expired files: those of the CommitLog from the front, then the derived files that point into them.

A round checks the hour, the age of the oldest file and the usage of the disk, and removes whole files of the
CommitLog, the oldest first. Then each ConsumeQueue and the index lose the files whose records are all gone. A
file is first taken out of the store, in the owner's thread, and then removed from the disk, in any thread:
unlinking a gigabyte takes time. Each is removed durably before the next, so a crash leaves a log that begins
later and queues that point before its beginning, which recovery corrects.

The age of a file is the time since its last write, however the wall clock was set meanwhile. If by the clock
of a start all files are too old, the clock may be wrong (a machine without a battery, a mistyped year): then
no file is removed by its age for an hour, in which NTP or the operator, who is warned, can correct it.

Never removed are the file that is written to, files that are not flushed, and files whose queue entries and
keys are not on the disk; otherwise a crash could restart at 0 a queue whose messages are all gone.

A consumer whose offset is before the beginning receives OFFSET_TOO_SMALL and the queue's first offset; one
that reads between the two steps receives the next messages, or MESSAGE_WAS_REMOVING. Bytes that a reader has
received stay valid.

Source: RocketMQ ``store/DefaultMessageStore.java`` (CleanCommitLogService, CleanConsumeQueueService),
``store/MappedFileQueue.java`` (deleteExpiredFileByTime).
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.logs import get_logger
from cometmq.store.clock_steps import ClockSteps
from cometmq.store.log.flush import Flusher
from cometmq.store.log.refusals import Cause
from cometmq.store.parts import Parts
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.next_offsets import GONE
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep.disk_space import DiskSpace, Need
from cometmq.store.upkeep.upkeep import Upkeep

log = get_logger(__name__)

HOUR_MS: Final = 3_600_000
FIRST_ROUND_MS: Final = 60_000
"""Time after the opening of a store in which nothing is removed."""
HOLD_MS: Final = HOUR_MS
"""Time after the opening in which nothing is removed by its age, if all files look too old."""
ASKED_ROUNDS: Final = 20
"""Number of rounds after ``ask`` that remove expired files at any hour."""
QUEUES_AT_ONCE: Final = 4
"""Queues checked before the owner's thread gets a turn."""


class Removal(NamedTuple):
    """One step of a round.

    Attributes:
        paths: files to remove in this order, possibly none: see ``Retention.remove``.
        pause_ms: time to wait before the next step.
    """

    paths: tuple[Path, ...]
    pause_ms: int


class Retention:
    """Removes the expired files of a store. Without a broker, which does it by itself, call ``run``."""

    def __init__(
        self, parts: Parts, flusher: Flusher, upkeep: Upkeep, settings: StoreSettings, clock: ClockSteps
    ) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._index = parts.index
        self._files = parts.files
        self._layer = parts.files.layer
        self._flusher = flusher
        self._upkeep = upkeep
        self._clock = clock
        self._space = DiskSpace(self._layer, parts.root, settings)
        self.configure(settings)
        self._next_round_ms = clock.monotonic_ms() + FIRST_ROUND_MS
        is_all_expired = 0 < parts.log.written_time < clock.now_ms() - self._reserved_ms
        self._by_age_from_ms = clock.monotonic_ms() + (HOLD_MS if is_all_expired else 0)
        self._has_warned = False
        self._asked_rounds = 0
        self._cleaned_offset = 0  # derived files of records before it have been checked …
        self._queues_left: deque[ConsumeQueue] = deque()  # … except those of these queues
        # Files taken out of the store, maybe still on the disk, and the queues that they belong to.
        self._taken: dict[Path, ConsumeQueue | None] = {}
        self._stuck: set[Path] = set()  # places (``_place``) of files that could not be removed in this round
        self._logged: set[Path] = set()  # such files

    def configure(self, settings: StoreSettings) -> None:
        """Remove by these settings from the next round on."""
        self._settings = settings
        self._space.set_limits(settings)
        self._hours = {int(hour) for hour in settings.delete_when.split(";") if hour.strip()}
        self._reserved_ms = settings.file_reserved_time * HOUR_MS

    def is_due(self) -> bool:
        """Check whether it is time for the next round."""
        return self._clock.monotonic_ms() >= self._next_round_ms

    def keeps(self, physical_offset: int) -> bool:
        """Check whether a record is in the file that is written to, which is never removed."""
        return physical_offset >= self._log.chain.starts[-1]

    def ask(self) -> None:
        """Request that the next rounds remove expired files at any hour."""
        self._asked_rounds = ASKED_ROUNDS

    def round(self) -> Iterator[Removal]:
        """Run a round, step by step; the caller removes the files of each step, and yields to the loop.

        A file that cannot be removed is retried in the next round, and so are those that must go after it.
        """
        self._next_round_ms = self._clock.monotonic_ms() + self._settings.clean_resource_interval
        self._stuck.clear()
        self._queues.retry_discard()
        if self._taken:
            yield from self._removal([])
        need = self._space.measure()
        self._log.refusals.set(Cause.DISK_SPACE, self._space.full)
        self._log.chain.avoid(self._space.full_directories)
        yield from self._log_files(need)
        if not self._queues_left and self._log.min_offset > self._cleaned_offset:
            self._cleaned_offset = self._log.min_offset
            self._queues_left.extend(self._queues.by_number.values())
            if self._index is not None:
                yield from self._removal(self._index.take_expired(self._log.min_offset))
        yield from self._queue_files()

    def remove(self, paths: Iterable[Path]) -> list[Path]:
        """Remove files from the disk, each durably before the next; return them. Safe from any thread.

        A failure is logged once for each file; nothing else in its place is removed in this round.
        """
        removed = []
        for path in paths:
            if self._place(path) in self._stuck:
                continue
            try:
                self._layer.remove(path)
            except OSError as error:
                self._stuck.add(self._place(path))
                if path not in self._logged:
                    self._logged.add(path)
                    log.warning("%s: cannot be removed, and is tried again: %s", path, error.strerror)
            else:
                removed.append(path)
        return removed

    def run(self) -> list[Path]:
        """Run a round without pauses; return the removed files."""
        return [path for removal in self.round() for path in self.remove(removal.paths)]

    def _log_files(self, need: Need) -> Iterator[Removal]:
        asked = self._asked_rounds > 0
        self._asked_rounds -= asked
        if not (need or asked or self._is_delete_hour()):
            return
        if need is not Need.ALL and not asked and self._is_clock_doubtful():
            return
        at_once = need is Need.ALL and self._settings.clean_file_forcibly_enable
        count, directory = 0, self._log.chain.directories[0]
        while count < self._settings.delete_file_batch_max and self._is_first_removable(at_once=at_once):
            if directory in self._stuck:
                break
            first = self._log.chain.starts[0]
            yield from self._removal(
                self._log.chain.detach_before(first + self._log.chain.file_size),
                self._settings.delete_commit_log_files_interval,
            )
            count += directory not in self._stuck
        if count:
            log.info("%d CommitLog files are removed; the log begins at %d", count, self._log.min_offset)
        elif need:
            log.warning("%s: the disk fills up, and no CommitLog file can be removed yet", directory)

    def _queue_files(self) -> Iterator[Removal]:
        """Remove files of queues until the next round is due, which measures the disk."""
        while self._queues_left and not self.is_due():
            queue = self._queues_left.popleft()
            if queue.next_offset == GONE:  # its topic was deleted meanwhile
                continue
            if paths := queue.take_expired(self._log.min_offset, self._upkeep.vouched_offset):
                yield from self._removal(paths, self._settings.delete_consume_queue_files_interval, queue)
            elif len(self._queues_left) % QUEUES_AT_ONCE == 0:
                yield Removal((), 0)

    def _removal(
        self, paths: list[Path], pause_ms: int = 0, queue: ConsumeQueue | None = None
    ) -> Iterator[Removal]:
        """Yield the removal of files that are out of the store, after those that could not be removed before.

        Files of a topic that was deleted meanwhile are skipped: they are gone, and a new queue may have files
        of the same names.
        """
        self._taken |= dict.fromkeys(paths, queue)
        taken = [
            path
            for path, queue in self._taken.items()
            if self._place(path) not in self._stuck and (queue is None or queue.next_offset != GONE)
        ]
        yield Removal(tuple(taken), pause_ms)
        for path in list(self._taken):
            if self._place(path) not in self._stuck or not self._layer.exists(path):
                self._files.forget(path)  # a reader in another thread may have opened it in the last moment
                del self._taken[path]

    def _place(self, path: Path) -> Path:
        """Return the directory in whose order a file is removed: one for the log, wherever its files lie."""
        log_directories = self._log.chain.directories
        return log_directories[0] if path.parent in log_directories else path.parent

    def _is_delete_hour(self) -> bool:
        return time.localtime(self._clock.now_ms() / 1000).tm_hour in self._hours

    def _is_first_removable(self, *, at_once: bool) -> bool:
        chain = self._log.chain
        safe_offset = min(self._flusher.flushed_offset, self._upkeep.vouched_offset)
        if len(chain.starts) < 2 or chain.starts[0] + chain.file_size > safe_offset:
            return False
        return at_once or self._age_ms(chain.starts[0]) >= self._reserved_ms

    def _age_ms(self, start: int) -> int:
        """Return the time since the last write to a CommitLog file, ms, however the wall clock was set since.

        For a file of an earlier process it is not known whether the clock was right before a step or after
        it: the lower of both ages counts.
        """
        chain = self._log.chain
        end = start + chain.file_size
        by_wall = self._clock.now_ms() - self._layer.modified_ms(chain.path(start))
        passed = by_wall - self._clock.since(end - 1)
        return passed if end > self._clock.begin_offset else min(passed, by_wall)

    def _is_clock_doubtful(self) -> bool:
        """Check whether nothing may be removed by its age yet, since the clock may be wrong; warn once."""
        if self._clock.monotonic_ms() >= self._by_age_from_ms:
            return False
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: by the clock nothing was written for longer than fileReservedTime before the start: "
                "nothing is removed by its age in the first hour, unless the disk fills up or an operator "
                "requests it; check that the clock is right",
                self._log.chain.directory,
            )
        return True
