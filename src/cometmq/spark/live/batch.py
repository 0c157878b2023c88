"""Read live topics as a batch: plan the tasks on the driver, read one of them on an executor."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from cometmq.errors import NoRoute, SettingsError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.spark.filters import LIVE, Pushed, both, push, spark_pushes
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.loss import SHOWN_MAX, report_loss
from cometmq.spark.live.offsets import EARLIEST, LATEST, Offsets
from cometmq.spark.live.options import LiveOptions, TopicChoice
from cometmq.spark.live.positions import At, ByTime, Committed, Earliest, Latest, Since, Until
from cometmq.spark.live.ranges import QueueRange, split
from cometmq.spark.worker import tune_worker

RECORDS_PER_PARTITION_MAX: Final = 100_000
"""Messages that one task reads by default."""

log = get_logger(__name__)


class LiveReader(DataSourceReader):
    """Reads the messages between two positions of each queue."""

    def __init__(self, options: LiveOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks.

        Raises:
            NoRoute: there is no such topic or queue.
            SettingsError: positions are of other queues, end before they begin, or begin behind a queue's
                end (``failOnDataLoss``).
            StoreDamaged: messages are gone (``failOnDataLoss``).
            NetworkError: a broker did not respond for ``retrySeconds``.
            RemoteError: a broker refuses the request.
        """
        with Cluster(self._options, at_one_time=True) as cluster:
            ranges = self._ranges(cluster)
            made = (
                [InputPartition(ranges)]
                if self._options.limit
                else plan_tasks(self._options, cluster, ranges)
            )
        tune_worker()
        return made

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the messages of a task, in batches. Raises like ``reading.read``."""
        from cometmq.spark.live.reading import read  # noqa: PLC0415  numpy and more, for tasks alone

        ranges: list[QueueRange] = (
            partition and partition.value
        ) or []  # a read without partitions gets None
        return read(self._options, self._columns, ranges)

    def _ranges(self, cluster: Cluster) -> list[QueueRange]:
        queues = cluster.wait_for_brokers()
        check_subscription(self._options.subscription, queues)
        start = self._options.start
        begins = cluster.resolve(Earliest() if start is None else start, queues, "startingOffsets")
        ends = cluster.resolve(self._options.end, queues, "endingOffsets")
        if isinstance(self._options.start, At | ByTime) and isinstance(self._options.end, At | ByTime):
            _check_order(begins, ends)
        check_begins(self._options, cluster, begins, "nothing is read of them")
        ranges = [QueueRange(queue, begins[queue], ends[queue]) for queue in sorted(queues)]
        return self._narrowed(cluster, available(self._options, cluster, ranges))

    def _narrowed(self, cluster: Cluster, ranges: list[QueueRange]) -> list[QueueRange]:
        """Cut the ranges by the pushed filters."""
        pushed = self._pushed
        if self._options.tags == frozenset():  # nothing can have two tags
            return []
        queues = [one.queue for one in ranges if _is_left(pushed, one.queue)]
        begins, ends = dict.fromkeys(queues, pushed.begin), dict.fromkeys(queues, pushed.end)
        if pushed.begin_time is not None:
            by_time = cluster.resolve(Since(pushed.begin_time), queues, "")
            begins = {queue: max(begin, by_time[queue]) for queue, begin in begins.items()}
        if pushed.end_time is not None:
            by_time = cluster.resolve(Until(pushed.end_time), queues, "")
            ends = {queue: min(end, by_time[queue]) for queue, end in ends.items()}
        cut = [
            QueueRange(queue, max(start, begins[queue]), min(end, ends[queue]))
            for queue, start, end in ranges
            if queue in begins
        ]
        return [one for one in cut if one.size > 0]


class FilteringReader(LiveReader):
    """A reader that applies WHERE clauses. Spark refuses it unless its setting allows to push them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Apply what clauses it can; return the filters that Spark still has to apply."""
        self._pushed, left = push(filters, LIVE)
        if self._pushed.tags is not None:
            self._options = replace(self._options, tags=both(self._options.tags, self._pushed.tags))
        return left


def reader_of(options: LiveOptions, columns: tuple[str, ...]) -> LiveReader:
    """Return the reader of a read; by default it applies WHERE clauses if Spark has some.

    With a limit the clauses apply to the messages within the limit, so Spark applies them.
    """
    pushes = spark_pushes() if options.push_filters is None else options.push_filters
    takes = pushes and options.limit is None
    return FilteringReader(options, columns) if takes else LiveReader(options, columns)


def plan_tasks(options: LiveOptions, cluster: Cluster, ranges: list[QueueRange]) -> list[InputPartition]:
    """Cut ranges into tasks."""
    total = sum(one.size for one in ranges)
    most = min(options.records_per_partition or even_share(total), max(total // options.min_partitions, 1))
    bytes_max = options.bytes_per_partition
    if bytes_max is None:
        return [InputPartition(part) for part in split(ranges, lambda _: most)]
    sizes = cluster.record_sizes(ranges)
    by_size = split(ranges, lambda queue: min(most, max(bytes_max // sizes[queue], 1)))
    return [InputPartition(part) for part in by_size]


def available(
    options: LiveOptions, cluster: Cluster, ranges: Iterable[QueueRange], *, is_part: bool = False
) -> list[QueueRange]:
    """Cut ranges to the offsets that brokers have, and report the rest as lost.

    Args:
        is_part: whether the ranges are of one micro-batch: all that is lost of a queue is reported then, also
            what later ones were to read.

    Raises StoreDamaged if some are lost (``failOnDataLoss``), and RemoteError if a broker refuses any pull.
    """
    some = [one for one in ranges if one.size > 0]
    extents = cluster.extents([one.queue for one in some])
    gone, there = [], []
    for one in some:
        first, behind = extents[one.queue]
        begin = min(max(one.start, first), one.end)
        end = max(min(one.end, behind), begin)
        lost_to = first if one.start < first and is_part else begin
        gone += [one._replace(end=lost_to), one._replace(start=end)]
        there.append(one._replace(start=begin, end=end))
    report_loss(options, [one for one in gone if one.size], "the brokers have none with these offsets")
    left = [one for one in there if one.size]
    cluster.check_pulls(left)
    return left


def check_subscription(subscription: TopicChoice, queues: Iterable[MessageQueue]) -> None:
    """Raise NoRoute if a topic or queue that is subscribed to by name is missing; patterns may match none."""
    missing: Iterable[str] = ()
    if subscription.topics is not None:
        missing = subscription.topics - {queue.topic for queue in queues}
    elif subscription.queues is not None:
        there = {assigned for queue in queues for assigned in subscription.assigned(queue)}
        missing = [str(queue) for queue in subscription.queues - there]
    if missing:
        raise NoRoute(f"the name server knows no queue to read of {', '.join(sorted(missing))}")


def check_begins(options: LiveOptions, cluster: Cluster, begins: Offsets, otherwise: str) -> None:
    """Report queues that end before the offset at which a read begins, by the user or a group's commit.

    Args:
        otherwise: for the message, what happens to such queues if that is no error.

    Raises SettingsError unless ``failOnDataLoss`` is false.
    """
    if not isinstance(options.start, At | Committed):
        return  # other positions are resolved to offsets that a queue has
    ends = cluster.resolve(Latest(), begins, "")
    behind = sorted(queue for queue, begin in begins.items() if begin > ends[queue])
    if not behind:
        return
    firsts = cluster.resolve(Earliest(), behind[:SHOWN_MAX], "")
    named = "; ".join(
        f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}: {begins[queue]} is asked "
        f"for, it begins at {firsts[queue]} and ends at {ends[queue]}"
        for queue in firsts
    )
    more = f"; and {len(behind) - SHOWN_MAX} more" if len(behind) > SHOWN_MAX else ""
    said = f"option startingOffsets: queues end before: {named}{more}"
    if options.fail_on_data_loss:
        raise SettingsError(
            f"{said}: give offsets up to the end, {LATEST} for the end or {EARLIEST} for the beginning; "
            f"with failOnDataLoss false {otherwise}"
        )
    log.warning("%s: %s", said, otherwise)


def even_share(total: int) -> int:
    """Return how many messages each of 2, 4, 8 … tasks reads: mostly as many as cores, so none is idle."""
    tasks = 1 << (-(-total // RECORDS_PER_PARTITION_MAX) - 1).bit_length()
    return max(-(-total // tasks), 1)


def _check_order(begins: Offsets, ends: Offsets) -> None:
    for queue, begin in begins.items():
        if begin > ends[queue]:
            raise SettingsError(
                f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id} is to be read up "
                f"to offset {ends[queue]}, before its start at {begin}: give a later end"
            )


def _is_left(pushed: Pushed, queue: MessageQueue) -> bool:
    return (pushed.topics is None or queue.topic in pushed.topics) and (
        pushed.queue_ids is None or queue.queue_id in pushed.queue_ids
    )
