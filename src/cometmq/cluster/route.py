"""Derive from a topic's route the queues to send to and to read from, and the addresses of their brokers.

Source: RocketMQ ``client/impl/factory/MQClientInstance.java`` (topicRouteData2TopicPublishInfo,
topicRouteData2TopicSubscribeInfo), ``client/impl/producer/TopicPublishInfo.java``.
"""

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from typing import Final

from cometmq.errors import FormatError
from cometmq.format.java.java_hash import java_hash
from cometmq.format.layout import QUEUE_COUNT_MAX, ROUTE_QUEUES_MAX
from cometmq.message import MessageQueue

READ: Final = 4
WRITE: Final = 2
MASTER: Final = 0
"""The broker id of a master."""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The number of queues of a topic on one broker; ``perm`` is the sum of READ and WRITE."""

    broker_name: str
    read_count: int
    write_count: int
    perm: int

    def fault(self, most: int = QUEUE_COUNT_MAX) -> str | None:
        """Return what is wrong with the numbers of queues, and on which broker if it is named.

        The result is None if both are 0 to ``most``.
        """
        where = f" on broker {self.broker_name!r:.80}" if self.broker_name else ""
        for count, use in ((self.read_count, "read"), (self.write_count, "write")):
            if not 0 <= count <= most:
                return f"{count} queues to {use}{where}, not 0 to {most}"
        return None


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a topic.

    Attributes:
        queues: the number of queues on each broker.
        addresses: ``ip:port`` by broker name and broker id.

    Raises:
        FormatError: the topic has a negative number of queues, or more than a client can hold.
    """

    topic: str
    queues: tuple[QueueCounts, ...]
    addresses: dict[str, dict[int, str]]

    def __post_init__(self) -> None:
        fault = next((fault for counts in self.queues if (fault := counts.fault()) is not None), None)
        total = sum(max(counts.read_count, counts.write_count) for counts in self.queues)
        if fault is None and total > ROUTE_QUEUES_MAX:
            fault = f"{total} queues on all brokers, more than {ROUTE_QUEUES_MAX}"
        if fault is not None:
            raise FormatError(
                f"topic {self.topic!r:.300} has {fault}: set fewer, by cometmq topic create for example, or "
                "find out who registers it so"
            )

    def publish_queues(self) -> list[MessageQueue]:
        """Return the queues that can be written: those of brokers whose master is known."""
        return [
            MessageQueue(self.topic, counts.broker_name, queue_id)
            for counts in sorted(self.queues, key=lambda counts: counts.broker_name)
            if counts.perm & WRITE and MASTER in self.addresses.get(counts.broker_name, {})
            for queue_id in range(counts.write_count)
        ]

    def subscribe_queues(self) -> list[MessageQueue]:
        """Return the queues that can be read."""
        return [
            MessageQueue(self.topic, counts.broker_name, queue_id)
            for counts in sorted(self.queues, key=lambda counts: counts.broker_name)
            if counts.perm & READ
            for queue_id in range(counts.read_count)
        ]

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, to which messages are sent; None if it is not known."""
        return self.addresses.get(broker_name, {}).get(MASTER)

    def suggested(self, broker_name: str, broker_id: int) -> str | None:
        """Return the address of the broker that one of its name suggests to read from, or of another one."""
        addresses = self.addresses.get(broker_name, {})
        return addresses.get(broker_id) or addresses.get(broker_id + 1) or self.any_broker(broker_name)

    def any_broker(self, broker_name: str) -> str | None:
        """Return an address from which a broker's messages can be read: the master's if it is known."""
        addresses = self.addresses.get(broker_name, {})
        return addresses.get(MASTER) or next(iter(addresses.values()), None)


def queue_of_key(queues: Sequence[MessageQueue], sharding_key: str) -> MessageQueue:
    """Return the queue of all messages with a sharding key, as Java's ``SelectMessageQueueByHash`` does."""
    return queues[abs(java_hash(sharding_key)) % len(queues)]


def choose_queue(queues: Sequence[MessageQueue], turn: int, avoid: Collection[str] = ()) -> MessageQueue:
    """Return the queue whose turn it is, skipping brokers to ``avoid`` if there are others."""
    return (avoid and next_queue(queues, turn, avoid)) or queues[turn % len(queues)]


def next_queue(queues: Sequence[MessageQueue], turn: int, avoid: Container[str]) -> MessageQueue | None:
    """Return the next queue in turn that is not on a broker to ``avoid``; None if there is none."""
    for step in range(len(queues)):
        queue = queues[(turn + step) % len(queues)]
        if queue.broker_name not in avoid:
            return queue
    return None
