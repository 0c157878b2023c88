"""Report the lag of streams of topics in the log and to Prometheus.

Spark's Kafka source puts ``minOffsetsBehindLatest`` and the like into a query's progress. A source in Python
cannot: the progress has no figures of such a source (``metrics`` stays empty), only the ends of the queues
when the micro-batch was planned (``latestOffset``, from ``reportLatestOffset``). So a listener compares these
with the offsets up to which the micro-batch has read.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import UUID

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from cometmq.errors import SettingsError
from cometmq.extras import require
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.spark.live import offsets
from cometmq.spark.live.offsets import Offsets

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

GAUGE: Final = "cometmq_stream_offsets_behind_latest"

log = get_logger(__name__)


class StreamLag(NamedTuple):
    """The lag of a stream: messages of its queues that it has not read yet.

    Attributes:
        total: of all queues.
        least: of the queue with the fewest; ``most`` of the queue with the most.
        average: of all queues.
    """

    queues: int
    total: int
    least: int
    most: int
    average: float

    def __str__(self) -> str:
        return (
            f"{self.total:,} messages behind in {self.queues:,} queues: "
            f"min {self.least:,}, max {self.most:,}, avg {self.average:,.1f}"
        )


class LagListener(StreamingQueryListener):
    """Logs the lag of a query of topics after each micro-batch, at level INFO.

    ::

        spark.streams.addListener(LagListener(prometheus=True))

    Queries of other sources are ignored.

    Args:
        prometheus: also keeps gauges by query and topic, ``cometmq_stream_offsets_behind_latest_min``,
            ``…_max`` and ``…_avg``, while the query runs. The label of a query is its name, or its id.
        registry: of the gauges; Prometheus's default registry by default.

    Raises:
        MissingExtra: ``prometheus`` is True, and the package prometheus-client is not there.
    """

    def __init__(self, *, prometheus: bool = False, registry: "CollectorRegistry | None" = None) -> None:
        self._gauges = _LagGauges(registry) if prometheus else None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        """Do nothing: there is nothing to compare yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        """Log the lag of the query, and set its gauges."""
        progress = event.progress
        behind = offsets_behind(progress)
        if not behind:
            return
        query = progress.name or str(progress.id)
        log.info("stream %s: %s", query, lag_of(behind.values()))
        if self._gauges is not None:
            self._gauges.show(progress.runId, query, behind)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """Remove the gauges of the query."""
        if self._gauges is not None:
            self._gauges.remove(event.runId)


def offsets_behind(progress: StreamingQueryProgress) -> Offsets:
    """Return the number of messages in each queue that a stream had not read when a micro-batch was planned.

    Queues whose end is not known are left out, and so are other sources.
    """
    behind: Offsets = {}
    for source in progress.sources:
        ends, latest = _read(source.endOffset), _read(source.latestOffset)
        for queue in ends.keys() & latest.keys():
            behind[queue] = max(latest[queue] - ends[queue], behind.get(queue, 0), 0)
    return behind


def lag_of(behind: Iterable[int]) -> StreamLag:
    """Summarise the lag of one or more queues."""
    counts = list(behind)
    total = sum(counts)
    return StreamLag(len(counts), total, min(counts), max(counts), total / len(counts))


def _read(text: str) -> Offsets:
    """Read offsets as this source writes them; none from another source's text, or an empty one."""
    try:
        return offsets.read("", json.loads(text))
    except (ValueError, RecursionError, SettingsError):
        return {}


class _LagGauges:
    """The Prometheus gauges of the running queries."""

    def __init__(self, registry: "CollectorRegistry | None") -> None:
        require("metrics", "LagListener(prometheus=True)")
        from prometheus_client import REGISTRY, Gauge  # noqa: PLC0415  an optional package

        self._shown: dict[UUID, set[tuple[str, str]]] = {}
        self._least, self._most, self._average = (
            Gauge(
                f"{GAUGE}_{kind}",
                f"Messages of a topic that a stream has not read yet, {what} over its queues",
                ("query", "topic"),
                registry=registry or REGISTRY,
            )
            for kind, what in (("min", "least"), ("max", "most"), ("avg", "average"))
        )

    def show(self, run_id: UUID, query: str, behind: Mapping[MessageQueue, int]) -> None:
        """Set a query's gauges, and remove those of topics that it no longer reads."""
        by_topic: dict[str, list[int]] = {}
        for queue, count in behind.items():
            by_topic.setdefault(queue.topic, []).append(count)
        for topic, counts in by_topic.items():
            lag = lag_of(counts)
            self._least.labels(query, topic).set(lag.least)
            self._most.labels(query, topic).set(lag.most)
            self._average.labels(query, topic).set(lag.average)
        shown = {(query, topic) for topic in by_topic}
        self._remove_labels(self._shown.get(run_id, set()) - shown)
        self._shown[run_id] = shown

    def remove(self, run_id: UUID) -> None:
        """Remove a query's gauges, unless a later run has set them."""
        shown = self._shown.pop(run_id, set())
        self._remove_labels(shown.difference(*self._shown.values()))

    def _remove_labels(self, labels: Iterable[tuple[str, str]]) -> None:
        for query, topic in labels:
            for gauge in (self._least, self._most, self._average):
                gauge.remove(query, topic)
