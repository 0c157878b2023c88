"""The text of metrics for Prometheus, with a bound on the number of series.

Peers choose the names of topics and groups, so the number of series is theirs to choose, too. Beyond a limit
for each family all further series are one, with the label ``otel_metric_overflow="true"``, as OpenTelemetry
does it in RocketMQ's brokers. (https://opentelemetry.io/docs/specs/otel/metrics/sdk/#overflow-attribute)
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cometmq.metrics.family import Family, FamilyKind, HistogramValue, Series, Values

OVERFLOW: Final = {"otel_metric_overflow": "true"}
"""The label of the series that stands for all those above the limit."""
FOLDED: Final = Family(
    "cometmq_metrics_folded_series",
    FamilyKind.GAUGE,
    ("metric",),
    "series",
    "series above metricsOtelCardinalityLimit, which are one, by their metric",
)

_log = logging.getLogger(__name__)


class Exposition(Collector):
    """Makes Prometheus's metrics of the values that ``collect_values`` returns; used by scraping threads.

    Args:
        families: all that there can be.
        collect_values: called for each scrape, in its thread.
        labels: those of all series.
        series_max: most series of one family.
    """

    def __init__(
        self,
        families: Sequence[Family],
        collect_values: Callable[[], Values],
        *,
        labels: Mapping[str, str],
        series_max: int,
    ) -> None:
        self._families = (*families, FOLDED)
        self._collect_values = collect_values
        self._labels = dict(labels)
        self._series_max = series_max
        self._warned: set[str] = set()

    def registry(self) -> CollectorRegistry:
        """Return a registry with these metrics and those of the process: memory, processor time, files."""
        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return registry

    def describe(self) -> Iterable[Metric]:
        """Return all families without series, which the registry uses to find names."""
        return [_empty(family) for family in self._families]

    def collect(self) -> Iterator[Metric]:
        """Collect values and return their metrics, one by one. Raises what ``collect_values`` does."""
        values = self._collect_values()
        for family, series in list(values.series.items()):
            if (count := len(series) - self._series_max + 1) > 1:
                values.series[family] = dict(islice(series.items(), self._series_max - 1))
                values.set(FOLDED, count, family.name)
                self._warn(family.name, len(series))
                yield self._metric(family, values.series[family], _folded(family, series, self._series_max))
            else:
                yield self._metric(family, series)
        if FOLDED in values.series:
            yield self._metric(FOLDED, values.series[FOLDED])
        for family, buckets in values.buckets.items():
            yield self._histogram(family, buckets)

    def _metric(self, family: Family, series: Series, folded: float | None = None) -> Metric:
        metric = _empty(family)
        for labels, value in series.items():
            own = dict(zip(family.labels, labels, strict=True))
            metric.add_sample(family.name, self._labels | own, value)
        if folded is not None:
            metric.add_sample(family.name, self._labels | OVERFLOW, folded)
        return metric

    def _histogram(self, family: Family, buckets: HistogramValue) -> Metric:
        metric, count = _empty(family), 0
        bounds = (*(f"{bound:.1f}" for bound in buckets.bounds), "+Inf")
        for bound, more in zip(bounds, buckets.counts, strict=True):
            count += more
            metric.add_sample(f"{family.name}_bucket", self._labels | {"le": bound}, count)
        metric.add_sample(f"{family.name}_count", self._labels, count)
        metric.add_sample(f"{family.name}_sum", self._labels, buckets.total)
        return metric

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


def _folded(family: Family, series: Series, series_max: int) -> float:
    """Return the value of the series that stands for those above the limit."""
    others = islice(series.values(), series_max - 1, None)
    return max(others) if family.is_latest else sum(others)


def _empty(family: Family) -> Metric:
    return Metric(family.name.removesuffix("_total"), family.meaning, family.kind.value)
