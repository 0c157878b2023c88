"""Operators' requests to remove files, queues and topics. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads, read
from cometmq.broker.refused import outcome
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.pop.message_modes import RequestModes
from cometmq.broker.state.saved_entries import Change, when_all_published
from cometmq.broker.state.topics import Topics, is_system_topic
from cometmq.errors import StoreNotWritable
from cometmq.format.layout import is_light
from cometmq.net.server import Session
from cometmq.store.queue.queues import QueueKey
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import TopicConfig, encode
from cometmq.wire.bodies.stats import QueueWrites
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields
from cometmq.wire.headers.admin import QueueWritesHeader

TURN_MAX: Final = 500
"""Most topics that one turn of the loop examines or deletes."""


class StoreAdmin:
    """Removes expired files, unused queues and topics, and the data of deleted topics.

    Args:
        answer_reset: answers the held pulls of a group, a topic and a queue whose offset was reset.
    """

    def __init__(
        self,
        topics: Topics,
        store: MessageStore,
        offsets: Offsets,
        modes: RequestModes,
        reads: Reads,
        answer_reset: Callable[[str, str, int], None],
    ) -> None:
        self._topics = topics
        self._store = store
        self._offsets = offsets
        self._modes = modes
        self._reads = reads
        self._answer_reset = answer_reset
        topics.on_delete(self._delete_data)
        topics.on_change.append(self._begin_anew)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired,
            RequestCode.TRIGGER_DELETE_FILES: self.delete_expired,
            RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: self.queue_writes,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
        }

    def delete_expired(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """DELETE_EXPIRED_COMMITLOG: the next rounds remove files past fileReservedTime, at any hour.

        TRIGGER_DELETE_FILES is its older code.
        """
        self._store.retention.ask()
        return response(command)

    def queue_writes(self, _session: Session, command: Command, _header: QueueWritesHeader) -> Command:
        """CHECK_ROCKSDB_CQ_WRITE_PROGRESS: nothing differs, as all queues are in files only."""
        return response(command, body=encode(QueueWrites("no queue is in RocksDB: nothing to check")))

    def clean_queues(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """CLEAN_EXPIRED_CONSUMEQUEUE: remove the queues whose messages are all removed.

        A Java broker removes those in use too. They then restart at 0, and consumers with higher offsets
        would miss messages; so here only queues without a topic, or with ids beyond its queues, are removed.
        """

        def delete_offsets(queues: list[QueueKey]) -> None:
            for topic, queue_id in queues:
                self._offsets.delete_queue(topic, queue_id)

        cleaning = self._store.deletions.unused(self._is_used, delete_offsets)
        return self._reads.answer(session, command, cleaning, lambda _: response(command))

    def clean_topics(self, session: Session, command: Command, _header: NoFields) -> Command | None:
        """CLEAN_UNUSED_TOPIC: remove the queues of topics that do not exist."""

        def answer(error: StoreNotWritable | None) -> None:
            if not command.is_oneway:
                session.send(outcome(command, error))

        def answer_later(changes: list[Change[TopicConfig]]) -> None:
            when_all_published(changes, answer)

        return self._reads.answer(session, command, self._clean_topics(), answer_later)

    def _clean_topics(self) -> Reading[list[Change[TopicConfig]]]:
        changes: dict[Change[TopicConfig], None] = {}
        topics = self._store.topics()
        for first in range(0, len(topics), TURN_MAX):
            if unused := list(filter(self._is_unknown, topics[first : first + TURN_MAX])):
                changes[self._topics.delete(unused)] = None
            yield PAUSE
        return list(changes)

    async def _delete_data(self, topics: Collection[str]) -> None:
        """Delete the messages of topics, the offsets in them, and their modes. Raises StoreNotWritable."""
        await self._modes.delete_topics(topics)
        await read(self._store, self._deletion(list(topics)))

    def _deletion(self, topics: list[str]) -> Reading[None]:
        yield from self._store.deletions.topics(topics)
        for first in range(0, len(topics), TURN_MAX):
            self._offsets.delete_topics(topics[first : first + TURN_MAX])
            self._begin_anew(topics[first : first + TURN_MAX])
            yield PAUSE

    def _begin_anew(self, topics: Iterable[str]) -> None:
        """Begin at 0 for the groups that read topics before they were deleted, if the topics exist again."""
        read = self._offsets.read_before_deletion
        for topic in [topic for topic in topics if topic in read]:
            if self._topics.find(topic) is not None:
                for group, queue_id in self._offsets.begin_anew(topic):
                    self._answer_reset(group, topic, queue_id)

    def _is_unknown(self, topic: str) -> bool:
        return self._topics.find(topic) is None and not _needs_no_topic(topic)

    def _is_used(self, topic: str, queue_id: int) -> bool:
        if _needs_no_topic(topic):
            return True
        known = self._topics.find(topic)
        return known is not None and queue_id < max(known.read_queue_count, known.write_queue_count)


def _needs_no_topic(name: str) -> bool:
    """Check whether queues stay without a topic: RocketMQ's own, and light queues, which never have one."""
    return is_light(name) or is_system_topic(name)
