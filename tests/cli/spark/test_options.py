import sys

import pytest
from tests.cli.conftest import Terminal

from cometmq.cli.spark.options import start_spark, task_bar
from cometmq.errors import SettingsError
from cometmq.io.clock import ManualClock


def test_a_person_sees_how_many_tasks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with task_bar(as_json=False) as progress:
        progress("scan", 3, 12)
    assert "scan" in terminal.getvalue() and "3/12" in terminal.getvalue()


def test_a_log_gets_a_line_each_two_seconds_while_tasks_end(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with task_bar(as_json=False, clock=clock) as progress:
        for done in range(4):
            progress("scan", done, 12)
            clock.advance(1_000)
    assert capsys.readouterr().err == "scan: 2 of 12 tasks, 00:02\n"


def test_a_log_gets_no_line_again_and_again_while_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with task_bar(as_json=False, clock=clock) as progress:
        for _ in range(4 * 130):  # Spark is asked four times a second
            progress("report", 0, 1)
            clock.advance(250)
        progress("report", 1, 1)
        progress("report", 1, 1)
    assert capsys.readouterr().err.splitlines() == [
        "report: 0 of 1 tasks, 00:02",
        "report: 0 of 1 tasks, 01:02",
        "report: 0 of 1 tasks, 02:02",
        "report: 1 of 1 tasks, 02:10",
    ]


def test_without_spark_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pyspark"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("cometmq.spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(SettingsError, match="pip install"):
        start_spark("local[1]")
