"""Sets of small numbers as a Java ``BitSet`` in Base64: the acknowledged offsets of a batch.

Number ``i`` is bit ``i % 8`` of byte ``i // 8``; zero bytes at the end are left out::

    {0, 2} -> 05 -> "BQ=="

Source: RocketMQ ``remoting/protocol/BitSetSerializerDeserializer.java``.
"""

import base64
from collections.abc import Iterable
from typing import Final

from cometmq.errors import FormatError

NUMBERS_MAX: Final = 64 * 1024
"""The numbers of a set are less than this; a check point has at most 32."""
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
    if len(text) > NUMBERS_MAX // 6:
        raise FormatError(f"a bit set of {len(text)} characters: at most {NUMBERS_MAX // 6} are possible")
    try:
        bits = int.from_bytes(base64.b64decode(text, validate=True), "little")
    except ValueError:  # also one that is not ASCII
        raise FormatError(f"{text[:_SHOWN_LENGTH]!r} is not a bit set in Base64") from None
    return tuple(number for number in range(bits.bit_length()) if bits >> number & 1)
