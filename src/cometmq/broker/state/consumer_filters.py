"""The SQL92 filters of consumer groups, and their ages: ``config/consumerFilter.json``.

A group's filter on a topic is registered by a heartbeat and is *dead* once the group has no members; it is
removed a day later by the monotonic clock. Until then the bitmaps of messages are calculated with it, so they
hold its bits from its birth time on. (RocketMQ: ConsumerFilterManager.java.)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from cometmq.broker.state import table_files
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.errors import FormatError
from cometmq.filter import sql92
from cometmq.filter.bloom import BYTE, BloomFilter, bits_of, unpack
from cometmq.filter.sql92 import Sql92
from cometmq.format import properties
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.append import NewMessage
from cometmq.store.tables import JsonTable
from cometmq.wire import bodies

TAG: Final = "TAG"
SQL92: Final = "SQL92"

RESTART_MS: Final = 30_000
"""Assumed time between the consumers' leaving and the broker's next start."""

COMPILED_PER_SECOND: Final = 32_768
"""Most characters of new filters that are compiled in a second; others wait for the next heartbeat."""
COMPILED_AT_LEAST: Final = 100
"""Characters that a filter counts at least."""

_log = get_logger(__name__)


Name: TypeAlias = tuple[str, str]
"""A topic and a group."""


class ConsumerFilter(NamedTuple):
    """A group's filter on a topic, and its bits in a bitmap."""

    data: bodies.ConsumerFilterData
    compiled: Sql92
    bits: int

    @property
    def is_dead(self) -> bool:
        """Whether the group has no members."""
        return self.data.dead_time >= self.data.born_time

    def may_match(self, store_time: int, bitmap: bytes) -> bool:
        """Check by its bitmap whether a message may pass; one from before the filter's birth always may."""
        bloom = self.data.bloom
        if bloom is None or store_time <= self.data.born_time or len(bitmap) * BYTE != bloom.bit_count:
            return True
        return unpack(bitmap) & self.bits == self.bits


class ConsumerFilters(ChangingTable[Name, ConsumerFilter]):
    """All filters of one broker, by topic and group.

    Args:
        keep_ms: how long a dead filter is kept.
        stored_time: returns the store time, ms, of the newest message: no filter is born before it, even if
            the clock was set back, since bitmaps of older messages lack its bits.

    Attributes:
        bloom: maps a group and topic to bits of the bitmap.
    """

    entry_level = 4

    def __init__(
        self,
        table: JsonTable,
        clock: Clock,
        bloom: BloomFilter,
        *,
        keep_ms: int,
        stored_time: Callable[[], int] = lambda: 0,
    ) -> None:
        super().__init__(table)
        self.bloom = bloom
        self._clock = clock
        self._keep_ms = keep_ms
        self._stored_time = stored_time
        self._topics: dict[str, dict[str, ConsumerFilter]] = {}
        self._may_compile = COMPILED_PER_SECOND
        self._may_compile_since_ms = clock.monotonic_ms()
        self._topics_of: dict[str, set[str]] = {}  # by group
        self._dead: dict[Name, int] = {}  # when they died, ms on the monotonic clock; in this order

    def load(self, *, trusted: bool = True) -> None:
        """Read the table; all filters are dead until a heartbeat registers them.

        Raises StoreDamaged if the file holds something else than filters.
        If the size of bitmaps was changed, all filters are dropped: existing bitmaps do not match them.

        Args:
            trusted: whether the broker had been stopped. If it was killed, the table may be older than some
                bitmaps, so that all filters are born now.
        """
        content = table_files.load(self._table, bodies.ConsumerFilterTable)
        if content is None:
            return
        loaded = [data for topic in content.topics.values() for data in topic.filters.values()]
        if any(data.bloom is None or data.bloom != self._bloom_data(data) for data in loaded):
            _log.warning("%s: filters of another Bloom filter size are dropped", self._table.path)
            return
        now_ms = self._clock.now_ms()
        oldest = now_ms - RESTART_MS
        dead = []
        for data in loaded:
            born_time = data.born_time if trusted else self._birth_time()
            dead_time = max(data.dead_time or oldest, born_time)
            dead.append(replace(data, born_time=born_time, dead_time=dead_time))
        for data in sorted(dead, key=lambda data: data.dead_time):
            self._put(data, dead_ms=max(now_ms - data.dead_time, 0))

    def find(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return a group's filter on a topic, or None."""
        return self._topics.get(topic, {}).get(group)

    def of_topic(self, topic: str) -> Iterable[ConsumerFilter]:
        """Return all filters on a topic."""
        return self._topics.get(topic, {}).values()

    def register(self, group: str, subscriptions: Iterable[bodies.SubscriptionData]) -> None:
        """Register the filters among a heartbeat's subscriptions; the group's other filters die."""
        topics = set()
        for data in subscriptions:
            topics.add(data.topic)
            self.update(group, data)
        for known in [known for known in self._of_group(group) if known.data.topic not in topics]:
            self._mark_dead(known)

    def update(self, group: str, data: bodies.SubscriptionData) -> None:
        """Register the filter of one subscription, if it has one."""
        if not is_tag(data.expression_type) and data.expression:
            self._register(group, data)

    def unregister(self, group: str) -> None:
        """Mark all filters of a group as dead: its last member is gone."""
        for known in list(self._of_group(group)):
            self._mark_dead(known)

    def bitmap(self, message: NewMessage) -> bytes:
        """Return the bitmap of the filters that a message passes; empty if its topic has no filters."""
        filters = self._topics.get(message.topic)
        if not filters:
            return b""
        by_name = properties.decode(message.properties)
        bits = 0
        for known in filters.values():
            if known.compiled.matches(by_name):
                bits |= known.bits
        return self.bloom.pack(bits)

    def take_changed(self) -> dict[Name, ConsumerFilter | None] | None:
        """Remove filters that have been dead for long; return the changes as ``ChangingTable`` does."""
        self._remove_dead()
        return super().take_changed()

    def _copy_of(self, name: Name) -> ConsumerFilter | None:
        return self.find(*name)

    def _plain(self, entry: ConsumerFilter) -> Any:
        return bodies.to_plain(replace(entry.data, dead=entry.is_dead))

    def _whole(self, entries: Mapping[Name, Any]) -> dict[str, Any]:
        topics: dict[str, dict[str, Any]] = {}
        for (topic, group), filter_ in entries.items():
            if topic not in topics:
                topics[topic] = {"groupFilterData": {}, "topic": topic}
            topics[topic]["groupFilterData"][group] = filter_
        return {"filterDataByTopic": topics}

    def _register(self, group: str, data: bodies.SubscriptionData) -> None:
        known = self.find(data.topic, group)
        if known is not None and data.version < known.data.client_version:
            return
        if known is not None and (
            data.version == known.data.client_version
            or (data.expression, data.expression_type) == (known.data.expression, known.data.expression_type)
        ):
            if known.is_dead or data.version != known.data.client_version:
                self._put(replace(known.data, dead_time=0, client_version=data.version))
            return
        if not self._has_time_for(data):
            _log.warning(
                "group %.130s, topic %.130s: the filter waits for the next heartbeat: "
                "more than %d characters of new filters came within a second",
                group,
                data.topic,
                COMPILED_PER_SECOND,
            )
            return
        new = bodies.ConsumerFilterData(
            group,
            data.topic,
            data.expression,
            data.expression_type,
            self._birth_time(),
            client_version=data.version,
        )
        if not self._put(replace(new, bloom=self._bloom_data(new))) and known is not None:
            self._remove(data.topic, group)  # pulls then get the error of the new filter

    def _has_time_for(self, data: bodies.SubscriptionData) -> bool:
        """Check whether a filter may be compiled now: a heartbeat may bring thousands."""
        length = len(data.expression)
        if length > sql92.LENGTH_MAX or sql92.is_ready(data.expression):
            return True  # that takes no time
        now_ms = self._clock.monotonic_ms()
        since_ms = now_ms - self._may_compile_since_ms
        self._may_compile = min(
            self._may_compile + since_ms * COMPILED_PER_SECOND // 1000, COMPILED_PER_SECOND
        )
        self._may_compile_since_ms = now_ms
        if self._may_compile <= 0:
            return False
        self._may_compile -= max(length, COMPILED_AT_LEAST)
        return True

    def _put(self, data: bodies.ConsumerFilterData, dead_ms: int = 0) -> bool:
        """Add a filter or replace the present one; return False if its expression is illegal.

        Args:
            dead_ms: how long it has been dead, if it is.
        """
        try:
            compiled = compile_filter(data.expression_type, data.expression)
        except FormatError as error:
            _log.warning("group %s, topic %s: %s", data.group, data.topic, error)
            return False
        bits = bits_of(data.bloom.positions) if data.bloom else 0
        known = ConsumerFilter(data, compiled, bits)
        self._topics.setdefault(data.topic, {})[data.group] = known
        self._topics_of.setdefault(data.group, set()).add(data.topic)
        name = data.topic, data.group
        self._changes[name] = None
        self._dead.pop(name, None)
        if known.is_dead:
            self._dead[name] = self._clock.monotonic_ms() - dead_ms
        return True

    def _mark_dead(self, known: ConsumerFilter) -> None:
        if not known.is_dead:
            self._put(replace(known.data, dead_time=max(self._clock.now_ms(), known.data.born_time)))

    def _birth_time(self) -> int:
        return max(self._clock.now_ms(), self._stored_time())

    def _of_group(self, group: str) -> Iterator[ConsumerFilter]:
        return (self._topics[topic][group] for topic in self._topics_of.get(group, ()))

    def _remove_dead(self) -> None:
        oldest_ms = self._clock.monotonic_ms() - self._keep_ms
        for topic, group in list(takewhile(lambda name: self._dead[name] <= oldest_ms, self._dead)):
            self._remove(topic, group)

    def _remove(self, topic: str, group: str) -> None:
        filters, topics = self._topics[topic], self._topics_of[group]
        del filters[group]
        topics.remove(topic)
        self._dead.pop((topic, group), None)
        self._changes[topic, group] = None
        if not filters:
            del self._topics[topic]
        if not topics:
            del self._topics_of[group]

    def _bloom_data(self, data: bodies.ConsumerFilterData) -> bodies.BloomData:
        positions = self.bloom.positions(f"{data.group}#{data.topic}")
        return bodies.BloomData(self.bloom.bit_count, positions)


def compile_filter(expression_type: str | None, expression: str) -> Sql92:
    """Compile an SQL92 filter. Raises FormatError."""
    if expression_type != SQL92:
        raise FormatError(f"filter type {str(expression_type)[:20]!r} does not exist: use {TAG} or {SQL92}")
    return sql92.compile(expression)


def is_tag(expression_type: str | None) -> bool:
    """Check whether an expression is one of tags; it is if it has no type."""
    return not expression_type or expression_type == TAG
