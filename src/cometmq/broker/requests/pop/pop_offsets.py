"""Where the next pop of a queue begins: the group's committed offset there.

It moves as soon as the check point of what was handed out is stored, so it means "handed out", not
"consumed". Under SYNC_FLUSH it moves once the check point is on the disk: else a loss of power could leave
the offset and take the check point, and with it the messages. Until then the next pops go on from an offset
that is held in memory. (RocketMQ: PopMessageProcessor.getPopOffset, PopBufferMergeService.java.)
"""

from collections.abc import Iterable
from enum import IntEnum
from functools import partial

from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.state.offsets import NO_OFFSET, SEPARATOR, Offsets
from cometmq.format.pop.names import RetryFlag
from cometmq.store.reading import Reading
from cometmq.store.store import MessageStore


class InitMode(IntEnum):
    """Where a group begins in a queue in which it has no offset yet."""

    MIN = 0
    """At the first message."""
    MAX = 1
    """At the last one; at the first of a young queue."""


class PopOffsets:
    """The offsets at which pops begin.

    Args:
        begins_young: whether a group that begins at the end of a young queue gets all of it.
    """

    def __init__(
        self, store: MessageStore, offsets: Offsets, disk_waits: DiskWaits, *, begins_young: bool
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._disk_waits = disk_waits
        self._begins_young = begins_young
        self._waits = store.settings.sync_flush
        self._ahead: dict[str, dict[int, int]] = {}
        offsets.on_delete.append(self._delete)

    def next_offset(self, key: str, queue_id: int) -> int | None:
        """Return where the next pop begins; None if the group has no offset in the queue.

        Args:
            key: of group and topic: see ``offsets.key_of``.
        """
        offset = self._offsets.queues_of(key).get(queue_id)
        if self._ahead and (ahead := self._ahead.get(key, {}).get(queue_id)) is not None:
            return ahead if offset is None else max(offset, ahead)
        return offset

    def next_offsets(self, key: str, queue_ids: Iterable[int]) -> list[int | None]:
        """Return where the next pops of some queues begin: see ``next_offset``."""
        if self._ahead:
            return [self.next_offset(key, queue_id) for queue_id in queue_ids]
        offsets = self._offsets.queues_of(key)
        return [offsets.get(queue_id) for queue_id in queue_ids]

    @property
    def is_any_reset(self) -> bool:
        """Whether a reset waits for any group's next pop or pull."""
        return self._offsets.is_any_reset

    def has_reset(self, key: str, queue_id: int) -> bool:
        """Check whether a reset waits for a pop of the queue."""
        return self._offsets.has_reset(key, queue_id)

    def take_reset(self, key: str, queue_id: int) -> int | None:
        """Return and clear the offset of a reset that waits for a pop; None if there is none."""
        if not self._offsets.has_reset(key, queue_id):
            return None
        topic, _, group = key.partition(SEPARATOR)
        offset = self._offsets.pop_reset(group, topic, queue_id)
        if offset is not None:
            self._ahead.get(key, {}).pop(queue_id, None)
        return offset

    def begin(self, key: str, queue_id: int, flag: RetryFlag, init_mode: int) -> Reading[int]:
        """Find where a group begins in a queue, and commit that."""
        topic, _, group = key.partition(SEPARATOR)
        store = self._store
        if flag is not RetryFlag.NONE or init_mode != InitMode.MAX:
            offset = store.min_queue_offset(topic, queue_id)
        elif self._begins_young and (yield from store.readings.is_young(topic, queue_id)):
            offset = 0
        else:
            offset = max(store.max_queue_offset(topic, queue_id) - 1, 0)
        self._offsets.commit(group, topic, queue_id, offset)
        return offset

    def move(self, key: str, queue_id: int, offset: int) -> None:
        """Move the next pop to ``offset``, and commit that: under SYNC_FLUSH after the disk's sync."""
        if not self._waits:
            self._offsets.move_popped(key, queue_id, offset)
            return
        self._ahead.setdefault(key, {})[queue_id] = offset
        self._disk_waits.add(partial(self._settle, key, queue_id, offset), 0)

    def commit(self, key: str, queue_id: int, offset: int) -> None:
        """Commit an offset behind messages that are acknowledged: that waits for nothing."""
        if (queues := self._ahead.get(key)) is not None:
            queues.pop(queue_id, None)
        topic, _, group = key.partition(SEPARATOR)
        self._offsets.commit_with_log(group, topic, queue_id, offset)

    def record_popped(self, key: str, queue_id: int, offset: int) -> None:
        """Record that pops have delivered all before ``offset``: for operators, as of pulls."""
        self._offsets.record_pulls(((key, queue_id, NO_OFFSET, NO_OFFSET, offset),))

    def _settle(self, key: str, queue_id: int, offset: int, error: str | None) -> None:
        """Commit an offset unless its check point may not be on the disk, or a reset came meanwhile."""
        queues = self._ahead.get(key, {})
        ahead = queues.get(queue_id)
        if error is not None or ahead is None or ahead < offset:
            return  # after an error the next pops go on from what is in memory
        self._offsets.move_popped(key, queue_id, offset)
        if ahead == offset:
            del queues[queue_id]
            if not queues:
                del self._ahead[key]

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._ahead.pop(key, None)
