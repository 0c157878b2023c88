"""What a task of a replay does, and the order of queues; ``test_report.py`` runs the guide's replay."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.live import in_thread
from tests.log_rows import plain_rows
from tests.spark.live.conftest import Topics
from tests.store.conftest import new_message

from cometmq import blocking
from cometmq.errors import SettingsError
from cometmq.spark.jobs.export.archive import archive
from cometmq.spark.jobs.replay import (
    CHUNK_MAX,
    CONTENT,
    GROUP,
    KNOWN_BY,
    Pace,
    placed,
    replay,
    send_all,
    shares,
    stored,
)
from cometmq.spark.sink.sink import SinkOptions
from cometmq.store import MessageStore, StoreSettings

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

KINDS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "store_host": pa.string(),
    "body": pa.binary(),
    "task": pa.int32(),
}


def batches(*rows: tuple[str, int, int]) -> Iterator[pa.RecordBatch]:
    """Return batches of two rows, made of topic, queue and queue offset."""
    values: list[dict[str, Any]] = [
        {
            "topic": topic,
            "queue_id": queue_id,
            "queue_offset": offset,
            "store_host": "b:1",
            "body": b"%d" % offset,
            "task": 3,
        }
        for topic, queue_id, offset in rows
    ]
    batch = pa.RecordBatch.from_pylist(values, pa.schema(KINDS))
    return (batch.slice(begin, 2) for begin in range(0, batch.num_rows, 2))


def test_a_task_keeps_the_order_of_queues_and_repeats_its_keys(tmp_path: Path) -> None:
    rows = [(topic, queue_id, offset) for offset in range(7, 10) for topic in "ab" for queue_id in (0, 1, 6)]
    with in_thread(tmp_path) as live:
        Topics(live.name_server).create("again", queues=4)
        options = SinkOptions((live.name_server,), "again", GROUP, 60)
        for _ in range(2):
            assert asyncio.run(send_all(options, {3: 1e6}, batches(*rows))) == {"a": 9, "b": 9}
        with blocking.PullConsumer(live.name_server, "judge") as consumer:
            found = [one for queue in consumer.queues("again") for one in consumer.messages(queue)]
    bodies: defaultdict[str, list[bytes]] = defaultdict(list)
    for one in found:  # copies are there or not, as the broker likes
        place, body = one.properties["IDEMPOTENCE_KEY"].rsplit("/", 2)[0], one.body
        assert one.properties["IDEMPOTENCE_KEY"] == f"{place}/{body.decode()}/b:1"
        bodies[f"{place} in {one.queue_id}"].append(body)
    assert {place: list(dict.fromkeys(sent)) for place, sent in bodies.items()} == {
        f"{topic}/{queue_id} in {queue_id % 4}": [b"7", b"8", b"9"] for topic, queue_id, _ in rows
    }


def test_a_task_has_the_share_of_the_rate_that_it_has_of_the_messages() -> None:
    assert shares(100, [(0, 30), (4, 60), (0, 10)]) == {0: 40.0, 4: 60.0}


def test_a_pace_is_kept_and_what_was_late_is_not_made_up_for() -> None:
    pace = Pace(50)
    assert [pace.wait_s(pace.chunk, 10.0) for _ in range(3)] == pytest.approx([0, 0.1, 0.2])
    assert pace.wait_s(5, 10.25) == pytest.approx(0.05)
    assert [pace.wait_s(5, 99.0), pace.wait_s(5, 99.0)] == pytest.approx([0, 0.1])


@pytest.mark.parametrize(("rate", "chunk"), [(0.5, 1), (50, 5), (1e9, CHUNK_MAX)])
def test_a_chunk_is_a_tenth_of_a_second(rate: float, chunk: int) -> None:
    assert Pace(rate).chunk == chunk


def test_each_queue_keeps_its_order_and_bodies_are_moved_once(spark: SparkSession, tmp_path: Path) -> None:
    own = StoreSettings(mapped_file_size_commit_log=64 * 1024)
    with MessageStore.open(tmp_path / "old", own) as store:
        for n in range(600):
            store.append([new_message("orders", n % 3, body=b"%04d" % n * 20)])
    with in_thread(tmp_path / "new") as live:
        Topics(live.name_server).create("orders", queues=3)
        sent = replay(spark, tmp_path / "old", live.name_server, rate=100_000, bytes_per_task=5_000)
        with blocking.PullConsumer(live.name_server, "judge") as consumer:
            found = {
                queue.queue_id: [int(one.body[:4]) for one in consumer.messages(queue)]
                for queue in consumer.queues("orders")
            }
    assert sent == {"orders": 600}
    assert {number: list(dict.fromkeys(bodies)) for number, bodies in found.items()} == {
        number: list(range(number, 600, 3)) for number in range(3)
    }
    whole = stored(spark, tmp_path / "old", (*KNOWN_BY, *CONTENT), bytes_per_task=5_000)
    plan = placed(whole.withColumn("task", f.lit(0)), 2)._jdf.queryExecution().executedPlan().toString()
    after_reading, _, before = plan.partition("MapInArrow")
    assert after_reading.count("Exchange") == 1 and "MapInArrow" not in before


def test_a_store_is_read_as_it_is(spark: SparkSession, golden: Mapping[str, Path]) -> None:
    rows = [row for row in plain_rows(golden["store-clean"]) if row["topic"] == "GoldenB"]
    frame = stored(spark, golden["store-clean"], ("queue_offset",), topics=frozenset({"GoldenB"}))
    assert frame.count() == len(rows) > 0


def test_an_archive_is_read_as_the_store_it_was_made_of(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    done = archive(spark, golden["store-clean"], tmp_path)
    assert stored(spark, tmp_path, ("queue_offset",)).count() == done.messages > 0


def test_what_is_neither_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no CommitLog"):
        stored(spark, tmp_path, ("queue_offset",))
