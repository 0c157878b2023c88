"""A worker's reads are plain at first, and compiled once they are worth it."""

from types import SimpleNamespace
from typing import Any

import pytest

from cometmq import kernels
from cometmq.kernels import loading, plain
from cometmq.spark import worth_loading
from cometmq.spark.worth_loading import WORTH_LOADING_BYTES, ops_for

COMPILED: Any = SimpleNamespace()


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Forget what this process has read and loaded; note each loading."""
    loads: list[object] = []

    def load() -> Any:
        loads.append(COMPILED)
        return COMPILED

    monkeypatch.setattr(worth_loading, "_read", 0)
    monkeypatch.setattr(loading, "ops", plain)
    monkeypatch.setattr(kernels, "load_if_possible", load)
    return loads


def test_small_reads_are_plain_until_they_add_up(loads: list[object]) -> None:
    assert ops_for(0) is ops_for(WORTH_LOADING_BYTES - 1) is plain
    assert not loads
    assert ops_for(1) is ops_for(1) is COMPILED
    assert loads


def test_a_large_read_is_compiled_at_once(loads: list[object]) -> None:
    assert ops_for(WORTH_LOADING_BYTES) is COMPILED
    assert len(loads) == 1


def test_what_is_loaded_for_others_is_used(loads: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ops", COMPILED)
    assert ops_for(1) is COMPILED
    assert not loads
