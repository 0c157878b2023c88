"""How a report is printed; ``tests/spark/jobs/report/test_report.py`` makes one."""

from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.kit.reports import topic_report, volume, with_hot

from cometmq.spark.jobs.report.hot import HOT_MIN, KEY_SHARE, KEY_TIMES, QUEUE_TIMES, HotQueue
from cometmq.spark.jobs.report.lags import Lag
from cometmq.spark.jobs.report.report import KeyCount, Report

FOUND = Report(
    ["a", "b"],
    [volume("orders")],
    [with_hot(topic_report("orders", HotQueue("a", 3, 150, 2.5, 4)), KeyCount("k1", 120))],
    [Lag("a", "shop", "orders", 7)],
)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for Spark; give what it was asked."""
    asked: list[Any] = []

    def report(_: object, stores: tuple[Path, ...], *, hot_keys: int, progress: object) -> Report:
        asked.append((stores, hot_keys, callable(progress)))
        return FOUND

    monkeypatch.setattr("cometmq.cli.spark.report.start_spark", lambda _: None)
    monkeypatch.setattr("cometmq.spark.jobs.report.report.report", report)
    return asked


def test_people_get_a_table_and_a_page(cometmq: Run, tmp_path: Path, asked: list[Any]) -> None:
    html = tmp_path / "out.html"
    ran = cometmq("spark", "report", "a", "b", "--html", str(html), "--hot", "3", "--title", "Friday")
    assert ran.code == 0
    assert asked == [((Path("a"), Path("b")), 3, True)]
    assert ran.out.splitlines()[-5].split() == [
        *("orders", "2", "200", "bytes", "1", "3", "1", "3", "0", "0", "k1", "(120)", "3", "(150)")
    ]
    assert ran.out.splitlines()[-1].split() == ["shop", "orders", "7", "a"]
    assert html.read_text().startswith("<!DOCTYPE html>")
    assert "<title>Friday · store report</title>" in html.read_text()


def test_programs_get_one_document(cometmq: Run) -> None:
    (value,) = cometmq("spark", "report", "a", "b", "--json").values
    assert value["stores"] == ["a", "b"]
    assert value["volumes"][0]["latency_ms"] == {"p50": -7, "p90": 1, "p99": 3, "max": 300}
    assert value["lags"] == [{"store": "a", "group": "shop", "topic": "orders", "messages": 7}]
    assert value["topics"][0]["hot_keys"] == [{"key": "k1", "messages": 120}]
    (queue,) = value["topics"][0]["hot_queues"]
    assert queue == {"store": "a", "queue_id": 3, "messages": 150, "others": 2.5, "queues": 4}
    assert value["buckets"] == {"start": 0, "step_ms": 3_600_000, "count": 0}


def test_help_says_what_counts_as_hot(cometmq: Run) -> None:
    text = " ".join(cometmq("spark", "report", "--help").out.split())
    assert f"hot with {HOT_MIN} messages or more, if at least {100 // KEY_SHARE} % of its" in text
    assert f"and {KEY_TIMES} times as many" in text and f"if it has {QUEUE_TIMES} times as many" in text


def test_a_page_that_cannot_be_written_is_told(cometmq: Run, tmp_path: Path) -> None:
    ran = cometmq("spark", "report", "a", "--html", str(tmp_path / "nowhere" / "out.html"))
    assert ran.failed(1, "No such file")
    assert cometmq("spark", "report", "a", "--html", "s3://lake/out.html").failed(2, "is an address")
