import json
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
from tests.spark.live.conftest import Topics, counted, plain, queue

from cometmq import blocking
from cometmq.errors import NoRoute, RemoteError, SettingsError, StoreDamaged
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.offsets import NestedOffsets
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.stream import LiveStreamReader
from cometmq.spark.live.survey import Extent
from cometmq.wire.codes import RequestCode

LIMITED = ReadMaxRows(1)
"""Spark hands a reader's default limit back to it, whose numbers do not matter there."""


@contextmanager
def reading(options: LiveOptions) -> Iterator[LiveStreamReader]:
    reader = LiveStreamReader(options, ("body",))
    try:
        yield reader
    finally:
        reader.stop()


def at(first: int, second: int, topic: str = "orders") -> NestedOffsets:
    return {topic: {"broker-a": {"0": first, "1": second}}}


def bodies(reader: LiveStreamReader, start: NestedOffsets, end: NestedOffsets) -> list[bytes]:
    batches = [batch for partition in reader.partitions(start, end) for batch in reader.read(partition)]
    return [row["body"] for batch in batches for row in batch.to_pylist()]


def test_a_query_begins_at_the_end_or_where_it_is_told_to(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders")) as reader:
        assert plain(reader.initialOffset()) == at(100, 40)
    with reading(orders.options(subscribe="orders", startingOffsets="earliest")) as reader:
        assert plain(reader.initialOffset()) == at(0, 0)
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
        assert plain(reader.latestOffset(begin, LIMITED)) == at(100, 0)


def test_a_micro_batch_reads_between_two_offsets(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders")) as reader:
        assert plain(reader.latestOffset(at(98, 40), ReadAllAvailable())) == at(100, 40)
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
def test_limits_hold(orders: Topics, limits: dict[str, str], limit: ReadLimit, end: NestedOffsets) -> None:
    with reading(orders.options(subscribe="orders", **limits)) as reader:
        assert reader.getDefaultReadLimit() == limit
        assert plain(reader.latestOffset(at(0, 0), limit)) == end
        assert plain(reader.latestOffset(at(0, 0), ReadAllAvailable())) == at(100, 40)


def test_too_few_messages_do_not_wait_for_ever(orders: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    options = orders.options(subscribe="orders", minOffsetsPerTrigger="141", maxTriggerDelay="10")
    with reading(options) as reader:
        assert plain(reader.latestOffset(at(0, 0), LIMITED)) == at(0, 0)
        monkeypatch.setattr(
            "cometmq.spark.live.stream.monotonic", lambda: float(reader._waits_since or 0) + 10
        )
        assert plain(reader.latestOffset(at(0, 0), LIMITED)) == at(100, 40)


def test_what_comes_later_is_not_read_when_available_now(topics: Topics) -> None:
    topics.create("later")
    topics.send("later", [b"1", b"2"])
    with reading(topics.options(subscribe="later", minOffsetsPerTrigger="9")) as reader:
        reader.prepareForTriggerAvailableNow()
        topics.send("later", [b"3"])
        assert plain(reader.latestOffset(at(0, 0, "later"), LIMITED)) == at(2, 0, "later")
        assert plain(reader.latestOffset(at(2, 0, "later"), LIMITED)) == at(2, 0, "later")


def test_new_queues_are_written_down_first_and_then_read(topics: Topics) -> None:
    topics.create("growing", queues=1)
    with reading(topics.options(subscribePattern="grow.*")) as reader:
        start = reader.initialOffset()
        topics.create("growing", queues=2)
        topics.send("growing", [b"new"], 1)
        known = reader.latestOffset(start, LIMITED)
        assert plain(known) == at(0, 0, "growing") and reader.partitions(start, known) == []
        end = reader.latestOffset(known, LIMITED)
        assert plain(end) == at(0, 1, "growing") and bodies(reader, known, end) == [b"new"]


def test_queues_that_are_gone_are_named(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    options = {"subscribePattern": "past|growing", "retrySeconds": "600"}
    start = at(7, 0, "past")
    gone = "the name server has these queues: past broker-a 0, past broker-a 1"
    with (
        reading(topics.options(**options)) as reader,
        pytest.raises(NoRoute, match=f"{gone}; with failOnDataLoss"),
    ):
        reader.latestOffset(start, LIMITED)  # their broker is known and does not have them: it ends soon
    with reading(topics.options(failOnDataLoss="false", **options)) as reader:
        with counted() as first:
            assert reader.latestOffset(start, LIMITED)["past"] == start["past"]
        assert gone in caplog.text
        with counted() as later:
            reader.latestOffset(start, LIMITED)
        assert later.total < first.total, "it does not look for them again"


def test_a_topic_that_is_no_longer_subscribed_to_ends_the_query_at_once(
    orders: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"subscribe": "growing", "retrySeconds": "600"}
    with counted() as traffic, reading(orders.options(**options)) as reader:
        with pytest.raises(NoRoute, match="no longer subscribed to: orders broker-a 0, orders broker-a 1"):
            reader.latestOffset(at(100, 40), LIMITED)
        assert traffic.total <= 4, "nobody is asked again"
    with reading(orders.options(failOnDataLoss="false", **options)) as reader:
        assert plain(reader.latestOffset(at(100, 40), LIMITED))["orders"] == at(100, 40)["orders"]
        assert "no longer subscribed to: orders broker-a 0, orders broker-a 1" in caplog.text


def test_queues_that_are_away_are_not_passed_over_when_available_now(
    topics: Topics, orders: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reading(orders.options(subscribe="orders")) as reader:
        with monkeypatch.context() as patched:
            patched.setattr(Cluster, "all_extents", lambda _: {queue("orders", 0): Extent(0, 100)})
            reader.prepareForTriggerAvailableNow()
        assert plain(reader.latestOffset(at(90, 30), LIMITED)) == at(100, 40), "it is back"
    with reading(topics.options(subscribePattern="past|growing")) as reader:
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(NoRoute, match="has these queues: past broker-a 0, past broker-a 1"):
            reader.latestOffset(at(7, 0, "past"), LIMITED)


def test_a_queue_that_begins_anew_is_a_loss(orders: Topics, caplog: pytest.LogCaptureFixture) -> None:
    with (
        reading(orders.options(subscribe="orders")) as reader,
        pytest.raises(StoreDamaged, match="queue 1, offsets 40 to 49"),
    ):
        reader.latestOffset(at(100, 50), LIMITED)
    with reading(orders.options(subscribe="orders", failOnDataLoss="false")) as reader:
        assert plain(reader.latestOffset(at(100, 50), LIMITED)) == at(100, 0)
        assert reader.partitions(at(100, 50), at(100, 0)) == []
    assert "queue 1, offsets 40 to 49" in caplog.text


def test_an_idle_trigger_costs_a_request_for_each_topic_and_broker(scattered: Topics) -> None:
    with reading(scattered.options(subscribe="scattered")) as reader:
        with counted() as first:
            start = reader.initialOffset()
        reader.latestOffset(start, ReadAllAvailable())
        with counted() as idle:
            assert reader.latestOffset(start, ReadAllAvailable()) is start
    assert first.total <= 4, "a route, the ends of 60 queues, and their first message"
    assert idle.requests == {RequestCode.GET_TOPIC_STATS_INFO: 1} and not idle.opened


def test_a_micro_batch_asks_for_what_has_news(scattered: Topics) -> None:
    options = scattered.options(
        subscribe="scattered", maxBytesPerTrigger="1000000", startingOffsets="earliest"
    )
    with reading(options) as reader:
        start = reader.initialOffset()
        with counted() as planned:
            end = reader.latestOffset(start, ReadMaxBytes(1))
            parts = reader.partitions(start, end)
        assert planned.requests.pop(RequestCode.QUERY_CONSUME_QUEUE) == 20, "queues that have news"
        assert planned.total <= 7, (
            "a route, ends twice, the first message in three, and a pull that may be refused"
        )
        assert [one.size for one in parts[0].value] == [1] * 20 and len(parts) == 1
        assert sorted(bodies(reader, start, end)) == sorted(b"%d" % number for number in range(0, 60, 3))


def test_only_what_has_changed_is_committed(scattered: Topics) -> None:
    with reading(scattered.options(subscribe="scattered", group="few")) as reader:
        start = reader.initialOffset()
        reader.commit(start)
        end = json.loads(json.dumps(start))
        end["scattered"]["broker-a"]["7"] += 1
        with counted() as traffic:
            reader.commit(end)
        assert traffic.requests[RequestCode.UPDATE_CONSUMER_OFFSET] == 1


def test_what_brokers_refuse_ends_the_plan_of_a_micro_batch(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders", sql="size > 3", retrySeconds="600")) as reader:
        with counted() as traffic, pytest.raises(RemoteError, match=r"does not support .* by SQL92"):
            reader.partitions(at(90, 40), at(100, 40))
        assert traffic.requests[RequestCode.PULL_MESSAGE] == 1
    with reading(orders.options(subscribe="orders")) as reader:
        reader.partitions(at(90, 40), at(100, 40))
        with counted() as traffic:
            reader.partitions(at(90, 30), at(100, 40))
        assert not traffic.requests[RequestCode.PULL_MESSAGE], "once is enough"


def test_a_topic_that_is_created_again_and_grows_longer_is_a_loss(
    topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create("remade")
    topics.send("remade", [b"old 0", b"old 1"])
    with reading(topics.options(subscribe="remade", startingOffsets="earliest")) as reader:
        start = reader.latestOffset(reader.initialOffset(), LIMITED)
    topics.delete("remade")
    topics.create("remade")
    topics.send("remade", [b"new 0", b"new 1", b"new 2"])
    with (
        reading(topics.options(subscribe="remade", retrySeconds="60")) as reader,
        pytest.raises(
            StoreDamaged, match="topic remade, broker broker-a: the topic was deleted and created again"
        ),
    ):
        reader.latestOffset(start, LIMITED)
    options = topics.options(subscribe="remade", failOnDataLoss="false", retrySeconds="60")
    with reading(options) as reader:
        again = reader.latestOffset(start, LIMITED)
        assert plain(again) == at(0, 0, "remade") and reader.partitions(start, again) == []
        end = reader.latestOffset(again, LIMITED)
        assert bodies(reader, again, end) == [b"new 0", b"new 1", b"new 2"]
        assert reader.latestOffset(end, LIMITED) is end
    assert caplog.text.count("created again") == 1


def test_a_checkpoint_without_first_messages_is_read_on(topics: Topics) -> None:
    topics.create("older", queues=2)
    topics.send("older", [b"0", b"1"])
    with reading(topics.options(subscribe="older")) as reader:
        start = at(2, 0, "older")
        assert reader.latestOffset(start, LIMITED) is start, "nothing has come: Spark shall see the same text"
        topics.send("older", [b"2"], 1)
        end = reader.latestOffset(start, LIMITED)
        assert plain(end) == at(2, 1, "older") and "@older" in end


def test_progress_is_committed_for_the_group(orders: Topics) -> None:
    with reading(orders.options(subscribe="orders", group="pipeline")) as reader:
        reader.commit(at(30, 20))
    with reading(orders.options(subscribe="orders")) as reader:
        reader.commit(at(31, 21))  # there is no group to commit for
    with blocking.PullConsumer(orders.name_server, "pipeline") as consumer:
        assert [consumer.committed(queue("orders", number)) for number in range(2)] == [30, 20]
    retries = queue("%RETRY%pipeline")  # by which tools know that there is such a group
    with Cluster(orders.options(subscribe=retries.topic, retrySeconds="60")) as cluster:
        assert cluster.wait_for_queues({retries}) == {retries}


def test_a_commit_that_fails_does_not_end_the_query(orders: Topics, caplog: pytest.LogCaptureFixture) -> None:
    with reading(orders.options(subscribe="orders", group="pipeline")) as reader:
        reader.commit({"orders": {"broker-x": {"0": 1}}})
    assert "group pipeline: the brokers do not have its offsets" in caplog.text
