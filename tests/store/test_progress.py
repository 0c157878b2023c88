"""How far a long work is, told in lines."""

import logging

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore
from cometmq.store.progress import EVERY_MS, SILENT_MS, ProgressLines
from cometmq.testing.memory_disk import MemoryDisk


class SlowClock(ManualClock):
    """A second has passed whenever somebody looks."""

    def monotonic_ms(self) -> int:
        self.advance(1_000)
        return super().monotonic_ms()


def test_nothing_is_told_at_first_and_then_a_line_each_second(clock: ManualClock) -> None:
    lines: list[str] = []
    progress = ProgressLines("recovering", lines.append, clock)
    for step in range(10):
        progress(step << 30, 10 << 30)
        clock.advance(SILENT_MS // 4)
    assert EVERY_MS == 2 * (SILENT_MS // 4)
    assert lines == [
        "recovering: 40 % of 10,240 MiB, 00:02",
        "recovering: 60 % of 10,240 MiB, 00:03",
        "recovering: 80 % of 10,240 MiB, 00:04",
    ]
    clock.advance(3_600_000)
    progress(11 << 30, 10 << 30)
    progress(11 << 30, 10 << 30)
    assert lines[3:] == ["recovering: 100 % of 10,240 MiB, 60:05"]


def test_an_empty_log_has_a_percentage_too(clock: ManualClock) -> None:
    lines: list[str] = []
    progress = ProgressLines("recovering", lines.append, clock)
    clock.advance(SILENT_MS)
    progress(0, 0)
    assert lines == ["recovering: 0 % of 0 MiB, 00:02"]


def test_a_store_that_opens_slowly_logs_how_far_it_is(
    disk: MemoryDisk, open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    store.append([new_message(topic) for topic in ("A", "B", "C", "D")])
    store.close()
    for topic_steps, slow in ((0, ManualClock()), (2, SlowClock())):
        caplog.clear()
        with caplog.at_level(logging.INFO), MessageStore.open(ROOT, SMALL, files=disk, clock=slow):
            pass
        told = [record.message for record in caplog.records if "recovering" in record.message]
        assert len(told) >= topic_steps and bool(told) == bool(topic_steps)
        assert all(line.startswith(f"recovering {ROOT}: 0 % of ") for line in told)
