"""Java's ``String.hashCode``: what RocketMQ finds tags and keys by.

The hash runs over UTF-16 code units ``c``: ``h = 31*h + c``, wrapped to a signed 32-bit number.

Source: Java: String.hashCode; RocketMQ: IndexFile.java (indexKeyHashMethod),
MessageExtBrokerInner.java (tagsString2tagsCode).
"""

from functools import lru_cache
from struct import unpack
from typing import Final

from cometmq.message import Buffer

_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x80000000
_TAGS_CACHED: Final = 1024
"""Tags are few and come again and again; keys are many and come once, so they are not cached."""


def java_hash(text: str) -> int:
    """Give ``text.hashCode()`` of Java: a signed 32-bit number."""
    units: Buffer | tuple[int, ...]
    if text.isascii():
        units = text.encode("ascii")
    else:
        utf16 = text.encode("utf-16-be", "surrogatepass")
        units = unpack(f">{len(utf16) // 2}H", utf16)
    value = 0
    for unit in units:
        value = (31 * value + unit) & _MASK
    return value - ((value & _SIGN) << 1)


def index_key_hash(topic: str, key: str) -> int:
    """Give the hash under which the index files hold ``key`` of ``topic``: 0 … 2³¹−1."""
    value = abs(java_hash(f"{topic}#{key}"))
    return 0 if value == _SIGN else value  # Java's abs of the least number stays negative: RocketMQ takes 0


@lru_cache(_TAGS_CACHED)
def tags_code(tags: str | None) -> int:
    """Give what a ConsumeQueue entry holds of ``tags``: their hash; 0 when there are none."""
    return java_hash(tags) if tags else 0
