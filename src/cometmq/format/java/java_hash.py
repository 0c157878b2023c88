"""Java's ``String.hashCode``, by which RocketMQ finds tags and keys.

The hash runs over UTF-16 code units ``c``: ``h = 31*h + c``, wrapped to a signed 32-bit number.

Source: Java: String.hashCode; RocketMQ: IndexFile.java (indexKeyHashMethod),
MessageExtBrokerInner.java (tagsString2tagsCode).
"""

from functools import lru_cache
from operator import mul
from struct import unpack
from typing import Final

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000
_CHUNK: Final = 512
_POWERS: Final = [pow(31, exponent, _MASK + 1) for exponent in range(_CHUNK + 1)]
_CACHED: Final = 1024
"""Size of the caches of topics and tags, which are few and repeat. Keys rarely repeat and are not cached."""


def java_hash(text: str) -> int:
    """Return Java's ``text.hashCode()``: a signed 32-bit number."""
    return _signed(_extend(0, text))


def index_key_hash(topic: str, key: str) -> int:
    """Return the hash under which the index files hold ``key`` of ``topic``: 0 … 2³¹−1."""
    value = abs(_signed(_extend(_topic_prefix(topic), key)))
    return 0 if value == _SIGN else value  # Java's abs leaves the lowest number negative: RocketMQ takes 0


@lru_cache(_CACHED)
def tags_code(tags: str | None) -> int:
    """Return the hash of ``tags``, which is the tags code of a ConsumeQueue entry; 0 without tags."""
    return java_hash(tags) if tags else 0


@lru_cache(_CACHED)
def topic_hash(topic: str) -> int:
    """Return Java's hash of a topic's name, by which the timer's log holds it."""
    return java_hash(topic)


@lru_cache(_CACHED)
def _topic_prefix(topic: str) -> int:
    return _extend(0, topic + "#")


def _extend(value: int, text: str) -> int:
    """Return the unsigned hash of a string that hashes to ``value``, followed by ``text``."""
    units = _units(text)
    for start in range(0, len(units), _CHUNK):
        chunk = units[start : start + _CHUNK]
        # The sum of unit × 31^(place from the end): one pass in C instead of one turn of a loop per unit.
        value = (value * _POWERS[len(chunk)] + sum(map(mul, chunk[::-1], _POWERS))) & _MASK
    return value


def _units(text: str) -> bytes | tuple[int, ...]:
    if text.isascii():
        return text.encode("ascii")
    utf16 = text.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(utf16) // 2}H", utf16)


def _signed(value: int) -> int:
    return value - ((value & _SIGN) << 1)
