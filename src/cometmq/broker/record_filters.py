"""Filters that look at a record's properties. (RocketMQ: ExpressionMessageFilter.java and its heir.)"""

from typing import NamedTuple

from cometmq.broker.consumer_filters import ConsumerFilters
from cometmq.filter.sql92 import Sql92
from cometmq.format import properties
from cometmq.format.record import read_head


class SqlFilter(NamedTuple):
    """What a group wants of a topic."""

    compiled: Sql92

    def matches(self, record: bytes) -> bool:
        """Tell whether a record is wanted."""
        return self.compiled.matches(_properties_of(record))


class RetryFilter(NamedTuple):
    """What a group wants of its retry topic: of each message what it wants of the topic that it came from."""

    filters: ConsumerFilters
    group: str

    def matches(self, record: bytes) -> bool:
        """Tell whether a record is wanted; it is if its topic has no filter."""
        by_name = _properties_of(record)
        known = self.filters.find(by_name.get(properties.RETRY_TOPIC, ""), self.group)
        return known is None or known.compiled.matches(by_name)


def _properties_of(record: bytes) -> dict[str, str]:
    head = read_head(record, 0)
    begin = head.properties_position
    return properties.decode(record[begin : begin + head.properties_length])
