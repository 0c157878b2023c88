"""What groups that pop in order have popped last in each queue: ``config/consumerOrderInfo.json``.

::

    {"table": {"topic@group": {0: {"a": "B0", "cm": 3, "i": 10000, "l": 1795602428484, "o": [3, 1],
                                   "oc": {3: 1}, "ot": {4: 1795602433484}, "popTime": 1795602428484}}}}

=========== ===================================================================
``popTime`` when the messages were popped, ms since the epoch; ``l`` the same
``i``       invisible time, ms
``o``       the offset of the first message, and the others' distances from it
``cm``      bit i is set if message i of ``o`` is acknowledged
``ot``      when messages whose time was changed are visible, by offset
``oc``      how often messages were popped before, by offset
``a``       the client's name for the pop; absent if it gave none
=========== ===================================================================

Beside ``table`` brokers from 5.5 on write ``orderInfoCount`` and ``orderedConsumptionLevel``, ignored here.

Saved every few seconds and when the broker stops: after a kill a queue may be unblocked too early, or
acknowledged messages may come once more. What was popped a day ago is removed.
(RocketMQ: ConsumerOrderInfoManager.java.)
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from typing import Any, Final, TypeAlias

from msgspec import field

from cometmq.broker.state import table_files
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.broker.state.offsets import SEPARATOR
from cometmq.cluster.pop.order import QueueOrder
from cometmq.io.clock import Clock
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, to_plain
from cometmq.wire.headers.fields import Int, Long

KEEP_MS: Final = 24 * 3_600_000
"""How long the last pop of a queue is remembered."""

_Place: TypeAlias = tuple[str, int]
"""The key of a group and topic (see ``offsets.key_of``), and a queue id."""


class ConsumeOrders(ChangingTable[str, dict[int, QueueOrder]]):
    """The last pops in order of one broker, by group, topic and queue.

    Keys are those of committed offsets: see ``offsets.key_of``.
    """

    def __init__(self, table: JsonTable, clock: Clock) -> None:
        super().__init__(table)
        self._clock = clock
        self._orders: dict[str, dict[int, QueueOrder]] = {}
        self._pop_times: dict[_Place, int] = {}  # ms since the epoch; the last pop is the last one

    def load(self, has_queue: Callable[[str, str, int], bool]) -> None:
        """Read the table, but for queues that are gone.

        Args:
            has_queue: checks whether a group, its topic and the queue of it exist.

        Raises StoreDamaged if the file holds something else than pops in order.
        """
        content = table_files.load(self._table, _OrderTable)
        if content is None:
            return
        found: list[tuple[_Place, QueueOrder]] = []
        for key, queues in content.table.items():
            topic, _, group = key.partition(SEPARATOR)
            for queue_id, data in queues.items():
                if data.distances and has_queue(group, topic, queue_id):
                    found.append(((key, queue_id), _decode(data)))
        for place, order in sorted(found, key=lambda one: one[1].pop_time_ms):
            self.update(*place, order)
        self._changes = {key: None for key, queues in content.table.items() if key not in self._orders}
        self._add_loaded(self._orders)

    def find(self, key: str, queue_id: int) -> QueueOrder | None:
        """Return the last pop of a queue; None if there is none, or it is forgotten."""
        return self._orders.get(key, {}).get(queue_id)

    def update(self, key: str, queue_id: int, order: QueueOrder) -> None:
        """Replace the last pop of a queue, or what is known of it."""
        self._changes[key] = None
        self._orders.setdefault(key, {})[queue_id] = order
        place = key, queue_id
        if self._pop_times.get(place) != order.pop_time_ms:
            self._pop_times.pop(place, None)
            self._pop_times[place] = order.pop_time_ms

    def remove(self, key: str, queue_id: int) -> None:
        """Forget the last pop of a queue, so that the queue is unblocked; no error if there is none."""
        if self._pop_times.pop((key, queue_id), None) is None:
            return
        self._changes[key] = None
        queues = self._orders[key]
        del queues[queue_id]
        if not queues:
            del self._orders[key]

    def delete(self, keys: Iterable[str]) -> None:
        """Forget all pops of groups in topics."""
        for key in keys:
            for queue_id in list(self._orders.get(key, ())):
                self.remove(key, queue_id)

    def places(self) -> list[tuple[str, int]]:
        """Return the keys and queue ids of all pops that are remembered."""
        return list(self._pop_times)

    def take_changed(self) -> dict[str, dict[int, QueueOrder] | None] | None:
        """Remove pops of a day ago; return the changes as ``ChangingTable`` does."""
        oldest_ms = self._clock.now_ms() - KEEP_MS
        for place in list(takewhile(lambda place: self._pop_times[place] < oldest_ms, self._pop_times)):
            self.remove(*place)
        return super().take_changed()

    def _copy_of(self, name: str) -> dict[int, QueueOrder] | None:
        queues = self._orders.get(name)
        return None if queues is None else dict(queues)

    def _plain(self, entry: dict[int, QueueOrder]) -> Any:
        return {queue_id: to_plain(_encode(order)) for queue_id, order in entry.items()}

    def _whole(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {"table": dict(entries)}


class _OrderData(Body):
    """A queue's entry in the file: see the module's table."""

    pop_time: Long
    invisible_time: Long = field(default=0, name="i")
    distances: list[Long] = field(default_factory=list, name="o")
    visible_times: dict[Long, Long] | None = field(default=None, name="ot")
    consumed: dict[Long, Int] | None = field(default=None, name="oc")
    last_time: Long = field(default=0, name="l")
    acknowledged: Long = field(default=0, name="cm")
    attempt_id: str | None = field(default=None, name="a")


class _OrderTable(Body):
    table: dict[str, dict[Int, _OrderData]] = field(default_factory=dict)


def _encode(order: QueueOrder) -> _OrderData:
    first, *others = order.offsets
    return _OrderData(
        order.pop_time_ms,
        order.invisible_ms,
        [first, *(offset - first for offset in others)],
        dict(order.visible_ms) or None,
        dict(order.consumed) or None,
        order.pop_time_ms,
        sum(1 << index for index, offset in enumerate(order.offsets) if offset in order.acknowledged),
        order.attempt_id,
    )


def _decode(data: _OrderData) -> QueueOrder:
    first, *distances = data.distances
    offsets = (first, *(first + distance for distance in distances))
    return QueueOrder(
        data.pop_time,
        data.invisible_time,
        offsets,
        data.attempt_id,
        frozenset(offset for index, offset in enumerate(offsets) if data.acknowledged >> index & 1),
        data.visible_times or {},
        data.consumed or {},
    )
