"""Idempotent sends: a message whose idempotence key is known already is not stored again.

The key is the property IDEMPOTENCE_KEY. It identifies one message of its topic within
``idempotenceWindowMs``; a second send of it is answered as the first was. Messages in retry topics and dead
letters still have the property, but are not compared: they are repeated on purpose.

Only the log stores keys. A start reads those of its last records, if ``config/idempotence.json``, which the
first send with a key creates, exists.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from cometmq.broker.settings_by_subject import IdempotenceSettings
from cometmq.errors import StoreNotWritable
from cometmq.format import properties
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.format.properties import IDEMPOTENCE_KEY, NAME_END, REAL_QUEUE_ID, REAL_TOPIC
from cometmq.format.record import RecordHead
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.io.clock import Clock
from cometmq.message import Buffer
from cometmq.store.append import Appended, NewMessage
from cometmq.store.log.commit_log import describe
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable
from cometmq.store.upkeep.dispatch import has_queue_entry

_WAITING: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)
"""The topics of delayed and timed messages that are not yet due."""

Keys = tuple[bytes | None, ...]
"""The digest of each message's key, None for one without; empty if no message of a send has a key."""

_PLACE: Final = Struct(">iqqiq")
_DIGEST_SIZE: Final = 16
_KEY_NAME: Final = f"{IDEMPOTENCE_KEY}{NAME_END}".encode()


class StoredPlace(NamedTuple):
    """The place of the first message with a key, as in the response to its send."""

    queue_id: int
    appended: Appended


def digest(topic: str, life: int, key: str) -> bytes:
    """Return the digest of a topic's key; ``life`` distinguishes a topic from a deleted one of its name."""
    text = f"{topic}\0{life}\0{key}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=_DIGEST_SIZE).digest()


class StoredKeys:
    """The keys within the window, with the places of their messages.

    Two tables hold them. When the younger one is as old as the window, or full, it replaces the older one,
    which is dropped as a whole. So a key is known for the window, unless too many come.

    Args:
        window_ms: how long a key is known, from the store time of its message.
        keys_max: most keys that are held; with more, some of the older half are dropped earlier.
    """

    def __init__(self, window_ms: int, keys_max: int) -> None:
        self._window_ms = window_ms
        self._half = max(keys_max // 2, 1)
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._young_since_ms = 0

    def __len__(self) -> int:
        """Return how many keys are held."""
        return len(self._young) + len(self._old)

    def find(
        self, key: bytes, now_ms: int, set_since: Callable[[int], int] = lambda _: 0
    ) -> StoredPlace | None:
        """Return the place of the message with a key, None if none was stored within the window.

        Args:
            set_since: returns by how many ms the wall clock was set since the record at an offset was stored.
        """
        packed = self._young.get(key) or self._old.get(key)
        if packed is None:
            return None
        queue_id, *fields = _PLACE.unpack(packed)
        place = StoredPlace(queue_id, Appended(*fields))
        appended = place.appended
        passed_ms = now_ms - set_since(appended.physical_offset) - appended.store_time
        return place if passed_ms < self._window_ms else None

    def add(self, key: bytes, place: StoredPlace) -> None:
        """Add a key; call it in the order of store times."""
        store_time = place.appended.store_time
        if len(self._young) >= self._half or store_time - self._young_since_ms >= self._window_ms:
            self._old, self._young, self._young_since_ms = self._young, {}, store_time
        self._young[key] = _PLACE.pack(place.queue_id, *place.appended)


class Idempotence:
    """The idempotence keys of one store.

    Args:
        table: exists if there may be keys in the log.

    Attributes:
        known: the keys within the window.
    """

    def __init__(
        self, store: MessageStore, table: JsonTable, settings: IdempotenceSettings, clock: Clock
    ) -> None:
        self._store = store
        self._table = table
        self._clock = clock
        self._window_ms = settings.idempotence_window_ms
        self._read_back_bytes = settings.idempotence_read_back_bytes
        self._is_marked = False
        self.known = StoredKeys(self._window_ms, settings.idempotence_keys_max)

    def load(self) -> None:
        """Read the keys of the log's last records, if there may be any. It may take a second."""
        self._is_marked = self._table.load() is not None
        if not self._is_marked or not self._window_ms:
            return
        since_ms = self._clock.now_ms() - self._window_ms
        for buffer, head in self._store.recent(since_ms, self._read_back_bytes, _KEY_NAME):
            self._add_record(buffer, head)

    def keys_of(self, topic: str, members: Sequence[Mapping[str, str]]) -> Keys:
        """Return the digests of the keys in the properties of a send's messages; empty if there are none."""
        if not self._window_ms or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return ()
        keys = tuple(self._key(topic, named) for named in members)
        return keys if any(keys) else ()

    def append(
        self,
        keys: Keys,
        queue_id: int,
        messages: Sequence[NewMessage],
        append: Callable[[Sequence[NewMessage]], list[Appended]],
    ) -> list[StoredPlace]:
        """Append those of a send's messages whose keys are not known, all or none.

        Raises like ``append``, and StoreNotWritable if the table cannot be written.

        Args:
            queue_id: the queue id in the send request.

        Returns:
            The place of each message, or of the first message with its key.
        """
        clock = self._store.clock
        now_ms = clock.now_ms()
        places = [None if key is None else self.known.find(key, now_ms, clock.since) for key in keys]
        firsts: dict[bytes, int] = {}
        new = [
            number
            for number, (key, place) in enumerate(zip(keys, places, strict=True))
            if place is None and (key is None or firsts.setdefault(key, number) == number)
        ]
        if new:
            self._mark()
            for number, one in zip(new, append([messages[number] for number in new]), strict=True):
                places[number] = place = StoredPlace(queue_id, one)
                if (key := keys[number]) is not None:
                    self.known.add(key, place)
        for number, key in enumerate(keys):
            if key in firsts:  # the send may have it twice
                places[number] = places[firsts[key]]
        return [place for place in places if place is not None]

    def _key(self, topic: str, named: Mapping[str, str]) -> bytes | None:
        key = named.get(IDEMPOTENCE_KEY)
        return None if key is None else digest(topic, self._store.deleted_before(topic), key)

    def _mark(self) -> None:
        """Write the table that says that there are keys in the log, before the first key is stored."""
        if self._is_marked:
            return
        try:
            self._table.save({"keysSince": self._clock.now_ms()})
        except OSError as error:
            raise StoreNotWritable(describe(error, self._table.path.parent)) from error
        self._is_marked = True

    def _add_record(self, buffer: Buffer, head: RecordHead) -> None:
        """Add the key of a record unless an earlier record has it: a delayed message is in the log twice."""
        topic = str(buffer[head.topic_position : head.topic_position + head.topic_length], "utf-8", "replace")
        begin = head.properties_position
        named = properties.decode(buffer[begin : begin + head.properties_length])
        queue_id = head.queue_id
        if topic in _WAITING:
            topic, waits_for = named.get(REAL_TOPIC, topic), named.get(REAL_QUEUE_ID, "")
            queue_id = int(waits_for) if waits_for.isdecimal() else 0
        if not has_queue_entry(head.sys_flag) or head.physical_offset < self._store.deleted_before(topic):
            return
        for key in self.keys_of(topic, [named]):
            if key is not None and self.known.find(key, head.store_time) is None:
                appended = Appended(head.physical_offset, head.queue_offset, head.size, head.store_time)
                self.known.add(key, StoredPlace(queue_id, appended))
