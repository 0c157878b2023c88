"""A report as one HTML page that needs nothing else: no scripts, no files, plots as SVG.

Names of topics and keys are what producers made of them, so each text is escaped.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

from cometmq.spark.jobs.lags import Lag
from cometmq.spark.jobs.measures import HOUR_MS
from cometmq.spark.jobs.report import KeyCount, Report, TopicReport, Volume

PLOTTED_MAX: Final = 30
"""Topics with plots, those with the most bytes; all are in the table."""
BARS_MAX: Final = 168
"""In a plot: the hours of a week. Of longer times a bar is as many hours as it must be."""
WIDTH, HEIGHT, BASE, TOP = 640, 150, 130, 18
KEY_WIDTH: Final = 200

COLUMNS: Final = (
    *("topic", "messages", "bytes", "body p50", "p90", "p99", "max"),
    *("latency p50, ms", "p90", "p99", "max", "keys", "duplicate keys", "repeated ids"),
)

LAG_COLUMNS: Final = ("group", "topic", "lag", "store")

PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 15px/1.45 system-ui, sans-serif; max-width: 85rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }}
td, th {{ padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #8884; }}
td:first-child, th:first-child {{ text-align: left; overflow-wrap: anywhere; }}
figure {{ display: inline-block; margin: .5rem 1.5rem .5rem 0; }}
svg {{ max-width: 100%; font-size: 12px; }}
svg text {{ fill: currentColor; }}
svg rect {{ fill: #d95f02; }}
svg line {{ stroke: currentColor; opacity: .4; }}
</style>
</head>
<body>
<h1>{title}</h1>
{content}
</body>
</html>
"""


class Bar(NamedTuple):
    """A bar of a plot: its place among ``Plot.places``, its height, and what it stands for."""

    place: int
    value: int
    label: str


class Plot(NamedTuple):
    """Bars side by side; ``first`` and ``last`` say what the axis begins and ends with."""

    title: str
    bars: Sequence[Bar]
    places: int
    first: str
    last: str


def page(report: Report) -> str:
    """Give the page, as UTF-8 is to be written."""
    of_topic: defaultdict[str, list[Volume]] = defaultdict(list)
    for volume in report.volumes:
        of_topic[volume.topic].append(volume)
    plotted = report.topics[:PLOTTED_MAX]
    left_out = len(report.topics) - len(plotted)
    parts = [
        _summary(report),
        _table(COLUMNS, (_cells(topic) for topic in report.topics)),
        _lags(report.lags),
        *(_section(topic, of_topic[topic.topic]) for topic in plotted),
        f"<p>{left_out:,} topics with fewer bytes have no plots.</p>" if left_out else "",
    ]
    title = "What is in " + (report.stores[0] if len(report.stores) == 1 else f"{len(report.stores)} stores")
    return PAGE.format(title=escape(title), content="\n".join(filter(None, parts)))


def svg(plot: Plot) -> str:
    """Draw a plot; pointing at a bar shows what it stands for. A value below 0 has no bar."""
    step = WIDTH / max(plot.places, 1)
    highest = max((bar.value for bar in plot.bars), default=0)
    drawn = [
        f'<rect x="{bar.place * step:.1f}" y="{BASE - height:.1f}" width="{max(step * 0.85, 0.5):.1f}" '
        f'height="{height:.1f}"><title>{escape(f"{bar.label}: {bar.value:,}")}</title></rect>'
        for bar in plot.bars
        for height in [max(bar.value, 0) / max(highest, 1) * (BASE - TOP)]
    ]
    return "\n".join(
        [
            f"<figure><figcaption>{escape(plot.title)}</figcaption>",
            f'<svg role="img" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}">',
            f'<text x="0" y="12">{highest:,}</text>',
            *drawn,
            f'<line x1="0" y1="{BASE}" x2="{WIDTH}" y2="{BASE}"/>',
            f'<text x="0" y="{HEIGHT - 4}">{escape(plot.first)}</text>',
            f'<text x="{WIDTH}" y="{HEIGHT - 4}" text-anchor="end">{escape(plot.last)}</text>',
            "</svg></figure>",
        ]
    )


def by_time(title: str, values: Iterable[tuple[int, int]], together: Callable[[Iterable[int]], int]) -> Plot:
    """Plot values of hours: those of one bar are taken ``together``."""
    hours: defaultdict[int, list[int]] = defaultdict(list)
    for hour, value in values:
        hours[hour // HOUR_MS].append(value)
    first, last = min(hours), max(hours)
    each = -(-(last - first + 1) // BARS_MAX)
    bars: defaultdict[int, list[int]] = defaultdict(list)
    for hour, of_hour in hours.items():
        bars[(hour - first) // each] += of_hour
    return Plot(
        f"{title} ({'an hour' if each == 1 else f'{each:,} hours'} each)",
        [
            Bar(place, together(bars[place]), _hour_text((first + place * each) * HOUR_MS))
            for place in sorted(bars)
        ],
        (last - first) // each + 1,
        _hour_text(first * HOUR_MS),
        _hour_text(last * HOUR_MS),
    )


def by_queue(title: str, messages: Mapping[tuple[str, int], int]) -> Plot:
    """Plot how many messages each queue has; of very many queues the fullest."""
    fullest = sorted(messages, key=lambda queue: -messages[queue])[:BARS_MAX]
    shown = sorted(fullest)
    of = "" if len(shown) == len(messages) else f", the fullest {len(shown)} of {len(messages):,}"
    bars = [Bar(place, messages[queue], f"{queue[0]} queue {queue[1]}") for place, queue in enumerate(shown)]
    return Plot(title + of, bars, len(bars), bars[0].label, bars[-1].label if len(bars) > 1 else "")


def _summary(report: Report) -> str:
    stores = escape(", ".join(report.stores))
    if not report.volumes:
        return f"<p>{stores}: no messages.</p>"
    hours = [volume.hour for volume in report.volumes]
    queues = {(volume.store, volume.topic, volume.queue_id) for volume in report.volumes}
    messages, size = sum(t.messages for t in report.topics), sum(t.bytes for t in report.topics)
    return (
        f"<p>{stores}: {messages:,} messages of {len(report.topics):,} topics in {len(queues):,} queues, "
        f"{size:,} bytes of log, stored from {_hour_text(min(hours))} to "
        f"{_hour_text(max(hours) + HOUR_MS)} (UTC).</p>"
    )


def _section(topic: TopicReport, volumes: Sequence[Volume]) -> str:
    of_queue: Counter[tuple[str, int]] = Counter()
    for volume in volumes:
        of_queue[volume.store, volume.queue_id] += volume.messages
    plots = [
        by_time("messages", ((one.hour, one.messages) for one in volumes), sum),
        by_time("bytes of log", ((one.hour, one.bytes) for one in volumes), sum),
        by_time("p99 of latency, ms, of the slowest queue", _latencies(volumes), max),
        by_queue("messages by queue", of_queue),
    ]
    drawn = "\n".join(map(svg, plots))
    return f"<h2>{escape(topic.topic)}</h2>\n{drawn}\n{_hot_keys(topic.hot_keys)}"


def _lags(lags: Sequence[Lag]) -> str:
    rows = ((lag.group, lag.topic, lag.messages, lag.store) for lag in lags)
    return _table(LAG_COLUMNS, rows) if lags else ""


def _latencies(volumes: Iterable[Volume]) -> Iterable[tuple[int, int]]:
    return ((volume.hour, volume.latency_ms.p99) for volume in volumes)


def _hot_keys(keys: Sequence[KeyCount]) -> str:
    if not keys:
        return ""
    rows = (
        f"<tr><td>{escape(one.key)}</td><td>{one.messages:,}</td>"
        f'<td><svg width="{KEY_WIDTH}" height="12"><rect height="12" '
        f'width="{one.messages / keys[0].messages * KEY_WIDTH:.1f}"/></svg></td></tr>'
        for one in keys
    )
    heading = "<tr><th>key on the most messages</th><th>messages</th><th></th></tr>"
    return f"<table>{heading}{''.join(rows)}</table>"


def _cells(topic: TopicReport) -> list[object]:
    body, latency = topic.body_bytes, topic.latency_ms
    return [
        *(topic.topic, topic.messages, topic.bytes, body.p50, body.p90, body.p99, body.max),
        *(latency.p50, latency.p90, latency.p99, latency.max),
        *(topic.keys, topic.duplicate_keys, topic.repeated_ids),
    ]


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heading = "".join(f"<th>{column}</th>" for column in columns)
    lines = ["".join(f"<td>{_cell(cell)}</td>" for cell in row) for row in rows]
    return f"<table>\n<tr>{heading}</tr>\n" + "\n".join(f"<tr>{line}</tr>" for line in lines) + "\n</table>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def _hour_text(time_ms: int) -> str:
    """Give a time as people read it; one that no calendar has stays a number."""
    try:
        return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
