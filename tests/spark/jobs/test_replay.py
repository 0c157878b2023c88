"""What a task of a replay does, without Spark; ``test_report.py`` runs the guide's replay."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.live import in_thread
from tests.spark.live.conftest import Topics

from cometmq import blocking
from cometmq.spark.jobs.replay import CHUNK_MAX, GROUP, Pace, send_all, shares
from cometmq.spark.live.sink import SinkOptions

KINDS: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "queue_id": pa.int32(),
    "queue_offset": pa.int64(),
    "store_host": pa.string(),
    "body": pa.binary(),
    "task": pa.int32(),
}


def batches(*rows: tuple[str, int, int]) -> Iterator[pa.RecordBatch]:
    """Give batches of two rows, made of topic, queue and queue offset."""
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
