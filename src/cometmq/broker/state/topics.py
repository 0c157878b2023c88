"""The broker's topics: ``config/topics.json``, and how a send creates one.

A topic is replaced, never changed in place: who holds one sees it as it was. A change counts up the table's
version and holds at once, and the callbacks in ``on_change`` are told the names; then it is saved, and after
that the name servers are told. No answer that says or implies that a topic exists leaves before
(``when_published``). If the disk refuses, a change is taken back, unless reading needs it
(``saved_entries.py``). (RocketMQ: TopicConfigManager.java.)
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state import saved
from cometmq.broker.state.saved_entries import Change, Saved, SavedEntries, when_all_published
from cometmq.errors import IllegalName
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

    Attributes:
        on_change: called with the names of topics that have changed in memory.
        when_informed: calls an action once the name servers know the topics as they are now.
        inform_again: does so too, and tells them in any case.
    """

    def __init__(
        self, table: JsonTable, clock: Clock, boot_topics: Iterable[TopicConfig], *, auto_create: bool
    ) -> None:
        self.data_version = DataVersion(timestamp=clock.now_ms())
        self.on_change: list[Callable[[Collection[str]], object]] = []
        self.when_informed: Callable[[Callable[[], None]], None] = _at_once
        self.inform_again: Callable[[Callable[[], None]], None] = _at_once
        self._table = table
        self._clock = clock
        self._auto_create = auto_create
        self._topics = {topic.topic: topic for topic in boot_topics}
        file = saved.EntryFile[TopicConfig](table, TopicTable, "topics")
        self._saved = SavedEntries(file, self._rest, self._topics, self._publish)
        self._saved.on_undone = self._tell

    def __iter__(self) -> Iterator[TopicConfig]:
        """Go through the topics."""
        return iter(self._topics.values())

    def load(self) -> None:
        """Read the table; topics that it holds win over those that exist at boot.

        But whether a topic is a pattern for others is what the settings say now.

        Raises StoreDamaged if the file holds something else than topics.
        """
        content = saved.load(self._table, TopicTable)
        if content is None:
            return
        self.data_version = content.data_version
        boot, mended = self._topics.copy(), False
        for name, topic in content.topics.items():
            try:
                named = replace(topic, topic=valid_topic(name))
            except IllegalName as error:
                _log.error("%s: a topic is left out: %s", self._table.path, error)
                continue
            if name == AUTO_CREATE_TOPIC:  # there, and as large, as the settings say now
                mended |= boot.get(name) != named
                continue
            self._topics[name] = loaded = self._mended(named, boot.get(name))
            mended |= loaded != named
        if mended:  # name servers must hear of it
            self.data_version = self.data_version.next(self._clock.now_ms())

    def _mended(self, topic: TopicConfig, boot: TopicConfig | None) -> TopicConfig:
        """Return a topic of the table within its limits; whether it is a pattern is what the settings say."""
        read_count, write_count = (
            min(max(count, 0), QUEUE_COUNT_MAX) for count in (topic.read_queue_count, topic.write_queue_count)
        )
        perm = topic.perm if 0 <= topic.perm <= INHERITED else topic.perm & READ_WRITE
        within = replace(topic, read_queue_count=read_count, write_queue_count=write_count, perm=perm)
        if within != topic:
            _log.error(
                "%s: topic %s has readQueueNums %d, writeQueueNums %d and perm %d: going on with %d, %d and "
                "%d, as 0 to %d queues and perm 0 to %d are possible; cometmq topic update sets them",
                *(self._table.path, topic.topic),
                *(topic.read_queue_count, topic.write_queue_count, topic.perm),
                *(read_count, write_count, perm, QUEUE_COUNT_MAX, INHERITED),
            )
        if boot is None:
            return within
        return replace(within, perm=within.perm & ~PERM_INHERIT | boot.perm & PERM_INHERIT)

    def find(self, name: str) -> TopicConfig | None:
        """Give a topic, or None if there is none of this name."""
        return self._topics.get(name)

    def creation(self, name: str) -> Change[TopicConfig] | None:
        """Return what creates a topic, as long as the disk or a name server does not know of it."""
        change = self._saved.unfinished(name)
        return change if change is not None and name in change.created else None

    def when_published(self, names: Iterable[str], action: Saved) -> None:
        """Call ``action`` once the disk has topics as they are now and the name servers have been told.

        It gets None; if the disk refuses, it gets the reason at once. Where nothing has changed, the name
        servers are told once more: an operator may have had them forget a topic.
        """
        changes = [change for name in names if (change := self._saved.unfinished(name)) is not None]
        if changes:
            when_all_published(list(dict.fromkeys(changes)), action)
        else:
            self.inform_again(partial(action, None))

    def publish_all(self) -> None:
        """Hold back answers that rely on any topic until the name servers know it: the broker starts."""
        self._saved.announce()

    async def settled(self) -> None:
        """Wait until nothing is left to save, or what is left cannot be saved now."""
        await self._saved.settled()

    async def stop(self) -> None:
        """Save what is left."""
        await self._saved.stop()

    def create_by_send(
        self, name: str, *, pattern: str, queue_count: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a topic after the pattern topic; None if that does not exist or is no pattern.

        Raises IllegalName.
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

    def find_or_create(self, name: str, queue_count: int = 1, *, optional: bool = False) -> TopicConfig:
        """Give a topic that the broker needs, created if it is not there: a group's retries, say.

        Args:
            optional: it is there although the disk refuses it: reading needs it.

        Raises:
            IllegalName: no topic can have this name.
        """
        topic = self._topics.get(name)
        if topic is None:
            count = min(max(queue_count, 0), QUEUE_COUNT_MAX)
            topic = TopicConfig(topic=name, read_queue_count=count, write_queue_count=count, perm=READ_WRITE)
            self._change({valid_topic(name): topic}, optional=optional)
        return topic

    def put(self, topic: TopicConfig) -> TopicConfig:
        """Create a topic, or replace the one of its name; give it. Raises IllegalName."""
        if self._topics.get(topic.topic) != topic:
            self._change({valid_topic(topic.topic): topic})
        return topic

    def put_all(self, topics: Iterable[TopicConfig]) -> None:
        """Create or replace topics, all or none, with one change of the table. Raises like ``put``."""
        changed = {valid_topic(topic.topic): topic for topic in topics}
        if any(self._topics.get(name) != topic for name, topic in changed.items()):
            self._change(changed)

    def delete(self, names: Iterable[str]) -> Change[TopicConfig]:
        """Remove topics, with what ``on_delete`` deletes of them; no error if there are none."""
        gone = dict.fromkeys(names)
        known = gone.keys() & self._topics.keys()
        change = self._saved.change(gone)
        if known:
            self._tell(known)
        return change

    def as_table(self) -> TopicTable:
        """Give all topics in RocketMQ's form."""
        return TopicTable(self.data_version, topics=self._topics)

    def on_delete(self, delete_data: Callable[[Collection[str]], Awaitable[None]]) -> None:
        """Delete by ``delete_data`` what there is in topics that are removed. It raises StoreNotWritable."""
        self._saved.delete_data = delete_data

    def _change(self, topics: Mapping[str, TopicConfig], *, optional: bool = False) -> None:
        self._saved.change(topics, optional=optional)
        self._tell(topics)

    def _tell(self, names: Collection[str]) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        for notice in self.on_change:
            notice(names)

    def _rest(self) -> TopicTable:
        """Return the table without the topics."""
        return TopicTable(self.data_version)

    def _publish(self, change: Change[TopicConfig]) -> None:
        """Register a change with the name servers."""
        self.when_informed(partial(self._saved.note_known, change))


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
