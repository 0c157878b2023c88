"""Two streams of one topic, to Parquet and to another topic; run as a process of its own, to be killed.

    python -m tests.campaigns.spark.streams_query NAME_SERVER FOLDER [--retry-s N] [--drain [--count]]

With ``--drain`` it ends when everything is read, and with ``--count`` prints what it finds then, as JSON.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cometmq.spark import drop_duplicates, session, started

ROWS, COPIES = "rows", "copies"
OFFSETS_MAX: Final = 10_000
"""Of a micro-batch of the stream to Parquet."""
BYTES_MAX: Final = 2_000_000
"""Of a micro-batch of the stream to the other topic."""
LOOK_S: Final = 1
TOO_SLOW: Final = "Python worker failed to connect back"
"""Spark gives a stream's worker ten seconds to start, which a machine that is busy may not keep."""
CONF: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "100000",  # the campaign looks at all of them
}


def main(name_server: str, folder: Path, *, retry_s: int, drain: bool, count: bool) -> None:
    """Run both streams.

    Args:
        retry_s: how long they ask a broker again that is away.
    """
    spark = session("local[2]", work_dir=folder / "work", conf=CONF)
    trigger = {"availableNow": True} if drain else {"processingTime": "0 seconds"}

    def numbers(limit: str, most: int, group: str) -> DataFrame:
        reader = spark.readStream.format("rocketmq").option(limit, most)
        places = {"namesrv": name_server, "subscribe": "numbers", "startingOffsets": "earliest"}
        return reader.options(**places, retrySeconds=retry_s, group=group).load()

    rows = numbers("maxOffsetsPerTrigger", OFFSETS_MAX, ROWS)
    rows = rows.select("broker", "queue_id", "queue_offset", "body")
    copies = numbers("maxBytesPerTrigger", BYTES_MAX, COPIES).select("body")
    starts = [
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / f"{ROWS}-checkpoint"))
        .option("path", str(folder / ROWS))
        .trigger(**trigger)
        .start,
        copies.writeStream.format("rocketmq")
        .options(namesrv=name_server, topic="copies", retrySeconds=retry_s)
        .option("checkpointLocation", str(folder / f"{COPIES}-checkpoint"))
        .trigger(**trigger)
        .start,
    ]
    run(starts)
    if count:
        print(json.dumps(found(spark, name_server, folder)))


def run(starts: Sequence[Callable[[], StreamingQuery]]) -> None:
    """Run streams to their end; one again, if its worker did not start in time."""
    queries = {start: started(start()) for start in starts}
    while queries:
        for start, query in list(queries.items()):
            try:
                if query.awaitTermination(LOOK_S):
                    del queries[start]
            except StreamingQueryException as error:
                if TOO_SLOW not in str(error):
                    raise
                queries[start] = started(start())


def found(spark: SparkSession, name_server: str, folder: Path) -> dict[str, int]:
    """Count what both streams have made."""
    rows = spark.read.parquet(str(folder / ROWS))
    copies = spark.read.format("rocketmq").options(namesrv=name_server, subscribe="copies").load()
    return {
        "rows": rows.count(),
        "places": rows.select("broker", "queue_id", "queue_offset").distinct().count(),
        "bodies": rows.select("body").distinct().count(),
        "copies": copies.count(),
        "copies_kept": drop_duplicates(copies).count(),
        "copied_bodies": copies.select("body").distinct().count(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns.spark.streams_query")
    parser.add_argument("name_server")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--retry-s", type=int, default=60)
    parser.add_argument("--drain", action="store_true")
    parser.add_argument("--count", action="store_true")
    main(**vars(parser.parse_args()))
