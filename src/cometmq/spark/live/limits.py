"""How far a micro-batch goes: a share for each queue, in proportion to what waits there."""

from collections.abc import Callable

from cometmq.message import MessageQueue
from cometmq.spark.live.offsets import Offsets


def admit(
    begins: Offsets, ends: Offsets, most: int, size: Callable[[MessageQueue], float] = lambda _: 1.0
) -> Offsets:
    """Give ends so that what lies between is at most ``most`` in all, but one message at least.

    What the shares leave over goes first to the queues that got the least, so that none is left out for long.

    Args:
        begins: queue offsets to read from, of the queues in ``ends`` and perhaps others.
        size: what a message of a queue counts for.
    """
    waiting = {queue: end - begins[queue] for queue, end in sorted(ends.items()) if end > begins[queue]}
    total = sum(count * size(queue) for queue, count in waiting.items())
    if total <= most:
        return dict(ends)
    shares = {queue: int(count * most / total) for queue, count in waiting.items()}
    left = most - sum(share * size(queue) for queue, share in shares.items())
    for queue in sorted(shares, key=lambda queue: shares[queue]):
        if size(queue) <= left and shares[queue] < waiting[queue]:
            shares[queue] += 1
            left -= size(queue)
    if not any(shares.values()):
        shares[next(iter(shares))] = 1
    return {queue: begins[queue] + shares[queue] if queue in shares else end for queue, end in ends.items()}
