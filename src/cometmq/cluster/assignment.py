"""Which queues a member of a group reads when the broker decides that: QUERY_ASSIGNMENT.

A group that pulls has each queue at one member, by the strategy that the client names. A group that pops
may have a queue at several members. Source: RocketMQ ``broker/processor/QueryAssignmentProcessor.java``,
``common/.../AllocateMessageQueueAveragely.java``.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from cometmq.cluster.rebalance import Strategy, averagely, by_circle
from cometmq.message import MessageQueue

STRATEGIES: Final[Mapping[str, Strategy]] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}
"""The strategies by the names that clients send."""
ALL_QUEUES: Final = -1
"""The queue id by which a client pops all queues of a broker."""


def popped_queues(
    client_id: str,
    queues: Sequence[MessageQueue],
    client_ids: Sequence[str],
    strategy: Strategy,
    share_count: int,
) -> list[MessageQueue]:
    """Return the queues that a member of a group pops.

    Args:
        queues: all queues of the topic, sorted.
        client_ids: all members of the group, sorted.
        share_count: of how many members after this one it pops the shares, too; with 0 or less, or nearly all
            members, each pops all queues of each broker, as one queue with the id ALL_QUEUES.
    """
    if share_count <= 0 or share_count >= len(client_ids) - 1:
        brokers = dict.fromkeys((queue.topic, queue.broker_name) for queue in queues)
        return [MessageQueue(topic, broker_name, ALL_QUEUES) for topic, broker_name in brokers]
    if client_id not in client_ids:
        return []
    index = client_ids.index(client_id)
    if len(client_ids) > len(queues):
        return [queues[index % len(queues)]] if queues else []
    neighbours = [client_ids[(index + step) % len(client_ids)] for step in range(share_count + 1)]
    return [queue for neighbour in neighbours for queue in strategy(neighbour, queues, client_ids)]
