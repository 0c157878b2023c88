"""What operators order to be removed from the store. (RocketMQ: AdminBrokerProcessor.java.)"""

from cometmq.broker.offsets import Offsets
from cometmq.broker.requests import Handlers
from cometmq.broker.topics import Topics, is_system_topic
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields


class StoreAdmin:
    """Removes what operators want to be gone."""

    def __init__(self, topics: Topics, store: MessageStore, offsets: Offsets) -> None:
        self._topics = topics
        self._store = store
        self._offsets = offsets

    def handlers(self) -> Handlers:
        """Return what answers which request."""
        return {
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_expired,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_topics,
        }

    def delete_expired(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """DELETE_EXPIRED_COMMITLOG: files past fileReservedTime go in the next rounds, whatever the hour."""
        self._store.retention.ask()
        return response(command)

    def clean_queues(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """CLEAN_EXPIRED_CONSUMEQUEUE: remove the queues whose messages are all gone.

        A Java broker removes those in use too. They then begin anew at 0, and consumers that stand further
        on would pass over messages; so here only those of no topic, or beyond its queues, are removed.
        """
        for topic, queue_id in self._store.retention.remove_unused(self._is_used):
            self._offsets.delete_queue(topic, queue_id)
        return response(command)

    def clean_topics(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """CLEAN_UNUSED_TOPIC: remove the queues of topics that do not exist."""
        for topic in sorted({topic for topic, _ in self._store.queues()}):
            if self._topics.find(topic) is None and not is_system_topic(topic):
                self._store.delete_topic(topic)
                self._offsets.delete_topics([topic])
        return response(command)

    def _is_used(self, topic: str, queue_id: int) -> bool:
        if is_system_topic(topic):
            return True
        known = self._topics.find(topic)
        return known is not None and queue_id < max(known.read_queue_count, known.write_queue_count)
