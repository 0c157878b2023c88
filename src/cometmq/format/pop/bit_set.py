"""Sets of small numbers as a Java ``BitSet`` in Base64: the acknowledged offsets of a batch.

Number ``i`` is bit ``i % 8`` of byte ``i // 8``; zero bytes at the end are left out::

    {0, 2} -> 05 -> "BQ=="

Source: RocketMQ ``remoting/protocol/BitSetSerializerDeserializer.java``.
"""

import base64
from collections.abc import Iterable
from typing import Final

from cometmq.errors import FormatError
from cometmq.format.pop.names import POP_COUNT_MAX

BYTES_MAX: Final = 8 * 1024
"""Longest set that is decoded, in bytes: its numbers are at most 65,535."""
LENGTH_MAX: Final = (BYTES_MAX + 2) // 3 * 4
"""The same in characters of Base64."""
_SHOWN_LENGTH: Final = 60
"""Longest set in an error's text, in characters; longer ones are cut."""


def encode(numbers: Iterable[int]) -> str:
    """Encode a set of numbers, each at least 0."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


def decode(text: str) -> tuple[int, ...]:
    """Decode a set to its numbers in ascending order. Raises FormatError."""
    if len(text) > LENGTH_MAX:
        raise FormatError(f"a bit set of {len(text)} characters: at most {LENGTH_MAX} are possible")
    try:
        packed = base64.b64decode(text, validate=True)
    except ValueError:  # also one that is not ASCII
        raise FormatError(f"{text[:_SHOWN_LENGTH]!r} is not a bit set in Base64") from None
    if len(packed) > BYTES_MAX:
        raise FormatError(f"a bit set of {len(packed)} bytes: at most {BYTES_MAX} are possible")
    bits = int.from_bytes(packed, "little")
    if (count := bits.bit_count()) > POP_COUNT_MAX:
        raise FormatError(
            f"the bit set {text[:_SHOWN_LENGTH]!r} has {count} numbers: at most {POP_COUNT_MAX} are "
            "possible, the messages of one pop of a queue"
        )
    numbers: list[int] = []
    while bits:
        lowest = bits & -bits
        numbers.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(numbers)
