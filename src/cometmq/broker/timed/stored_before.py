"""After a kill: what the broker had stored already of what it had not saved as done.

Timer and revive save their progress every few seconds, so a killed broker does some work again. Both stages
of it find what is there in the tails of the queues that they store into::

    timer topic ─► timer ─► revive topic ─► revive ─► retry topic
                            └ the same body            └ the same message, popped as often, behind the one
                              before it: passed over     that comes back: not stored again

A tail is read from the time on at which its records could be stored at the earliest. So nothing is written
for this, and what a killed RocketMQ broker stored is found, too. (RocketMQ itself stores them twice.)
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from cometmq.broker.reads import read, records_between
from cometmq.format import properties
from cometmq.format.properties import FIRST_POP_TIME, UNIQ_KEY
from cometmq.format.record import Record
from cometmq.store.append import NewMessage
from cometmq.store.store import MessageStore

MARGIN_MS: Final = 10_000
"""How far the wall clock may have been set back meanwhile."""
TAIL_MAX: Final = 20_000
"""Most records of a queue that are read; of those before them a second one is not recognised."""
NEVER_MS: Final = 2**63 - 1


class StoredBefore:
    """Recognises second deliveries to the revive topic, and second copies for retry topics.

    Args:
        began_ms: when the broker started, ms since the epoch.

    Attributes:
        began_ms: as given; what is due later was not stored before.
    """

    def __init__(self, store: MessageStore, began_ms: int) -> None:
        self.began_ms = began_ms
        self._store = store
        self._tails: dict[tuple[str, int], _Tail] = {}

    async def is_second_delivery(self, record: Record, due_ms: int) -> bool:
        """Check whether the timer had delivered a record of the revive topic before. Raises OSError.

        Args:
            due_ms: when it was due in the timer, ms since the epoch.
        """
        if due_ms > self.began_ms:
            return False
        places = await self._places(record.topic, record.queue_id, _body_of, _body_of(record), due_ms)
        return any(place < record.physical_offset for place in places)

    async def has_come_back(self, popped: Record, message: NewMessage, revive_time_ms: int) -> bool:
        """Check whether the message that brings back a popped one is in the retry topic. Raises OSError.

        Without a unique key it is not recognised: it might be another message that says the same.

        Args:
            revive_time_ms: when it became visible again, ms since the epoch.
        """
        identity = _pop_of(message)
        if revive_time_ms > self.began_ms or identity is None:
            return False
        places = await self._places(message.topic, message.queue_id, _pop_of, identity, revive_time_ms)
        return any(place > popped.physical_offset for place in places)

    async def _places(
        self,
        topic: str,
        queue_id: int,
        identity_of: Callable[[Record], Hashable],
        identity: Hashable,
        since_ms: int,
    ) -> Sequence[int]:
        tail = self._tails.get((topic, queue_id))
        if tail is None:
            tail = self._tails[topic, queue_id] = _Tail(self._store, topic, queue_id, identity_of)
        return await tail.places(identity, since_ms)


class _Tail:
    """The records that are at a queue's end when it is first asked for, by what equal ones have in common."""

    def __init__(
        self, store: MessageStore, topic: str, queue_id: int, identity_of: Callable[[Record], Hashable]
    ) -> None:
        self._store = store
        self._queue = topic, queue_id
        self._identity_of = identity_of
        self._end = self._begin = store.max_queue_offset(topic, queue_id)
        self._since_ms = NEVER_MS
        self._places: dict[Hashable, list[int]] = {}

    async def places(self, identity: Hashable, since_ms: int) -> Sequence[int]:
        """Return the physical offsets of all records of an identity that were stored since a time.

        Raises OSError.
        """
        if since_ms < self._since_ms:
            since_ms = max(since_ms - MARGIN_MS, 0)
            begin = await read(self._store, self._store.readings.offset_by_time(*self._queue, since_ms))
            await self._load(max(begin, self._end - TAIL_MAX))
            self._since_ms = since_ms
        return self._places.get(identity, ())

    async def _load(self, begin: int) -> None:
        """Load the records from an offset on that are not loaded yet."""
        found: dict[Hashable, list[int]] = {}
        async for record in records_between(self._store, *self._queue, begin, self._begin):
            found.setdefault(self._identity_of(record), []).append(record.physical_offset)
        for identity, places in found.items():
            self._places.setdefault(identity, []).extend(places)
        self._begin = min(self._begin, begin)


def _body_of(record: Record) -> Hashable:
    return bytes(record.body)


def _pop_of(message: Record | NewMessage) -> Hashable:
    """Return what identifies a message that came back, and the pop that it came back from; None without.

    A program may send one message object twice: its copies have the same unique key.
    """
    named = properties.decode(message.properties)
    if (unique_key := named.get(UNIQ_KEY)) is None:
        return None
    sent = unique_key, message.born_time, bytes(message.body)
    return *sent, named.get(FIRST_POP_TIME), message.reconsume_times
