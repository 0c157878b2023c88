"""What a disk that fills up asks for: RocketMQ's three ratios."""

import logging
from pathlib import Path

import pytest
from tests.store.conftest import ROOT

from cometmq.format import layout
from cometmq.io.files import Usage
from cometmq.store.settings import StoreSettings
from cometmq.store.upkeep.disk_space import UNKNOWN, DiskSpace, Need, used_percent
from cometmq.testing.memory_disk import MemoryDisk

LOG, QUEUES = layout.commitlog_dir(ROOT), layout.consume_queues_dir(ROOT)


class Gauge(MemoryDisk):
    """Disks as full as a test says, in percent; ``None`` cannot be told."""

    def __init__(self, **percent: int | None) -> None:
        super().__init__()
        self.percent: dict[Path, int | None] = {LOG: 0, QUEUES: 0}
        self.make_directory(LOG)
        self.make_directory(QUEUES)
        self.set(**percent)

    def set(self, log: int | None = 0, queues: int | None = 0) -> None:
        self.percent = {LOG: log, QUEUES: queues}

    def usage(self, path: Path) -> Usage:
        percent = self.percent[path]
        if percent is None:
            raise OSError(5, "Input/output error")
        return Usage(percent * 10, 1_000 - percent * 10)


def space_on(disk: MemoryDisk, **settings: int) -> DiskSpace:
    return DiskSpace(disk, ROOT, StoreSettings(**settings))  # type: ignore[arg-type]  # numbers only


@pytest.mark.parametrize(
    ("log", "queues", "need", "full"),
    [
        (75, 75, Need.NOTHING, False),
        (76, 0, Need.EXPIRED, False),
        (0, 76, Need.EXPIRED, False),
        (85, 0, Need.EXPIRED, False),
        (86, 0, Need.ALL, False),
        (0, 86, Need.ALL, False),
        (90, 90, Need.ALL, False),
        (91, 0, Need.ALL, True),
        (0, 91, Need.ALL, True),
        (None, 0, Need.EXPIRED, False),
        (0, None, Need.EXPIRED, False),
    ],
)
def test_each_ratio_has_its_meaning(log: int | None, queues: int | None, need: Need, *, full: bool) -> None:
    space = space_on(Gauge(log=log, queues=queues))
    assert space.measure() is need
    assert (space.full is not None) is full


def test_a_full_disk_takes_messages_again_when_it_need_not_be_cleaned_forcibly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = Gauge(log=91)
    space = space_on(disk)
    space.measure()
    assert str(space.full).startswith(f"disk 91 % full under {LOG}, diskSpaceWarningLevelRatio is 90")
    for percent, full in ((86, True), (90, True), (85, False), (90, False), (91, True)):
        disk.set(log=percent)
        space.measure()
        assert (space.full is not None) is full, percent
    told = [(record.levelno, record.args) for record in caplog.records]
    assert [level for level, _ in told] == [logging.ERROR, logging.WARNING, logging.ERROR]


def test_one_full_disk_is_enough() -> None:
    disk = Gauge(queues=91)
    space = space_on(disk)
    space.measure()
    disk.set(log=20, queues=86)
    assert space.measure() is Need.ALL
    assert str(QUEUES) in str(space.full)
    disk.set(log=20, queues=20)
    assert (space.measure(), space.full) == (Need.NOTHING, None)


def test_ratios_outside_of_their_ranges_count_as_the_nearer_end() -> None:
    ratios = {
        "disk_max_used_space_ratio": 99,
        "disk_space_clean_forcibly_ratio": 99,
        "disk_space_warning_level_ratio": 99,
    }
    disk = Gauge(log=91)
    space = space_on(disk, **ratios)
    assert space.measure() is Need.ALL and space.full
    low = space_on(disk, **dict.fromkeys(ratios, 1))
    for percent, need, full in ((10, Need.NOTHING, False), (30, Need.EXPIRED, False), (35, Need.ALL, False)):
        disk.set(log=percent)
        assert (low.measure(), low.full is not None) == (need, full)
    disk.set(log=36)
    assert low.measure() is Need.ALL and low.full


def test_before_there_is_a_log_the_disk_of_the_store_is_looked_at() -> None:
    disk = MemoryDisk(space_bytes=0)
    disk.make_directory(ROOT)
    assert space_on(disk).measure() is Need.EXPIRED  # a disk without any room cannot be told


@pytest.mark.parametrize(
    ("used", "usable", "percent"),
    [(0, 0, UNKNOWN), (0, 10, 0), (1, 999, 1), (10, 990, 1), (10, 989, 2), (999, 1, 100), (5, 0, 100)],
)
def test_usage_is_rounded_up(used: int, usable: int, percent: int) -> None:
    assert used_percent(Usage(used, usable)) == percent
