"""What a Spark worker keeps from task to task, how it ends, and that no other process is told to."""

import gc
import socket
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from cometmq.io import memory
from cometmq.spark.worker import (
    ENDED,
    KEPT,
    freeze_modules,
    is_worker,
    quieten_daemon,
    quieten_worker,
    tune_worker,
)


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


@pytest.mark.parametrize("daemon", ["pyspark.daemon", "cometmq.spark.daemon"])
def test_a_worker_keeps_its_modules_and_memory_once(
    done: list[object], monkeypatch: pytest.MonkeyPatch, daemon: str
) -> None:
    run_as(monkeypatch, daemon)
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


class Daemon(ModuleType):
    """PySpark's daemon, whose worker reads a task and reports an end with an error.

    Attributes:
        error: what happens to the report.
    """

    error: Exception | None = None

    def worker(self, connection: socket.socket, authenticated: bool) -> int:
        assert authenticated
        if self.error is not None:
            raise self.error
        return len(connection.recv(9))


@pytest.fixture
def link() -> Iterator[tuple[socket.socket, socket.socket]]:
    spark, own = socket.socketpair()
    with spark, own:
        yield spark, own


def test_a_worker_that_waits_ends_without_a_word(link: tuple[socket.socket, socket.socket]) -> None:
    daemon = Daemon("pyspark.daemon")
    daemon.error = EOFError()
    quieten_daemon(daemon)
    link[0].close()
    assert daemon.worker(link[1], True) == ENDED


def test_a_worker_runs_the_task_that_comes(link: tuple[socket.socket, socket.socket]) -> None:
    daemon = Daemon("pyspark.daemon")
    quieten_daemon(daemon)
    link[0].send(b"task")
    assert daemon.worker(link[1], True) == 4


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_rows_are_not_needed_any_more_ends_without_a_word(
    link: tuple[socket.socket, socket.socket], error: Exception
) -> None:
    daemon = Daemon("pyspark.daemon")
    daemon.error = error
    quieten_daemon(daemon)
    link[0].send(b"task")
    assert daemon.worker(link[1], True) == ENDED


def test_other_errors_are_reported(link: tuple[socket.socket, socket.socket]) -> None:
    daemon = Daemon("pyspark.daemon")
    daemon.error = ValueError("a fault")
    quieten_daemon(daemon)
    link[0].send(b"task")
    with pytest.raises(ValueError, match="a fault"):
        daemon.worker(link[1], True)


def test_only_a_worker_changes_its_main_module(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, is_changed in (("pyspark.daemon", True), ("shop.report", False)):
        main = Daemon("__main__")
        main.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, "__main__", main)
        quieten_worker()
        assert ("worker" in vars(main)) == is_changed
