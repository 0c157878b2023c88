"""How far groups are behind, by topic.

For each queue, with its end, and of a group: the offset that it has committed, the one up to which it has
pulled, and how many messages its pops hold::

      committed − popped          committed               pulled                 end
    ────────┼────── popped, held ─────┼──── pulled, held ───┼───── not got yet ────┼─►
            └──────────── in flight ───────────────────────┘└──────── ready ──────┘
            └──────────────────────────────── lag ─────────────────────────────────┘

A group that has committed nothing in a queue is counted from where it begins, and not at all if that is not
known: see ``admin.beginnings``. What retention has removed is no lag. The store time of the oldest message is
read again only when it is another message: a group that is stuck costs nothing.
(RocketMQ: ConsumerLagCalculator.java, which sees no group without members, nor what waits in retry topics of
groups that pull.)
"""

from typing import Final, NamedTuple

from cometmq.broker.admin.beginnings import Beginnings
from cometmq.broker.metrics import families
from cometmq.broker.metrics.traffic import SYSTEM_GROUP_PREFIX, is_system
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.offsets import SEPARATOR, Offsets, key_of
from cometmq.broker.state.topics import Topics
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.format.pop.names import normal_topic
from cometmq.metrics.family import Values
from cometmq.net.server import Session
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore

TURN_MAX: Final = 200
"""Number of queues that one turn of the loop examines."""


class _Lag(NamedTuple):
    """What waits in one queue for a group, and the offsets of the oldest; None if none is ready."""

    lag: int
    in_flight: int
    ready: int
    oldest: int
    oldest_ready: int | None


class Lags:
    """Reads the lags of all groups."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        consumers: Consumers[Session],
        offsets: Offsets,
        beginnings: Beginnings,
        in_flight: InFlight,
    ) -> None:
        self._store = store
        self._topics = topics
        self._consumers = consumers
        self._offsets = offsets
        self._beginnings = beginnings
        self._in_flight = in_flight
        self._times: dict[tuple[str, int, int], int] = {}  # store times by topic, queue id and queue offset

    def read_into(self, values: Values) -> Reading[None]:
        """Read the lags of all groups in their topics."""
        seen: dict[tuple[str, int, int], int] = {}
        turn, now_ms = 0, self._store.clock.now_ms()
        for topic, group in self._group_topics():
            config = self._topics.find(topic)
            if config is None:
                continue
            normal = normal_topic(topic, group)
            is_retry = str(topic.startswith(RETRY_PREFIX)).lower()
            labels = group, normal, is_retry, is_system(normal, group)
            worst_ms = worst_ready_ms = 0
            totals = [0, 0, 0]
            for queue_id in range(config.read_queue_count):
                turn += 1
                if turn % TURN_MAX == 0:
                    yield PAUSE
                found = self._of_queue(group, topic, queue_id)
                if found is None:
                    continue
                totals = [total + part for total, part in zip(totals, found[:3], strict=True)]
                for at, is_ready in ((found.oldest, False), (found.oldest_ready, True)):
                    if at is None:
                        continue
                    stored_ms = yield from self._store_time(topic, queue_id, at, seen)
                    age_ms = 0 if stored_ms < 0 else max(now_ms - stored_ms, 0)
                    if is_ready:
                        worst_ready_ms = max(worst_ready_ms, age_ms)
                    else:
                        worst_ms = max(worst_ms, age_ms)
            for family, total in zip((families.LAG, families.IN_FLIGHT, families.READY), totals, strict=True):
                values.add(family, total, *labels)
            for family, age_ms in ((families.LAG_MS, worst_ms), (families.QUEUEING_MS, worst_ready_ms)):
                known = values.series.get(family, {}).get(labels, 0)
                values.set(family, max(age_ms, known), *labels)
        self._times = seen

    def _group_topics(self) -> list[tuple[str, str]]:
        """Return topics and groups that subscribe to them, or have committed offsets there."""
        keys = dict.fromkeys(self._offsets.keys())
        for name, group in self._consumers.groups().items():
            if not group.is_broadcasting:
                keys |= dict.fromkeys(key_of(name, topic) for topic in group.subscriptions)
        found: list[tuple[str, str]] = []
        for key in keys:
            topic, _, name = key.partition(SEPARATOR)
            known = self._consumers.find(name)
            if name.lower().startswith(SYSTEM_GROUP_PREFIX) or topic.startswith(DLQ_PREFIX):
                continue
            if known is not None and known.is_broadcasting:
                continue
            if self._consumers.may_consume(name, normal_topic(topic, name)):
                found.append((topic, name))
        return found

    def _of_queue(self, group: str, topic: str, queue_id: int) -> _Lag | None:
        """Return what waits in a queue for a group; None if nothing does, or it is not known."""
        key = key_of(group, topic)
        begin, end = self._store.ends_of(topic, queue_id)
        pulled = self._offsets.pulled_of(key).get(queue_id)
        popped = self._in_flight.counts_of(key).get(queue_id, 0)
        committed = self._offsets.queues_of(key).get(queue_id)
        if committed is None:
            committed = self._beginnings.find(group, topic, queue_id)
        if committed is None:
            return None
        committed = min(max(committed, begin), end)
        pulled = min(max(committed, pulled or 0), end)
        held, ready = pulled - committed + popped, end - pulled
        if not held and not ready:
            return None
        return _Lag(held + ready, held, ready, max(committed - popped, begin), pulled if ready else None)

    def _store_time(
        self, topic: str, queue_id: int, queue_offset: int, seen: dict[tuple[str, int, int], int]
    ) -> Reading[int]:
        """Return the store time of a message, ms; -1 if it does not exist."""
        place = topic, queue_id, queue_offset
        time_ms = seen.get(place, self._times.get(place, -1))
        if time_ms < 0:
            time_ms = yield from self._store.readings.store_time_at(topic, queue_id, queue_offset)
        seen[place] = time_ms
        return time_ms
