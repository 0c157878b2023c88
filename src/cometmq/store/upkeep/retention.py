"""Removing what has expired: CommitLog files from the front, then what pointed into them.

A round looks at the hour, the age of the oldest file and how full the disk is, and removes whole files of
the CommitLog, the oldest first. Then each ConsumeQueue and the index lose the files whose records are all
gone. A file is first taken out of what the store reads, in the owner's thread, and then removed from the
disk, in any: unlinking a gigabyte takes time. Each is gone durably before the next, so a crash leaves a log
that begins later and queues that point before its beginning, which recovery corrects.

Ages are those of the files' last writes, and count time that has passed, not what the wall clock was set to
meanwhile. If by the clock of a start all is too old, the clock may be what is wrong (a machine without a
battery, a mistyped year): then nothing goes by its age for an hour, in which NTP or the operator, who is
warned, can put it right.

What is never removed: the file that is written to, files that are not flushed, and those whose queue entries
and keys are not on the disk; otherwise a crash could make a queue begin anew whose messages are all gone.

A consumer that stands before the beginning is told OFFSET_TOO_SMALL and where the queue begins; one that
comes between the two steps is given what comes next, or told MESSAGE_WAS_REMOVING. What was given to a
reader stays as it is.

Source: RocketMQ ``store/DefaultMessageStore.java`` (CleanCommitLogService, CleanConsumeQueueService),
``store/MappedFileQueue.java`` (deleteExpiredFileByTime).
"""

import logging
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import StoreNotWritable
from cometmq.store.clock_steps import ClockSteps
from cometmq.store.log.flush import Flusher
from cometmq.store.parts import Parts
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.next_offsets import GONE
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep.disk_space import DiskSpace, Need
from cometmq.store.upkeep.upkeep import Upkeep

log = logging.getLogger(__name__)

HOUR_MS: Final = 3_600_000
FIRST_ROUND_MS: Final = 60_000
"""How long after its opening a store removes nothing."""
HOLD_MS: Final = HOUR_MS
"""How long a store removes nothing by its age that looks as if nobody had written to it for too long."""
ASKED_ROUNDS: Final = 20
"""So many rounds remove expired files at any hour once somebody asks for it."""
QUEUES_AT_ONCE: Final = 4
"""Queues looked at before others have their turn in the owner's thread."""


class Removal(NamedTuple):
    """One step of a round.

    Attributes:
        paths: files to be removed, in this order: see ``Retention.remove``; there may be none.
        pause_ms: how long the next step should wait.
    """

    paths: tuple[Path, ...]
    pause_ms: int


class Retention:
    """Removes what has expired.

    Without a broker, which does it by itself, nothing is removed unless ``run`` is called.
    """

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
        self._settings = settings
        self._clock = clock
        self._space = DiskSpace(self._layer, parts.root, settings)
        self._hours = {int(hour) for hour in settings.delete_when.split(";") if hour.strip()}
        self._next_round_ms = clock.monotonic_ms() + FIRST_ROUND_MS
        self._reserved_ms = settings.file_reserved_time * HOUR_MS
        is_odd = 0 < parts.log.written_time < clock.now_ms() - self._reserved_ms
        self._by_age_from_ms = clock.monotonic_ms() + (HOLD_MS if is_odd else 0)
        self._has_told_hold = False
        self._asked_rounds = 0
        self._cleaned_offset = 0  # what is derived from records before it has been looked at …
        self._queues_left: deque[ConsumeQueue] = deque()  # … but for these queues
        # Out of the store, but maybe still on the disk; and the queues whose files they are.
        self._taken: dict[Path, ConsumeQueue | None] = {}
        self._stuck: set[Path] = set()  # directories with a file that could not be removed in this round
        self._told: set[Path] = set()  # such files

    @property
    def disk_full(self) -> StoreNotWritable | None:
        """Why the store takes no messages, by the last round's look at the disk; None if it does."""
        return self._space.full

    def is_due(self) -> bool:
        """Tell whether it is time for the next round."""
        return self._clock.monotonic_ms() >= self._next_round_ms

    def keeps(self, physical_offset: int) -> bool:
        """Check whether a record is in the file that is written to, of which nothing is removed."""
        return physical_offset >= self._log.chain.starts[-1]

    def ask(self) -> None:
        """Have the next rounds remove expired files whatever the hour."""
        self._asked_rounds = ASKED_ROUNDS

    def round(self) -> Iterator[Removal]:
        """Do a round, step by step; between the steps the caller removes files, and lets others work.

        What the disk does not let go is left to the next round, with what must not go before it.
        """
        self._next_round_ms = self._clock.monotonic_ms() + self._settings.clean_resource_interval
        self._stuck.clear()
        self._queues.discard_left()
        if self._taken:
            yield from self._removal([])
        yield from self._log_files(self._space.measure())
        if not self._queues_left and self._log.min_offset > self._cleaned_offset:
            self._cleaned_offset = self._log.min_offset
            self._queues_left.extend(self._queues.by_number.values())
            if self._index is not None:
                yield from self._removal(self._index.take_expired(self._log.min_offset))
        yield from self._queue_files()

    def remove(self, paths: Iterable[Path]) -> list[Path]:
        """Remove files from the disk, each durably before the next; give which. Safe from any thread.

        One that the disk does not let go is logged, once; in its directory nothing more goes in this round.
        """
        removed = []
        for path in paths:
            if path.parent in self._stuck:
                continue
            try:
                self._layer.remove(path)
            except OSError as error:
                self._stuck.add(path.parent)
                if path not in self._told:
                    self._told.add(path)
                    log.warning("%s: cannot be removed, and is tried again: %s", path, error.strerror)
            else:
                removed.append(path)
        return removed

    def run(self) -> list[Path]:
        """Do a round here and now, without pauses; gives what was removed."""
        return [path for removal in self.round() for path in self.remove(removal.paths)]

    def _log_files(self, need: Need) -> Iterator[Removal]:
        asked = self._asked_rounds > 0
        self._asked_rounds -= asked
        if not (need or asked or self._is_the_hour()):
            return
        if need is not Need.ALL and not asked and self._holds_back():
            return
        at_once = need is Need.ALL and self._settings.clean_file_forcibly_enable
        count, directory = 0, self._log.chain.directory
        while count < self._settings.delete_file_batch_max and self._is_first_removable(at_once=at_once):
            if directory in self._stuck:
                break
            first = self._log.chain.starts[0]
            yield from self._removal(
                self._log.chain.take_before(first + self._log.chain.file_size),
                self._settings.delete_commit_log_files_interval,
            )
            count += directory not in self._stuck
        if count:
            log.info("%d CommitLog files are removed; the log begins at %d", count, self._log.min_offset)
        elif need:
            log.warning("%s: the disk fills up, and no CommitLog file can be removed yet", directory)

    def _queue_files(self) -> Iterator[Removal]:
        """Go on with the queues until the next round is due: the disk must be looked at meanwhile."""
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
        """Have files removed that are out of the store already, after those that could not be before.

        Not those of a topic that was deleted since: they are gone, and another queue may have such files.
        """
        self._taken |= dict.fromkeys(paths, queue)
        taken = [
            path
            for path, queue in self._taken.items()
            if path.parent not in self._stuck and (queue is None or queue.next_offset != GONE)
        ]
        yield Removal(tuple(taken), pause_ms)
        for path in list(self._taken):
            if path.parent not in self._stuck or not self._layer.exists(path):
                self._files.forget(path)  # a reader in another thread may have opened it in the last moment
                del self._taken[path]

    def _is_the_hour(self) -> bool:
        return time.localtime(self._clock.now_ms() / 1000).tm_hour in self._hours

    def _is_first_removable(self, *, at_once: bool) -> bool:
        chain = self._log.chain
        safe_offset = min(self._flusher.flushed_offset, self._upkeep.vouched_offset)
        if len(chain.starts) < 2 or chain.starts[0] + chain.file_size > safe_offset:
            return False
        return at_once or self._age_ms(chain.starts[0]) >= self._reserved_ms

    def _age_ms(self, start: int) -> int:
        """Return how long ago a CommitLog file was last written to, whatever the wall clock was set to since.

        Of a file of an earlier process it is not known which of the clocks, before a step and after it, is
        the right one: the younger of both ages counts.
        """
        chain = self._log.chain
        end = start + chain.file_size
        by_wall = self._clock.now_ms() - self._layer.modified_ms(chain.path(start))
        passed = by_wall - self._clock.since(end - 1)
        return passed if end > self._clock.begin_offset else min(passed, by_wall)

    def _holds_back(self) -> bool:
        """Check whether nothing is removed by its age yet, as the clock may be wrong."""
        if self._clock.monotonic_ms() >= self._by_age_from_ms:
            return False
        if not self._has_told_hold:
            self._has_told_hold = True
            log.warning(
                "%s: by the clock nothing was written for longer than fileReservedTime before the start: "
                "nothing is removed by its age in the first hour, unless the disk fills up or somebody asks; "
                "see that the clock is right",
                self._log.chain.directory,
            )
        return True
