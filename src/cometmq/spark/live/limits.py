"""Decide how far a micro-batch reads each queue under a limit, so that no queue starves.

Theory of operation. Queues stand in line, those that were served longest ago in front. If more messages wait
than the limit allows, each queue with messages gets one, in the order of the line, as far as the limit goes.
The rest of the limit is shared in proportion to the waiting messages, and what rounding leaves is handed out
in the order of the line again. Served queues then go to the end of the line, those that got a message by
rounding last. So with ``n`` queues and a limit of ``k < n`` messages no queue waits for longer than
``ceil(n / k)`` micro-batches.

The line lives as long as the query; after a restart it is in the order of the queues.
"""

from collections.abc import Callable, Iterable

from cometmq.message import MessageQueue
from cometmq.spark.live.offsets import Offsets


class FairLimits:
    """The line of one query's queues."""

    def __init__(self) -> None:
        self._served: dict[MessageQueue, int] = {}  # number of the last turn; none yet for others
        self._turns = 0

    def admit(
        self, begins: Offsets, ends: Offsets, most: int, size: Callable[[MessageQueue], float] = lambda _: 1.0
    ) -> Offsets:
        """Return the offsets to read up to: at most ``most`` in all, but at least one message.

        Args:
            begins: queue offsets to read from, of the queues in ``ends`` and perhaps others.
            ends: the end of each queue.
            most: the limit, in the unit of ``size``.
            size: the weight of a message of a queue: 1, or its bytes.
        """
        waiting = {queue: end - begins[queue] for queue, end in ends.items() if end > begins[queue]}
        if sum(count * size(queue) for queue, count in waiting.items()) <= most:
            return dict(ends)
        line = sorted(waiting, key=lambda queue: (self._served.get(queue, -1), queue))
        shares, left = _one_each(line, most, size)
        self._serve(queue for queue, share in shares.items() if share)
        if all(shares.values()):
            self._serve(_share_rest(line, waiting, shares, left, size))
        return {
            queue: begins[queue] + shares[queue] if queue in shares else end for queue, end in ends.items()
        }

    def _serve(self, queues: Iterable[MessageQueue]) -> None:
        """Move queues to the end of the line, in this order."""
        for queue in queues:
            self._turns += 1
            self._served[queue] = self._turns


def _one_each(
    line: list[MessageQueue], most: float, size: Callable[[MessageQueue], float]
) -> tuple[Offsets, float]:
    """Assign one message to each queue, until one does not fit: that one is first the next time."""
    shares, left = dict.fromkeys(line, 0), most
    for place, queue in enumerate(line):
        if place and size(queue) > left:
            break
        shares[queue] = 1
        left -= size(queue)
    return shares, left


def _share_rest(
    line: list[MessageQueue],
    waiting: Offsets,
    shares: Offsets,
    left: float,
    size: Callable[[MessageQueue], float],
) -> list[MessageQueue]:
    """Add the rest of the limit in proportion. Return the queues that got one more by rounding."""
    rest = sum((waiting[queue] - 1) * size(queue) for queue in line)
    part = max(left, 0) / rest
    for queue in line:
        more = int((waiting[queue] - 1) * part)
        shares[queue] += more
        left -= more * size(queue)
    rounded = []
    for queue in line:
        if size(queue) <= left and shares[queue] < waiting[queue]:
            shares[queue] += 1
            left -= size(queue)
            rounded.append(queue)
    return rounded
