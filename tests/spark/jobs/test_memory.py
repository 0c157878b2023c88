import os
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

import pytest

from cometmq.spark.jobs import memory


def test_the_peak_is_what_the_system_counts() -> None:
    peak = memory.peak_bytes()
    assert 1 << 20 < peak <= 1.1 * 1024 * getrusage(RUSAGE_SELF).ru_maxrss


def test_the_peak_of_another_process_is_told_by_its_id() -> None:
    assert memory.peak_bytes(os.getppid()) > 1 << 20


def test_where_nothing_tells_it_is_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PROCESSES", tmp_path / "nowhere")
    assert memory.peak_bytes() == 0
