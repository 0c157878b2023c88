"""The page on reports and replays runs as it stands, over stores that a real broker wrote.

One run for all that the page shows: it would be the slowest of the tests otherwise.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.kit.pages import NAME_SERVER, ROOT, blocks_of
from tests.kit.reports import EPOCH, plain_measures
from tests.live import in_thread
from tests.log_rows import plain_rows
from tests.spark.live.conftest import Topics

from cometmq import blocking
from cometmq.format.properties import RESERVED
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.message import StoredMessage
from cometmq.spark.jobs.report.buckets import MINUTE_MS, Buckets, buckets
from cometmq.spark.jobs.report.charts import charts
from cometmq.spark.jobs.report.hot import HOT_MIN, KEY_SHARE, KEY_TIMES, HotQueue
from cometmq.spark.jobs.report.lags import lags, load_committed
from cometmq.spark.jobs.report.report import KeyCount, Report, Spread, TopicReport, Volume, report
from cometmq.store import Message, MessageStore
from cometmq.store.settings import StoreSettings

STORES = {"broker-a/store": "store-clean", "broker-b/store": "store-killed"}
HOT = 10
TOPIC, TAG, QUEUES = "GoldenA", "TagA", 4
"""What the page replays; the topic has the queues that it had."""
BEGIN = 1_769_850_000_000
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


def ms(row: Row) -> int:
    since: timedelta = row["store_time"] - EPOCH
    return since // timedelta(milliseconds=1)


def plain_volumes(rows: list[Row], step_ms: int) -> list[Volume]:
    by_bucket = defaultdict(list)
    for row in rows:
        bucket = ms(row) // step_ms * step_ms
        by_bucket[row["store"], row["topic"], row["queue_id"], bucket].append(row)
    return [
        Volume(store=store, topic=topic, queue_id=queue_id, bucket=bucket, **volume(of_bucket))
        for (store, topic, queue_id, bucket), of_bucket in sorted(by_bucket.items())
    ]


def plain_topic(topic: str, rows: list[Row]) -> TopicReport:
    keys = Counter(key for row in rows for key in set(row["keys"]))
    ids = Counter(row["unique_id"] for row in rows if row["unique_id"] is not None)
    least = max(HOT_MIN, len(rows) / KEY_SHARE, KEY_TIMES * keys.total() / max(len(keys), 1))
    hot = sorted((-count, key.encode()) for key, count in keys.items() if count >= least)[:HOT]
    return TopicReport(
        topic=topic,
        **volume(rows),
        keys=len(keys),
        duplicate_keys=sum(count > 1 for count in keys.values()),
        repeated_ids=ids.total() - len(ids),
        hot_keys=[KeyCount(key.decode(), -count) for count, key in hot],
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
    first, last = min(map(ms, rows)), max(map(ms, rows))
    split = buckets(first, last)
    return Report(list(stores), plain_volumes(rows, split.step_ms), by_bytes, behind, first, last, split)


def plain_ends(rows: Iterable[Row]) -> dict[tuple[str, int], int]:
    in_queue = (row for row in rows if row["next_offset"] is not None)  # in the log's order
    return {(row["topic"], row["queue_id"]): row["next_offset"] for row in in_queue}


def skewed(place: Path) -> Path:
    """Build a store of a topic with 8 queues in which 240 of 688 messages have one key, and lie in one queue.

    One comes every ten seconds from 2026-01-31 09:00 UTC on.
    """
    clock = ManualClock(BEGIN)
    with MessageStore.open(place, StoreSettings(mapped_file_size_commit_log=1 << 20), clock=clock) as store:
        for number in range(688):
            key, queue_id = ("whale", 5) if number % 43 < 15 else (f"fish-{number}", number % 8)
            store.append_message(Message("orders", b"12345", keys=(key,)), queue_id=queue_id)
            clock.advance(10_000)
    return place


def as_sent(message: StoredMessage) -> Row:
    """Return what a replay keeps of a message, and what it adds."""
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
    assert "broker-a, broker-b · store report" in (tmp_path / "report.html").read_text()
    rows = [row for row in plain_rows(golden["store-clean"]) if (row["topic"], row["tags"]) == (TOPIC, TAG)]
    rows.sort(key=lambda row: (row["queue_id"], row["queue_offset"]))
    replayed.sort(key=lambda one: (one.queue_id, one.queue_offset))
    first: dict[str, StoredMessage] = {}
    for one in replayed:  # a slow send is repeated
        first.setdefault(one.properties["IDEMPOTENCE_KEY"], one)
    assert [as_sent(one) for one in first.values()] == [expected(row) for row in rows]


def test_hot_keys_and_queues_and_the_charts_of_a_store_are_as_it_was_made(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = report(spark, [skewed(tmp_path / "store")])
    assert (found.first_time, found.last_time) == (BEGIN, BEGIN + 6_870_000)
    assert found.buckets == Buckets(BEGIN, 2 * MINUTE_MS, 58)
    (topic,) = found.topics
    assert (topic.messages, topic.keys, topic.duplicate_keys) == (688, 449, 1)
    assert topic.hot_keys == [KeyCount("whale", 240)]
    assert topic.hot_queues == [HotQueue(str(tmp_path / "store"), 5, 296, 56.0, 8)]
    drawn = charts(found)
    assert drawn.total.messages == [12] * 57 + [4]
    assert drawn.total.bytes is not None and sum(drawn.total.bytes) == topic.bytes
    assert drawn.topics == [drawn.total] and drawn.left_out == 0
    (queues,) = drawn.queues
    assert (
        queues.ids == list(range(8)) and queues.messages == [56] * 5 + [296] + [56] * 2 and queues.hot == [5]
    )
