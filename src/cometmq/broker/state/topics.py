"""The broker's topics: ``config/topics.json``, and how a send creates one.

A topic is replaced, never changed in place. A change increments the table's version and takes effect at once,
and the callbacks in ``on_change`` get the names; then it is saved, and after that published to the name
servers. No response that implies that a topic exists is sent before (``when_published``). If the disk
refuses, a change is undone, unless it is optional (``saved_entries.py``).
(RocketMQ: TopicConfigManager.java.)
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from msgspec.structs import replace

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state import table_files
from cometmq.broker.state.saved_entries import (
    Change,
    SavedCallback,
    SavedEntries,
    SavedTable,
    when_all_published,
)
from cometmq.cluster.system_names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    OFFSET_MOVED_TOPIC,
    SELF_TEST_TOPIC,
    SYSTEM_TOPIC_PREFIX,
)
from cometmq.errors import IllegalName
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.layout import QUEUE_COUNT_MAX, REPLY_SUFFIX, valid_topic
from cometmq.format.pop.names import REVIVE_PREFIX, revive_topic
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.format.transaction import HALF_OP_TOPIC, HALF_TOPIC
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, TopicConfig, TopicTable
from cometmq.wire.bodies.trace import TRACE_TOPIC

PERM_READ: Final = 4
PERM_WRITE: Final = 2
PERM_INHERIT: Final = 1
READ_WRITE: Final = PERM_READ | PERM_WRITE
PATTERN: Final = READ_WRITE | PERM_INHERIT
"""The permission of a topic that sends copy to create others."""

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

SYSTEM_TOPICS: Final = NOT_FOR_PRODUCERS | {AUTO_CREATE_TOPIC, BENCHMARK_TOPIC, TRACE_TOPIC}

_log = get_logger(__name__)


class Topics(SavedTable[TopicConfig]):
    """All topics of one broker, by name.

    Args:
        boot_topics: topics that exist from the start.
        auto_create: whether ``TBW102`` is a pattern for new topics.

    Attributes:
        auto_create: the same, as it is now.
        on_change: called with the names of topics that have changed in memory.
        when_informed: calls an action once the name servers know the present topics.
        inform_again: registers all topics again, then does the same.
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
        self.auto_create = auto_create
        self._topics = {topic.topic: topic for topic in boot_topics}
        file = table_files.EntryFile[TopicConfig](table, TopicTable, "topics")
        self._saved = SavedEntries(file, self._rest, self._topics, self._publish)
        self._saved.on_undone = self._update_version

    def __iter__(self) -> Iterator[TopicConfig]:
        """Iterate over the topics."""
        return iter(self._topics.values())

    def load(self) -> None:
        """Read the table; its topics replace boot topics of the same name.

        But the settings decide whether a topic is a pattern for others.

        Raises StoreDamaged if the file holds something else than topics.
        """
        content = table_files.load(self._table, TopicTable)
        if content is None:
            return
        self.data_version = content.data_version
        boot, corrected = self._topics.copy(), False
        for name, topic in content.topics.items():
            try:
                named = replace(topic, topic=valid_topic(name))
            except IllegalName as error:
                _log.error("%s: a topic is left out: %s", self._table.path, error)
                continue
            if name == AUTO_CREATE_TOPIC:  # the settings decide whether it exists, and its size
                corrected |= boot.get(name) != named
                continue
            self._topics[name] = loaded = _with_inheritance(
                _corrected(named, f"{self._table.path}"), boot.get(name)
            )
            corrected |= loaded != named
        if corrected:  # name servers compare versions
            self.data_version = self.data_version.next(self._clock.now_ms())

    def find(self, name: str) -> TopicConfig | None:
        """Return a topic, or None if there is none of this name."""
        return self._topics.get(name)

    def creation(self, name: str) -> Change[TopicConfig] | None:
        """Return the change that creates a topic; None once it is saved and published."""
        change = self._saved.unfinished(name)
        return change if change is not None and name in change.created else None

    def when_published(self, names: Iterable[str], action: SavedCallback) -> None:
        """Call ``action`` once the present state of topics is saved and published, or with the disk's error.

        Where nothing has changed, the topics are registered again: an operator may have removed one from the
        name servers.
        """
        changes = [change for name in names if (change := self._saved.unfinished(name)) is not None]
        if changes:
            when_all_published(list(dict.fromkeys(changes)), action)
        else:
            self.inform_again(partial(action, None))

    def enter_epoch(self, epoch: int) -> None:
        """Register from now on as of a master's epoch: name servers refuse the master of an older one."""
        self.data_version = replace(self.data_version.next(self._clock.now_ms()), state_version=epoch)

    def publish_all(self) -> None:
        """Publish all topics at the broker's start: sends to a topic wait until the name servers know it."""
        self._saved.announce()

    def create_by_send(
        self, name: str, *, pattern: str, queue_count: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a copy of the pattern topic; return None if that does not exist or is no pattern.

        Raises IllegalName.
        """
        model = self._topics.get(pattern)
        if model is None or not model.perm & PERM_INHERIT:
            return None
        if pattern == AUTO_CREATE_TOPIC and not self.auto_create:  # switched off at run time
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
        """Find a topic that the broker needs, such as a group's retry topic, or create it.

        Args:
            optional: whether it stays in memory if the disk refuses it, since consumers need it.

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
        """Create a topic, or replace the one of its name; return it. Raises IllegalName."""
        if self._topics.get(topic.topic) != topic:
            self._change({valid_topic(topic.topic): topic})
        return topic

    def put_all(self, topics: Iterable[TopicConfig]) -> None:
        """Create or replace topics, all or none, with one change of the table. Raises like ``put``."""
        changed = {valid_topic(topic.topic): topic for topic in topics}
        if any(self._topics.get(name) != topic for name, topic in changed.items()):
            self._change(changed)

    def follow(self, settings: BrokerSettings) -> None:
        """Follow changed settings: ``TBW102`` is a pattern for new topics, so it must exist, or is none."""
        self.auto_create = settings.topics.auto_create_topic_enable
        if self.auto_create and self.find(AUTO_CREATE_TOPIC) is None:
            self.put(next(topic for topic in boot_topics(settings) if topic.topic == AUTO_CREATE_TOPIC))

    def delete(self, names: Iterable[str]) -> Change[TopicConfig]:
        """Remove topics, and their data by the callback of ``on_delete``; unknown names are no error."""
        gone = dict.fromkeys(names)
        known = gone.keys() & self._topics.keys()
        change = self._saved.change(gone)
        if known:
            self._update_version(known)
        return change

    def follow_master(self, table: TopicTable) -> None:
        """Become a copy of the master's topics, with their version; one that it has not is deleted."""
        if table.data_version == self.data_version:
            return
        changes: dict[str, TopicConfig | None] = dict.fromkeys(self._topics.keys() - table.topics.keys())
        changes |= {
            name: _corrected(replace(topic, topic=name), "the master's topics")
            for name, topic in table.topics.items()
            if is_legal(name)
        }
        changed = {name: topic for name, topic in changes.items() if self._topics.get(name) != topic}
        self.data_version = table.data_version
        self._saved.change(changed)
        for action in self.on_change:
            action(changed.keys())

    def as_table(self) -> TopicTable:
        """Return all topics in RocketMQ's form."""
        return TopicTable(self.data_version, topics=self._topics)

    def _change(self, topics: Mapping[str, TopicConfig], *, optional: bool = False) -> None:
        self._saved.change(topics, optional=optional)
        self._update_version(topics)

    def _update_version(self, names: Collection[str]) -> None:
        self.data_version = self.data_version.next(self._clock.now_ms())
        for action in self.on_change:
            action(names)

    def _rest(self) -> TopicTable:
        """Return the table without the topics."""
        return TopicTable(self.data_version)

    def _publish(self, change: Change[TopicConfig]) -> None:
        """Register a change with the name servers."""
        self.when_informed(partial(self._saved.set_known, change))


def _at_once(action: Callable[[], None]) -> None:
    """Call ``action`` at once: there are no name servers."""
    action()


def _corrected(topic: TopicConfig, source: str) -> TopicConfig:
    """Return a topic of a file, or of a master, with its numbers cut to their limits; log the source then."""
    read_count, write_count = (
        min(max(count, 0), QUEUE_COUNT_MAX) for count in (topic.read_queue_count, topic.write_queue_count)
    )
    perm = topic.perm if 0 <= topic.perm <= PATTERN else topic.perm & READ_WRITE
    within = replace(topic, read_queue_count=read_count, write_queue_count=write_count, perm=perm)
    if within != topic:
        _log.error(
            "%s: topic %s has readQueueNums %d, writeQueueNums %d and perm %d: going on with %d, %d and "
            "%d, as 0 to %d queues and perm 0 to %d are possible; cometmq topic update sets them",
            source,
            topic.topic,
            topic.read_queue_count,
            topic.write_queue_count,
            topic.perm,
            read_count,
            write_count,
            perm,
            QUEUE_COUNT_MAX,
            PATTERN,
        )
    return within


def _with_inheritance(topic: TopicConfig, boot: TopicConfig | None) -> TopicConfig:
    """Return a loaded topic with the inherit bit of the boot topic of its name, which the settings decide."""
    if boot is None:
        return topic
    return replace(topic, perm=topic.perm & ~PERM_INHERIT | boot.perm & PERM_INHERIT)


def boot_topics(settings: BrokerSettings) -> list[TopicConfig]:
    """Return the topics that a broker has from the start."""
    cluster, broker = settings.identity.broker_cluster_name, settings.identity.broker_name
    topics = [
        _topic(SELF_TEST_TOPIC, 1),
        _topic(BENCHMARK_TOPIC, 1024),
        _topic(cluster, 16, PATTERN if settings.topics.cluster_topic_enable else READ_WRITE),
        _topic(broker, 1, PATTERN if settings.topics.broker_topic_enable else READ_WRITE),
        _topic(OFFSET_MOVED_TOPIC, 1),
        _topic(SCHEDULE_TOPIC, 18),
        _topic(cluster + REPLY_SUFFIX, 1),
        _topic(revive_topic(cluster), settings.pop.revive_queue_num),
        _topic(f"{SYSTEM_TOPIC_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, PERM_INHERIT),
        _topic(HALF_TOPIC, 1),
        _topic(HALF_OP_TOPIC, 1),
        _topic(TIMER_TOPIC, 1),
    ]
    if settings.topics.auto_create_topic_enable:
        topics.append(_topic(AUTO_CREATE_TOPIC, settings.topics.default_topic_queue_nums, PATTERN))
    return [
        topic for topic in topics if is_legal(topic.topic)
    ]  # the broker's name may be a host's, with dots


def is_legal(name: str) -> bool:
    """Check whether a topic can have this name."""
    try:
        return bool(valid_topic(name))
    except IllegalName:
        return False


def is_for_producers(name: str) -> bool:
    """Check whether producers may send to a topic; only the broker itself writes to the others.

    They include the check points of pops: a forged one would deliver messages of any topic to any group.
    """
    return name not in NOT_FOR_PRODUCERS and not name.startswith(REVIVE_PREFIX)


def is_system_topic(name: str) -> bool:
    """Check whether a topic is the broker's own: it cannot be created or deleted by request."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def _topic(name: str, queue_count: int, perm: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(topic=name, read_queue_count=queue_count, write_queue_count=queue_count, perm=perm)
