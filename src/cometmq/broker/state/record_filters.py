"""Filters by a record's properties.

(RocketMQ: ExpressionMessageFilter.java, ExpressionForRetryMessageFilter.java.)
"""

from typing import Final, NamedTuple

from cometmq.broker.state.consumer_filters import ConsumerFilter, ConsumerFilters
from cometmq.filter.sql92 import Sql92
from cometmq.format import properties
from cometmq.format.record import read_head

USUAL_SIZE: Final = 256
"""Bytes of a record that count as one unit of work, whether in its properties or not."""
USUAL_LENGTH: Final = 1_000
"""Assumed characters of a filter's expression where it is not looked up."""


class SqlFilter(NamedTuple):
    """A group's filter on a topic.

    Attributes:
        known: the registered filter, whose bits are in bitmaps; None for a filter that came with the pull.
    """

    compiled: Sql92
    known: ConsumerFilter | None = None

    def may_match(self, store_time: int, bitmap: bytes) -> bool:
        """Check by its bitmap whether a record may match."""
        return self.known is None or self.known.may_match(store_time, bitmap)

    def matches(self, record: bytes) -> bool:
        """Check whether a record matches."""
        return self.compiled.matches(_properties_of(record))

    def work(self, record: bytes) -> int:
        """Return the work of ``matches``, in characters of the expression times units of the record."""
        return len(self.compiled.expression) * (1 + len(record) // USUAL_SIZE)


class RetryFilter(NamedTuple):
    """A group's filter on its retry topic: each message is matched by the filter on its original topic."""

    filters: ConsumerFilters
    group: str

    def may_match(self, _store_time: int, _bitmap: bytes) -> bool:
        """Return True: bitmaps are of filters on the retry topic itself."""
        return True

    def matches(self, record: bytes) -> bool:
        """Check whether a record matches; it does if its original topic has no filter."""
        by_name = _properties_of(record)
        known = self.filters.find(by_name.get(properties.RETRY_TOPIC, ""), self.group)
        return known is None or known.compiled.matches(by_name)

    def work(self, record: bytes) -> int:
        """Estimate the work of ``matches`` without looking up the filter: see ``SqlFilter.work``."""
        return USUAL_LENGTH * (1 + len(record) // USUAL_SIZE)


def _properties_of(record: bytes) -> dict[str, str]:
    head = read_head(record, 0)
    begin = head.properties_position
    return properties.decode(record[begin : begin + head.properties_length])
