"""The guide's recipe for a Delta table is exact, whatever is lost, repeated or run twice."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.kit.pages import ROOT, blocks_of
from tests.spark.live.conftest import Topics

from cometmq.spark import started

PAGE = ROOT / "docs" / "guide" / "spark-streams.md"
PLACE = '"lake/orders-delta"'


class Batch(NamedTuple):
    """A micro-batch: offsets of one queue."""

    offsets: range
    queue: str = "orders/broker-a/0"

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        return pa.table(
            {"queue": [self.queue] * len(self.offsets), "queue_offset": pa.array(self.offsets, pa.int64())}
        )


def recipe(table: Path) -> dict[str, Any]:
    """Return the names that the guide's block defines, for a table of the test's own."""
    (code,) = (block.code for block in blocks_of(PAGE.read_text()) if "def land(" in block.code)
    assert PLACE in code
    names: dict[str, Any] = {}
    exec(code.replace(PLACE, repr(str(table))), names)
    return names


def landed(table: Path) -> Counter[tuple[str, int]]:
    """Count the rows of a table by queue and offset."""
    rows = pa.table(DeltaTable(table).scan(columns=["queue", "queue_offset"])).to_pylist()
    return Counter((row["queue"], row["queue_offset"]) for row in rows)


def once(*batches: Batch) -> Counter[tuple[str, int]]:
    """Return the rows of batches, each once."""
    return Counter({(batch.queue, offset): 1 for batch in batches for offset in batch.offsets})


def test_a_batch_that_is_repeated_or_cut_anew_lands_once(tmp_path: Path) -> None:
    land = recipe(tmp_path / "table")["land"]
    for number, offsets in enumerate([range(10), range(10), range(7), range(5, 15), range(15, 20)]):
        land(Batch(offsets), number)
    land(Batch(range(20)), 0)  # as with a new checkpoint
    land(Batch(range(3, 6), "orders/broker-b/0"), 1)
    assert landed(tmp_path / "table") == once(Batch(range(20)), Batch(range(3, 6), "orders/broker-b/0"))


@pytest.mark.parametrize("other", [Batch(range(100, 200)), Batch(range(100), "orders/broker-a/1")])
def test_of_two_drivers_that_land_at_once_one_is_refused_and_goes_on_behind_the_other(
    tmp_path: Path, other: Batch
) -> None:
    ours, theirs = (recipe(tmp_path / "table") for _ in range(2))
    ours["land"](Batch(range(100)), 0)
    write: Callable[..., None] = ours["write_deltalake"]

    def write_after_the_other(*arguments: Any, **named: Any) -> None:
        theirs["land"](other, 1)  # between our look at the table and our commit
        write(*arguments, **named)

    ours["write_deltalake"] = write_after_the_other
    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        ours["land"](Batch(range(100, 200)), 1)
    ours["write_deltalake"] = write
    ours["land"](Batch(range(100, 200)), 1)
    assert landed(tmp_path / "table") == once(Batch(range(200)), other)


def test_rows_that_leave_out_an_offset_are_refused(tmp_path: Path) -> None:
    land = recipe(tmp_path / "table")["land"]
    land(Batch(range(10)), 0)
    with pytest.raises(ValueError, match="orders/broker-a/0: 5 rows for the offsets 10 to 24"):
        land(Batch(range(20, 25)), 1)
    assert landed(tmp_path / "table") == once(Batch(range(10)))


@pytest.mark.timeout(600)  # Spark's start and first streams, on a machine that is busy
def test_a_stream_whose_checkpoint_is_lost_lands_each_message_once(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.create("landed")
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    land = recipe(table)["land"]

    def run(at_once: str) -> None:
        stream = (
            spark.readStream.format("rocketmq")
            .options(namesrv=topics.name_server, subscribe="landed", startingOffsets="earliest")
            .options(maxOffsetsPerTrigger=at_once)
            .load()
        )
        rows = stream.select(
            f.concat_ws("/", "topic", "broker", "queue_id").alias("queue"), "queue_offset", "body"
        )
        writer = rows.writeStream.foreachBatch(land).option("checkpointLocation", str(checkpoint))
        started(writer.trigger(availableNow=True).start()).awaitTermination()

    topics.send("landed", [b"%d" % n for n in range(10)], 0)
    run("4")
    shutil.rmtree(checkpoint)
    topics.send("landed", [b"%d" % n for n in range(5)], 0)
    topics.send("landed", [b"%d" % n for n in range(5)], 1)
    run("100")  # another cut of the same messages, in batches with the same numbers
    found = landed(table)
    assert len(found) == 20
    assert set(found.values()) == {1}
