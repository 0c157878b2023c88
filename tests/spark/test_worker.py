"""What a Spark worker keeps from task to task, and that no other process is told to."""

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from cometmq.io import memory
from cometmq.spark.worker import KEPT, freeze_modules, is_worker, tune_worker


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    done: list[object] = []
    monkeypatch.setattr(gc, "freeze", lambda: done.append("frozen"))
    monkeypatch.setattr(memory, "retain_heap", done.append)
    tune_worker.cache_clear()
    yield done
    tune_worker.cache_clear()


def run_as(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    main = ModuleType("__main__")
    main.__spec__ = ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, "__main__", main)


def test_a_worker_keeps_its_modules_and_memory_once(
    done: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_as(monkeypatch, "pyspark.daemon")
    assert is_worker()
    freeze_modules()
    assert done == ["frozen"]
    tune_worker()
    tune_worker()
    assert done == ["frozen", "frozen", KEPT]


def test_an_application_is_left_alone(done: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    run_as(monkeypatch, "shop.report")
    assert not is_worker()
    freeze_modules()
    tune_worker()
    assert done == []
