"""What users build of streams of topics: joins, windows, tables; each ends and goes on by its checkpoint."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.live.conftest import Topics

from cometmq.spark import started

pytestmark = pytest.mark.timeout(600)  # Spark's start and first streams, on a machine that is busy

EVENT = "id int, at timestamp"


def event(number: int, minute: float) -> bytes:
    seconds = round(minute * 60)
    at = f"2026-01-31T09:{seconds // 60:02}:{seconds % 60:02}Z"
    return json.dumps({"id": number, "at": at}).encode()


def events(spark: SparkSession, topics: Topics, topic: str, **options: str) -> DataFrame:
    """Return a stream of the events in a topic."""
    stream = spark.readStream.format("rocketmq").options(namesrv=topics.name_server, subscribe=topic)
    read = stream.options(startingOffsets="earliest", columns="body", **options).load()
    return read.select(f.from_json(f.expr("string(body)"), EVENT).alias("event")).select("event.*")


def drained(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Write what there is of a stream to a table in a folder, and return the query, which has ended."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query = started(writer.trigger(availableNow=True).start(str(folder / "table")))
    query.awaitTermination()
    return query


def test_rows_behind_the_watermark_are_left_out_and_counted_and_others_are_not(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.create("windowed", queues=1)
    windows = (
        events(spark, topics, "windowed")
        .withWatermark("at", "1 minute")
        .groupBy(f.window("at", "5 minutes"))
        .agg(f.count("*").alias("events"))
        .select(f.minute("window.start").alias("minute"), "events")
    )
    topics.send("windowed", [event(number, number) for number in range(20)])
    drained(windows, tmp_path)

    def found() -> dict[int, int]:
        return {row["minute"]: row["events"] for row in spark.read.parquet(str(tmp_path / "table")).collect()}

    assert found() == {0: 5, 5: 5, 10: 5}, "the fourth window is open"
    topics.send("windowed", [event(20, 2), event(21, 3), event(22, 18.5), event(23, 30)])
    query = drained(windows, tmp_path)
    dropped = [
        operator["numRowsDroppedByWatermark"]
        for one in query.recentProgress
        for operator in one["stateOperators"]
    ]
    assert sum(dropped) == 1, "of one window, which two rows would have been in"
    assert found() == {0: 5, 5: 5, 10: 5, 15: 6}


def test_two_topics_are_joined_though_their_messages_come_in_different_runs(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    for topic in ("purchases", "payments"):
        topics.create(topic)
    orders = events(spark, topics, "purchases").withColumnsRenamed({"id": "ordered", "at": "ordered_at"})
    payments = events(spark, topics, "payments").withColumnsRenamed({"id": "paid", "at": "paid_at"})
    in_time = "ordered = paid AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 10 MINUTES"
    joined = (
        orders.withWatermark("ordered_at", "1 minute")
        .join(payments.withWatermark("paid_at", "1 minute"), f.expr(in_time), "left_outer")
        .select("ordered", "paid")
    )
    topics.send("purchases", [event(number, 1) for number in range(10)], 0)
    drained(joined, tmp_path)
    topics.send("payments", [event(number, 2) for number in range(6)], 0)
    topics.send("payments", [event(number, 12) for number in range(6, 8)], 1)  # too late
    for topic, number in (("purchases", 98), ("payments", 99)):  # so late that nothing else is waited for
        topics.send(topic, [event(number, 41)], 1)
    drained(joined, tmp_path)
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    assert sorted((row["ordered"], row["paid"]) for row in rows if row["paid"] is not None) == [
        (number, number) for number in range(6)
    ]
    assert sorted(row["ordered"] for row in rows if row["paid"] is None) == [6, 7, 8, 9]
