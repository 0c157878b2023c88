"""How many messages pop consumers hold: handed out, and neither acknowledged nor revived.

The counts are in memory only. What was handed out before the broker started is not counted, so its
acknowledgements do not count either. They tell how far a group lags behind, and decide nothing else unless
``enablePopMessageThreshold`` is set. (RocketMQ: PopInflightMessageCounter.java.)
"""

from collections.abc import Iterable, Mapping

from cometmq.broker.state.offsets import key_of


class InFlight:
    """Counts of messages that are handed out, by group, topic and queue.

    Args:
        began_ms: when the broker started, ms since the epoch.
    """

    def __init__(self, began_ms: int) -> None:
        self._began_ms = began_ms
        self._counts: dict[str, dict[int, int]] = {}

    def add(self, key: str, queue_id: int, count: int) -> None:
        """Count messages that are handed out.

        Args:
            key: of the group and the topic: see ``offsets.key_of``.
        """
        queues = self._counts.get(key)
        if queues is None:
            queues = self._counts[key] = {}
        queues[queue_id] = queues.get(queue_id, 0) + count

    def remove(self, group: str, topic: str, queue_id: int, pop_time_ms: int, count: int = 1) -> None:
        """Count messages that are acknowledged or revived; a count does not fall below 0."""
        if pop_time_ms < self._began_ms or (queues := self._counts.get(key_of(group, topic))) is None:
            return
        if (left := queues.get(queue_id, 0) - count) > 0:
            queues[queue_id] = left
        else:
            queues.pop(queue_id, None)

    def count(self, group: str, topic: str, queue_id: int) -> int:
        """Return how many messages of a queue a group holds."""
        return self._counts.get(key_of(group, topic), {}).get(queue_id, 0)

    def counts_of(self, key: str) -> Mapping[int, int]:
        """Return how many messages a group holds in a topic, by queue: see ``offsets.key_of``."""
        return self._counts.get(key, {})

    def clear(self, group: str, topic: str, queue_id: int) -> None:
        """Set the count of a queue to 0: the group's offset was reset, or it reads in order."""
        if (queues := self._counts.get(key_of(group, topic))) is not None:
            queues.pop(queue_id, None)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete the counts of groups in topics: see ``offsets.key_of``."""
        for key in keys:
            self._counts.pop(key, None)
