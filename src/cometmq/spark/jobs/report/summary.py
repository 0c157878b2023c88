"""Build the figures at the top of a report page: totals and rates of all stores, and totals of each."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from cometmq.spark.jobs.report.buckets import SECOND_MS
from cometmq.spark.jobs.report.report import Report
from cometmq.spark.jobs.report.texts import breakable, counted, rate_text, size_text, span_text, time_text


class Tile(NamedTuple):
    """A figure of the summary, with its label and a note as HTML."""

    label: str
    figure: str
    note: Markup


class StoreTotal(NamedTuple):
    """The totals of one of several stores."""

    store: str
    topics: int
    messages: int
    bytes: int


def tiles(report: Report, by_bucket: Sequence[int]) -> list[Tile]:
    """Build the figures of a report with messages; ``by_bucket`` are the counts of all topics' messages."""
    messages, size = sum(one.messages for one in report.topics), sum(one.bytes for one in report.topics)
    queues = {(one.store, one.topic, one.queue_id) for one in report.volumes}
    of = counted(len(report.topics), "topic"), counted(len(queues), "queue")
    return [
        Tile("Messages", f"{messages:,}", Markup("of {}<br>in {}").format(*of)),
        Tile("Log", size_text(size), Markup("{} a message").format(size_text(size / messages))),
        *_rates(report, size, by_bucket),
        *_lag(report),
    ]


def _rates(report: Report, size: int, by_bucket: Sequence[int]) -> list[Tile]:
    if report.first_time is None or report.last_time is None:
        return []
    span_ms, step_ms = report.last_time - report.first_time, report.buckets.step_ms
    first, last = (time_text(time, step_ms) for time in (report.first_time, report.last_time))
    times = Tile("Time", span_text(span_ms), Markup("{}<br>to {}").format(first, last))
    if not span_ms:
        return [times]
    peak = max(by_bucket)
    begin = time_text(report.buckets.begin(by_bucket.index(peak)), step_ms)
    log_rate = Markup("{}/s of log").format(size_text(size * SECOND_MS / span_ms))
    peak_time = Markup("in {} from<br>{}").format(span_text(step_ms), begin)
    return [
        times,
        Tile("Average rate", rate_text(sum(by_bucket), span_ms), log_rate),
        Tile("Peak rate", rate_text(peak, step_ms), peak_time),
    ]


def _lag(report: Report) -> list[Tile]:
    if not report.lags:
        return []
    longest = max(report.lags, key=lambda lag: lag.messages)
    note = Markup("of {} on {}").format(breakable(longest.group), breakable(longest.topic))
    return [Tile("Longest lag", f"{longest.messages:,}", note)]


def totals(report: Report) -> list[StoreTotal]:
    """Compute the totals of each store."""
    topics: defaultdict[str, set[str]] = defaultdict(set)
    messages: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for volume in report.volumes:
        topics[volume.store].add(volume.topic)
        messages[volume.store] += volume.messages
        sizes[volume.store] += volume.bytes
    return [StoreTotal(store, len(topics[store]), messages[store], sizes[store]) for store in report.stores]
