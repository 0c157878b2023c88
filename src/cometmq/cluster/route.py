"""From a topic's route to the queues that a client writes to and reads from, and to their brokers.

Source: RocketMQ ``client/impl/factory/MQClientInstance.java`` (topicRouteData2TopicPublishInfo,
topicRouteData2TopicSubscribeInfo), ``client/impl/producer/TopicPublishInfo.java``.
"""

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from typing import Final

from cometmq.format.java_hash import java_hash
from cometmq.message import MessageQueue

READ: Final = 4
WRITE: Final = 2
MASTER: Final = 0
"""The broker id of a master."""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The queues of a topic on one broker; ``perm`` is READ and WRITE added up."""

    broker_name: str
    read_count: int
    write_count: int
    perm: int


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic's queues are.

    Attributes:
        queues: by broker.
        addresses: broker name → broker id → ``ip:port``.
    """

    topic: str
    queues: tuple[QueueCounts, ...]
    addresses: dict[str, dict[int, str]]

    def publish_queues(self) -> list[MessageQueue]:
        """Give the queues that can be written to: those of brokers whose master is known."""
        return [
            MessageQueue(self.topic, counts.broker_name, queue_id)
            for counts in sorted(self.queues, key=lambda counts: counts.broker_name)
            if counts.perm & WRITE and MASTER in self.addresses.get(counts.broker_name, {})
            for queue_id in range(counts.write_count)
        ]

    def subscribe_queues(self) -> list[MessageQueue]:
        """Give the queues that can be read."""
        return [
            MessageQueue(self.topic, counts.broker_name, queue_id)
            for counts in sorted(self.queues, key=lambda counts: counts.broker_name)
            if counts.perm & READ
            for queue_id in range(counts.read_count)
        ]

    def master(self, broker_name: str) -> str | None:
        """Give the address that takes a broker's messages, or None if it is not known."""
        return self.addresses.get(broker_name, {}).get(MASTER)

    def any_broker(self, broker_name: str) -> str | None:
        """Give an address that a broker's messages can be read from: the master's if it is known."""
        addresses = self.addresses.get(broker_name, {})
        return addresses.get(MASTER) or next(iter(addresses.values()), None)


def queue_of_key(queues: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """Give the queue of all messages with a key, the same as Java's ``SelectMessageQueueByHash`` gives."""
    return queues[abs(java_hash(sharding_key)) % len(queues)]


def choose_queue(queues: Sequence[MessageQueue], turn: int, avoid: Collection[str] = ()) -> MessageQueue:
    """Give the queue whose turn it is, passing over brokers to ``avoid`` while there are others."""
    return (avoid and next_queue(queues, turn, avoid)) or queues[turn % len(queues)]


def next_queue(queues: Sequence[MessageQueue], turn: int, avoid: Container[str]) -> MessageQueue | None:
    """Give the first queue, from the one whose turn it is, that is on no broker to ``avoid``."""
    for step in range(len(queues)):
        queue = queues[(turn + step) % len(queues)]
        if queue.broker_name not in avoid:
            return queue
    return None
