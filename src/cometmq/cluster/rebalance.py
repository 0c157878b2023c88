"""Strategies that divide queues among the members of a group: pure functions, the same in every member.

There is no leader. Each member has the same list of queues and the same list of members, and computes
its own share; the shares fit together because the function is the same. While the lists differ between
members (one has heard of a change, another has not) a queue may have two owners or none for a while.

===================== ========================================================================================
``averagely``         blocks of consecutive queues, sizes differ by one at most (RocketMQ's default)
``by_circle``         queues assigned to members in turn: round robin
``ConsistentHash``    a queue goes to the next member on a ring: few queues move when a member joins or leaves
``MachineRoom``       only queues of brokers in given rooms, divided into blocks
``MachineRoomNearby`` queues go to members of their own room if there are any
``ByConfig``          always the same queues, whatever other members there are
===================== ========================================================================================

Source: RocketMQ ``client/consumer/rebalance/AllocateMessageQueue*.java``,
``common/consistenthash/ConsistentHashRouter.java``.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Final, Protocol

from cometmq.message import MessageQueue

VIRTUAL_NODES: Final = 10
"""Number of points of each member on the ring."""
ROOM_END: Final = "@"
"""Separator after the room in a broker's name: ``room@broker``."""


class Strategy(Protocol):
    """The interface of a strategy, which divides a topic's queues among the members of a group."""

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of ``client_id``; empty if it is not one of ``client_ids``.

        Args:
            queues: all queues of the topic, sorted.
            client_ids: all members of the group, sorted.
        """
        ...


def averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Divide into blocks of consecutive queues; the first members get one more if the division has a rest."""
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    size, rest = divmod(len(queues), len(client_ids))
    begin = index * size + min(index, rest)
    return list(queues[begin : begin + size + (index < rest)])


def by_circle(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Assign the queues to the members in turn."""
    if client_id not in client_ids:
        return []
    return list(queues[client_ids.index(client_id) :: len(client_ids)])


@dataclass(frozen=True)
class ConsistentHash:
    """Place members and queues on a ring by their hashes; a queue belongs to the next member on the ring."""

    virtual_nodes: int = VIRTUAL_NODES

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member: see ``Strategy``."""
        if client_id not in client_ids:
            return []
        nodes = {
            _hash(f"{member}-{number}"): member
            for member in client_ids
            for number in range(self.virtual_nodes)
        }
        ring = sorted(nodes)
        return [queue for queue in queues if nodes[_next(ring, _hash(_text(queue)))] == client_id]


@dataclass(frozen=True)
class MachineRoom:
    """Divide only the queues of brokers whose room is one of ``rooms``; other queues have no owner."""

    rooms: frozenset[str]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member: see ``Strategy``. The first members get the rest."""
        if client_id not in client_ids:
            return []
        own = [queue for queue in queues if self._is_inside(queue)]
        index, members = client_ids.index(client_id), len(client_ids)
        size = len(own) // members
        return own[index * size : (index + 1) * size] + own[members * size :][index : index + 1]

    def _is_inside(self, queue: MessageQueue) -> bool:
        parts = [part for part in queue.broker_name.split(ROOM_END) if part]
        return len(parts) == 2 and parts[0] in self.rooms


@dataclass(frozen=True)
class MachineRoomNearby:
    """Divide each room's queues among the members there; queues of a room without members among all members.

    Args:
        strategy: divides within a room.
        room_of_broker: returns a broker's room by the broker's name.
        room_of_client: returns a member's room by its client id.
    """

    strategy: Strategy
    room_of_broker: Callable[[str], str]
    room_of_client: Callable[[str], str]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of one member: see ``Strategy``."""
        if client_id not in client_ids:
            return []
        by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_room.setdefault(self.room_of_broker(queue.broker_name), []).append(queue)
        rooms = {member: self.room_of_client(member) for member in client_ids}
        own_room = rooms[client_id]
        neighbours = [member for member in client_ids if rooms[member] == own_room]
        share = self.strategy(client_id, by_room.get(own_room, []), neighbours)
        for room in sorted(by_room.keys() - set(rooms.values())):
            share += self.strategy(client_id, by_room[room], client_ids)
        return share


@dataclass(frozen=True)
class ByConfig:
    """Return always the same queues."""

    queues: tuple[MessageQueue, ...]

    def __call__(
        self,
        client_id: str,  # noqa: ARG002 - part of the interface of a strategy
        queues: Sequence[MessageQueue],  # noqa: ARG002 - as above
        client_ids: Sequence[str],  # noqa: ARG002 - as above
    ) -> list[MessageQueue]:
        """Return the configured queues."""
        return list(self.queues)


def _text(queue: MessageQueue) -> str:
    """Return the text of a queue in the Java client, which is hashed."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def _hash(key: str) -> int:
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


def _next(ring: Sequence[int], value: int) -> int:
    """Return the first point on the ring at or after ``value``."""
    at = bisect_left(ring, value)
    return ring[at if at < len(ring) else 0]
