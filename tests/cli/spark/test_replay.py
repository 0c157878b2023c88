"""What a replay is asked for and what is printed; ``tests/spark/jobs/report/test_report.py`` runs one."""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from cometmq.spark.jobs.replay import ReplayFilter


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for Spark; give what it was asked."""
    asked: list[Any] = []

    def replay(_: object, source: Path, namesrv: str, *, progress: object, **options: Any) -> dict[str, int]:
        asked.append((source, namesrv, options, callable(progress)))
        return {"a": 3, "b": 4}

    monkeypatch.setattr("cometmq.cli.spark.replay.start_spark", lambda _: None)
    monkeypatch.setattr("cometmq.spark.jobs.replay.replay", replay)
    return asked


def test_all_is_replayed_unless_something_is_asked_for(cometmq: Run, asked: list[Any]) -> None:
    ran = cometmq("spark", "replay", "a/store", "--rate", "500", "--namesrv", "n:1")
    assert ran.out.splitlines() == ["a: 3 messages", "b: 4 messages", "a/store: 7 messages sent"]
    options = {"rate": 500, "wanted": ReplayFilter(), "topic": None, "credentials": None, "tls": None}
    assert asked == [(Path("a/store"), "n:1", options, True)]


def test_what_is_asked_for_arrives(cometmq: Run, asked: list[Any]) -> None:
    filters = ["--topic", "a", "--topic", "b", "--tag", "paid", "--time", "5..9", "--to", "c"]
    (value,) = cometmq("spark", "replay", "a/store", "--rate", "1", *filters, "--json").values
    assert value == {"path": "a/store", "messages": {"a": 3, "b": 4}}
    ((_, _, options, _),) = asked
    wanted = ReplayFilter(frozenset("ab"), frozenset({"paid"}), 5, 9)
    assert options == {"rate": 1, "wanted": wanted, "topic": "c", "credentials": None, "tls": None}
    assert cometmq("spark", "replay", "a/store").failed(2, "--rate")
