"""The committed offsets of consumer groups: ``config/consumerOffset.json``.

::

    {"dataVersion": {…}, "groupTopicMap": {group: [topic]}, "offsetTable": {"topic@group": {0: 17, 1: 5}}}

``groupTopicMap`` is written as RocketMQ writes it and never read. Saved every few seconds and when the broker
stops, so a killed broker may deliver messages again that a consumer had already acknowledged.

An offset that a pop moves relies on a check point in the log, and must not be on the disk without it: a loss
of power would leave messages that nobody gets. So a save with such an offset waits for the log's sync.
(RocketMQ: ConsumerOffsetManager.java.)
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from typing import Any, Final

from cometmq.broker.state import table_files
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.errors import StoreNotWritable
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import ConsumerOffsets, DataVersion, to_plain

AHEAD_WARNINGS_MAX: Final = 1_000
"""Most queues and groups for which is remembered that a commit ahead of the queue's end was logged."""

_log = get_logger(__name__)

SEPARATOR: Final = "@"
"""Between topic and group in a key; no name can hold it."""

NO_OFFSET: Final = -1
"""In place of an offset that a pull or a pop does not move: see ``Offsets.record_pulls``."""

READ_BEFORE_MAX: Final = 1_000
"""Most deleted topics of which is remembered who has read them, until they are made anew."""

_NO_QUEUES: Final[Mapping[int, int]] = {}


class Offsets(ChangingTable[str, dict[int, int]]):
    """Committed offsets by group, topic and queue.

    Attributes:
        on_delete: called with the keys of groups in topics whose offsets are deleted.
    """

    def __init__(self, table: JsonTable, clock: Clock) -> None:
        super().__init__(table)
        self._version = DataVersion(timestamp=clock.now_ms())
        self._committed: dict[str, dict[int, int]] = {}
        self._pulled: dict[str, dict[int, int]] = {}
        self._reset: dict[str, dict[int, int]] = {}
        self._begun: dict[str, dict[int, int]] = {}  # only where nothing is committed
        self._read_before: dict[str, dict[str, dict[int, int]]] = {}  # by deleted topic
        self._keys = _GroupTopicKeys()  # of committed, pulled, reset and begun offsets
        self._end_of: Callable[[str, int], int] | None = None
        self._ahead: set[tuple[str, int]] = set()
        self.on_delete: list[Callable[[AbstractSet[str]], object]] = []
        self._wait_flushed: Callable[[], Future[None]] | None = None
        self._relies_on_log = False
        self._synced: Future[None] | None = None  # of the log, which the next write waits for

    def load(
        self,
        max_offset: Callable[[str, int], int],
        wait_flushed: Callable[[], "Future[None]"] | None = None,
    ) -> None:
        """Read the table; an offset after its queue's end is set to the end, a negative one is dropped.

        Args:
            max_offset: returns the end of a queue; later commits are compared with it, too.
            wait_flushed: returns a future that is done once all that the log has now is synced.

        Raises StoreDamaged if the file holds something else than offsets.
        """
        self._end_of, self._wait_flushed = max_offset, wait_flushed
        content = table_files.load(self._table, ConsumerOffsets)
        if content is None:
            return
        self._version = content.data_version or self._version
        self._committed = content.offsets
        for key, queues in self._committed.items():
            self._keys.add(key)
            topic = key.partition(SEPARATOR)[0]
            for queue_id, offset in list(queues.items()):
                limit = max_offset(topic, queue_id)
                if offset < 0:
                    _log.warning(
                        "%s queue %d: committed offset %d is negative and dropped", key, queue_id, offset
                    )
                    del queues[queue_id]
                    self._changes[key] = None
                if offset > limit:
                    _log.warning(
                        "%s queue %d: committed %d, but the queue ends at %d", key, queue_id, offset, limit
                    )
                    queues[queue_id] = limit
                    self._changes[key] = None
        self._add_loaded(self._committed)

    def follow_master(self, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Copy the master's offsets by key and queue; those that it has not are kept."""
        for key, queues in offsets.items():
            if self._committed.get(key) != queues:
                self._begin(self._committed, key).update(queues)
                self._changes[key] = None

    def keys(self) -> list[str]:
        """Return the keys of all groups in their topics."""
        return list(self._committed)

    def copies(self, keys: Iterable[str]) -> dict[str, dict[int, int]]:
        """Return the offsets of these keys by queue, without keys that have none."""
        return {key: dict(queues) for key in keys if (queues := self._committed.get(key)) is not None}

    def as_table(self, offsets: Mapping[str, Any]) -> dict[str, Any]:
        """Return the table that has these offsets by key, in RocketMQ's form. Safe from any thread."""
        topics: dict[str, list[str]] = {}
        for key in offsets:
            topic, _, group = key.partition(SEPARATOR)
            topics.setdefault(group, []).append(topic)
        return {"dataVersion": to_plain(self._version), "groupTopicMap": topics, "offsetTable": dict(offsets)}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit that ``group`` has consumed all messages before ``offset``; it may be lower than before.

        After a reset commits are ignored until the group's next pull: its members do not know of it yet.
        """
        key = key_of(group, topic)
        if self._reset and queue_id in self._reset.get(key, ()):
            return
        self._changes[key] = None
        if (queues := self._committed.get(key)) is None:
            queues = self._begin(self._committed, key)
        queues[queue_id] = offset
        if self._begun:
            self._forget_begun(key, queue_id)
        self.warn_if_ahead(key, queue_id, offset)

    def commit_with_log(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Commit as ``commit`` does, and save it only once all that the log has now is synced."""
        self._relies_on_log = True
        self.commit(group, topic, queue_id, offset)

    def take_changed(self) -> dict[str, dict[int, int] | None] | None:
        """Return copies of the offsets that changed since the last call; None if none did."""
        changes = super().take_changed()
        if changes is not None and self._relies_on_log and self._wait_flushed is not None:
            self._synced, self._relies_on_log = self._wait_flushed(), False
        return changes

    def warn_if_ahead(self, key: str, queue_id: int, offset: int) -> None:
        """Log, once, a commit ahead of its queue's end: the group misses the messages up to that offset."""
        if self._end_of is None:
            return
        topic, _, group = key.partition(SEPARATOR)
        end = self._end_of(topic, queue_id)
        known = key, queue_id
        if offset <= end:
            self._ahead.discard(known)
        elif known not in self._ahead and len(self._ahead) < AHEAD_WARNINGS_MAX:
            self._ahead.add(known)
            _log.warning(
                "group %.130s has committed %d in queue %d of %.130s, which ends at %d: it is ahead by %d "
                "and misses the messages up to there; cometmq offset reset moves it back",
                group,
                offset,
                queue_id,
                topic,
                end,
                offset - end,
            )

    @property
    def is_any_reset(self) -> bool:
        """Whether a reset waits for any group's next pull."""
        return bool(self._reset)

    def record_pulls(self, pulls: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Record many pulls that await no reset: commit as ``commit`` does, without warnings.

        What was pulled is for operators only, and not saved.

        Args:
            pulls: of each the key of group and topic, the queue id, the offset to commit, the offset pulled
                and the next one to pull; ``NO_OFFSET`` for none.
        """
        committed, pulled, changes = self._committed, self._pulled, self._changes
        for key, queue_id, commit_offset, pull_offset, next_offset in pulls:
            if commit_offset >= 0:
                changes[key] = None
                if (queues := committed.get(key)) is None:
                    queues = self._begin(committed, key)
                queues[queue_id] = commit_offset
                if self._begun:
                    self._forget_begun(key, queue_id)
            if next_offset >= 0:
                if (queues := pulled.get(key)) is None:
                    queues = self._begin(pulled, key)
                if queue_id not in queues:
                    self.record_begun(key, queue_id, pull_offset)
                queues[queue_id] = next_offset

    def move_popped(self, key: str, queue_id: int, offset: int) -> None:
        """Record that pops have delivered all before ``offset``, and commit that as ``commit_with_log`` does.

        Args:
            key: see ``key_of``.
        """
        self._relies_on_log = True
        commit_offset = NO_OFFSET if self.has_reset(key, queue_id) else offset
        self.record_pulls(((key, queue_id, commit_offset, NO_OFFSET, offset),))

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Reset ``group`` to ``offset``, whatever its members commit until their next pull.

        What they have pulled is no longer in flight: they drop it, or are given it again.
        """
        key = key_of(group, topic)
        self._pulled.get(key, {}).pop(queue_id, None)
        self._reset.get(key, {}).pop(queue_id, None)
        self.commit(group, topic, queue_id, offset)
        self._reset.setdefault(key, {})[queue_id] = offset

    def has_reset(self, key: str, queue_id: int) -> bool:
        """Check whether a reset of a group in a topic waits: see ``key_of``."""
        return bool(self._reset) and queue_id in self._reset.get(key, _NO_QUEUES)

    def pop_reset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return and clear the offset of a reset that waits for a pull; None if there is none."""
        if not self._reset or (queues := self._reset.get(key := key_of(group, topic))) is None:
            return None
        offset = queues.pop(queue_id, None)
        if not queues:
            del self._reset[key]
        return offset

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy a group's offsets in a topic, if it has any, to another group."""
        if (queues := self._committed.get(f"{topic}{SEPARATOR}{source}")) is not None:
            key = key_of(target, topic)
            self._begin(self._committed, key).update(queues)
            self._changes[key] = None

    def committed(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the committed offset, or None if there is none."""
        queues = self._committed.get(key_of(group, topic))
        return None if queues is None else queues.get(queue_id)

    def queues_of(self, key: str) -> Mapping[int, int]:
        """Return the committed offsets of a group in a topic by queue, as they are now: see ``key_of``."""
        return self._committed.get(key, _NO_QUEUES)

    def pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the offset up to which the group has pulled since the broker started, or None."""
        return self._pulled.get(key_of(group, topic), {}).get(queue_id)

    def pulled_of(self, key: str) -> Mapping[int, int]:
        """Return the pulled offsets of a group in a topic by queue, as they are now: see ``key_of``."""
        return self._pulled.get(key, _NO_QUEUES)

    def record_begun(self, key: str, queue_id: int, offset: int) -> None:
        """Record where a group began to pull, unless that is known or it has committed: not saved.

        Args:
            key: see ``key_of``.
        """
        if offset < 0 or queue_id in self._committed.get(key, _NO_QUEUES):
            return
        if (queues := self._begun.get(key)) is None:
            queues = self._begin(self._begun, key)
        queues.setdefault(queue_id, offset)

    def begun_of(self, key: str) -> Mapping[int, int]:
        """Return where a group began to pull in a topic, by queue, as far as it has committed nothing."""
        return self._begun.get(key, _NO_QUEUES)

    def forget_begun(self, group: str) -> None:
        """Forget where a group began to pull: it is gone, and its next members begin anew."""
        for key in self._keys.of_group(group):
            self._begun.pop(key, None)

    def all_pulled(self) -> Mapping[str, Mapping[int, int]]:
        """Return the pulled offsets of all groups by key and queue, as they are now and change later."""
        return self._pulled

    def groups_of(self, topic: str) -> set[str]:
        """Return the groups that have committed offsets in ``topic``."""
        keys = self._keys.of_topic(topic)
        return {key.partition(SEPARATOR)[2] for key in keys if key in self._committed}

    def topics_of(self, group: str) -> set[str]:
        """Return the topics in which ``group`` has committed offsets."""
        keys = self._keys.of_group(group)
        return {key.partition(SEPARATOR)[0] for key in keys if key in self._committed}

    def delete_topics(self, topics: Iterable[str]) -> None:
        """Delete all offsets in topics; which queues groups have read is kept for ``begin_anew``."""
        for topic in topics:
            keys = set(self._keys.of_topic(topic))
            read = {key: dict.fromkeys(queues, 0) for key in keys if (queues := self._pulled.get(key))}
            self._delete(keys)
            if read and len(self._read_before) < READ_BEFORE_MAX:
                self._read_before[topic] = read

    @property
    def read_before_deletion(self) -> AbstractSet[str]:
        """The deleted topics of which is known who has read them."""
        return self._read_before.keys()

    def begin_anew(self, topic: str) -> list[tuple[str, int]]:
        """Reset to 0 the groups that have read a topic of this name, which was deleted: it is made anew.

        Their members do not know that, and would go on at, and commit, the offsets that they had.
        Returns the groups and queues.
        """
        read = self._read_before.pop(topic, {})
        for key, queues in read.items():
            self._begin(self._reset, key).update(queues)
        return [
            (key.partition(SEPARATOR)[2], queue_id) for key, queues in read.items() for queue_id in queues
        ]

    def delete_queue(self, topic: str, queue_id: int) -> None:
        """Delete all offsets in one queue: it restarts at 0."""
        tables = self._committed, self._pulled, self._reset, self._begun
        for key in list(self._keys.of_topic(topic)):
            for table in tables:
                queues = table.get(key)
                if queues is not None and queues.pop(queue_id, None) is not None:
                    self._changes[key] = None
                    self._ahead.discard((key, queue_id))
            if not any(table.get(key) for table in tables):
                self._delete({key})

    def delete_group(self, group: str) -> None:
        """Delete all offsets of ``group``."""
        self._delete(set(self._keys.of_group(group)))

    def _begin(self, table: dict[str, dict[int, int]], key: str) -> dict[int, int]:
        """Add and return the empty offsets of a group in a topic."""
        self._keys.add(key)
        queues = table[key] = {}
        return queues

    def _forget_begun(self, key: str, queue_id: int) -> None:
        queues = self._begun.get(key)
        if queues is not None and queues.pop(queue_id, None) is not None and not queues:
            del self._begun[key]

    def _delete(self, keys: AbstractSet[str]) -> None:
        if keys:
            self._ahead = {known for known in self._ahead if known[0] not in keys}
        for key in keys:
            self._keys.remove(key)
            self._changes[key] = None
            for table in (self._committed, self._pulled, self._reset, self._begun):
                table.pop(key, None)
        for action in self.on_delete:
            action(keys)

    def _write(self, content: dict[str, Any]) -> None:
        """Write the table once the log is synced that its offsets rely on."""
        if (synced := self._synced) is not None:
            self._synced = None
            try:
                synced.result()
            except StoreNotWritable:
                self._relies_on_log = True
                raise
        super()._write(content)

    def _copy_of(self, name: str) -> dict[int, int] | None:
        queues = self._committed.get(name)
        return None if queues is None else dict(queues)

    def _plain(self, entry: dict[int, int]) -> dict[int, int]:
        return entry

    def _whole(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return self.as_table(entries)


class _GroupTopicKeys:
    """Keys of groups in topics, found by either."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[str, None]] = {}
        self._by_group: dict[str, dict[str, None]] = {}

    def add(self, key: str) -> None:
        """Add a key; no error if it is there."""
        topic, _, group = key.partition(SEPARATOR)
        self._by_topic.setdefault(topic, {})[key] = None
        self._by_group.setdefault(group, {})[key] = None

    def remove(self, key: str) -> None:
        """Remove a key that is there."""
        topic, _, group = key.partition(SEPARATOR)
        for index, name in ((self._by_topic, topic), (self._by_group, group)):
            del index[name][key]
            if not index[name]:
                del index[name]

    def of_topic(self, topic: str) -> Iterable[str]:
        """Return the keys of a topic's groups."""
        return self._by_topic.get(topic, ())

    def of_group(self, group: str) -> Iterable[str]:
        """Return the keys of a group's topics."""
        return self._by_group.get(group, ())


def key_of(group: str, topic: str) -> str:
    """Return the key of a group's offsets in a topic."""
    return f"{topic}{SEPARATOR}{group}"
