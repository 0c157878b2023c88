from pathlib import Path

import pytest

from cometmq.spark.jobs import memory


def test_the_peak_stays_when_memory_is_given_back() -> None:
    before = memory.peak_bytes()
    assert before > 1 << 20
    block = bytearray(b"x") * (2 * before)
    del block
    assert memory.peak_bytes() > 2 * before


def test_where_nothing_tells_it_is_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "nowhere")
    assert memory.peak_bytes() == 0
