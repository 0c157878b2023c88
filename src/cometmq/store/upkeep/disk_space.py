"""Measure the disks' usage, which decides what retention removes and whether messages are accepted.

=================================  ============================  ==========================================
Used, in percent                   Setting and its range         Effect
=================================  ============================  ==========================================
over 75, or unknown                diskMaxUsedSpaceRatio         expired files are removed at any hour
                                   10 to 95
over 85                            diskSpaceCleanForciblyRatio   files that have not expired are, too
                                   30 to 85
over 90                            diskSpaceWarningLevelRatio    and no messages are accepted …
                                   35 to 90
85 or less again                                                 … until then
=================================  ============================  ==========================================

CommitLog and ConsumeQueues may be on different disks: each is measured. Of a CommitLog that is spread over
several directories, the emptiest disk counts, and no new file goes to those used over the second ratio, as
long as there is another one.

Source: RocketMQ ``store/DefaultMessageStore.java`` (CleanCommitLogService.isSpaceToDelete),
``common/UtilAll.java`` (getDiskPartitionSpaceUsedPercent).
"""

from enum import IntEnum
from pathlib import Path
from typing import Final

from cometmq.errors import StoreNotWritable
from cometmq.format import layout
from cometmq.io.files import FileLayer, Usage
from cometmq.logs import get_logger
from cometmq.store.files.spread import spread_of
from cometmq.store.settings import StoreSettings

log = get_logger(__name__)

UNKNOWN: Final = -1
"""The usage of a disk that cannot be measured."""


class Need(IntEnum):
    """Which files the disk's usage requires to be removed."""

    NOTHING = 0
    EXPIRED = 1
    ALL = 2


class DiskSpace:
    """Measures the disks of one store.

    Attributes:
        full: the error for appends since the last ``measure``; None if messages are accepted.
        full_directories: the directories of the CommitLog that should get no new file.
    """

    def __init__(self, layer: FileLayer, root: Path, settings: StoreSettings) -> None:
        self._layer = layer
        self._root = root
        self._log = spread_of(root, settings).writable
        self.set_limits(settings)
        self.full: StoreNotWritable | None = None
        self.full_directories: frozenset[Path] = frozenset()
        self._full: dict[str, StoreNotWritable] = {}

    def set_limits(self, settings: StoreSettings) -> None:
        """Compare the next measurements with the limits in these settings."""
        self._max_used = _within(settings.disk_max_used_space_ratio, 10, 95)
        self._forcibly = _within(settings.disk_space_clean_forcibly_ratio, 30, 85)
        self._warning = _within(settings.disk_space_warning_level_ratio, 35, 90)

    def measure(self) -> Need:
        """Measure the disks, update ``full``, and return what must be removed."""
        need = self._measure()
        self.full = next(iter(self._full.values()), None)
        return need

    def _measure(self) -> Need:
        log_used = {directory: self._used(directory) for directory in self._log}
        self.full_directories = frozenset(one for one, used in log_used.items() if used > self._forcibly)
        emptiest = min(log_used, key=log_used.__getitem__)
        queues = layout.consume_queues_dir(self._root)
        need = Need.NOTHING
        for what, directory, used in (
            ("log", emptiest, log_used[emptiest]),
            ("queues", queues, self._used(queues)),
        ):
            if used > self._warning:
                self._mark_full(what, directory, used)
            if used > self._forcibly:
                return Need.ALL
            if self._full.pop(what, None):
                log.warning("%s: the disk is %d %% full; messages are accepted again", directory, used)
            if used > self._max_used or used == UNKNOWN:
                need = Need.EXPIRED
        return need

    def _used(self, directory: Path) -> int:
        try:
            return used_percent(self._layer.usage(directory if self._layer.exists(directory) else self._root))
        except OSError as error:
            log.warning("%s: the disk's usage cannot be measured: %s", directory, error)
            return UNKNOWN

    def _mark_full(self, what: str, directory: Path, used: int) -> None:
        full = StoreNotWritable(
            f"disk {used} % full under {directory}, diskSpaceWarningLevelRatio is {self._warning}: free some "
            f"space; sending goes on at {self._forcibly} % (diskSpaceCleanForciblyRatio) without a restart"
        )
        if what not in self._full:
            log.error("%s", full)
        self._full[what] = full


def used_percent(usage: Usage) -> int:
    """Return the used percentage of a disk without the system's reserve, rounded up, as ``df`` shows it."""
    total = usage.used + usage.usable
    return -(-usage.used * 100 // total) if total else UNKNOWN


def _within(ratio: int, least: int, most: int) -> int:
    return min(max(ratio, least), most)
