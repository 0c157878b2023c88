import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.live.conftest import Topics, queue

from cometmq import blocking
from cometmq.errors import MessageIllegal, NetworkError, SettingsError
from cometmq.message import StoredMessage
from cometmq.net.address import free_port
from cometmq.spark.live import sink
from cometmq.spark.live.sink import OPTIONS, PRODUCER_GROUP, Sent, SinkOptions, parse, send

KEY = "IDEMPOTENCE_KEY"


def stored(topics: Topics, topic: str, queues: int = 2) -> list[StoredMessage]:
    with blocking.PullConsumer(topics.name_server, "judge") as consumer:
        return [one for number in range(queues) for one in consumer.messages(queue(topic, number))]


def batches(*rows: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pylist([row]) for row in rows])


def options(topics: Topics, **given: str) -> SinkOptions:
    return parse({"namesrv": topics.name_server, "retrySeconds": "1"} | given)


def test_options_are_read() -> None:
    given = {"namesrv": "a:1", "TOPIC": "orders", "checkpointLocation": "somewhere"}
    assert parse(given) == SinkOptions(("a:1",), "orders", PRODUCER_GROUP, 60)
    documented = re.findall(r"^([a-z]\w+)  +\S", sink.__doc__ or "", re.MULTILINE)
    assert tuple(documented[1:]) == OPTIONS


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({}, "option namesrv is missing"),
        ({"namesrv": "a:1", "topic": "a,b"}, "option topic a,b: give one"),
        ({"namesrv": "a:1", "path": "x"}, "option path is not known"),
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
    assert found == {(n % 2, b"%d" % n, f"query-0-7-{n}") for n in range(4)}


def test_rows_that_cannot_be_sent_are_named(topics: Topics) -> None:
    with pytest.raises(MessageIllegal, match="body is empty"):
        send(options(topics), "k", batches({"topic": "rows", "body": b""}))
    with pytest.raises(SettingsError, match="queue 9 is on no broker"):
        send(options(topics), "k", batches({"topic": "orders", "body": b"1", "queue_id": 9}))
    away = SinkOptions((f"127.0.0.1:{free_port()}",), "rows", "g", 1)
    with pytest.raises(NetworkError, match=r"messages cannot be sent: no success in 1 s: .*no name server"):
        send(away, "k", batches({"body": b"1"}))


@pytest.mark.timeout(400)
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
