"""Compute the numbers of a report page's charts, which are JSON in the page."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from cometmq.spark.jobs.report.buckets import Buckets
from cometmq.spark.jobs.report.hot import HotQueue
from cometmq.spark.jobs.report.report import Report, TopicReport, Volume

SPARKLINES_MAX: Final = 300
"""Topics with a sparkline, those with the most bytes."""
CHARTED_MAX: Final = 12
"""Topics with charts of their own, in the same order."""
HOT_SHOWN_MAX: Final = 20
"""Topics whose hot keys and queues are shown, in the same order."""
QUEUES_MAX: Final = 100
"""Queues in one chart, the fullest."""
QUEUE_CHARTS_MAX: Final = 3
"""Charts of one topic's queues, for the stores with the hottest queues."""


class Series(msgspec.Struct, frozen=True):
    """The messages in each bucket of time.

    Attributes:
        bytes: of the log; None where they are not charted.
        latency_ms: the 99th percentile of the slowest queue; None in a bucket without messages.
    """

    messages: list[int]
    bytes: list[int] | None = None
    latency_ms: list[int | None] | None = None


class QueueSeries(msgspec.Struct, frozen=True):
    """The messages of a topic in a store by queue, of at most ``QUEUES_MAX`` queues, the fullest.

    Attributes:
        ids: queue ids, ascending.
        messages: of each of them.
        hot: ids of hot queues.
        left_out: number of the other queues.
    """

    topic: str
    store: str
    ids: list[int]
    messages: list[int]
    hot: list[int]
    left_out: int


class Charts(msgspec.Struct, frozen=True):
    """The numbers of all charts.

    Attributes:
        buckets: of time, for all series.
        total: of all topics.
        topics: of the first ``SPARKLINES_MAX`` topics of the report.
        queues: of the first ``HOT_SHOWN_MAX`` topics with hot keys or queues, in stores with a hot queue.
        left_out: messages whose store time is in no bucket.
    """

    buckets: Buckets
    total: Series
    topics: list[Series]
    queues: list[QueueSeries]
    left_out: int


def charts(report: Report) -> Charts:
    """Compute the numbers of a report's charts."""
    of_topic: defaultdict[str, list[Volume]] = defaultdict(list)
    for volume in report.volumes:
        of_topic[volume.topic].append(volume)
    names = [topic.topic for topic in report.topics[:SPARKLINES_MAX]]
    split = report.buckets
    total = series(report.volumes, split)
    return Charts(
        split,
        total,
        [
            series(of_topic[name], split) if place < CHARTED_MAX else Series(_messages(of_topic[name], split))
            for place, name in enumerate(names)
        ],
        [
            queues
            for topic in hot_topics(report)[:HOT_SHOWN_MAX]
            for queues in _queues(topic, of_topic[topic.topic])
        ],
        sum(volume.messages for volume in report.volumes) - sum(total.messages),
    )


def hot_topics(report: Report) -> list[TopicReport]:
    """Return the topics with a hot key or a hot queue."""
    return [topic for topic in report.topics if topic.hot_keys or topic.hot_queues]


def series(volumes: Iterable[Volume], split: Buckets) -> Series:
    """Count messages, bytes and latency by bucket."""
    volumes = list(volumes)
    sizes = [0] * split.count
    latencies: list[int | None] = [None] * split.count
    for volume in volumes:
        index = split.index(volume.bucket)
        if index is not None:
            sizes[index] += volume.bytes
            slowest = latencies[index]
            p99 = volume.latency_ms.p99
            latencies[index] = p99 if slowest is None else max(slowest, p99)
    return Series(_messages(volumes, split), sizes, latencies)


def _messages(volumes: Iterable[Volume], split: Buckets) -> list[int]:
    counts = [0] * split.count
    for volume in volumes:
        index = split.index(volume.bucket)
        if index is not None:
            counts[index] += volume.messages
    return counts


def _queues(topic: TopicReport, volumes: Iterable[Volume]) -> list[QueueSeries]:
    by_store: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for volume in volumes:
        by_store[volume.store][volume.queue_id] += volume.messages
    hot: defaultdict[str, list[HotQueue]] = defaultdict(list)
    for queue in topic.hot_queues:
        hot[queue.store].append(queue)
    shown = list(hot.items())[:QUEUE_CHARTS_MAX]
    return [_of_store(topic.topic, store, by_store[store], queues) for store, queues in shown]


def _of_store(topic: str, store: str, messages: Counter[int], hot: Sequence[HotQueue]) -> QueueSeries:
    for queue_id in range(hot[0].queues):
        messages[queue_id] += 0  # adds queues without messages
    ids = sorted(queue_id for queue_id, _ in messages.most_common(QUEUES_MAX))
    shown = sorted({queue.queue_id for queue in hot}.intersection(ids))
    left_out = len(messages) - len(ids)
    return QueueSeries(topic, store, ids, [messages[queue_id] for queue_id in ids], shown, left_out)
