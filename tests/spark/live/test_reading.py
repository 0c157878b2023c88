import pytest
from tests.live import BROKER
from tests.spark.live.conftest import Topics, queue

from cometmq import blocking
from cometmq.errors import StoreDamaged
from cometmq.format.checksum import body_crc
from cometmq.format.compression import decompress
from cometmq.message import Message
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.reading import read
from cometmq.spark.schema import COLUMNS, arrow_schema

PAID, NEW = queue("orders", 0), queue("orders", 1)
WHOLE = [QueueRange(PAID, 0, 100), QueueRange(NEW, 0, 40)]


def bodies(options: LiveOptions, *ranges: QueueRange) -> list[bytes]:
    return [row["body"] for batch in read(options, ("body",), ranges) for row in batch.to_pylist()]


def test_all_columns_are_those_of_the_file_source(orders: Topics) -> None:
    (batch,) = read(orders.options(subscribe="orders"), tuple(COLUMNS), [QueueRange(PAID, 3, 5)])
    assert batch.schema.equals(arrow_schema())
    first = batch.to_pylist()[0]
    assert (first["topic"], first["queue_id"], first["queue_offset"]) == ("orders", 0, 3)
    assert (first["body"], first["tags"], first["broker"]) == (b"paid 3", "paid", BROKER)
    (alone,) = read(orders.options(subscribe="orders"), ("broker",), [QueueRange(PAID, 3, 5)])
    assert alone.to_pylist() == [{"broker": BROKER}] * 2


def test_bodies_come_as_they_are_stored_if_asked(topics: Topics) -> None:
    topics.create("large")
    body = b"a long text " * 1_000  # which the producer compresses
    with blocking.Producer(topics.name_server) as producer:
        producer.send(Message("large", body), queue("large"))
    stored = [QueueRange(queue("large"), 0, 1)]
    assert bodies(topics.options(subscribe="large"), *stored) == [body]
    (batch,) = read(
        topics.options(subscribe="large", decompress="false"), ("body", "sys_flag", "body_crc"), stored
    )
    (row,) = batch.to_pylist()
    assert len(row["body"]) < len(body) == len(decompress(row["body"], row["sys_flag"]))
    assert row["body_crc"] == body_crc(row["body"])


def test_tags_limit_and_times_choose_messages(orders: Topics) -> None:
    assert bodies(orders.options(subscribe="orders", tags="new"), *WHOLE) == [
        b"new %d" % n for n in range(40)
    ]
    assert len(bodies(orders.options(subscribe="orders", limit="107"), *WHOLE)) == 107
    assert bodies(orders.options(subscribe="orders", endingTimestamp="1000"), *WHOLE) == []


def test_a_loss_is_named_or_logged(orders: Topics, caplog: pytest.LogCaptureFixture) -> None:
    said = "topic orders, broker broker-a, queue 1, offsets 40 to 44"
    for tags in ({}, {"tags": "new"}):
        with pytest.raises(StoreDamaged, match=said):
            bodies(orders.options(subscribe="orders", **tags), QueueRange(NEW, 38, 45))
    assert (
        len(bodies(orders.options(subscribe="orders", failOnDataLoss="false"), QueueRange(NEW, 38, 45))) == 2
    )
    assert said in caplog.text
