"""An archive and what is not archived yet, as one DataFrame without gap or overlap.

How far the archive goes is looked up once, when the frame is made: by place in the log for files, by queue
offset for live topics. A job that archives more meanwhile changes nothing in the frame.
"""

import json
import logging
from collections.abc import Collection, Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.format.sys_flag import TRANSACTION_MASK
from cometmq.io.files import Disk
from cometmq.message import MessageQueue
from cometmq.spark.jobs.archive import IN_QUEUE, PLACE, directories, notes
from cometmq.spark.jobs.paths import spark_path
from cometmq.spark.jobs.ranges import Range, records
from cometmq.spark.live import options as live_options
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.offsets import EARLIEST, written
from cometmq.spark.remote import path_of
from cometmq.spark.schema import BROKER, COLUMNS, spark_schema
from cometmq.spark.splits import log_files

log = logging.getLogger(__name__)


def with_files(
    spark: SparkSession,
    target: Path | str,
    store: Path | str,
    *,
    topics: Collection[str] | None = None,
    columns: Collection[str] = tuple(COLUMNS),
    broker: str | None = None,
) -> DataFrame:
    """Give all messages of a store: the archive's, and from its end on those of the store's files.

    ``broker`` is what the column of this name says of the files; of the archive what ``archive`` was told.
    Raises SettingsError if there is no store.
    """
    place, root, chosen = Path(target).absolute(), path_of(store).absolute(), tuple(columns)
    end = max((note.end for note in notes(Disk(), place)), default=0)
    files = log_files(root)
    first = files[0].base_offset if files else end
    if first > end > 0:
        log.warning("%s: %d bytes of log from %d on are in no archive and no file", root, first - end, end)
    asked = None if topics is None else frozenset(topics)
    newer = records(spark, files, chosen, Range(end), topics=asked, broker=broker)
    return _archived(spark, place, end, topics).select(*chosen).unionByName(newer)


def with_live(
    spark: SparkSession,
    targets: Mapping[str, Path | str],
    namesrv: str,
    topics: Collection[str],
    *,
    columns: Collection[str] = tuple(COLUMNS),
    options: Mapping[str, str] = {},
) -> DataFrame:
    """Give all messages of topics: the archives', and from the end of each queue there on the brokers'.

    Messages that are in no queue, those of transactions that were not committed, are left out.

    Args:
        targets: the archive of each broker's store, by the name of the broker.
        namesrv: name servers, ``host:port``, several joined by ``;``.
        options: further ones of the live read, as in ``live.options``: ``failOnDataLoss`` tells whether
            messages that were removed before they were archived are an error.

    Raises:
        NoRoute: there is no such topic.
        NetworkError: no name server answers.
    """
    ends: dict[MessageQueue, int] = {}
    archived: list[DataFrame] = []
    for broker_name, target in targets.items():
        place = Path(target).absolute()
        found = notes(Disk(), place)
        for note in found:
            ends |= {MessageQueue(topic, broker_name, queue_id): end for topic, queue_id, end in note.queues}
        one = _archived(spark, place, max((note.end for note in found), default=0), topics)
        archived.append(one.withColumn(BROKER, f.lit(broker_name)))
    asked = {**options, "namesrv": namesrv, "subscribe": ",".join(topics), "columns": ",".join(columns)}
    with Cluster(live_options.parse(asked)) as cluster:
        begins = written({queue: ends.get(queue, EARLIEST) for queue in cluster.queues()})
    newer = spark.read.format("rocketmq").options(**asked, startingOffsets=json.dumps(begins)).load()
    in_queue = f.col("sys_flag").bitwiseAND(TRANSACTION_MASK).isin(*IN_QUEUE)
    older = [frame.where(in_queue).select(*columns) for frame in archived]
    return reduce(DataFrame.unionByName, older, newer)


def _archived(spark: SparkSession, place: Path, end: int, topics: Collection[str] | None) -> DataFrame:
    """Give the messages of an archive before an offset; nothing is read for a later one."""
    paths = [
        spark_path(place / name)
        for name in directories(Disk(), place)
        if int(name.removeprefix(PLACE.format(""))) < end
    ]
    schema = spark_schema()
    frame = spark.read.schema(schema).parquet(*paths) if paths else spark.createDataFrame([], schema)
    return frame if topics is None else frame.where(f.col("topic").isin(*topics))
