"""Operators' requests about how far groups have come. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Iterable
from functools import partial
from typing import Final, NamedTuple

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
from cometmq.store.read.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import ConsumeOffset, ConsumeStats, TopicConfig
from cometmq.wire.bodies.stats import BrokerConsumeStats, TimeSpan, TimeSpans
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
    """What the broker knows of groups: their settings, members, offsets, and messages that pops hold."""

    groups: Groups
    consumers: Consumers[Session]
    offsets: Offsets
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
        self._groups, self._consumers, self._offsets, self._in_flight = tables
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
        """GET_CONSUME_STATS: the lag of a group in each queue."""
        name = header.consumer_group
        topics = {topic for topic in (header.topics or "").split(";") if topic}  # even if not subscribed to
        if not topics:
            topics = {header.topic} if header.topic else self._offsets.topics_of(name)
            topics = {topic for topic in topics if self._consumers.may_consume(name, topic)}

        def answer() -> Reading[bytes]:
            stats = yield from self._progress(name, topics)
            return (yield from encoded(stats, len(stats.offsets)))

        return self._reads.answer(session, command, answer(), partial(with_body, command))

    def all_progress(
        self, session: Session, command: Command, header: BrokerConsumeStatsHeader
    ) -> Command | None:
        """GET_BROKER_CONSUME_STATS: the lag of all groups in the topics that they have offsets in."""
        reading = self._all_progress(is_order=header.is_order)
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def time_spans(self, session: Session, command: Command, header: GroupTopicHeader) -> Command | None:
        """QUERY_CONSUME_TIME_SPAN: the times of a topic's messages, and how long those of a group wait."""
        topic = self._topics.find(header.topic)
        if topic is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
        reading = self._time_spans(topic, header.group)
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def _progress(self, group: str, topics: Iterable[str]) -> Reading[ConsumeStats]:
        store = self._store
        stats = ConsumeStats()
        offsets = stats.offsets
        for topic in sorted(topics):
            config = self._topics.find(topic)
            if config is None or not config.read_queue_count:
                continue
            key = key_of(group, topic)
            committed_of, pulled_of = self._offsets.queues_of(key), self._offsets.pulled_of(key)
            popped_of = self._in_flight.counts_of(key)
            for queue_id in range(config.read_queue_count):
                if len(offsets) % TURN_MAX == TURN_MAX - 1:
                    yield PAUSE
                committed, last_time = committed_of.get(queue_id, 0), 0
                if committed:
                    last_time = yield from store.readings.store_time_at(topic, queue_id, committed - 1)
                offsets[MessageQueue(topic, self._own.name, queue_id)] = ConsumeOffset(
                    broker_offset=store.max_queue_offset(topic, queue_id),
                    consumer_offset=committed,
                    last_time=max(last_time, 0),
                    pull_offset=max(committed, pulled_of.get(queue_id, 0)),
                    popped=popped_of.get(queue_id),
                )
            stats.consume_tps += self._statistics.tps("GROUP_GET_NUMS", key)
        return stats

    def _all_progress(self, *, is_order: bool) -> Reading[bytes]:
        answer, turn, queue_count = BrokerConsumeStats(self._own.address), 0, 0
        for name in [group.group for group in self._groups]:
            stats: list[ConsumeStats] = []
            for topic in sorted(self._offsets.topics_of(name)):
                config = self._topics.find(topic)
                if config is None or (is_order and not config.order):
                    continue
                if not self._consumers.may_consume(name, topic):
                    continue
                queue_count += config.read_queue_count
                if queue_count > QUEUES_MAX:
                    raise Refused(
                        ResponseCode.SYSTEM_ERROR,
                        f"groups have offsets in more than {QUEUES_MAX} queues: request each group's lag",
                    )
                stats.append((yield from self._progress(name, [topic])))
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
            committed = self._offsets.committed(group, name, queue_id) or 0
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
