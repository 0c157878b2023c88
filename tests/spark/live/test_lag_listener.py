import json
import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress
from tests.spark.live.conftest import Topics

from cometmq.message import MessageQueue
from cometmq.spark.live.lag_listener import GAUGE, LagListener, StreamLag, lag_of, offsets_behind

READ = {"orders": {"broker-a": {"0": 10, "1": 4}}}
THERE = {
    "orders": {"broker-a": {"0": 17, "1": 4}},
    "@orders": {"broker-a": {"queue_id": 0, "queue_offset": 0, "store_time": 7}},
}
KAFKAS = {"orders": {"0": 10}}
RUN = uuid.UUID(int=1)
PATIENCE_S = 60


def progress(
    *sources: tuple[object, object], name: str | None = "lake", run_id: uuid.UUID = RUN
) -> StreamingQueryProgress:
    """Return a query's progress: of each source up to where it has read, and where it ends."""
    written = [
        {
            "description": "a source",
            "startOffset": "null",
            "endOffset": json.dumps(end),
            "latestOffset": json.dumps(latest),
            "numInputRows": 1,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 1.0,
        }
        for end, latest in sources
    ]
    whole = {
        "id": str(uuid.UUID(int=7)),
        "runId": str(run_id),
        "name": name,
        "timestamp": "2026-01-31T09:00:00.000Z",
        "batchId": 3,
        "batchDuration": 5,
        "durationMs": {},
        "eventTime": {},
        "stateOperators": [],
        "sources": written,
        "sink": {"description": "a sink", "numOutputRows": 1},
        "numInputRows": 1,
        "inputRowsPerSecond": 1.0,
        "processedRowsPerSecond": 1.0,
        "observedMetrics": {},
    }
    return StreamingQueryProgress.fromJson(whole)


def gauges(registry: CollectorRegistry) -> Mapping[tuple[str, str], dict[str, float]]:
    """Return what is shown by query and topic: min, max and avg."""
    shown: dict[tuple[str, str], dict[str, float]] = {}
    for metric in registry.collect():
        for sample in metric.samples:
            place = sample.labels["query"], sample.labels["topic"]
            shown.setdefault(place, {})[sample.name.removeprefix(f"{GAUGE}_")] = sample.value
    return shown


def ended(run_id: uuid.UUID = RUN) -> QueryTerminatedEvent:
    return QueryTerminatedEvent(uuid.UUID(int=7), run_id, None, None)


def test_what_a_query_has_not_read_is_counted_by_queue() -> None:
    queues = [MessageQueue("orders", "broker-a", number) for number in range(2)]
    assert offsets_behind(progress((READ, THERE))) == {queues[0]: 7, queues[1]: 0}
    assert offsets_behind(progress((READ, THERE), (THERE, THERE))) == {queues[0]: 7, queues[1]: 0}


@pytest.mark.parametrize(
    ("end", "latest"), [(KAFKAS, KAFKAS), ({"logOffset": 3}, None), (READ, None), ("0", "9"), (READ, {})]
)
def test_other_sources_and_ends_that_are_not_known_are_passed_over(end: object, latest: object) -> None:
    assert offsets_behind(progress((end, latest))) == {}


def test_the_counts_are_summed_up() -> None:
    assert lag_of([7, 0, 2]) == StreamLag(queues=3, total=9, least=0, most=7, average=3.0)


def test_the_log_says_how_far_a_query_is_behind(caplog: pytest.LogCaptureFixture) -> None:
    listener = LagListener()
    with caplog.at_level(logging.INFO, "cometmq.spark.live.lag_listener"):
        listener.onQueryProgress(QueryProgressEvent(progress((READ, THERE))))
        listener.onQueryProgress(QueryProgressEvent(progress((READ, READ), name=None)))
        listener.onQueryProgress(QueryProgressEvent(progress((KAFKAS, KAFKAS))))
        listener.onQueryTerminated(ended())
    assert caplog.messages == [
        "stream lake: 7 messages behind in 2 queues: min 0, max 7, avg 3.5",
        f"stream {uuid.UUID(int=7)}: 0 messages behind in 2 queues: min 0, max 0, avg 0.0",
    ]


def test_gauges_show_each_topic_of_a_query_as_long_as_it_is_read() -> None:
    registry = CollectorRegistry()
    listener = LagListener(prometheus=True, registry=registry)
    both = THERE | {"bills": {"broker-a": {"0": 5}}}
    listener.onQueryProgress(QueryProgressEvent(progress((READ | {"bills": {"broker-a": {"0": 2}}}, both))))
    assert gauges(registry) == {
        ("lake", "orders"): {"min": 0, "max": 7, "avg": 3.5},
        ("lake", "bills"): {"min": 3, "max": 3, "avg": 3},
    }
    listener.onQueryProgress(QueryProgressEvent(progress((THERE, THERE))))
    assert gauges(registry) == {("lake", "orders"): {"min": 0, "max": 0, "avg": 0}}
    listener.onQueryTerminated(ended())
    assert gauges(registry) == {}


def test_the_end_of_a_run_leaves_the_gauges_of_the_next_one() -> None:
    registry, later = CollectorRegistry(), uuid.UUID(int=2)
    listener = LagListener(prometheus=True, registry=registry)
    listener.onQueryProgress(QueryProgressEvent(progress((READ, THERE))))
    listener.onQueryProgress(QueryProgressEvent(progress((READ, THERE), run_id=later)))
    listener.onQueryTerminated(ended())
    assert gauges(registry).keys() == {("lake", "orders")}
    listener.onQueryTerminated(ended(later))
    assert gauges(registry) == {}


class Collector(LagListener):
    """Hands on what a test waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.behind: SimpleQueue[int] = SimpleQueue()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        super().onQueryProgress(event)
        self.behind.put(sum(offsets_behind(event.progress).values()))


@pytest.mark.timeout(600)  # Spark's start, on a machine that is busy
def test_spark_tells_it_of_each_micro_batch(
    spark: SparkSession, topics: Topics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics.create("behind")
    topics.send("behind", [b"%d" % number for number in range(9)], 0)
    topics.send("behind", [b"%d" % number for number in range(3)], 1)
    listener = Collector()
    spark.streams.addListener(listener)
    try:
        stream = spark.readStream.format("rocketmq").options(namesrv=topics.name_server, subscribe="behind")
        query = (
            stream.options(startingOffsets="earliest", maxOffsetsPerTrigger="4")
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(tmp_path))
            .queryName("follower")
            .trigger(availableNow=True)
        )
        with caplog.at_level(logging.INFO, "cometmq.spark.live.lag_listener"):
            query.start().awaitTermination()
            found = [listener.behind.get(timeout=PATIENCE_S) for _ in range(3)]
    finally:
        spark.streams.removeListener(listener)
    assert found == [8, 4, 0]
    assert "stream follower: 8 messages behind in 2 queues: min 2, max 6, avg 4.0" in caplog.messages
