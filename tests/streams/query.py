"""Two streams of one topic, to Parquet and to another topic; run as a process of its own, to be killed.

    python -m tests.streams.query NAME_SERVER FOLDER [--drain]

With ``--drain`` it ends when everything is read, and prints what it finds then, as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from cometmq.spark import drop_duplicates, session

PER_TRIGGER: Final = 5_000


def main(name_server: str, folder: Path, *, drain: bool) -> None:
    """Run both streams."""
    spark = session("local[2]", work_dir=folder / "work", conf={"spark.sql.shuffle.partitions": "2"})
    trigger = {"availableNow": True} if drain else {"processingTime": "0 seconds"}
    numbers = (
        spark.readStream.format("rocketmq")
        .options(namesrv=name_server, subscribe="numbers", startingOffsets="earliest")
        .options(maxOffsetsPerTrigger=str(PER_TRIGGER), group="streams")
        .load()
    )
    rows = numbers.select("queue_id", "queue_offset", "body").writeStream.format("parquet")
    copies = numbers.select("body").writeStream.format("rocketmq")
    queries = [
        rows.option("checkpointLocation", str(folder / "rows-checkpoint"))
        .trigger(**trigger)
        .start(str(folder / "rows")),
        copies.options(namesrv=name_server, topic="copies")
        .option("checkpointLocation", str(folder / "copies-checkpoint"))
        .trigger(**trigger)
        .start(),
    ]
    for query in queries:
        query.awaitTermination()
    print(json.dumps(found(spark, name_server, folder)))


def found(spark: SparkSession, name_server: str, folder: Path) -> dict[str, int]:
    """Count what both streams have made."""
    rows = spark.read.parquet(str(folder / "rows"))
    copies = spark.read.format("rocketmq").options(namesrv=name_server, subscribe="copies").load()
    return {
        "rows": rows.count(),
        "places": rows.select("queue_id", "queue_offset").distinct().count(),
        "bodies": rows.select("body").distinct().count(),
        "copies": copies.count(),
        "copies_kept": drop_duplicates(copies).count(),
        "copied_bodies": copies.select("body").distinct().count(),
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), drain="--drain" in sys.argv)
