import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.live.conftest import Topics, queue

from cometmq import blocking
from cometmq.errors import MessageIllegal, NetworkError, SettingsError
from cometmq.message import StoredMessage
from cometmq.net.address import free_port
from cometmq.spark.live.access import ACCESS_OPTIONS
from cometmq.spark.sink import sink
from cometmq.spark.sink.sink import OPTIONS, PRODUCER_GROUP, Sent, SinkOptions, parse, send
from cometmq.spark.values import SPARKS_OWN

KEY = "IDEMPOTENCE_KEY"


def stored(topics: Topics, topic: str, queues: int = 2) -> list[StoredMessage]:
    with blocking.PullConsumer(topics.name_server, "judge") as consumer:
        return [one for number in range(queues) for one in consumer.messages(queue(topic, number))]


def batches(*rows: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pylist([row]) for row in rows])


def options(topics: Topics, **given: str) -> SinkOptions:
    return parse({"namesrv": topics.name_server, "retrySeconds": "1"} | given)


def test_options_are_read() -> None:
    wanted = SinkOptions(("a:1",), "orders", PRODUCER_GROUP, 60)
    assert parse({"namesrv": "a:1", "TOPIC": "orders"}) == wanted
    assert parse({"namesrv": "a:1", "path": "orders"}) == wanted
    sparks = {name.lower(): "x" for name in SPARKS_OWN}  # queryName and others, as Spark passes them
    assert parse({"namesrv": "a:1", "topic": "orders"} | sparks) == wanted
    documented = re.findall(r"^([a-z]\w+)  +\S", sink.__doc__ or "", re.MULTILINE)
    assert (*documented[1:], *ACCESS_OPTIONS) == OPTIONS


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({}, "option namesrv is missing"),
        ({"namesrv": "a:1", "topic": "a,b"}, "option topic a,b: give one"),
        ({"namesrv": "a:1", "path": "x", "topic": "y"}, "options topic y and path x: give one"),
        ({"namesrv": "a:1", "provider": "rocketmq"}, "use CREATE TEMPORARY VIEW"),
        ({"namesrv": "a:1", "onBadRow": "skip"}, "option onBadRow skip: give fail, drop, deadLetter"),
        ({"namesrv": "a:1", "onBadRow": "deadLetter"}, "needs the option deadLetterTopic"),
        ({"namesrv": "a:1", "deadLetterTopic": "a"}, "option onBadRow fail: deadLetter needs"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], answer: str) -> None:
    with pytest.raises(SettingsError, match=answer):
        parse(given)


def test_rows_are_stored_each_with_its_key(topics: Topics) -> None:
    topics.create("rows")
    rows = [{"topic": "rows", "body": b"%d" % n, "queue_id": n % 2} for n in range(4)]
    assert send(options(topics), "query-0-7", batches(*rows)) == Sent(4)
    found = {(one.queue_id, one.body, one.properties[KEY]) for one in stored(topics, "rows")}
    assert {(queue_id, body) for queue_id, body, _ in found} == {(n % 2, b"%d" % n) for n in range(4)}
    assert len({key for _, _, key in found}) == 4


def test_a_task_repeated_in_another_order_loses_and_doubles_nothing(topics: Topics) -> None:
    topics.create("again")
    rows = [{"body": b"%d" % (n // 2), "tags": "pair"} for n in range(20)]  # each twice, as it is meant
    assert send(options(topics, topic="again"), "query-7-0", batches(*rows[:11])) == Sent(11)  # then killed
    assert send(options(topics, topic="again"), "query-7-0", batches(*reversed(rows))) == Sent(20)
    found = Counter(one.body for one in stored(topics, "again"))
    assert found == Counter(row["body"] for row in rows)
    assert send(options(topics, topic="again"), "query-7-1", batches(*rows)) == Sent(20)  # another task's
    assert len(stored(topics, "again")) == 40


def test_a_column_can_name_the_row(topics: Topics) -> None:
    topics.create("named")
    given = options(topics, topic="named", idempotenceKey="Order_Id")
    for write in ("a", "b"):
        rows = [{"body": f"{write}{n}", "order_id": f"order-{n}" if n else None} for n in range(3)]
        send(given, write, batches(*rows))
    found = sorted((one.body, one.properties[KEY]) for one in stored(topics, "named") if one.body[1:] != b"0")
    assert found == [(b"a1", "order-1"), (b"a2", "order-2")]
    assert len(stored(topics, "named")) == 4


def test_bad_rows_are_dropped_and_counted_or_become_dead_letters(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create("good")
    topics.create("letters")
    rows: list[dict[str, Any]] = [{"body": b"1"}, {"body": b""}, {"body": b"2", "keys": ["a b"]}]
    assert send(options(topics, topic="good", onBadRow="DROP"), "drop", batches(*rows)) == Sent(1, 2)
    assert "a row makes no message: body is empty" in caplog.text
    given = options(topics, topic="good", onBadRow="deadLetter", deadLetterTopic="letters")
    for _ in range(2):  # a repeated task sends its dead letters once
        assert send(given, "letters", batches(*rows)) == Sent(1, 2)
    letters = [(one.tags, json.loads(one.body)) for one in stored(topics, "letters")]
    assert sorted((tag, letter["body_size"], letter["columns"]) for tag, letter in letters) == [
        ("MessageIllegal", 0, {}),
        ("MessageIllegal", 1, {"keys": "['a b']"}),
    ]
    assert [one.body for one in stored(topics, "good")] == [b"1", b"1"]


def test_the_driver_logs_how_many_rows_made_no_message(caplog: pytest.LogCaptureFixture) -> None:
    given = parse({"namesrv": "a:1"})
    sink.BatchWriter(given).commit([Sent(5, 2), None, Sent(1, 1)])
    sink.StreamWriter(given).commit([Sent(5, 4)], 17)
    sink.StreamWriter(given).commit([Sent(5)], 18)
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [
        "the write: 3 rows made no message",
        "micro-batch 17: 4 rows made no message",
    ]


def test_rows_that_cannot_be_sent_are_named(topics: Topics) -> None:
    with pytest.raises(MessageIllegal, match="body is empty"):
        send(options(topics), "k", batches({"topic": "rows", "body": b""}))
    with pytest.raises(SettingsError, match="queue 9 is on no broker"):
        send(options(topics), "k", batches({"topic": "orders", "body": b"1", "queue_id": 9}))
    away = SinkOptions((f"127.0.0.1:{free_port()}",), "rows", "g", 1)
    with pytest.raises(NetworkError, match=r"messages cannot be sent: no success in 1 s: .*no name server"):
        send(away, "k", batches({"body": b"1"}))


@pytest.mark.timeout(600)
def test_what_a_stream_repeats_is_stored_once(spark: SparkSession, orders: Topics, tmp_path: Path) -> None:
    orders.create("copies")

    def copy() -> list[int]:
        """Copy what is there; give the sizes of the micro-batches."""
        frame = (
            spark.readStream.format("rocketmq")
            .options(namesrv=orders.name_server, subscribe="orders", startingOffsets="earliest")
            .options(maxOffsetsPerTrigger="80")
            .load()
        )
        query = (
            frame.select("body", "tags", "keys", "properties")
            .writeStream.format("rocketmq")
            .options(namesrv=orders.name_server, topic="copies")
            .option("checkpointLocation", str(tmp_path))
            .queryName("copies")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    assert copy() == [80, 60]
    for mark in (tmp_path / "commits").glob("*1*"):  # as if it had been killed before it noted the end
        mark.unlink()
    assert copy() == [60]
    found = stored(orders, "copies", 2)
    keys = [one.properties[KEY] for one in found]
    assert len(keys) == len(set(keys)) == 140  # the broker knew those that came again


@pytest.mark.timeout(600)
def test_batch_writes_of_a_repeated_micro_batch_are_stored_once_each(
    spark: SparkSession, orders: Topics, tmp_path: Path
) -> None:
    orders.create("twice")
    failures = ["behind the writes"]

    def write_twice(batch: DataFrame, _: int) -> None:
        for _ in range(2):  # equal rows, and two writes that are meant
            rows = batch.select("body", "tags").write.format("rocketmq")
            rows.options(namesrv=orders.name_server).mode("append").save("twice")
        if failures:
            raise RuntimeError(failures.pop())

    def run() -> None:
        stream = spark.readStream.format("rocketmq").options(namesrv=orders.name_server, subscribe="orders")
        frame = stream.option("startingOffsets", "earliest").load()
        writer = frame.writeStream.foreachBatch(write_twice).option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="behind the writes"):
        run()
    run()
    found = Counter(one.body for one in stored(orders, "twice"))
    assert (len(found), set(found.values())) == (140, {2})
