"""What is said of lost messages; at the end, of those that a retention run takes from under a query."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics, plain, queue

from cometmq.errors import StoreDamaged
from cometmq.message import MessageQueue
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.loss import merged, report_loss, report_recreated
from cometmq.spark.live.offsets import NestedOffsets
from cometmq.spark.live.options import parse
from cometmq.spark.live.positions import Earliest
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.reading import read
from cometmq.spark.live.stream import LiveStreamReader
from cometmq.testing.clock import MovableClock

FIRST, SECOND = (MessageQueue("t", "b", number) for number in range(2))
OPTIONS = {"namesrv": "a:1", "subscribe": "t"}
PATIENCE_S = 90
EXPIRING = {
    "mapped_file_size_commit_log": 1 << 18,
    "file_reserved_time": 0,
    "delete_when": ";".join(map(str, range(24))),
    "clean_resource_interval": 1,
}
A_MINUTE_S = 61.0
"""So long after its start a store removes nothing, and then what it has written down thoroughly."""


def test_a_loss_is_an_error_that_names_it_and_the_remedy() -> None:
    report_loss(parse(OPTIONS), [], "nobody knows")
    with pytest.raises(
        StoreDamaged, match="topic t, broker b, queue 0, offsets 3 to 8: nobody knows; with failOn"
    ):
        report_loss(parse(OPTIONS), [QueueRange(FIRST, 3, 5), QueueRange(FIRST, 5, 9)], "nobody knows")


def test_a_topic_that_was_created_again_is_a_loss_that_names_it() -> None:
    with pytest.raises(
        StoreDamaged, match="lost: topic t, broker b; topic u, broker b: the topic was deleted"
    ):
        report_recreated(parse(OPTIONS), [("u", "b"), ("t", "b")])


def test_without_fail_on_data_loss_the_same_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    lost = [QueueRange(FIRST, 10 * number, 10 * number + 1) for number in range(30)]
    report_loss(parse(OPTIONS | {"failOnDataLoss": "false"}), lost, "nobody knows")
    assert "queue 0, offset 190; and 10 more: nobody knows" in caplog.text


def test_ranges_of_a_queue_that_follow_on_each_other_are_merged() -> None:
    assert merged(
        [QueueRange(SECOND, 4, 5), QueueRange(FIRST, 2, 4), QueueRange(FIRST, 0, 2), QueueRange(FIRST, 6, 7)]
    ) == [
        QueueRange(FIRST, 0, 4),
        QueueRange(FIRST, 6, 7),
        QueueRange(SECOND, 4, 5),
    ]


def test_what_retention_takes_from_under_a_query_is_named_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = MovableClock()
    with in_thread(tmp_path / "store", clock=clock, store=EXPIRING) as live:
        topics = Topics(live.name_server)
        topics.create("expiring", queues=1)
        for first in range(0, 300, 20):
            topics.send("expiring", [b"%03d" % (first + number) + bytes(1000) for number in range(20)])
        with querying(topics, failOnDataLoss="true") as fails, querying(topics) as goes_on:
            for query in (fails, goes_on):
                start, numbers = next_batch(query, query.initialOffset())
                assert (plain(start), numbers) == (at(10), list(range(10)))
            clock.advance(A_MINUTE_S)
            left = first_left(topics)  # of the log's two files one is gone, the other is written to
            lost = f"messages are lost: topic expiring, broker broker-a, queue 0, offsets 10 to {left - 1}:"
            with pytest.raises(StoreDamaged, match=lost):
                next_batch(fails, start)
            planned_before = [QueueRange(queue("expiring"), 12, 20)]
            for filtered in ({}, {"tags": "new"}):
                with pytest.raises(
                    StoreDamaged, match=f"queue 0, offsets 12 to {left - 1}: the brokers have"
                ):
                    list(read(topics.options(subscribe="expiring", **filtered), ("body",), planned_before))
            end, numbers = next_batch(goes_on, start)
            assert (plain(end), numbers) == (at(left + 10), list(range(left, left + 10)))
    assert lost in caplog.text


@contextmanager
def querying(topics: Topics, **options: str) -> Iterator[LiveStreamReader]:
    """Provide what Spark asks for the plan of each micro-batch, as long as a query runs."""
    limits = {
        "subscribe": "expiring",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "10",
        "retrySeconds": "60",
    }
    reader = LiveStreamReader(topics.options(**limits, **{"failOnDataLoss": "false"} | options), ("body",))
    try:
        yield reader
    finally:
        reader.stop()


def next_batch(query: LiveStreamReader, start: NestedOffsets) -> tuple[NestedOffsets, list[int]]:
    """Plan and read a micro-batch; give where it ends, and the numbers of its messages."""
    end = query.latestOffset(start, query.getDefaultReadLimit())
    batches = [batch for part in query.partitions(start, end) for batch in query.read(part)]
    return end, [int(row["body"][:3]) for batch in batches for row in batch.to_pylist()]


def at(offset: int) -> NestedOffsets:
    return {"expiring": {"broker-a": {"0": offset}}}


def first_left(topics: Topics) -> int:
    """Return the first queue offset that is left, once something has been removed."""
    deadline = time.monotonic() + PATIENCE_S
    one = queue("expiring")
    with Cluster(topics.options(subscribe="expiring", retrySeconds="60")) as cluster:
        while (first := cluster.resolve(Earliest(), [one], "")[one]) == 0:
            assert time.monotonic() < deadline
    return first
