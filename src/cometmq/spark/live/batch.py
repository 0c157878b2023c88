"""The batch reader of live topics: plans its tasks on the driver, and reads one of them on an executor."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from cometmq.errors import NoRoute, SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.filters import LIVE, Pushed, both, push, spark_pushes
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.loss import SHOWN_MAX, tell_loss
from cometmq.spark.live.offsets import EARLIEST, LATEST, Offsets
from cometmq.spark.live.options import LiveOptions, TopicChoice
from cometmq.spark.live.positions import At, ByTime, Committed, Earliest, Latest, Since, Until
from cometmq.spark.live.ranges import QueueRange, split
from cometmq.spark.worker import settle

RECORDS_PER_PARTITION_MAX: Final = 100_000
"""Messages that one task reads where the options say nothing."""

log = logging.getLogger(__name__)


class LiveReader(DataSourceReader):
    """Reads what lies between two positions of each queue."""

    def __init__(self, options: LiveOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._pushed = Pushed()

    def partitions(self) -> list[InputPartition]:
        """Give the tasks.

        Raises:
            NoRoute: there is no such topic or queue.
            SettingsError: positions are not of the queues that are read, or end before they begin, or begin
                behind a queue's end (``failOnDataLoss``): names it.
            StoreDamaged: messages are gone (``failOnDataLoss``): names them.
            NetworkError: a broker does not answer for ``retrySeconds``: names it.
            RemoteError: it refuses.
        """
        with Cluster(self._options, at_one_time=True) as cluster:
            ranges = self._ranges(cluster)
            made = [InputPartition(ranges)] if self._options.limit else parts(self._options, cluster, ranges)
        settle()
        return made

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Give the messages of a task, in batches. Raises like ``reading.read``."""
        from cometmq.spark.live.reading import read  # noqa: PLC0415  numpy and more, for tasks alone

        ranges: list[QueueRange] = (
            partition and partition.value
        ) or []  # a read without partitions gets None
        return read(self._options, self._columns, ranges)

    def _ranges(self, cluster: Cluster) -> list[QueueRange]:
        queues = cluster.subscribed()
        check_there(self._options.subscription, queues)
        start = self._options.start
        begins = cluster.resolve(Earliest() if start is None else start, queues, "startingOffsets")
        ends = cluster.resolve(self._options.end, queues, "endingOffsets")
        if isinstance(self._options.start, At | ByTime) and isinstance(self._options.end, At | ByTime):
            _check_order(begins, ends)
        check_begins(self._options, cluster, begins, "nothing is read of them")
        ranges = [QueueRange(queue, begins[queue], ends[queue]) for queue in sorted(queues)]
        return self._narrowed(cluster, readable(self._options, cluster, ranges))

    def _narrowed(self, cluster: Cluster, ranges: list[QueueRange]) -> list[QueueRange]:
        """Give what pushed filters leave of the ranges."""
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
    """A reader that takes WHERE clauses. Spark fails one unless its setting allows to push them."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  Spark's name
        """Take what can be taken; return those that Spark still has to apply."""
        self._pushed, left = push(filters, LIVE)
        if self._pushed.tags is not None:
            self._options = replace(self._options, tags=both(self._options.tags, self._pushed.tags))
        return left


def reader_of(options: LiveOptions, columns: tuple[str, ...]) -> LiveReader:
    """Return the reader that the options ask for; by default it takes WHERE clauses if Spark has some.

    Not if there is a limit: the clauses are for the messages that it leaves.
    """
    pushes = spark_pushes() if options.push_filters is None else options.push_filters
    takes = pushes and options.limit is None
    return FilteringReader(options, columns) if takes else LiveReader(options, columns)


def parts(options: LiveOptions, cluster: Cluster, ranges: list[QueueRange]) -> list[InputPartition]:
    """Give the tasks that read ranges."""
    total = sum(one.size for one in ranges)
    most = min(options.records_per_partition or _even_share(total), max(total // options.min_partitions, 1))
    bytes_max = options.bytes_per_partition
    if bytes_max is None:
        return [InputPartition(part) for part in split(ranges, lambda _: most)]
    sizes = cluster.record_sizes(ranges)
    by_size = split(ranges, lambda queue: min(most, max(bytes_max // sizes[queue], 1)))
    return [InputPartition(part) for part in by_size]


def readable(options: LiveOptions, cluster: Cluster, ranges: Iterable[QueueRange]) -> list[QueueRange]:
    """Return what of the ranges brokers have, having reported what they have not.

    Raises StoreDamaged for what is gone (``failOnDataLoss``), and RemoteError if a broker refuses any pull.
    """
    some = [one for one in ranges if one.size > 0]
    extents = cluster.extents([one.queue for one in some])
    gone, there = [], []
    for one in some:
        first, behind = extents[one.queue]
        begin = min(max(one.start, first), one.end)
        end = max(min(one.end, behind), begin)
        gone += [one._replace(end=begin), one._replace(start=end)]
        there.append(one._replace(start=begin, end=end))
    tell_loss(options, [one for one in gone if one.size], "the brokers have none with these offsets")
    left = [one for one in there if one.size]
    cluster.check_pulls(left)
    return left


def check_there(subscription: TopicChoice, queues: Iterable[MessageQueue]) -> None:
    """Raise NoRoute if what is subscribed to by name is not there; a pattern may find nothing."""
    missing: Iterable[str] = ()
    if subscription.topics is not None:
        missing = subscription.topics - {queue.topic for queue in queues}
    elif subscription.queues is not None:
        there = {assigned for queue in queues for assigned in subscription.assigned(queue)}
        missing = [str(queue) for queue in subscription.queues - there]
    if missing:
        raise NoRoute(f"the name server knows no queue to read of {', '.join(sorted(missing))}")


def check_begins(options: LiveOptions, cluster: Cluster, begins: Offsets, otherwise: str) -> None:
    """Tell of queues that end before the offset that is asked for, by the user or for a group.

    Args:
        otherwise: what is done about them if that is no error.

    Raises SettingsError unless ``failOnDataLoss`` is false.
    """
    if not isinstance(options.start, At | Committed):
        return  # these are offsets that a queue has
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


def _even_share(total: int) -> int:
    """Give how much each task reads if there are 2, 4, 8 … of them.

    Cores come in such numbers, mostly: none of them is idle while another reads what is left.
    """
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
