"""Join an archive and the messages behind it in one DataFrame, without gap or overlap.

The end of the archive is read once, when the frame is built: as a CommitLog offset for files, as queue
offsets for live topics. A job that archives more meanwhile does not change the frame.
"""

import json
from collections.abc import Collection, Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.format.sys_flag import TRANSACTION_MASK
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.export.archive import IN_QUEUE, STATE, archive_end
from cometmq.spark.jobs.export.filled import archived
from cometmq.spark.jobs.export.targets import target_of
from cometmq.spark.jobs.ranges import LogRange, records
from cometmq.spark.live import options as live_options
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.offsets import EARLIEST, nested
from cometmq.spark.schema import BROKER, COLUMNS

log = get_logger(__name__)


def with_files(
    spark: SparkSession,
    target: Path | str,
    store: Path | str,
    *,
    topics: Collection[str] | None = None,
    columns: Collection[str] = tuple(COLUMNS),
    broker: str | None = None,
) -> DataFrame:
    """Return all messages of a store: the archive's, and behind its end those of the store's files.

    ``broker`` is the value of this column for the files; for the archive it is that of ``archive``.
    Raises SettingsError if there is no store.
    """
    place, root, names = path_of(target).absolute(), path_of(store).absolute(), _names(columns)
    end, _ = archive_end(target_of(place, STATE))
    files = log_files(root)
    first = files[0].base_offset if files else end
    if first > end > 0:
        log.warning("%s: %d bytes of log from %d on are in no archive and no file", root, first - end, end)
    chosen = None if topics is None else frozenset(topics)
    newer = records(spark, files, names, LogRange(end), topics=chosen, broker=broker)
    return archived(spark, place, end, names, chosen).unionByName(newer)


def with_live(
    spark: SparkSession,
    targets: Mapping[str, Path | str],
    namesrv: str,
    topics: Collection[str],
    *,
    columns: Collection[str] = tuple(COLUMNS),
    options: Mapping[str, str] = {},
) -> DataFrame:
    """Return all messages of topics: the archives', and behind each queue's end there the brokers'.

    Messages that are in no queue, those of uncommitted transactions, are left out.

    Args:
        targets: the archive of each broker's store, by the name of the broker.
        namesrv: name servers, ``host:port``, several joined by ``;``.
        options: more options of the live read (``live.options``): ``failOnDataLoss`` decides whether messages
            that were removed before they were archived are an error.

    Raises:
        NoRoute: there is no such topic.
        NetworkError: no name server responds.
    """
    ends: dict[MessageQueue, int] = {}
    names = _names(columns)
    older: list[DataFrame] = []
    for broker_name, target in targets.items():
        place = path_of(target).absolute()
        end, queues = archive_end(target_of(place, STATE))
        ends |= {
            MessageQueue(topic, broker_name, queue_id): behind for (topic, queue_id), behind in queues.items()
        }
        one = archived(spark, place, end, tuple(COLUMNS), frozenset(topics))
        older.append(one.withColumn(BROKER, f.lit(broker_name)))
    read_options = {
        **options,
        "namesrv": namesrv,
        "subscribe": ",".join(topics),
        "columns": ",".join(names),
    }
    with Cluster(live_options.parse(read_options)) as cluster:
        begins = nested({queue: ends.get(queue, EARLIEST) for queue in cluster.queues()})
    newer = spark.read.format("rocketmq").options(**read_options, startingOffsets=json.dumps(begins)).load()
    in_queue = f.col("sys_flag").bitwiseAND(TRANSACTION_MASK).isin(*IN_QUEUE)
    return reduce(DataFrame.unionByName, (one.where(in_queue).select(*names) for one in older), newer)


def _names(columns: Collection[str]) -> tuple[str, ...]:
    """Return the names of columns that are given in any case."""
    return tuple(name.lower() for name in columns)
