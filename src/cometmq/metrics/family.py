"""Families of metrics, and the values that one scrape finds.

A family is declared once, in a table; the page of metrics, the dashboard and the tests read that table. A
scrape collects plain values in the event loop; a thread makes the text of them (``exposition``).
"""

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

REFERENCE_PREFIX: Final = "rocketmq_"
"""Begins the names of families that RocketMQ's brokers have, too."""


class FamilyKind(StrEnum):
    """The type of a family, as Prometheus names it."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """All series of one name.

    Attributes:
        name: as it is scraped: that of a counter ends in ``_total``.
        labels: those of the family, besides the ones that all series of a server have.
        unit: of the values, such as ``messages`` or ``ms``.
        meaning: one sentence, without a full stop.
        is_latest: whether series that exceed the limit become their maximum; their sum otherwise.
    """

    name: str
    kind: FamilyKind
    labels: tuple[str, ...]
    unit: str
    meaning: str
    is_latest: bool = False

    @property
    def is_reference(self) -> bool:
        """Whether RocketMQ's brokers have a family of this name, too."""
        return self.name.startswith(REFERENCE_PREFIX)


class HistogramValue(NamedTuple):
    """The value of a histogram's series.

    Attributes:
        bounds: upper bounds of the buckets, ascending, without infinity.
        counts: observations in each bucket alone, and in the last one those above all bounds.
        total: the sum of all observations.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


Series: TypeAlias = dict[tuple[str, ...], float]
"""The values of a family by those of its labels."""


class Values:
    """The values of one scrape.

    Attributes:
        series: of counters and gauges, by family.
        buckets: of histograms without labels of their own.
    """

    def __init__(self) -> None:
        self.series: dict[Family, Series] = {}
        self.buckets: dict[Family, HistogramValue] = {}

    def set(self, family: Family, value: float, *labels: str) -> None:
        """Set the value of one series; ``labels`` are in the order of the family's."""
        self.series.setdefault(family, {})[labels] = value

    def add(self, family: Family, value: float, *labels: str) -> None:
        """Add to the value of one series, which is 0 at first."""
        series = self.series.setdefault(family, {})
        series[labels] = series.get(labels, 0) + value
