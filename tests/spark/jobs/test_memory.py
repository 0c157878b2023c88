from pathlib import Path

import pytest

from cometmq.spark.jobs import memory


def test_the_peak_stays_when_memory_is_given_back() -> None:
    block = bytearray(b"x") * (64 << 20)
    peak = memory.peak_bytes()
    del block
    assert peak > 64 << 20
    assert memory.peak_bytes() >= peak


def test_where_nothing_tells_it_is_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "nowhere")
    assert memory.peak_bytes() == 0
