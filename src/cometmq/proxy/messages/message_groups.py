"""The queue of a message group: Guava's consistent hash of Java's hash of the group's name.

Java proxies choose the same queue, so the messages of a group keep their order whichever proxy sends them.
Source: Guava ``Hashing.consistentHash``; RocketMQ ``proxy/grpc/v2/producer/SendMessageActivity.java``.
"""

from typing import Final

from cometmq.format.java.java_hash import java_hash

_MULTIPLIER: Final = 2862933555777941757
_MASK: Final = (1 << 64) - 1


def bucket_of(group: str, count: int) -> int:
    """Return which of ``count`` queues has the messages of a group; ``count`` is at least 1."""
    state, chosen = java_hash(group) & _MASK, 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        following = int((chosen + 1) / (((state >> 33) + 1) / (1 << 31)))
        if following >= count:
            return chosen
        chosen = following
