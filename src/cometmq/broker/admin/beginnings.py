"""Where groups begin in queues in which they have committed nothing: their lag is counted from there.

A queue's beginning, where members begin at the first message, in the group's own retry topic, and in a topic
in which the group has committed offsets of other queues: this one was added later. Elsewhere it is where a
member began to pull since the broker started; before that nothing is known, and no lag is made up.
Groups that broadcast keep their offsets themselves, and have no lag.
"""

from collections.abc import Callable

from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.offsets import Offsets, key_of
from cometmq.format.layout import RETRY_PREFIX
from cometmq.net.server import Session
from cometmq.wire.bodies import ConsumeFromWhere


class Beginnings:
    """Finds where groups begin.

    Args:
        min_offset: returns the first offset of a queue.
    """

    def __init__(
        self, consumers: Consumers[Session], offsets: Offsets, min_offset: Callable[[str, int], int]
    ) -> None:
        self._consumers = consumers
        self._offsets = offsets
        self._min_offset = min_offset

    def find(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return where a group that has committed nothing in a queue begins; None if that is not known."""
        known = self._consumers.find(group)
        if known is not None and known.is_broadcasting:
            return None
        first, key = self._min_offset(topic, queue_id), key_of(group, topic)
        if topic.startswith(RETRY_PREFIX) or (
            known is not None
            and known.consume_from_where is ConsumeFromWhere.FIRST_OFFSET
            and topic in known.subscriptions
        ):
            return first
        begun = self._offsets.begun_of(key).get(queue_id)
        if begun is None:
            return first if self._offsets.queues_of(key) else None
        return max(begun, first)

    def topics_of(self, group: str) -> set[str]:
        """Return the topics in which a group has committed offsets, or to which its members subscribe."""
        known, topics = self._consumers.find(group), self._offsets.topics_of(group)
        if known is not None and not known.is_broadcasting:
            topics.update(known.subscriptions)
        return topics
