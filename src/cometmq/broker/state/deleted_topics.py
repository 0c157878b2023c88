"""Messages that wait for a topic that was deleted meanwhile: they must not appear in a topic recreated since.

A delayed, timed or half message lies under another topic until it is due, so it is not deleted with its own
topic. The store knows where in the log a topic was deleted: messages that waited before that are dropped.
"""

from typing import Final

from cometmq.format import properties
from cometmq.format.properties import REAL_TOPIC
from cometmq.format.record import Record
from cometmq.logs import get_logger
from cometmq.store.store import MessageStore

LOGGED_MAX: Final = 1_000
"""Most deletions that are remembered as logged."""

_log = get_logger(__name__)


class DeletedTopics:
    """The topics of a store that were deleted while messages waited for them."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._logged: set[tuple[str, int]] = set()

    def has_topic_of(self, waiting: Record) -> bool:
        """Check whether a waiting record's own topic was deleted after it; log each deletion once."""
        if not self._store.is_any_deleted:
            return False
        topic = properties.decode(waiting.properties).get(REAL_TOPIC, "")
        deleted_before = self._store.deleted_before(topic)
        if waiting.physical_offset >= deleted_before:
            return False
        deletion = topic, deleted_before
        if deletion not in self._logged and len(self._logged) < LOGGED_MAX:
            self._logged.add(deletion)
            _log.warning(
                "topic %s was deleted while messages waited for it: they are left out, the first at %d",
                topic,
                waiting.physical_offset,
            )
        return True
