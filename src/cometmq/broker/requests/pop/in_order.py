"""Pops in order: a queue is blocked while a group's member has its messages (``cluster.pop.order``).

A pop in order reads the topic only, stores no check point, and leaves the group's offset at its first
message. Acknowledgements move the offset; what is not acknowledged in time is popped again from there.

When somebody waits for a blocked queue, they are woken as soon as it is unblocked: by an acknowledgement, or
by time. (RocketMQ: QueueLevelConsumerManager.java, AckMessageProcessor.java.)
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from cometmq.broker.refused import Refused
from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.broker.requests.pop.waiting import Waiting
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.offsets import SEPARATOR, key_of
from cometmq.broker.state.pop.consume_orders import ConsumeOrders
from cometmq.cluster.pop.order import pop_in_order
from cometmq.io.clock import Clock
from cometmq.wire.codes import ResponseCode

ATTEMPT_ID_LENGTH_MAX: Final = 256
"""Longest name of a pop, in characters: it is kept for each queue."""


class PopInOrder(NamedTuple):
    """One pop in order.

    Attributes:
        attempt_id: the client's name for it, the same if it is tried again; None if it gave none.
        consumed: for each queue with messages in the answer, how often they were popped before.
        blocked: the keys and ids of queues that are blocked now, and until when, ms since the epoch.
    """

    attempt_id: str | None
    consumed: list[Mapping[int, int]]
    blocked: dict[tuple[str, int], int]


class OrderedPops:
    """Blocks and unblocks the queues that are popped in order.

    Keys are those of committed offsets: see ``offsets.key_of``.
    """

    def __init__(
        self,
        orders: ConsumeOrders,
        offsets: PopOffsets,
        in_flight: InFlight,
        waiting: Waiting,
        clock: Clock,
    ) -> None:
        self._orders = orders
        self._offsets = offsets
        self._in_flight = in_flight
        self._waiting = waiting
        self._clock = clock

    def begin(self, attempt_id: str | None) -> PopInOrder:
        """Return a pop that has found nothing yet. Raises Refused."""
        if attempt_id is not None and len(attempt_id) > ATTEMPT_ID_LENGTH_MAX:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"attemptId has {len(attempt_id)} characters: at most {ATTEMPT_ID_LENGTH_MAX} are possible",
            )
        return PopInOrder(attempt_id, [], {})

    def is_blocked(self, pop: PopInOrder, key: str, queue_id: int, end: int) -> bool:
        """Check whether a pop has to wait for a queue, which ends at ``end``."""
        order = self._orders.find(key, queue_id)
        if order is None:
            return False
        if order.offsets[-1] >= end:  # the queue was deleted, and begins anew
            self._orders.remove(key, queue_id)
            return False
        unblocked_ms = order.unblocked_ms
        if unblocked_ms is None or not order.is_blocked(pop.attempt_id, self._clock.now_ms()):
            return False
        pop.blocked[key, queue_id] = unblocked_ms
        return True

    def record(
        self,
        pop: PopInOrder,
        key: str,
        queue_id: int,
        offsets: tuple[int, ...],
        pop_time_ms: int,
        invisible_ms: int,
    ) -> None:
        """Record that a pop has found messages of a queue, which blocks it.

        They lie behind the committed offset, so they are not counted as in flight besides.
        """
        before = self._orders.find(key, queue_id)
        order = pop_in_order(before, offsets, pop_time_ms, invisible_ms, pop.attempt_id)
        self._orders.update(key, queue_id, order)
        pop.consumed.append(order.consumed)
        pop.blocked[key, queue_id] = pop_time_ms + invisible_ms
        topic, _, group = key.partition(SEPARATOR)
        self._in_flight.clear(group, topic, queue_id)
        self._offsets.record_popped(key, queue_id, offsets[-1] + 1)

    def wake_later(self, pop: PopInOrder) -> None:
        """Wake those who wait for the queues that a pop has found blocked, or has blocked, in time."""
        for (key, queue_id), unblocked_ms in pop.blocked.items():
            topic, _, group = key.partition(SEPARATOR)
            self._waiting.wake_later(group, topic, queue_id, unblocked_ms - self._clock.now_ms())

    def forget(self, key: str, queue_id: int) -> None:
        """Unblock a queue: the group's offset was reset."""
        self._orders.remove(key, queue_id)

    def acknowledge(
        self, group: str, topic: str, queue_id: int, offsets: Collection[int], pop_time_ms: int
    ) -> bool:
        """Acknowledge messages of a pop; return False if none of them waits.

        What lies before the committed offset is acknowledged; what an earlier pop had comes by a later one.
        """
        key = key_of(group, topic)
        committed = self._offsets.next_offset(key, queue_id)
        offsets = [] if committed is None else [offset for offset in offsets if offset >= committed]
        if not offsets:
            return False
        order = self._orders.find(key, queue_id)
        if order is None:
            self._offsets.commit(key, queue_id, max(offsets) + 1)
            return True
        known = [offset for offset in offsets if order.is_waiting(offset, pop_time_ms)]
        if not known:
            return False
        for offset in known:
            order = order.acknowledge(offset)
        self._orders.update(key, queue_id, order)
        self._offsets.commit(key, queue_id, order.next_offset)
        if not order.is_blocked(None, self._clock.now_ms()):
            self._waiting.wake_all(group, topic, queue_id)
        return True

    def hide(
        self, group: str, topic: str, queue_id: int, offset: int, pop_time_ms: int, invisible_ms: int
    ) -> int | None:
        """Change when a message is visible again.

        Returns its new invisible time from its pop on, ms; None if no such message waits.
        """
        key, now_ms = key_of(group, topic), self._clock.now_ms()
        if offset < (self._offsets.next_offset(key, queue_id) or 0):
            return None
        visible_ms = now_ms + invisible_ms
        order = self._orders.find(key, queue_id)
        if order is not None:
            if not order.is_waiting(offset, pop_time_ms):
                return None
            order = order.hide_until(offset, visible_ms)
            self._orders.update(key, queue_id, order)
            if (unblocked_ms := order.unblocked_ms) is not None:
                self._waiting.wake_later(group, topic, queue_id, unblocked_ms - now_ms)
        return visible_ms - pop_time_ms
