"""Operators' requests about how far groups have come. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

from cometmq.broker.admin.beginnings import Beginnings
from cometmq.broker.admin.statistics import Statistics
from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import TURN_MAX, encoded, with_body
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.offsets import Offsets, key_of
from cometmq.broker.state.topics import Topics
from cometmq.message import MessageQueue
from cometmq.net.server import Session
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import ConsumeOffset, ConsumeStats, TopicConfig
from cometmq.wire.bodies.stats import NOT_KNOWN, BrokerConsumeStats, TimeSpan, TimeSpans
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetConsumeStatsHeader
from cometmq.wire.headers.admin import BrokerConsumeStatsHeader, GroupTopicHeader

QUEUES_MAX: Final = 50_000
"""Most queues, counted for each group, in an answer about all groups: some 8 MB."""
TOPICS_AT_ONCE: Final = 50
"""Number of groups, and of their topics, that one turn of the loop examines."""


class OwnNames(NamedTuple):
    """The broker's name in queues, and its address for clients, ``ip:port``."""

    name: str
    address: str


class GroupTables(NamedTuple):
    """What the broker knows of groups: settings, members, offsets, beginnings, and messages pops hold."""

    groups: Groups
    consumers: Consumers[Session]
    offsets: Offsets
    beginnings: Beginnings
    in_flight: InFlight


class ProgressAdmin:
    """Compares the offsets of groups with the ends of their queues."""

    def __init__(
        self,
        tables: GroupTables,
        topics: Topics,
        store: MessageStore,
        reads: Reads,
        statistics: Statistics,
        own: OwnNames,
    ) -> None:
        self._groups, self._consumers, self._offsets, self._beginnings, self._in_flight = tables
        self._topics = topics
        self._store = store
        self._reads = reads
        self._statistics = statistics
        self._own = own

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_CONSUME_STATS: self.progress,
            RequestCode.GET_BROKER_CONSUME_STATS: self.all_progress,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.time_spans,
        }

    def progress(self, session: Session, command: Command, header: GetConsumeStatsHeader) -> Command | None:
        """GET_CONSUME_STATS: the lag of a group in each queue.

        Queues in which it has committed nothing have the offset where it begins: 0, as from a Java broker,
        if that is not known. In a topic that the request does not name these are left out, unless the group
        has committed offsets of other queues there.
        """
        name = header.consumer_group
        topics = {topic for topic in (header.topics or "").split(";") if topic}  # even if not subscribed to
        if not topics:
            topics = {header.topic} if header.topic else self._beginnings.topics_of(name)
            topics = {topic for topic in topics if self._consumers.may_consume(name, topic)}

        def answer() -> Reading[bytes]:
            stats = yield from self._progress(name, topics, is_named=bool(header.topic or header.topics))
            return (yield from encoded(stats, len(stats.offsets)))

        return self._reads.answer(session, command, answer(), partial(with_body, command))

    def all_progress(
        self, session: Session, command: Command, header: BrokerConsumeStatsHeader
    ) -> Command | None:
        """GET_BROKER_CONSUME_STATS: the lag of all groups in the topics that they consume."""
        reading = self._all_progress(is_order=header.is_order)
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def time_spans(self, session: Session, command: Command, header: GroupTopicHeader) -> Command | None:
        """QUERY_CONSUME_TIME_SPAN: the times of a topic's messages, and how long those of a group wait."""
        topic = self._topics.find(header.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        reading = self._time_spans(topic, header.group)
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def _progress(self, group: str, topics: Iterable[str], *, is_named: bool) -> Reading[ConsumeStats]:
        stats, turn = ConsumeStats(), 0
        for topic in sorted(topics):
            config = self._topics.find(topic)
            if config is None or not config.read_queue_count:
                continue
            for queue_id in range(config.read_queue_count):
                turn += 1
                if turn % TURN_MAX == 0:
                    yield PAUSE
                at = yield from self._offset(group, topic, queue_id)
                if is_named or at.begin != NOT_KNOWN:
                    stats.offsets[MessageQueue(topic, self._own.name, queue_id)] = at
            stats.consume_tps += self._statistics.tps("GROUP_GET_NUMS", key_of(group, topic))
        return stats

    def _offset(self, group: str, topic: str, queue_id: int) -> Reading[ConsumeOffset]:
        """Return the progress of a group in one queue."""
        store, key = self._store, key_of(group, topic)
        committed, begin, last_time = self._offsets.queues_of(key).get(queue_id), None, 0
        if committed is None:
            begin = self._beginnings.find(group, topic, queue_id)
            begin = NOT_KNOWN if begin is None else begin
        elif committed:
            last_time = yield from store.readings.store_time_at(topic, queue_id, committed - 1)
        position = max(begin or 0, 0) if committed is None else committed
        return ConsumeOffset(
            broker_offset=store.max_queue_offset(topic, queue_id),
            consumer_offset=position,
            last_time=max(last_time, 0),
            pull_offset=max(position, self._offsets.pulled_of(key).get(queue_id, 0)),
            popped=self._in_flight.counts_of(key).get(queue_id),
            begin=begin,
        )

    def _all_progress(self, *, is_order: bool) -> Reading[bytes]:
        answer, turn, queue_count = BrokerConsumeStats(self._own.address), 0, 0
        for name in [group.group for group in self._groups]:
            stats: list[ConsumeStats] = []
            for topic in sorted(self._beginnings.topics_of(name)):
                config = self._topics.find(topic)
                if config is None or (is_order and not config.order):
                    continue
                if not self._consumers.may_consume(name, topic):
                    continue
                queue_count += config.read_queue_count
                if queue_count > QUEUES_MAX:
                    raise Refused(
                        ResponseCode.SYSTEM_ERROR,
                        f"groups consume more than {QUEUES_MAX} queues: request each group's lag",
                    )
                stats.append((yield from self._progress(name, [topic], is_named=False)))
            answer.groups.append({name: stats})
            queues = [queue for topic in stats for queue in topic.offsets.values()]
            answer.total_lag += sum(queue.broker_offset - queue.consumer_offset for queue in queues)
            answer.total_in_flight += sum(queue.pull_offset - queue.consumer_offset for queue in queues)
            turn += 1 + len(stats)
            if turn >= TOPICS_AT_ONCE:
                turn = 0
                yield PAUSE
        return (yield from encoded(answer, queue_count + len(answer.groups)))

    def _time_spans(self, topic: TopicConfig, group: str) -> Reading[bytes]:
        store, times, name = self._store, self._store.readings.store_time_at, topic.topic
        spans: list[TimeSpan] = []
        for queue_id in range(topic.write_queue_count):
            if queue_id % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            low, high = store.ends_of(name, queue_id)
            committed = self._offsets.committed(group, name, queue_id)
            if committed is None:
                committed = self._beginnings.find(group, name, queue_id) or 0
            span = TimeSpan(MessageQueue(name, self._own.name, queue_id))
            span.min_time = yield from times(name, queue_id, low)
            span.max_time = yield from times(name, queue_id, high - 1)
            span.consumed_time = span.min_time
            if committed > 0:
                span.consumed_time = yield from times(name, queue_id, committed - 1)
            if committed < high:
                next_time = yield from times(name, queue_id, max(committed, low))
                span.waited_ms = store.clock.now_ms() - next_time
            spans.append(span)
        return (yield from encoded(TimeSpans(spans), len(spans)))
