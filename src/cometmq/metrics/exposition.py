"""The text of metrics for Prometheus, with a bound on the number of series.

Peers choose the names of topics and groups, so the number of series is theirs to choose, too. Beyond a limit
for each family all further series are one, with the label ``otel_metric_overflow="true"``, as OpenTelemetry
does it in RocketMQ's brokers. (https://opentelemetry.io/docs/specs/otel/metrics/sdk/#overflow-attribute)

The text is made here, in the plain format 0.0.4 that all scrapers read, and not by prometheus-client: that
takes 16 µs for a series, this 4, and a broker's loop waits for the interpreter meanwhile
(``benches.bench_metrics``). (https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format)
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from cometmq.logs import get_logger
from cometmq.metrics.family import Family, FamilyKind, HistogramValue, Series, Values

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

OVERFLOW: Final = {"otel_metric_overflow": "true"}
"""The label of the series that stands for all those above the limit."""
FOLDED: Final = Family(
    "cometmq_metrics_folded_series",
    FamilyKind.GAUGE,
    ("metric",),
    "series",
    "series above metricsOtelCardinalityLimit, which are one, by their metric",
)

_log = get_logger(__name__)


def selected(text: bytes, names: Collection[str]) -> bytes:
    """Return of a text the samples with these names, as they stand in it, and the heads of their families."""
    wanted: list[bytes] = []
    head: list[bytes] = []
    encoded = {name.encode() for name in names}
    for line in text.split(b"\n"):
        if line.startswith(b"# HELP "):
            head = [line]
        elif line.startswith(b"# "):
            head.append(line)
        elif line.partition(b" ")[0].partition(b"{")[0] in encoded:
            wanted += (*head, line)
            head = []
    return b"".join(line + b"\n" for line in wanted)


class Exposition:
    """Writes the text of the values that ``collect_values`` returns; used by scraping threads.

    Args:
        collect_values: called for each scrape, in its thread.
        labels: those of all series.
        series_max: most series of one family.
    """

    def __init__(
        self, collect_values: Callable[[], Values], *, labels: Mapping[str, str], series_max: int
    ) -> None:
        self._collect_values = collect_values
        self._labels = _text_of(labels)
        self._series_max = series_max
        self._warned: set[str] = set()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    def text(self) -> bytes:
        """Collect values and return their text, and that of the process: memory, processor time, files.

        Raises what ``collect_values`` does.
        """
        values = self._collect_values()
        text = "".join(
            line for family, lines in self._families(values) if lines for line in (*_head(family), *lines)
        )
        return text.encode() + generate_latest(self._process)

    def _families(self, values: Values) -> Iterator[tuple[Family, list[str]]]:
        """Yield each family with the lines of its series."""
        for family, series in list(values.series.items()):
            if (count := len(series) - self._series_max + 1) > 1:
                kept = dict(islice(series.items(), self._series_max - 1))
                values.set(FOLDED, count, family.name)
                self._warn(family.name, len(series))
                folded = self._line(family.name, _OVERFLOW, _folded(family, series, self._series_max))
                yield family, [*self._series(family, kept), folded]
            else:
                yield family, self._series(family, series)
        if FOLDED in values.series:
            yield FOLDED, self._series(FOLDED, values.series[FOLDED])
        for family, buckets in values.buckets.items():
            yield family, self._histogram(family, buckets)

    def _series(self, family: Family, series: Series) -> list[str]:
        name, labels = family.name, family.labels
        return [
            self._line(name, _text_of(dict(zip(labels, own, strict=True))), value)
            for own, value in series.items()
        ]

    def _histogram(self, family: Family, buckets: HistogramValue) -> list[str]:
        lines, count = [], 0
        bounds = (*(f"{bound:.1f}" for bound in buckets.bounds), "+Inf")
        for bound, more in zip(bounds, buckets.counts, strict=True):
            count += more
            lines.append(self._line(f"{family.name}_bucket", _text_of({"le": bound}), count))
        lines.append(self._line(f"{family.name}_count", "", count))
        lines.append(self._line(f"{family.name}_sum", "", buckets.total))
        return lines

    def _line(self, name: str, own: str, value: float) -> str:
        """Return a sample's line."""
        labels = f"{self._labels},{own}" if self._labels and own else self._labels or own
        number = "+Inf" if value == inf else float(value)
        return f"{name}{{{labels}}} {number}\n" if labels else f"{name} {number}\n"

    def _warn(self, name: str, count: int) -> None:
        if name not in self._warned:
            self._warned.add(name)
            _log.warning(
                "%s has %d series, and metricsOtelCardinalityLimit = %d: the others are one series with the "
                'label otel_metric_overflow="true". Raise the limit, or use fewer topics and groups',
                name,
                count,
                self._series_max,
            )


def _head(family: Family) -> tuple[str, str]:
    return f"# HELP {family.name} {family.meaning}\n", f"# TYPE {family.name} {family.kind}\n"


def _text_of(labels: Mapping[str, str]) -> str:
    return ",".join([f'{name}="{_escaped(value)}"' for name, value in labels.items()])


@lru_cache(4096)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPES)


_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_OVERFLOW: Final = _text_of(OVERFLOW)


def _folded(family: Family, series: Series, series_max: int) -> float:
    """Return the value of the series that stands for those above the limit."""
    others = islice(series.values(), series_max - 1, None)
    return max(others) if family.is_latest else sum(others)
