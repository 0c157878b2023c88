"""The page on reports and replays runs as it stands, over stores that a real broker wrote.

One run for all that needs Spark: it would be the slowest of the tests otherwise.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.docs.test_pages import NAME_SERVER, ROOT, blocks_of
from tests.live import in_thread
from tests.log_rows import plain_rows
from tests.spark.jobs.test_measures import EPOCH, plain_measures
from tests.spark.live.conftest import Topics

from cometmq import blocking
from cometmq.format.properties import RESERVED
from cometmq.io.files import Disk
from cometmq.message import StoredMessage
from cometmq.spark.jobs.lags import lags, load_committed
from cometmq.spark.jobs.report import KeyCount, Report, Spread, TopicReport, Volume

STORES = {"broker-a/store": "store-clean", "broker-b/store": "store-killed"}
HOT = 10
TOPIC, TAG, QUEUES = "GoldenA", "TagA", 4
"""What the page replays; the topic has the queues that it had."""
ADDED = {"IDEMPOTENCE_KEY", "ORIGIN_BORN_TIME"}

Row = dict[str, Any]


def spread(numbers: Iterable[int]) -> Spread:
    ordered = sorted(numbers)
    p50, p90, p99 = (ordered[ceil(part * len(ordered) / 100) - 1] for part in (50, 90, 99))
    return Spread(p50, p90, p99, ordered[-1])


def volume(rows: list[Row]) -> Row:
    return {
        "messages": len(rows),
        "bytes": sum(row["bytes"] for row in rows),
        "body_bytes": spread(row["body_bytes"] for row in rows),
        "latency_ms": spread(row["latency_ms"] for row in rows),
    }


def plain_volumes(rows: list[Row]) -> list[Volume]:
    by_hour = defaultdict(list)
    for row in rows:
        hour = round((row["hour"] - EPOCH).total_seconds() * 1000)
        by_hour[row["store"], row["topic"], row["queue_id"], hour].append(row)
    return [
        Volume(store=store, topic=topic, queue_id=queue_id, hour=hour, **volume(of_hour))
        for (store, topic, queue_id, hour), of_hour in sorted(by_hour.items())
    ]


def plain_topic(topic: str, rows: list[Row]) -> TopicReport:
    keys = Counter(key for row in rows for key in set(row["keys"]))
    ids = Counter(row["unique_id"] for row in rows if row["unique_id"] is not None)
    doubled = {key: count for key, count in keys.items() if count > 1}
    hottest = sorted(doubled.items(), key=lambda one: (-one[1], one[0].encode()))[:HOT]
    return TopicReport(
        topic=topic,
        **volume(rows),
        keys=len(keys),
        duplicate_keys=len(doubled),
        repeated_ids=ids.total() - len(ids),
        hot_keys=[KeyCount(*one) for one in hottest],
    )


def plain_report(stores: Mapping[str, Path]) -> Report:
    rows = [row for name, store in stores.items() for row in plain_measures(name, store)]
    topics = [
        plain_topic(topic, [row for row in rows if row["topic"] == topic])
        for topic in {row["topic"] for row in rows}
    ]
    behind = [
        lag
        for name, store in stores.items()
        for lag in lags(
            name, load_committed(Disk(), store), plain_ends(row for row in rows if row["store"] == name)
        )
    ]
    by_bytes = sorted(topics, key=lambda one: (-one.bytes, one.topic))
    return Report(list(stores), plain_volumes(rows), by_bytes, behind)


def plain_ends(rows: Iterable[Row]) -> dict[tuple[str, int], int]:
    in_queue = (row for row in rows if row["next_offset"] is not None)  # in the log's order
    return {(row["topic"], row["queue_id"]): row["next_offset"] for row in in_queue}


def as_sent(message: StoredMessage) -> Row:
    """Give what a replay keeps of a message, and what it adds."""
    return {
        "queue_id": message.queue_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "body": message.body,
        "flag": message.flag,
        "properties": {
            name: value for name, value in message.properties.items() if name in ADDED or name not in RESERVED
        },
    }


def expected(row: Row) -> Row:
    kept = {name: value for name, value in row["properties"].items() if name not in RESERVED}
    origin = f"{row['topic']}/{row['queue_id']}/{row['queue_offset']}/{row['store_host']}"
    added = {"IDEMPOTENCE_KEY": origin, "ORIGIN_BORN_TIME": str(row["born_time"])}
    names = ("queue_id", "tags", "keys", "body", "flag")
    return {name: row[name] for name in names} | {"properties": kept | added}


@pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy
def test_what_the_guide_shows_is_what_a_plain_reader_counts(
    spark: SparkSession,
    golden: Mapping[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark.sparkContext.master == "local[2]"  # the one that the page's session() finds
    monkeypatch.chdir(tmp_path)
    for name, store in STORES.items():
        place = tmp_path / name
        place.parent.mkdir()
        place.symlink_to(golden[store])
    names: dict[str, object] = {"__name__": "page"}
    with in_thread(tmp_path / "live") as live:
        Topics(live.name_server).create(TOPIC, QUEUES)
        for block in blocks_of((ROOT / "docs" / "guide" / "spark-report.md").read_text()):
            code = block.code.replace(NAME_SERVER, live.name_server)
            exec(compile(code, f"the block at line {block.line}", "exec"), names)
            printed = capsys.readouterr().out
            assert block.printed in (None, printed), f"line {block.line}"
        with blocking.PullConsumer(live.name_server, "judge") as consumer:
            replayed = [one for queue in consumer.queues(TOPIC) for one in consumer.messages(queue)]
    assert names["found"] == plain_report({name: golden[store] for name, store in STORES.items()})
    assert "<svg" in (tmp_path / "report.html").read_text()
    rows = [row for row in plain_rows(golden["store-clean"]) if (row["topic"], row["tags"]) == (TOPIC, TAG)]
    rows.sort(key=lambda row: (row["queue_id"], row["queue_offset"]))
    replayed.sort(key=lambda one: (one.queue_id, one.queue_offset))
    first: dict[str, StoredMessage] = {}
    for one in replayed:  # a slow send is repeated
        first.setdefault(one.properties["IDEMPOTENCE_KEY"], one)
    assert [as_sent(one) for one in first.values()] == [expected(row) for row in rows]
