"""Which queues a pop visits, and in which order, from a random number.

A pop reads the topic that it names and the group's retry topic of it, one of the two first::

    random < probability    retry topic ─► topic
    else                    topic ─► retry topic, if there is room left

Within a topic the queues are visited downwards from a random one, so that several consumers begin at
different queues. (RocketMQ: PopMessageProcessor.java.)
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from cometmq.format.pop.names import RetryFlag

RANDOM_MAX: Final = 100
"""Random numbers are from 0 up to this one, exclusive: percent."""
ORDERS_KNOWN_MAX: Final = 1_024
"""Most orders of queues that are remembered."""


class RetryRules(NamedTuple):
    """How a broker reads retry topics.

    Attributes:
        probability: percent of the pops that read the retry topic first.
        is_v2: whether retry topics have the newer names.
        reads_v1: whether every other pop reads those of the older names all the same.
    """

    probability: int = 20
    is_v2: bool = False
    reads_v1: bool = True

    def flag(self, random: int) -> RetryFlag:
        """Return which retry topic a pop reads: an answer may hold messages of one only."""
        if self.is_v2 and not (self.reads_v1 and random % 2 == 0):
            return RetryFlag.V2
        return RetryFlag.V1

    def is_retry_first(self, random: int) -> bool:
        """Return whether a pop reads the retry topic first."""
        return random < self.probability


@lru_cache(ORDERS_KNOWN_MAX)
def queue_order(queue_count: int, random: int) -> Sequence[int]:
    """Return the ids of a topic's queues in the order in which a pop visits them."""
    if queue_count <= 1:
        return range(queue_count)
    first = (queue_count - 1 + random) % queue_count
    return (*range(first, -1, -1), *range(queue_count - 1, first, -1))
