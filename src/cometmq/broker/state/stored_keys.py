"""The places of the messages whose idempotence keys were stored within the window.

Two tables hold them. When the younger one is as old as the window, or full, it replaces the older one, which
is dropped as a whole. So a key is known for the window, unless too many come.
"""

from collections.abc import Callable
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

from cometmq.store.append import Appended

_PLACE: Final = Struct(">iqqiq")
_DIGEST_SIZE: Final = 16


class StoredPlace(NamedTuple):
    """The place of the first message with a key, as in the response to its send."""

    queue_id: int
    appended: Appended


def digest(topic: str, life: int, key: str) -> bytes:
    """Return the digest of a topic's key; ``life`` distinguishes a topic from a deleted one of its name."""
    text = f"{topic}\0{life}\0{key}".encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=_DIGEST_SIZE).digest()


class StoredKeys:
    """The keys within the window.

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
