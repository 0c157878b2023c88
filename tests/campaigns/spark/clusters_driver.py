"""Reads and rebuilds a golden store, writes and reads a topic, as a user's program would on a cluster.

    python -m tests.campaigns.spark.clusters_driver MASTER FOLDER

It is run as a process of its own, and ends with an error if a row or a byte is not what one process gives.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from tests.conftest import GOLDEN, unpack
from tests.kit.stores import GOLDEN as SETTINGS
from tests.kit.stores import contents
from tests.live import in_thread
from tests.log_rows import plain_rows

from cometmq.spark import session
from cometmq.spark.jobs.rebuild.rebuild import rebuild
from cometmq.store.recovery.rebuild import rebuild as rebuild_alone

STORE: Final = "store-clean"
SPLIT: Final = 200_000
TASKS: Final = 8
MESSAGES: Final = 10_000
EXECUTOR: Final = b"CoarseGrainedExecutorBackend"
COLUMNS: Final = ("physical_offset", "topic", "queue_id", "queue_offset", "tags", "body")
DERIVED: Final = ("consumequeue", "index")
CONF: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # begin when both executors are there
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


def main(master: str, folder: Path) -> None:
    """Read and rebuild, compare, and say what was done."""
    folder.mkdir()
    unpack(GOLDEN / f"{STORE}.tgz", folder)
    with session(master, "clusters", work_dir=folder / "work", conf=CONF) as spark:
        executors = {
            row["pid"] for row in spark.range(0, TASKS, 1, TASKS).mapInArrow(places, "pid long").collect()
        }
        rows = check_rows(spark, folder / STORE)
        queues = check_rebuild(spark, folder)
        messages = check_topics(spark, folder)
    print(
        f"{rows} rows read, {queues} queues rebuilt, {messages} messages written to a topic and read by "
        f"{len(executors)} executors"
    )


def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the process of the executor for which this one works. Raises OSError if it is none's."""
    for _ in batches:
        pid = os.getpid()
        while EXECUTOR not in Path(f"/proc/{pid}/cmdline").read_bytes():
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pa.RecordBatch.from_pylist([{"pid": pid}])


def check_rows(spark: SparkSession, store: Path) -> int:
    """Compare what executors read with what the plain reader reads; give how many rows they are."""
    reader = spark.read.format("rocketmq").options(columns=",".join(COLUMNS), maxBytesPerPartition=SPLIT)
    found = sorted(tuple(row) for row in reader.load(str(store)).collect())
    expected = sorted(tuple(row[name] for name in COLUMNS) for row in plain_rows(store))
    assert found == expected, "other rows than the plain reader's"
    return len(found)


def check_rebuild(spark: SparkSession, folder: Path) -> int:
    """Compare what executors rebuild with what one process does; give how many queues they are."""
    alone, apart = (copied(folder / STORE, folder / name) for name in ("alone", "apart"))
    rebuild_alone(alone, SETTINGS)
    rebuilt = rebuild(spark, apart, SETTINGS, bytes_per_task=SPLIT)
    for name in DERIVED:
        assert contents(apart / name) == contents(alone / name), f"other bytes in {name}"
    return rebuilt.queues


def check_topics(spark: SparkSession, folder: Path) -> int:
    """Compare what executors read of a topic with what they wrote to it; return the count of messages."""
    with in_thread(folder / "live") as live:
        rows = spark.range(0, MESSAGES, 1, TASKS).selectExpr("string(id) AS body")
        rows.write.format("rocketmq").options(namesrv=live.name_server, topic="numbers").mode("append").save()
        reader = spark.read.format("rocketmq").options(namesrv=live.name_server, subscribe="numbers")
        read = reader.options(minPartitions=TASKS).load().selectExpr("int(string(body)) AS number")
        assert sorted(row["number"] for row in read.collect()) == list(range(MESSAGES)), "other messages"
    return MESSAGES


def copied(store: Path, place: Path) -> Path:
    """Copy a store."""
    return Path(shutil.copytree(store, place, ignore=shutil.ignore_patterns("timer*")))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
