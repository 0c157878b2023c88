"""Filters that look at a record's properties. (RocketMQ: ExpressionMessageFilter.java and its heir.)"""

from typing import Final, NamedTuple

from cometmq.broker.state.consumer_filters import ConsumerFilter, ConsumerFilters
from cometmq.filter.sql92 import Sql92
from cometmq.format import properties
from cometmq.format.record import read_head

USUAL_SIZE: Final = 256
"""A record of so many bytes more has so much more to be looked at, be it in its properties or not."""
USUAL_LENGTH: Final = 1_000
"""Characters that are counted for a filter that is not known."""


class SqlFilter(NamedTuple):
    """What a group wants of a topic.

    Attributes:
        known: the filter that the group registered, by which bitmaps were made; None for one sent along.
    """

    compiled: Sql92
    known: ConsumerFilter | None = None

    def may_match(self, store_time: int, bitmap: bytes) -> bool:
        """Tell whether a record may be wanted, by its bitmap."""
        return self.known is None or self.known.may_match(store_time, bitmap)

    def matches(self, record: bytes) -> bool:
        """Tell whether a record is wanted."""
        return self.compiled.matches(_properties_of(record))

    def work(self, record: bytes) -> int:
        """Return how much work ``matches`` is."""
        return len(self.compiled.expression) * (1 + len(record) // USUAL_SIZE)


class RetryFilter(NamedTuple):
    """What a group wants of its retry topic: of each message what it wants of the topic that it came from."""

    filters: ConsumerFilters
    group: str

    def may_match(self, _store_time: int, _bitmap: bytes) -> bool:
        """Tell that any record may be wanted: bitmaps are by filters on the retry topic itself."""
        return True

    def matches(self, record: bytes) -> bool:
        """Tell whether a record is wanted; it is if its topic has no filter."""
        by_name = _properties_of(record)
        known = self.filters.find(by_name.get(properties.RETRY_TOPIC, ""), self.group)
        return known is None or known.compiled.matches(by_name)

    def work(self, record: bytes) -> int:
        """Return about how much work ``matches`` is: the filter is not looked for again."""
        return USUAL_LENGTH * (1 + len(record) // USUAL_SIZE)


def _properties_of(record: bytes) -> dict[str, str]:
    head = read_head(record, 0)
    begin = head.properties_position
    return properties.decode(record[begin : begin + head.properties_length])
