from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from tests.spark.live.conftest import Topics, queue

from cometmq import blocking
from cometmq.errors import NoRoute, SettingsError, StoreDamaged
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.offsets import Written
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.stream import LiveStreamReader

LIMITED = ReadMaxRows(1)
"""Spark hands a reader's default limit back to it, whose numbers do not matter there."""


@contextmanager
def reading(options: LiveOptions) -> Iterator[LiveStreamReader]:
    reader = LiveStreamReader(options, ("body",))
    try:
        yield reader
    finally:
        reader.stop()


def at(first: int, second: int, topic: str = "orders") -> Written:
    return {topic: {"broker-a": {"0": first, "1": second}}}


def bodies(reader: LiveStreamReader, start: Written, end: Written) -> list[bytes]:
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return [row["body"] for batch in batches for row in batch.to_pylist()]


def test_a_query_begins_at_the_end_or_where_it_is_told_to(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders")) as reader:
        assert reader.initialOffset() == at(100, 40)
    with reading(orders.options(subscribe="orders", startingOffsets="earliest")) as reader:
        assert reader.initialOffset() == at(0, 0)
    with reading(orders.options(subscribe="nothing")) as reader, pytest.raises(NoRoute):
        reader.initialOffset()


def test_a_query_that_would_begin_behind_the_end_of_a_queue_does_not_begin(
    orders: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"subscribe": "orders", "startingOffsets": '{"orders": {"broker-a": {"0": 100, "1": 60}}}'}
    with (
        reading(orders.options(**given)) as reader,
        pytest.raises(SettingsError, match="queue 1: 60 is asked for, it begins at 0 and ends at 40: give"),
    ):
        reader.initialOffset()
    with reading(orders.options(**given, failOnDataLoss="false")) as reader:
        begin = reader.initialOffset()
        assert "ends at 40: they are read from their beginning" in caplog.text
        assert reader.latestOffset(begin, LIMITED) == at(100, 0)


def test_a_micro_batch_reads_between_two_offsets(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders")) as reader:
        assert reader.latestOffset(at(98, 40), ReadAllAvailable()) == at(100, 40)
        assert bodies(reader, at(98, 40), at(100, 40)) == [b"paid 98", b"paid 99"]
        assert reader.partitions(at(100, 40), at(100, 40)) == []
        assert reader.reportLatestOffset() == at(100, 40)


@pytest.mark.parametrize(
    ("limits", "limit", "end"),
    [
        ({}, ReadAllAvailable(), at(100, 40)),
        ({"maxOffsetsPerTrigger": "14"}, ReadMaxRows(14), at(10, 4)),
        ({"maxBytesPerTrigger": "1"}, ReadMaxBytes(1), at(1, 0)),
        ({"minOffsetsPerTrigger": "141"}, ReadMinRows(141), at(0, 0)),
        ({"minOffsetsPerTrigger": "140"}, ReadMinRows(140), at(100, 40)),
    ],
)
def test_limits_hold(orders: Topics, limits: dict[str, str], limit: ReadLimit, end: Written) -> None:
    with reading(orders.options(subscribe="orders", **limits)) as reader:
        assert reader.getDefaultReadLimit() == limit
        assert reader.latestOffset(at(0, 0), limit) == end
        assert reader.latestOffset(at(0, 0), ReadAllAvailable()) == at(100, 40)


def test_too_few_messages_do_not_wait_for_ever(orders: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    options = orders.options(subscribe="orders", minOffsetsPerTrigger="141", maxTriggerDelay="10")
    with reading(options) as reader:
        assert reader.latestOffset(at(0, 0), LIMITED) == at(0, 0)
        monkeypatch.setattr(
            "cometmq.spark.live.stream.monotonic", lambda: float(reader._waits_since or 0) + 10
        )
        assert reader.latestOffset(at(0, 0), LIMITED) == at(100, 40)


def test_what_comes_later_is_not_read_when_available_now(topics: Topics) -> None:
    topics.create("later")
    topics.send("later", [b"1", b"2"])
    with reading(topics.options(subscribe="later", minOffsetsPerTrigger="9")) as reader:
        reader.prepareForTriggerAvailableNow()
        topics.send("later", [b"3"])
        assert reader.latestOffset(at(0, 0, "later"), LIMITED) == at(2, 0, "later")
        assert reader.latestOffset(at(2, 0, "later"), LIMITED) == at(2, 0, "later")


def test_new_queues_are_written_down_first_and_then_read(topics: Topics) -> None:
    topics.create("growing", queues=1)
    with reading(topics.options(subscribePattern="grow.*")) as reader:
        start = reader.initialOffset()
        topics.create("growing", queues=2)
        topics.send("growing", [b"new"], 1)
        known = reader.latestOffset(start, LIMITED)
        assert known == at(0, 0, "growing") and reader.partitions(start, known) == []
        end = reader.latestOffset(known, LIMITED)
        assert end == at(0, 1, "growing") and bodies(reader, known, end) == [b"new"]


def test_queues_that_are_gone_are_waited_for_and_named(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"subscribePattern": "past|growing"}
    start = at(7, 0, "past")
    with (
        reading(topics.options(**options)) as reader,
        pytest.raises(NoRoute, match="for 1 s: past broker-a 0, past broker-a 1; with failOnDataLoss"),
    ):
        reader.latestOffset(start, LIMITED)
    with reading(topics.options(failOnDataLoss="false", **options)) as reader:
        assert reader.latestOffset(start, LIMITED)["past"] == start["past"]
        assert "past broker-a 0, past broker-a 1" in caplog.text


def test_queues_that_are_away_are_not_passed_over_when_available_now(
    topics: Topics, orders: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(orders.options(subscribe="orders")) as reader:
        with monkeypatch.context() as patched:
            patched.setattr(Cluster, "queues", lambda _: {queue("orders", 0)})
            reader.prepareForTriggerAvailableNow()
        assert reader.latestOffset(at(90, 30), LIMITED) == at(100, 40), "it is back"
    with reading(topics.options(subscribePattern="past|growing")) as reader:
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(NoRoute, match="for 1 s: past broker-a 0, past broker-a 1"):
            reader.latestOffset(at(7, 0, "past"), LIMITED)


def test_a_queue_that_begins_anew_is_a_loss(orders: Topics, caplog: pytest.LogCaptureFixture) -> None:
    with (
        reading(orders.options(subscribe="orders")) as reader,
        pytest.raises(StoreDamaged, match="queue 1, offsets 40 to 49"),
    ):
        reader.latestOffset(at(100, 50), LIMITED)
    with reading(orders.options(subscribe="orders", failOnDataLoss="false")) as reader:
        assert reader.latestOffset(at(100, 50), LIMITED) == at(100, 0)
        assert reader.partitions(at(100, 50), at(100, 0)) == []
    assert "queue 1, offsets 40 to 49" in caplog.text


def test_progress_is_committed_for_the_group(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders", group="pipeline")) as reader:
        reader.commit(at(30, 20))
    with reading(orders.options(subscribe="orders")) as reader:
        reader.commit(at(31, 21))  # there is no group to commit for
    with blocking.PullConsumer(orders.name_server, "pipeline") as consumer:
        assert [consumer.committed(queue("orders", number)) for number in range(2)] == [30, 20]
    retries = queue("%RETRY%pipeline")  # by which tools know that there is such a group
    with Cluster(orders.options(subscribe=retries.topic, retrySeconds="60")) as cluster:
        assert cluster.wait_for({retries}) == {retries}


def test_a_commit_that_fails_does_not_end_the_query(orders: Topics, caplog: pytest.LogCaptureFixture) -> None:
    with reading(orders.options(subscribe="orders", group="pipeline")) as reader:
        reader.commit({"orders": {"broker-x": {"0": 1}}})
    assert "group pipeline: the brokers do not have its offsets" in caplog.text
