"""The broker's topics: ``config/topics.json``, and how a send creates one.

A topic is replaced, never changed in place: who holds one sees it as it was. A change counts up the
table's version, is saved, and only then holds; the callbacks in ``on_change`` are told the names. If the disk
refuses, nothing changes. (RocketMQ: TopicConfigManager.java.)
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from cometmq.broker import saved
from cometmq.broker.settings import BrokerSettings
from cometmq.errors import IllegalName
from cometmq.format import fastjson
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.layout import DLQ_PREFIX, REPLY_SUFFIX, RETRY_PREFIX, valid_topic
from cometmq.io.clock import Clock
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, TopicConfig, TopicTable

QUEUE_COUNT_MAX: Final = 65_535

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
READ_WRITE: Final = PERM_READ | PERM_WRITE
INHERITED: Final = READ_WRITE | PERM_INHERIT

AUTO_CREATE_TOPIC: Final = "TBW102"
"""The pattern of topics that a send creates."""
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
"""Where half messages go whose producers were asked too often."""
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
SYSTEM_PREFIX: Final = "rmq_sys_"
TIMER_TOPIC: Final = f"{SYSTEM_PREFIX}wheel_timer"
"""Where timed messages wait."""

NOT_FOR_PRODUCERS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        HALF_OP_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
"""Only the broker itself writes into these."""

SYSTEM_TOPICS: Final = NOT_FOR_PRODUCERS | {AUTO_CREATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"}

_log = logging.getLogger(__name__)


class Topics:
    """All topics of one broker, by name.

    Args:
        boot_topics: those that exist without anyone creating them.
        auto_create: whether ``TBW102`` is a pattern for new topics.
    """

    def __init__(
        self, table: JsonTable, clock: Clock, boot_topics: Iterable[TopicConfig], *, auto_create: bool
    ) -> None:
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self.on_change: list[Callable[[Collection[str]], object]] = []
        self.when_published: Callable[[Callable[[], None]], None] = _at_once
        self._table = table
        self._clock = clock
        self._auto_create = auto_create
        self._topics = {topic.topic: topic for topic in boot_topics}
        self._texts = saved.EntryTexts("topics")

    def __iter__(self) -> Iterator[TopicConfig]:
        """Go through the topics."""
        return iter(self._topics.values())

    def load(self) -> None:
        """Read the table; topics that it holds win over those that exist at boot.

        Raises StoreDamaged if the file holds something else than topics.
        """
        content = saved.load(self._table, TopicTable)
        if content is None:
            return
        self.data_version = content.data_version
        for name, topic in content.topics.items():
            try:
                self._topics[valid_topic(name)] = replace(topic, topic=name)
            except IllegalName as error:
                _log.error("%s: a topic is left out: %s", self._table.path, error)

    def find(self, name: str) -> TopicConfig | None:
        """Give a topic, or None if there is none of this name."""
        return self._topics.get(name)

    def text_of(self, topic: TopicConfig) -> fastjson.Written:
        """Give one of these topics as it stands in the table's file: soon, unless it has changed."""
        return self._texts.text_of(topic.topic, topic)

    def create_by_send(
        self, name: str, *, pattern: str, queue_count: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a topic after the pattern topic; None if that does not exist or is no pattern.

        Raises IllegalName or StoreNotWritable.
        """
        model = self._topics.get(pattern)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        if pattern == AUTO_CREATE_TOPIC and not self._auto_create:  # it may be there from before
            return None
        count = max(min(queue_count, model.write_queue_count), 0)
        return self.put(
            TopicConfig(
                topic=name,
                read_queue_count=count,
                write_queue_count=count,
                perm=model.perm & ~PERM_INHERIT,
                filter_type=model.filter_type,
                sys_flag=sys_flag,
            )
        )

    def find_or_create(self, name: str, queue_count: int = 1) -> TopicConfig:
        """Give a topic that the broker needs, created if it is not there: a group's retries, say.

        Raises IllegalName or StoreNotWritable.
        """
        topic = self._topics.get(name)
        return topic or self.put(
            TopicConfig(
                topic=name, read_queue_count=queue_count, write_queue_count=queue_count, perm=READ_WRITE
            )
        )

    def put(self, topic: TopicConfig) -> TopicConfig:
        """Create a topic, or replace the one of its name; give it.

        Raises IllegalName or StoreNotWritable.
        """
        if self._topics.get(topic.topic) != topic:
            self._change(self._topics | {valid_topic(topic.topic): topic}, {topic.topic})
        return topic

    def put_all(self, topics: Iterable[TopicConfig]) -> None:
        """Create or replace topics, all or none, with one change of the table. Raises like ``put``."""
        changed = {valid_topic(topic.topic): topic for topic in topics}
        if any(self._topics.get(name) != topic for name, topic in changed.items()):
            self._change(self._topics | changed, changed)

    def delete(self, name: str) -> None:
        """Remove a topic; no error if there is none."""
        if name in self._topics:
            rest = {other: topic for other, topic in self._topics.items() if other != name}
            self._change(rest, {name})

    def as_table(self) -> TopicTable:
        """Give all topics in RocketMQ's form."""
        return TopicTable(self.data_version, topics=self._topics)

    def _change(self, topics: dict[str, TopicConfig], names: Collection[str]) -> None:
        version = self.data_version.next(self._clock.now_ms())
        saved.save(self._table, TopicTable(version, topics=topics), self._texts)
        self.data_version = version
        self._topics = topics
        for notice in self.on_change:
            notice(names)


def _at_once(action: Callable[[], None]) -> None:
    """Where nobody outside needs to know."""
    action()


def boot_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """List the topics that a broker has without anyone creating them."""
    cluster, broker = settings.broker_cluster_name, settings.broker_name
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic("BenchmarkTest", 1024),
        _topic(cluster, 16, INHERITED if settings.cluster_topic_enable else READ_WRITE),
        _topic(broker, 1, INHERITED if settings.broker_topic_enable else READ_WRITE),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(SCHEDULE_TOPIC, 18),
        _topic(cluster + REPLY_SUFFIX, 1),
        _topic(f"{SYSTEM_PREFIX}REVIVE_LOG_{cluster}", 8),
        _topic(f"{SYSTEM_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, PERM_INHERIT),
        _topic(HALF_TOPIC, 1),
        _topic(HALF_OP_TOPIC, 1),
        _topic(TIMER_TOPIC, 1),
    ]
    if settings.auto_create_topic_enable:
        topics.append(_topic(AUTO_CREATE_TOPIC, settings.default_topic_queue_nums, INHERITED))
    return [topic for topic in topics if is_legal(topic.topic)]  # a host name may hold dots


def is_legal(name: str) -> bool:
    """Tell whether a topic can have this name."""
    try:
        return bool(valid_topic(name))
    except IllegalName:
        return False


def is_system_topic(name: str) -> bool:
    """Tell whether a topic is the broker's own: it cannot be created or deleted by request."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)


def is_group_topic(name: str) -> bool:
    """Tell whether a topic holds a group's retries or dead letters."""
    return name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _topic(name: str, queue_count: int, perm: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(topic=name, read_queue_count=queue_count, write_queue_count=queue_count, perm=perm)
