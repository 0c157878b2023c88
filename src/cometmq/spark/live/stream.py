"""Read live topics as a stream.

Theory of operation. Spark keeps the queue offsets up to which each micro-batch reads in the query's
checkpoint before it reads, so after a crash the same messages are read again as the same batch. A queue
that appears while the query runs is added with its first offset by one batch and read from there by the
next: so its first offset, too, is in the checkpoint.
"""

from collections.abc import Collection, Iterator
from itertools import islice
from time import monotonic
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from cometmq.errors import CometMQError, NoRoute
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.spark.live import first_messages, offsets
from cometmq.spark.live.batch import available, check_begins, check_subscription, plan_tasks
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.first_messages import compare, with_first_messages
from cometmq.spark.live.limits import FairLimits
from cometmq.spark.live.loss import SHOWN_MAX, report_loss, report_recreated
from cometmq.spark.live.offsets import NestedOffsets, Offsets
from cometmq.spark.live.options import LiveOptions
from cometmq.spark.live.positions import Latest
from cometmq.spark.live.ranges import QueueRange
from cometmq.spark.live.survey import Extents, TopicOnBroker, covers, topics_on_brokers

CHECKPOINT: Final = "the offsets in the checkpoint"

log = get_logger(__name__)


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The stream reader. All but ``read`` runs in one process of the driver, as long as the query runs."""

    def __init__(self, options: LiveOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._opened: Cluster | None = None
        self._target: Extents | None = None
        self._seen: Offsets = {}
        self._reported: tuple[Offsets, NestedOffsets] = {}, {}
        self._started: tuple[dict[str, Any], Offsets] = {}, {}
        self._ignored: set[MessageQueue] = set()
        self._waits_since: float | None = None
        self._committed: NestedOffsets | None = None
        self._limits = FairLimits()

    def initialOffset(self) -> NestedOffsets:  # noqa: N802  Spark's name
        """Return the offsets at which a new query begins.

        Raises NoRoute, SettingsError, NetworkError or RemoteError like ``LiveReader.partitions``.
        """
        with Cluster(self._options, at_one_time=True) as cluster:
            queues = cluster.wait_for_brokers()
            check_subscription(self._options.subscription, queues)
            start = self._options.start
            found = cluster.resolve(Latest() if start is None else start, queues, "startingOffsets")
            check_begins(self._options, cluster, found, "they are read from their beginning")
            extents = cluster.extents(queues)
            firsts = compare({}, extents, topics_on_brokers(extents), cluster.first_messages).known
        return with_first_messages(offsets.nested(found), firsts)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  Spark's name
        """Return one of the limits, so that Spark knows that there are some; ``latestOffset`` keeps all."""
        if self._options.offsets_per_trigger is not None:
            return ReadMaxRows(self._options.offsets_per_trigger)
        if self._options.bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.bytes_per_trigger)
        if self._options.offsets_per_trigger_min is not None:
            return ReadMinRows(self._options.offsets_per_trigger_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        """Read the messages that are in the queues now, and none that come later."""
        self._target = self._cluster.all_extents()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NestedOffsets:  # noqa: N802  Spark's name
        """Return the offsets up to which the next micro-batch reads.

        Raises:
            NetworkError: a broker did not respond for ``retrySeconds``.
            NoRoute: a queue is missing for as long (``failOnDataLoss``).
            StoreDamaged: messages are lost (``failOnDataLoss``).
            RemoteError: a broker refuses the request.
        """
        self.commit(start)  # Spark itself commits a batch only once there is another one
        if start != self._started[0]:  # without messages it is the one before, of very many queues perhaps
            self._started = start, offsets.read(CHECKPOINT, start)
        begins = self._started[1]
        firsts = first_messages.read(CHECKPOINT, start)
        extents = self._extents(begins) if self._target is None else self._whole_target(begins)
        self._seen = {queue: extent.end for queue, extent in extents.items()}
        young = {queue: extent.first for queue, extent in extents.items() if queue not in begins}
        if young:
            shown = dict(islice(young.items(), SHOWN_MAX))
            log.warning("%d new queues are read from their beginning, such as %s", len(young), shown)
            return with_first_messages(offsets.nested(begins | young), firsts)
        news = {queue: extent for queue, extent in extents.items() if extent.end != begins[queue]}
        if not news:
            return start
        compared = compare(firsts, extents, topics_on_brokers(news), self._cluster.first_messages)
        ends = begins | self._restarted(begins, extents, compared.recreated)
        if not isinstance(limit, ReadAllAvailable):
            ends = self._admitted(begins, ends, extents)
        ends = begins | ends
        return start if ends == begins else with_first_messages(offsets.nested(ends), compared.known)

    def reportLatestOffset(self) -> NestedOffsets | None:  # noqa: N802  Spark's name
        """Return the ends of the queues when the last micro-batch was planned, as far as they were known."""
        if self._seen != self._reported[0]:
            self._reported = self._seen, offsets.nested(self._seen)
        return self._reported[1] or None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Plan the tasks of a micro-batch."""
        begins, ends = offsets.read(CHECKPOINT, start), offsets.read(CHECKPOINT, end)
        ranges = [
            QueueRange(queue, begins.get(queue, offset), offset) for queue, offset in sorted(ends.items())
        ]
        return plan_tasks(
            self._options, self._cluster, available(self._options, self._cluster, ranges, is_part=True)
        )

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Read the messages of a task, in batches. Raises like ``reading.read``."""
        from cometmq.spark.live.reading import read  # noqa: PLC0415  numpy and more, for tasks alone

        ranges: list[QueueRange] = (partition and partition.value) or []
        return read(self._options, self._columns, ranges)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the group's offsets to the brokers; the checkpoint does not depend on them."""
        if self._options.group is None or end == self._committed:
            return
        try:
            before = offsets.read(CHECKPOINT, self._committed or {})
            news = offsets.read(CHECKPOINT, end).items() - before.items()
            self._cluster.commit(dict(news))
            self._committed = end
        except CometMQError as error:
            log.warning("group %s: the brokers do not have its offsets: %s", self._options.group, error)

    def stop(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _cluster(self) -> Cluster:
        """The connected cluster; opened at first use, as the reader is also sent to executors."""
        if self._opened is None:
            self._opened = Cluster(self._options)
        return self._opened

    def _whole_target(self, begins: Offsets) -> Extents:
        """Return the target of AvailableNow, completed by queues whose broker was away when it was fixed."""
        target = self._target or {}
        away = begins.keys() - target.keys() - self._ignored
        if away:
            extents = self._extents(begins)
            self._target = target = {queue: extents[queue] for queue in away & extents.keys()} | target
        return target

    def _extents(self, begins: Offsets) -> Extents:
        """Return all queues with their first and end offsets; wait for those that were read before."""
        extents = self._cluster.all_extents()
        self._ignored -= extents.keys()
        missing = begins.keys() - extents.keys() - self._ignored
        unwanted = {queue for queue in missing if not covers(self._options.subscription, queue)}
        self._ignore(unwanted, "queues in the checkpoint are no longer subscribed to")
        if missing - unwanted:
            self._cluster.wait_for_queues(missing - unwanted)
            extents = self._cluster.all_extents()
            missing -= extents.keys()
            self._ignore(missing - unwanted, "no broker known to the name server has these queues")
        return extents

    def _ignore(self, queues: Collection[MessageQueue], why: str) -> None:
        """Log that queues are left out from now on. Raises NoRoute unless ``failOnDataLoss`` is false."""
        if not queues:
            return
        shown = ", ".join(" ".join(map(str, queue)) for queue in sorted(queues)[:SHOWN_MAX])
        more = f" and {len(queues) - SHOWN_MAX} more" if len(queues) > SHOWN_MAX else ""
        if self._options.fail_on_data_loss:
            raise NoRoute(f"{why}: {shown}{more}; with failOnDataLoss false the query goes on without them")
        log.warning("%s: %s%s", why, shown, more)
        self._ignored |= set(queues)

    def _restarted(self, begins: Offsets, extents: Extents, recreated: Collection[TopicOnBroker]) -> Offsets:
        """Return the ends of the queues; of a recreated one its first offset, where the next batch starts.

        A queue is recreated if it ends before its offset, or its topic was ``recreated`` on its broker.
        """
        if recreated:
            report_recreated(self._options, recreated)
        remade = [queue for queue in extents if (queue.topic, queue.broker_name) in recreated]
        shorter = [queue for queue, extent in extents.items() if extent.end < begins[queue]]
        if shorter:
            lost = [QueueRange(queue, extents[queue].end, begins[queue]) for queue in shorter]
            why = "they were read, and the queue is shorter now, as if it had been made anew"
            report_loss(self._options, lost, why)
        ends = {queue: extent.end for queue, extent in extents.items()}
        return ends | {queue: extents[queue].first for queue in [*shorter, *remade]}

    def _admitted(self, begins: Offsets, ends: Offsets, extents: Extents) -> Offsets:
        """Cut the ends of a micro-batch to the limits."""
        waiting = sum(max(end - begins[queue], 0) for queue, end in ends.items())
        if self._waits_for_more(waiting):
            return begins
        begins = begins | {  # expired messages take up no limit
            queue: min(max(begins[queue], extents[queue].first), ends[queue])
            for queue, end in ends.items()
            if end > begins[queue]
        }
        if self._options.offsets_per_trigger is not None:
            ends = self._limits.admit(begins, ends, self._options.offsets_per_trigger)
        if self._options.bytes_per_trigger is not None:
            ranges = [
                QueueRange(queue, begins[queue], end) for queue, end in ends.items() if end > begins[queue]
            ]
            sizes = self._cluster.record_sizes(ranges)
            ends = self._limits.admit(
                begins, ends, self._options.bytes_per_trigger, lambda queue: sizes[queue]
            )
        return ends

    def _waits_for_more(self, waiting: int) -> bool:
        """Check whether to wait for more messages: there are too few, and ``maxTriggerDelay`` is not over."""
        least = self._options.offsets_per_trigger_min
        if least is None or self._target is not None or waiting >= least:
            self._waits_since = None
            return False
        now = monotonic()
        if self._waits_since is None:
            self._waits_since = now
        if now - self._waits_since < self._options.trigger_delay_s:
            return True
        self._waits_since = None
        return False
